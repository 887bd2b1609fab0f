// Dialogs, the side drawer and menus. Without this file each drawer link opens its page, and menus are plain <details>.
(() => {
  const drawer = document.getElementById("drawer");

  const open = (dialog) => {
    if (dialog && !dialog.open) dialog.showModal();
  };

  // The list keeps its place and its address; ?peek= makes the open drawer part of the link.
  const peek = (link) => {
    if (!drawer || !window.htmx) return false;
    document.getElementById("drawer-title").textContent = link.dataset.drawerTitle || link.textContent.trim() || "Details";
    const page = document.getElementById("drawer-page");
    page.href = link.getAttribute("href");
    document.getElementById("drawer-body").innerHTML = '<div class="waiting">loading…</div>';
    open(drawer);
    htmx.ajax("GET", link.dataset.drawer || link.getAttribute("href"), { target: "#drawer-body", swap: "innerHTML" });
    setPeek(link.dataset.peek);
    return true;
  };

  const setPeek = (value) => {
    const url = new URL(location.href);
    if (value) url.searchParams.set("peek", value);
    else url.searchParams.delete("peek");
    history.replaceState(history.state, "", url);
  };

  drawer?.addEventListener("close", () => setPeek(""));

  document.addEventListener("click", (event) => {
    const target = event.target;
    const opener = target.closest("[data-dialog]");
    if (opener) {
      open(document.getElementById(opener.dataset.dialog));
      return;
    }
    if (target.closest("[data-close]")) {
      target.closest("dialog")?.close();
      return;
    }
    // A click beside the dialog's content lands on the dialog itself.
    if (target instanceof HTMLDialogElement) {
      const box = target.getBoundingClientRect();
      const inside =
        event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
      if (!inside) target.close();
      return;
    }
    const link = target.closest('a[data-drawer]:not([data-drawer-on="space"])');
    if (link && !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0 && peek(link)) {
      event.preventDefault();
      return;
    }
    for (const menu of document.querySelectorAll("details.pop[open]")) {
      if (!menu.contains(target)) menu.open = false;
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = event.target.closest?.("details.pop[open]") ?? document.querySelector("details.pop[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary")?.focus();
    }
  });

  // The keys dialog tells what works on this page.
  document.getElementById("keys")?.addEventListener("toggle", () => {
    const box = document.querySelector("[data-page-keys]");
    const hints = document.querySelectorAll("[data-key-bar] > span:not(.end)");
    if (!box || !hints.length) return;
    const list = box.querySelector(".key-list");
    list.replaceChildren(
      ...[...hints].map((hint) => {
        const line = document.createElement("div");
        const words = document.createElement("span");
        words.textContent = [...hint.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.textContent).join("").trim();
        const caps = document.createElement("span");
        for (const cap of hint.querySelectorAll("kbd")) caps.append(cap.cloneNode(true), " ");
        line.append(words, caps);
        return line;
      }),
    );
    box.hidden = false;
  });

  const wanted = new URLSearchParams(location.search).get("peek");
  if (wanted) {
    const link = [...document.querySelectorAll("a[data-peek]")].find((a) => a.dataset.peek === wanted);
    if (link) window.addEventListener("load", () => peek(link));
  }

  window.studio = { ...window.studio, peek };
})();
