// A part of a grader goes to another place when its grip is dropped there. Move up and Move down do the same without a mouse.
let moving = null;

const part_of = (event) => moving && event.target.closest(".grader-part");

const mark = (part) => {
  for (const other of document.querySelectorAll(".grader-part.is-target")) other.classList.remove("is-target");
  if (part) part.classList.add("is-target");
};

document.addEventListener("dragstart", (event) => {
  moving = event.target.closest?.("[data-part]");
  if (!moving) return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", moving.dataset.part);
});

document.addEventListener("dragover", (event) => {
  const part = part_of(event);
  if (!part) return;
  event.preventDefault();
  mark(part);
});

document.addEventListener("drop", (event) => {
  const part = part_of(event);
  if (!part) return;
  event.preventDefault();
  const target = part.querySelector("[data-part]").dataset.part;
  if (target === moving.dataset.part) return;
  const button = document.createElement("button");
  Object.assign(button, { name: "do", value: `move:${moving.dataset.part}:${target}`, hidden: true });
  const form = part.closest("form");
  form.append(button);
  form.requestSubmit(button);
});

document.addEventListener("dragend", () => {
  moving = null;
  mark(null);
});
