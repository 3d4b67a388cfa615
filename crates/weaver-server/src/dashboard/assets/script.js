// What the pages gain with a script: they stay fresh, logs follow, commands copy. Without it they are whole.
"use strict";
(() => {
  const main = document.getElementById("main");
  const mark = document.getElementById("live-mark");
  const notice = document.getElementById("notice");

  // --- Small things -------------------------------------------------------------------------------------------------
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
      button.textContent = "Select and copy by hand";
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.submit();
    if (event.target.matches("[data-all]")) {
      for (const box of document.querySelectorAll("input[name=id]")) box.checked = event.target.checked;
    }
    if (event.target.matches("[data-all], input[name=id]")) counted();
  });
  const counted = () => {
    const chosen = document.querySelectorAll("input[name=id]:checked").length;
    for (const button of document.querySelectorAll("[data-chosen]")) {
      button.textContent = chosen ? `${button.dataset.chosen} ${chosen}` : button.dataset.chosen;
    }
  };

  // --- Putting in what differs --------------------------------------------------------------------------------------
  // Nodes stay the nodes they are, so that focus, selection, scroll and what somebody types are left alone.
  // By attribute: a form's `id` is its fields of that name, and a form without a key would be made anew each time.
  const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute("id") || node.getAttribute("data-key") || "" : "");
  const isTyped = (node) => node.matches("input, textarea, select") && (node === document.activeElement || node.dataset.typed);
  // What a form silently says about what its writer saw (a version) stays with what they typed, and is refused if outdated.
  const isSaid = (node) => node.matches("input[type=hidden]") && node.form?.querySelector("[data-typed]:not([type=checkbox])");
  const isKept = (node) => node.nodeType === 1 && (node.hasAttribute("data-keep") || isTyped(node) || isSaid(node));
  const attributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" || name === "data-typed")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name === "open" || (name === "hidden" && (old.hasAttribute("data-copy") || old.hasAttribute("data-script")))) continue;
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };
  const put = (old, fresh) => {
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
        const made = document.importNode(child, true);
        old.insertBefore(made, at);
        if (made.nodeType === 1) prepare(made);
        continue;
      }
      if (match !== at) old.insertBefore(match, at);
      at = match.nextSibling;
      put(match, child);
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

  // A list grows at its top. Whoever reads further down, is about to click, or has chosen rows, is told, and nothing moves.
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
      // Nothing matches any more: what was chosen is still there to be acted upon.
      if (frame && mine.length && !rows.size) {
        fresh.getElementById(frame.id)?.replaceWith(frame.cloneNode(true));
        continue;
      }
      const known = new Set(mine.map((row) => row.dataset.key));
      held += [...rows.keys()].filter((key) => !known.has(key)).length;
      // The same rows in the same places, with what is new about each of them.
      body.replaceChildren(...mine.map((row) => rows.get(row.dataset.key) || row.cloneNode(true)));
    }
    return held;
  };

  // --- Who looks ------------------------------------------------------------------------------------------------------
  // A browser gives a server six connections. A page that is hidden, or kept for the way back, must hold none of them, or
  // the next page waits.
  let away = document.hidden, leave = new AbortController(), sleepers = [];
  const attend = () => {
    if (away === document.hidden) return;
    document.hidden ? depart() : arrive();
  };
  const depart = () => {
    away = true;
    source?.close();
    leave.abort();
  };
  const arrive = () => {
    away = false;
    leave = new AbortController();
    if (main?.dataset.events) listen();
    for (const wake of sleepers.splice(0)) wake();
  };
  const present = () => (away ? new Promise((wake) => sleepers.push(wake)) : undefined);
  document.addEventListener("visibilitychange", attend);
  addEventListener("pagehide", depart);
  addEventListener("pageshow", attend);

  // --- Live -----------------------------------------------------------------------------------------------------------
  const EVERY_MS = 300; // at most so often is the page asked for
  const TICK_MS = Number(main?.dataset.tickMs) || 5000; // what changes without an event: ages, heartbeats, settings
  let dirty = false, asking = false, last = 0, timer = 0;
  const refresh = async () => {
    timer = 0;
    if (asking || away) return;
    asking = true;
    dirty = false;
    last = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store", signal: leave.signal });
      if (answer.status === 401 || answer.redirected) return lost("Logged out", true);
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        const target = fresh.getElementById("main");
        // What somebody is busy with is looked at in the frame that changes it: a click in between would be lost.
        if (target) requestAnimationFrame(() => { tell(holdRows(fresh)); put(main, target); counted(); });
      }
    } catch {
      dirty = true; // The stream of events notices too, and comes back.
    } finally {
      asking = false;
      if (dirty) soon();
    }
  };
  const soon = () => {
    dirty = true;
    if (!timer && !asking) timer = setTimeout(refresh, Math.max(0, EVERY_MS - (performance.now() - last)));
  };
  const tell = (held) => {
    const said = notice.querySelector("a");
    if (!held) return said && notice.replaceChildren();
    const link = said || document.createElement("a");
    link.href = location.href;
    link.textContent = `${held} more at the top: show`;
    if (!said) notice.replaceChildren(link);
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
      soon(); // What happened while nobody listened is on the page that is asked for now.
    };
    source.onerror = () => {
      lost(source.readyState === EventSource.CLOSED ? "Disconnected" : "Reconnecting…", false);
      // A refusal is final for the browser; the server may be starting, or the session may have ended.
      if (source.readyState === EventSource.CLOSED) setTimeout(again, 1000);
    };
    source.addEventListener("changes", (event) => {
      const mine = main.dataset.live;
      const changes = JSON.parse(event.data);
      if (mine === "any" || !changes.ids || changes.ids.includes(mine)) soon();
    });
    source.addEventListener("resync", soon);
  };
  const again = async () => {
    if (away) return;
    try {
      const answer = await fetch(location.href, { method: "HEAD", cache: "no-store", signal: leave.signal });
      if (answer.status === 401 || answer.redirected) return lost("Logged out", true);
      listen();
    } catch {
      setTimeout(again, 1000);
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
      await present();
      try {
        const asked = `${log.dataset.source}&after=${next}&wait_ms=20000`;
        const answer = await fetch(asked, { cache: "no-store", signal: leave.signal });
        if (answer.status === 401) return;
        if (!answer.ok) throw new Error(answer.status);
        const text = await answer.text();
        next = answer.headers.get("x-log-next");
        ended = answer.headers.get("x-log-ended");
        if (text) {
          const lines = new DOMParser().parseFromString(`<pre>${text}</pre>`, "text/html").querySelector("pre");
          requestAnimationFrame(() => { log.append(...lines.childNodes); trim(log); atEnd(); });
        }
      } catch {
        if (!away) await new Promise((resume) => setTimeout(resume, 1000));
      }
    }
    soon();
  };
  // A log without end must not fill the browser: the whole of it is in the download.
  const LINES_MAX = 5000;
  const trim = (log) => { while (log.childElementCount > LINES_MAX) log.firstChild.remove(); };

  // --- Forms that are looked at while they are filled in --------------------------------------------------------------
  const CHECK_MS = 250; // after the last key
  const watch = (form) => {
    let timer = 0, turn = 0;
    const check = async () => {
      const mine = ++turn;
      try {
        const body = new URLSearchParams(new FormData(form));
        const answer = await fetch(form.dataset.check, { method: "POST", body, headers: { accept: "text/html" }, cache: "no-store" });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("check");
        // An answer that was overtaken is about something else.
        if (!answer.ok || !fresh || mine !== turn) return;
        form.querySelector("#check").replaceChildren(...fresh.childNodes);
        for (const field of form.querySelectorAll("[id][name]")) {
          if (field.id === fresh.dataset.wrong) field.setAttribute("aria-invalid", "true");
          else field.removeAttribute("aria-invalid");
        }
      } catch {
        // The form still says what is wrong when it is sent.
      }
    };
    const later = () => { clearTimeout(timer); timer = setTimeout(check, CHECK_MS); };
    form.addEventListener("input", later);
    form.addEventListener("change", later);
  };
  for (const form of document.querySelectorAll("form[data-check]")) watch(form);

  prepare(document);
  if (main?.dataset.events) {
    if (!away) listen();
    setInterval(soon, TICK_MS);
  }
  const log = document.getElementById("log");
  if (log?.dataset.source) follow(log);
})();
