// The label form: adds marked text to a field of passages. Keys and autosave are attributes of the form itself.
(() => {
  let marked = "";
  document.addEventListener("selectionchange", () => {
    const text = String(getSelection()).trim();
    const place = getSelection().anchorNode?.parentElement;
    if (text && place?.closest(".conversation, .said, .entry-steps")) marked = text;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-take-selection]");
    if (!button || !marked) return;
    const field = document.getElementById(button.dataset.takeSelection);
    field.value = [field.value.trimEnd(), marked.replaceAll("\n", " ")].filter(Boolean).join("\n");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
})();
