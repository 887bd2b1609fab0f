// A chip with data-insert="text" data-into="id" puts its text where the cursor stands in that field.
document.addEventListener("click", (event) => {
  const chip = event.target.closest("[data-insert]");
  const field = chip && document.getElementById(chip.dataset.into);
  if (!field) return;
  field.focus();
  field.setRangeText(chip.dataset.insert, field.selectionStart, field.selectionEnd, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
});
