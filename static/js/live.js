// Fragments: slower polling in a hidden tab, honest notes when a refresh fails, focus on the first error, toasts, copying.
(() => {
  const HIDDEN_PAUSE = 60_000;
  const asked = new WeakMap();

  const polls = (element) => /(^|,)\s*every\s/.test(element.getAttribute("hx-trigger") ?? "");

  document.addEventListener("htmx:confirm", (event) => {
    const element = event.detail.elt;
    if (!polls(element)) return;
    const now = Date.now();
    if (document.hidden && now - (asked.get(element) ?? 0) < HIDDEN_PAUSE) event.preventDefault();
    else asked.set(element, now);
  });

  // The last good content stays, greyed, with the time it is from.
  const refreshed = new WeakMap();
  const failed = (event) => {
    const box = event.detail.target;
    if (!box || box === document.body || box.querySelector(":scope > .stale-note")) return;
    const since = refreshed.get(box) ?? new Date(performance.timeOrigin);
    const note = document.createElement("p");
    note.className = "stale-note";
    note.append(`not refreshed since ${since.toTimeString().slice(0, 5)}`);
    const again = document.createElement("button");
    again.type = "button";
    again.className = "plain-button";
    again.textContent = "Try again";
    again.addEventListener("click", () => {
      note.remove();
      box.classList.remove("is-stale");
      const path = event.detail.requestConfig?.path ?? box.getAttribute("hx-get");
      if (path) htmx.ajax("GET", path, { source: box, target: box, swap: box.getAttribute("hx-swap") ?? "innerHTML" });
    });
    note.append(again);
    box.classList.add("is-stale");
    box.prepend(note);
  };
  document.addEventListener("htmx:responseError", failed);
  document.addEventListener("htmx:sendError", failed);
  document.addEventListener("htmx:afterSwap", (event) => {
    refreshed.set(event.detail.target, new Date());
    event.detail.target.classList.remove("is-stale");
    focusFirstError(event.detail.target);
    for (const toast of event.detail.target.querySelectorAll?.("[data-toast]") ?? []) keepTime(toast);
  });

  const focusFirstError = (scope) => {
    const field = scope.querySelector?.("[aria-invalid=true]");
    if (field) field.focus();
  };

  // Toasts leave after six seconds unless someone is reading them.
  const keepTime = (toast) => {
    if (toast.dataset.timed) return;
    toast.dataset.timed = "1";
    let timer;
    const start = () => {
      timer = setTimeout(() => toast.remove(), 6000);
    };
    const hold = () => clearTimeout(timer);
    toast.addEventListener("pointerenter", hold);
    toast.addEventListener("pointerleave", start);
    toast.addEventListener("focusin", hold);
    toast.addEventListener("focusout", start);
    start();
  };

  const say = (text) => {
    const box = document.getElementById("toasts");
    if (!box) return;
    const toast = document.createElement("div");
    toast.className = "toast";
    toast.dataset.toast = "";
    toast.append(Object.assign(document.createElement("span"), { textContent: text }));
    box.append(toast);
    keepTime(toast);
  };
  // The server may send HX-Trigger: {"toast": "Label saved. 31 left."}
  document.addEventListener("toast", (event) => say(event.detail?.value ?? String(event.detail)));

  document.addEventListener("click", (event) => {
    const close = event.target.closest("[data-toast-close]");
    if (close) close.closest("[data-toast]").remove();
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      navigator.clipboard?.writeText(copy.dataset.copy).then(
        () => say("Copied."),
        () => say("The browser did not allow copying."),
      );
    }
  });

  for (const toast of document.querySelectorAll("[data-toast]")) keepTime(toast);
  focusFirstError(document);
})();
