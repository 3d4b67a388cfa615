// Progressive enhancement: pages refresh, logs follow, commands copy. Every page works without this script.
"use strict";
(() => {
  const main = document.getElementById("main");
  const mark = document.getElementById("live-mark");
  const notice = document.getElementById("notice");

  // --- Buttons and selection ----------------------------------------------------------------------------------------
  const prepare = (root) => {
    for (const button of root.querySelectorAll("[data-copy][hidden]")) button.hidden = false;
    for (const box of root.querySelectorAll("[data-script][hidden]")) box.hidden = false;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy failed: select the text";
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.submit();
    if (event.target.matches("[data-all]")) {
      for (const box of document.querySelectorAll("input[name=id]")) box.checked = event.target.checked;
    }
    if (event.target.matches("[data-all], input[name=id]")) countSelected();
  });
  const countSelected = () => {
    const selected = document.querySelectorAll("input[name=id]:checked").length;
    for (const button of document.querySelectorAll("[data-selected]")) {
      button.textContent = selected ? `${button.dataset.selected} ${selected}` : button.dataset.selected;
    }
  };

  // --- Patching the page --------------------------------------------------------------------------------------------
  // Existing nodes are kept, so that focus, selection, scroll position and input survive a refresh.
  // By attribute: `form.id` is the form's fields named `id`, and an unkeyed form would be replaced at each refresh.
  const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute("id") || node.getAttribute("data-key") || "" : "");
  const isTyped = (node) => node.matches("input, textarea, select") && (node === document.activeElement || node.dataset.typed);
  // Hidden fields (a version) belong to the input they were rendered with: a conflicting change must be refused.
  const isPinned = (node) => node.matches("input[type=hidden]") && node.form?.querySelector("[data-typed]:not([type=checkbox])");
  const isKept = (node) => node.nodeType === 1 && (node.hasAttribute("data-keep") || isTyped(node) || isPinned(node));
  const attributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" || name === "data-typed")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name === "open" || (name === "hidden" && (old.hasAttribute("data-copy") || old.hasAttribute("data-script")))) continue;
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };
  const patch = (old, fresh) => {
    if (old.nodeType === 3) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old.nodeType !== 1 || isKept(old) || old.isEqualNode(fresh)) return;
    attributes(old, fresh);
    const keyed = new Map();
    for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const key = keyOf(child);
      let match = key ? keyed.get(key) : at;
      if (!key) {
        while (match && keyOf(match)) match = match.nextSibling;
        if (match && (match.nodeType !== child.nodeType || match.nodeName !== child.nodeName)) match = null;
      }
      if (!match) {
        const added = document.importNode(child, true);
        old.insertBefore(added, at);
        if (added.nodeType === 1) prepare(added);
        continue;
      }
      if (match !== at) old.insertBefore(match, at);
      at = match.nextSibling;
      patch(match, child);
    }
    while (at) {
      const next = at.nextSibling;
      if (!isKept(at)) at.remove();
      at = next;
    }
  };
  document.addEventListener("input", (event) => {
    if (event.target.matches("input, textarea, select")) event.target.dataset.typed = "1";
  });

  // A list grows at its top. While the user has scrolled down, points at it or has selected rows, new rows are held back
  // and only announced, so that nothing moves.
  const POINTED_MS = 2000;
  let pointed = { at: -POINTED_MS, list: null };
  const point = (event) => { pointed = { at: performance.now(), list: event.target.closest?.("[data-rows]") }; };
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, point, { passive: true });
  const isPointedAt = (list) => pointed.list === list && performance.now() - pointed.at < POINTED_MS;
  const isBusyWith = (list) =>
    window.scrollY > 40 ||
    isPointedAt(list) ||
    list.querySelector("input:checked") ||
    list.contains(document.activeElement) ||
    (!getSelection().isCollapsed && list.contains(getSelection().anchorNode));
  const holdRows = (fresh) => {
    let held = 0;
    for (const list of main.querySelectorAll("[data-rows]")) {
      const frame = list.closest("[data-list]");
      const body = fresh.getElementById(list.id);
      if (!body || !isBusyWith(list)) continue;
      if (isPointedAt(list)) setTimeout(soon, POINTED_MS);
      const rows = new Map([...body.children].map((row) => [row.dataset.key, row]));
      const mine = [...list.children];
      // No row matches any more: keep the list, so that the selected rows can still be acted on.
      if (frame && mine.length && !rows.size) {
        fresh.getElementById(frame.id)?.replaceWith(frame.cloneNode(true));
        continue;
      }
      const known = new Set(mine.map((row) => row.dataset.key));
      held += [...rows.keys()].filter((key) => !known.has(key)).length;
      // Keep the rows and their order, with fresh content.
      body.replaceChildren(...mine.map((row) => rows.get(row.dataset.key) || row.cloneNode(true)));
    }
    return held;
  };

  // --- Page visibility ------------------------------------------------------------------------------------------------
  // Browsers open at most six connections per server. A page that is hidden or in the back/forward cache must hold none,
  // or the next page waits.
  let hidden = document.hidden, abort = new AbortController(), waiters = [];
  const onVisibility = () => {
    if (hidden === document.hidden) return;
    document.hidden ? onHide() : onShow();
  };
  const onHide = () => {
    hidden = true;
    source?.close();
    abort.abort();
  };
  const onShow = () => {
    hidden = false;
    abort = new AbortController();
    if (main?.dataset.events) listen();
    for (const wake of waiters.splice(0)) wake();
  };
  const untilVisible = () => (hidden ? new Promise((wake) => waiters.push(wake)) : undefined);
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("pagehide", onHide);
  addEventListener("pageshow", onVisibility);

  // --- Live -----------------------------------------------------------------------------------------------------------
  const EVERY_MS = 300; // minimum interval between refreshes
  const TICK_MS = Number(main?.dataset.tickMs) || 5000; // for what changes without an event: ages, heartbeats, settings
  let dirty = false, fetching = false, last = 0, timer = 0;
  const refresh = async () => {
    timer = 0;
    if (fetching || hidden) return;
    fetching = true;
    dirty = false;
    last = performance.now();
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store", signal: abort.signal });
      if (response.status === 401 || response.redirected) return lost("Logged out", true);
      if (response.ok) {
        const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
        const target = fresh.getElementById("main");
        // Interaction is checked in the frame that patches: a click in between would be lost.
        if (target) requestAnimationFrame(() => { announce(holdRows(fresh)); patch(main, target); countSelected(); });
      }
    } catch {
      dirty = true; // The event stream fails too, and reconnects.
    } finally {
      fetching = false;
      if (dirty) soon();
    }
  };
  const soon = () => {
    dirty = true;
    if (!timer && !fetching) timer = setTimeout(refresh, Math.max(0, EVERY_MS - (performance.now() - last)));
  };
  const announce = (held) => {
    const shown = notice.querySelector("a");
    if (!held) return shown && notice.replaceChildren();
    const link = shown || document.createElement("a");
    link.href = location.href;
    link.textContent = held === 1 ? "Show 1 new row" : `Show ${held} new rows`;
    if (!shown) notice.replaceChildren(link);
  };
  const lost = (text, final) => {
    mark.textContent = text;
    mark.classList.add("lost");
    if (final && source) {
      source.close();
      const link = document.createElement("a");
      link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
      link.textContent = "Log in again";
      notice.replaceChildren(link);
    }
  };
  let source = null;
  const listen = () => {
    source = new EventSource(main.dataset.events);
    mark.hidden = false;
    mark.textContent = "Connecting";
    source.onopen = () => {
      mark.textContent = "Live";
      mark.classList.remove("lost");
      soon(); // Catches up with changes from before the stream was open.
    };
    source.onerror = () => {
      lost(source.readyState === EventSource.CLOSED ? "Disconnected" : "Reconnecting…", false);
      // An EventSource does not retry after an error status; the server may be starting, or the session may have ended.
      if (source.readyState === EventSource.CLOSED) setTimeout(reconnect, 1000);
    };
    source.addEventListener("changes", (event) => {
      const mine = main.dataset.live;
      const changes = JSON.parse(event.data);
      if (mine === "any" || !changes.ids || changes.ids.includes(mine)) soon();
    });
    source.addEventListener("resync", soon);
  };
  const reconnect = async () => {
    if (hidden) return;
    try {
      const response = await fetch(location.href, { method: "HEAD", cache: "no-store", signal: abort.signal });
      if (response.status === 401 || response.redirected) return lost("Logged out", true);
      listen();
    } catch {
      setTimeout(reconnect, 1000);
    }
  };

  // --- Logs -----------------------------------------------------------------------------------------------------------
  const follow = async (log) => {
    const box = document.getElementById("follow");
    const wrap = document.getElementById("wrap");
    wrap?.addEventListener("change", () => log.classList.toggle("wrap", wrap.checked));
    const atEnd = () => { if (box?.checked) log.scrollTop = log.scrollHeight; };
    atEnd();
    box?.addEventListener("change", atEnd);
    let { next, ended } = log.dataset;
    while (ended !== "true") {
      await untilVisible();
      try {
        const url = `${log.dataset.source}&after=${next}&wait_ms=20000`;
        const response = await fetch(url, { cache: "no-store", signal: abort.signal });
        if (response.status === 401) return;
        if (!response.ok) throw new Error(response.status);
        const text = await response.text();
        next = response.headers.get("x-log-next");
        ended = response.headers.get("x-log-ended");
        if (text) {
          const lines = new DOMParser().parseFromString(`<pre>${text}</pre>`, "text/html").querySelector("pre");
          requestAnimationFrame(() => { log.append(...lines.childNodes); trim(log); atEnd(); });
        }
      } catch {
        if (!hidden) await new Promise((resume) => setTimeout(resume, 1000));
      }
    }
    soon();
  };
  // Bounds the memory of an endless log; the download has all of it.
  const LINES_MAX = 5000;
  const trim = (log) => { while (log.childElementCount > LINES_MAX) log.firstChild.remove(); };

  // --- Forms validated while they are filled in -----------------------------------------------------------------------
  const CHECK_MS = 250; // after the last keystroke
  const watch = (form) => {
    let timer = 0, latest = 0;
    const check = async () => {
      const mine = ++latest;
      try {
        const body = new URLSearchParams(new FormData(form));
        const response = await fetch(form.dataset.check, { method: "POST", body, headers: { accept: "text/html" }, cache: "no-store" });
        const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("check");
        // A response to older input is outdated.
        if (!response.ok || !fresh || mine !== latest) return;
        form.querySelector("#check").replaceChildren(...fresh.childNodes);
        for (const field of form.querySelectorAll("[id][name]")) {
          if (field.id === fresh.dataset.invalid) field.setAttribute("aria-invalid", "true");
          else field.removeAttribute("aria-invalid");
        }
      } catch {
        // The server validates again on submission.
      }
    };
    const later = () => { clearTimeout(timer); timer = setTimeout(check, CHECK_MS); };
    form.addEventListener("input", later);
    form.addEventListener("change", later);
  };
  for (const form of document.querySelectorAll("form[data-check]")) watch(form);

  prepare(document);
  if (main?.dataset.events) {
    if (!hidden) listen();
    setInterval(soon, TICK_MS);
  }
  const log = document.getElementById("log");
  if (log?.dataset.source) follow(log);
})();
