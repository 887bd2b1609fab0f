// Keys. Each is a click on a visible control: data-key on the control, data-go on links of the rail, data-rows on lists.
// They rest while a field, a menu or a dialog has the focus, and can be switched off (kept in this browser).
(() => {
  const bar = document.querySelector("[data-key-bar]");
  if (bar && bar.querySelector(":scope > span:not(.end)")) bar.hidden = false;

  const isOff = () => {
    try {
      return localStorage.getItem("single-keys") === "off";
    } catch {
      return false;
    }
  };

  const toggle = document.querySelector("[data-keys-switch]");
  if (toggle) {
    toggle.checked = !isOff();
    toggle.addEventListener("change", () => {
      try {
        localStorage.setItem("single-keys", toggle.checked ? "on" : "off");
      } catch {
        // Storage may be closed; the keys stay as they are.
      }
    });
  }

  const isVisible = (element) => element.checkVisibility?.() ?? element.offsetParent !== null;

  const use = (control) => {
    if (control.matches("input:not([type=checkbox], [type=radio]), textarea, select")) control.focus();
    else (control.control ?? control).click(); // a label's own click would move the focus, and keys would rest
  };

  // Lists -----------------------------------------------------------------------------------------------------------
  const rowsOf = (list) =>
    [...list.querySelectorAll("tbody > tr, :scope > [data-row], :scope > a")].filter((row) => isVisible(row) && firstLink(row));
  const firstLink = (row) => (row.matches("a") ? row : row.querySelector("a[href]"));
  const selectedRow = () => document.querySelector("[data-rows] .is-selected");

  const select = (row) => {
    selectedRow()?.classList.remove("is-selected");
    row.classList.add("is-selected");
    firstLink(row)?.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    row.dispatchEvent(new CustomEvent("row:select", { bubbles: true }));
  };

  const move = (by) => {
    const list = selectedRow()?.closest("[data-rows]") ?? [...document.querySelectorAll("main [data-rows]")].find(isVisible);
    if (!list) return false;
    const rows = rowsOf(list);
    const at = rows.indexOf(selectedRow());
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
    if (next) select(next);
    return Boolean(next);
  };

  const peekRow = (row) => {
    const link = row.querySelector("a[data-drawer]");
    return Boolean(link && window.studio?.peek(link));
  };

  // A row opens its first link; links, fields and marked text inside keep their own meaning.
  document.addEventListener("click", (event) => {
    const row = event.target.closest("[data-rows] tbody > tr, [data-rows] > [data-row]");
    if (!row || event.defaultPrevented || event.target.closest("a, button, input, select, label, summary, textarea")) return;
    if (getSelection()?.toString()) return;
    const link = firstLink(row);
    if (!link) return;
    if (event.metaKey || event.ctrlKey) window.open(link.href);
    else link.click();
  });

  // Keys ------------------------------------------------------------------------------------------------------------
  let waitsForPlace = 0;

  const busy = (target) =>
    target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], [role=menu], details.pop[open]") ||
    document.querySelector("dialog[open]");

  const press = (key) => {
    const control = [...document.querySelectorAll("[data-key]")].find(
      (element) => element.dataset.key.toLowerCase() === key.toLowerCase() && (isVisible(element) || element.closest(".rail")),
    );
    if (!control) return false;
    use(control);
    return true;
  };

  const inJump = (event) => {
    const list = document.getElementById("jump-list");
    const rows = list ? [...list.querySelectorAll("a")] : [];
    const at = rows.findIndex((row) => row.classList.contains("is-selected"));
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = rows[Math.min(rows.length - 1, Math.max(0, at + (event.key === "ArrowDown" ? 1 : -1)))];
      rows[at]?.classList.remove("is-selected");
      next?.classList.add("is-selected");
      next?.scrollIntoView({ block: "nearest" });
      event.preventDefault();
    } else if (event.key === "Enter" && rows.length) {
      (rows[at] ?? rows[0]).click();
      event.preventDefault();
    }
  };

  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (target.closest?.("#jump")) {
      inJump(event);
      return;
    }
    if (key === "Escape" && location.hash === "#rail") {
      location.hash = "main";
      return;
    }
    if (key === "Escape" && target.matches?.("input, textarea, select") && !target.closest("dialog")) {
      target.blur();
      return;
    }
    // Ctrl+Z stays the browser's own where text is being written.
    const isWriting = target.matches?.("textarea, input:not([type=checkbox], [type=radio])");
    if ((event.ctrlKey || event.metaKey) && (key === "Enter" || key.toLowerCase() === "s" || (key === "z" && !isWriting))) {
      const control = document.querySelector(`[data-key-ctrl="${key.toLowerCase()}"]`);
      if (control && isVisible(control)) {
        control.click();
        event.preventDefault();
      }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || busy(target) || isOff()) return;

    if (Date.now() - waitsForPlace < 1200) {
      waitsForPlace = 0;
      const link = document.querySelector(`[data-go="${CSS.escape(key.toLowerCase())}"]`);
      if (link) {
        link.click();
        event.preventDefault();
        return;
      }
    }
    if (key === "g") {
      waitsForPlace = Date.now();
      return;
    }
    const row = selectedRow();
    if (press(key)) event.preventDefault();
    else if (key === "j" || key === "k") {
      if (move(key === "j" ? 1 : -1)) event.preventDefault();
    } else if (key === "Enter" && row && (target === document.body || target === firstLink(row))) {
      // Enter opens the page itself, also where a click would only peek.
      location.href = firstLink(row).href;
      event.preventDefault();
    } else if (key === " " && row && !target.matches?.("button, summary, input")) {
      if (peekRow(row)) event.preventDefault();
    } else if (key === "x" && row) {
      row.querySelector("input[type=checkbox]")?.click();
    }
  });
})();
