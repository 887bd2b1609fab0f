// The label form: marks on the step in hand, marked text into a field of passages. Other keys and autosave are attributes.
(() => {
  // The keys 1 2 3 belong to the marks of the selected step alone.
  const take = (row) => {
    for (const other of document.querySelectorAll("#entry-steps [data-mark]")) delete other.dataset.key;
    for (const mark of row.querySelectorAll("[data-mark]")) mark.dataset.key = mark.dataset.mark;
    for (const other of row.parentElement.children) other.classList.toggle("is-selected", other === row);
  };
  const takeFirst = () => {
    const row = document.querySelector("#entry-steps > [data-row]");
    if (row && !row.parentElement.querySelector(".is-selected")) take(row);
  };
  for (const name of ["row:select", "focusin", "click"]) {
    document.addEventListener(name, (event) => {
      const row = event.target.closest("#entry-steps > [data-row]");
      if (row) take(row);
    });
  }
  for (const name of ["htmx:afterSwap", "queue:shown"]) document.addEventListener(name, takeFirst);
  takeFirst();

  // A hold is renewed while somebody looks at the entry, not for a tab left open.
  document.addEventListener("htmx:confirm", (event) => {
    if (event.detail.elt.id === "label-form" && document.hidden) event.preventDefault();
  });

  let marked = "";
  document.addEventListener("selectionchange", () => {
    const text = String(getSelection()).trim();
    const place = getSelection().anchorNode?.parentElement;
    if (!text || !place?.closest(".conversation, .said, .entry-steps")) return;
    const step = place.closest("#entry-steps > [data-row]")?.id.replace("step-", "Step ");
    marked = step ? `${step}: ${text}` : text;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-take-selection]");
    if (!button || !marked) return;
    const field = document.getElementById(button.dataset.takeSelection);
    field.value = [field.value.trimEnd(), marked.replaceAll("\n", " ")].filter(Boolean).join("\n");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
})();
