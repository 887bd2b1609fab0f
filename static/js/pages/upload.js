// The drop zone and the upload's progress. Without this file the form is an ordinary upload.
(() => {
  const form = document.querySelector("form[data-upload]");
  const zone = form?.querySelector(".drop");
  const file = form?.querySelector("input[type=file]");
  if (!zone || !file) return;

  for (const name of ["dragenter", "dragover"]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.add("is-over");
    });
  }
  for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => zone.classList.remove("is-over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    file.files = event.dataTransfer.files;
    file.dispatchEvent(new Event("change", { bubbles: true }));
  });

  const box = form.querySelector("[data-upload-progress]");
  const show = (loaded, total, started) => {
    const share = total ? loaded / total : 0;
    const left = share > 0.02 ? ((performance.now() - started) / share) * (1 - share) : 0;
    box.hidden = false;
    box.querySelector("progress").value = share * 100;
    box.querySelector("[data-upload-share]").textContent = `${Math.round(share * 100)} %`;
    box.querySelector("[data-upload-note]").textContent = share >= 1 ? "reading the first rows…" : left > 2000 ? `about ${Math.round(left / 1000)} s left` : "";
  };

  form.addEventListener("submit", (event) => {
    if (!file.files.length) return;
    event.preventDefault();
    const started = performance.now();
    const request = new XMLHttpRequest();
    request.upload.addEventListener("progress", (moved) => show(moved.loaded, moved.total, started));
    request.addEventListener("load", () => {
      if (request.status < 400 && request.responseURL !== location.href) {
        location.href = request.responseURL;
        return;
      }
      // A refusal comes back as the form again, with its errors.
      const page = new DOMParser().parseFromString(request.responseText, "text/html");
      const main = page.querySelector("main");
      if (main) document.querySelector("main").replaceWith(main);
      document.querySelector("[aria-invalid=true]")?.focus();
    });
    request.addEventListener("error", () => {
      box.querySelector("[data-upload-note]").textContent = "The connection broke. Try again.";
    });
    request.open("POST", form.action || location.href);
    request.send(new FormData(form));
  });
})();
