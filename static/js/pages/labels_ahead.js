// The next entry is fetched while the present one is read, and shown the moment an answer is handed in. The server's reply
// has the last word: it takes the place of what was shown when it differs. Without this file each answer waits for the reply.
(() => {
  const queue = () => document.getElementById("queue");
  const parsed = (text) => new DOMParser().parseFromString(text, "text/html").getElementById("queue");
  const headers = { "HX-Request": "true" };
  let ahead = null; // { after, node }
  let sending = null; // the answer on its way

  const look = async () => {
    const now = queue();
    if (!now?.dataset.ahead) return;
    const after = now.dataset.position;
    try {
      const reply = await fetch(now.dataset.ahead, { headers });
      const node = reply.status === 200 && parsed(await reply.text());
      if (node && queue()?.dataset.position === after) ahead = { after, node };
    } catch {
      // Without it the next answer waits for its reply.
    }
  };

  const isFilled = (box) =>
    [...box.querySelectorAll("input, textarea, select")].some((field) =>
      field.matches("[type=radio], [type=checkbox]") ? field.checked && field.value !== "" : field.value.trim() !== "",
    );

  const put = (node) => {
    const fresh = document.importNode(node, true);
    queue().replaceWith(fresh);
    htmx.process(fresh);
    fresh.dispatchEvent(new CustomEvent("queue:shown", { bubbles: true }));
    return fresh;
  };

  const say = (node, text) => {
    const saved = node.querySelector("#saved");
    if (saved) saved.textContent = text;
  };

  // The reply is the entry that is shown already: only its figures are new. Anything else takes its place.
  const settle = (shown, reply) => {
    if (queue() !== shown || reply.dataset.position !== shown.dataset.position || reply.querySelector("[data-notice], [role=alert]")) {
      put(reply);
      return;
    }
    const figures = reply.querySelector("[data-progress]");
    if (figures) shown.querySelector("[data-progress]").replaceWith(document.importNode(figures, true));
  };

  const send = async (button, form) => {
    const before = queue();
    const url = button.getAttribute("hx-post");
    const body = new FormData(form);
    const shown = put(ahead.node);
    ahead = null;
    scrollTo({ top: 0 });
    try {
      const reply = await fetch(url, { method: "POST", body, headers });
      if (reply.status !== 200 && reply.status !== 422) throw new Error(String(reply.status));
      const next = parsed(await reply.text());
      if (!next) throw new Error("no queue in the reply"); // such as the page to log in, when the session has ended
      settle(shown, next);
    } catch {
      queue().replaceWith(before);
      say(before, "not saved: the connection broke, or you are logged out. Try again.");
      return;
    }
    look();
  };

  document.addEventListener(
    "click",
    (event) => {
      const button = event.target.closest("[data-submit-next]");
      const now = queue();
      if (!button || !now) return;
      if (sending) {
        // The answer before is still on its way: this one follows it.
        event.preventDefault();
        event.stopImmediatePropagation();
        sending.then(() => button.isConnected && button.click());
        return;
      }
      const needed = [...now.querySelectorAll("[data-needed]")];
      if (ahead?.after !== now.dataset.position || !needed.every(isFilled)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      sending = send(button, button.form).finally(() => {
        sending = null;
      });
    },
    true,
  );

  // Skipping or taking back means the state after the answer on its way.
  document.addEventListener(
    "submit",
    (event) => {
      const form = event.target;
      if (!sending || !form.closest("#queue")) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      sending.then(() => form.isConnected && form.requestSubmit());
    },
    true,
  );

  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target?.id === "queue" || event.target.id === "queue") look();
  });
  look();
})();
