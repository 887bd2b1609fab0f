// Runs before the first paint: the rail's width as this browser last left it. The theme itself comes from the server.
(() => {
  const root = document.documentElement;
  try {
    const rail = localStorage.getItem("rail");
    if (rail) root.dataset.rail = rail;
  } catch {
    // Storage may be closed; the page's own choice stands.
  }

  const isSlim = () => document.querySelector(".rail")?.offsetWidth < 120;

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-rail-toggle]")) return;
    root.dataset.rail = isSlim() ? "wide" : "slim";
    try {
      localStorage.setItem("rail", root.dataset.rail);
    } catch {
      // As above.
    }
    window.dispatchEvent(new Event("resize"));
  });

  // A theme is chosen by a form; with a script it is also shown at once.
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-theme-form]");
    if (!form || !event.submitter) return;
    event.preventDefault();
    root.dataset.theme = event.submitter.value;
    for (const button of form.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button === event.submitter));
    }
    fetch(form.action, { method: "POST", body: new FormData(form, event.submitter), redirect: "manual" });
    window.dispatchEvent(new Event("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    window.dispatchEvent(new Event("themechange"));
  });
})();
