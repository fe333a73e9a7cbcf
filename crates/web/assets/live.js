// Live parts of a page (<div id="…" data-live>) are fetched again until they no longer have data-live; those with data-follow, for as long
// as the page is in sight. data-from is the address of the page, if it is not the one that is shown.
//
// data-watch is the address of a stream on which the server says that something has changed. There is one stream for a tab in sight, and
// the page is then fetched on each event. Without a stream, because the server has too many or a proxy does not pass it on, the page is
// fetched every few seconds.
{
  const parts = () => [...document.querySelectorAll("[data-live], [data-follow]")];
  const follows = () => parts().some((part) => "follow" in part.dataset);
  const withoutHints = (root) => {
    // A part that was fetched has its hints for browsers without scripts as elements.
    for (const hint of root.querySelectorAll("noscript")) hint.remove();
    return root;
  };
  let lastUse = Date.now();
  for (const kind of ["pointermove", "keydown", "scroll", "visibilitychange"]) {
    addEventListener(kind, () => { lastUse = Date.now(); }, { passive: true, capture: true });
  }
  const replace = (part, fresh) => {
    const always = "follow" in part.dataset;
    if (always && part.textContent === fresh.textContent) return;
    // Keeps a part that has the focus; the next response updates it.
    if (part.contains(document.activeElement) && (always || "live" in fresh.dataset)) return;
    offerCopies(fresh);
    part.replaceWith(fresh);
  };
  // isBehind: the last fetch failed, so that a change may not be shown yet.
  let isOver = false, isFetching = false, isChanged = false, isBehind = false;
  // Returns false if the page is no longer the viewer's.
  const fetchParts = async () => {
    try {
      const from = document.querySelector("[data-from]")?.dataset.from ?? location.href;
      const answer = await fetch(from, { headers: { accept: "text/html" } });
      if (answer.status === 429 || answer.status >= 500) throw new Error("busy");
      if (!answer.ok || answer.redirected) return false;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts()) {
        const fresh = page.getElementById(part.id);
        if (fresh) replace(part, withoutHints(fresh)); else part.removeAttribute("data-live");
      }
      isBehind = false;
    } catch { isBehind = true; /* The server is busy or restarting. */ }
    return true;
  };

  let timer = 0, wait = 400, lastFetch = 0;
  let stream = null, isOpen = false, mayOpenAt = 0;
  const plan = (after) => { clearTimeout(timer); timer = setTimeout(look, after); };
  // The pause before the next fetch. With a stream it is for what changes with time, such as costs, and for an event that was lost.
  const pause = () => {
    if (isOpen && !isBehind) return 15000;
    wait = Math.min(wait * 1.3, 5000);
    if (!follows()) return wait;
    return Date.now() - lastUse < 300000 ? 2400 : 10000;
  };
  const look = async () => {
    if (isOver || isFetching || document.hidden) return;
    isFetching = true;
    isChanged = false;
    lastFetch = Date.now();
    isOver = !(await fetchParts()) || parts().length === 0;
    isFetching = false;
    if (isOver) { clearTimeout(timer); stream?.abort(); return; }
    listen();
    if (isChanged) changed(); else plan(pause());
  };
  // At most one fetch a second.
  const changed = () => {
    isChanged = true;
    if (!isFetching) plan(Math.max(0, lastFetch + 1000 - Date.now()));
  };
  const read = async (answer, signOfLife) => {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      signOfLife();
      const events = (text + value).split("\n\n");
      text = events.pop();
      if (events.some((event) => event.startsWith("event: changed"))) changed();
      // The rights may have changed: the page decides what to show.
      if (events.includes("event: end\ndata: rights")) changed();
    }
  };
  const listen = async () => {
    const address = document.querySelector("[data-watch]")?.dataset.watch;
    if (!address || stream || isOver || document.hidden || Date.now() < mayOpenAt) return;
    const control = stream = new AbortController();
    let silence = 0;
    // The server gives a sign of life every 15 s.
    const signOfLife = () => { clearTimeout(silence); silence = setTimeout(() => control.abort(), 40000); };
    // Pages whose server restarts come back one after another.
    let again = 1000 + Math.random() * 9000;
    signOfLife();
    try {
      const answer = await fetch(address, { headers: { accept: "text/event-stream" }, signal: control.signal });
      if (answer.ok && answer.headers.get("content-type")?.startsWith("text/event-stream")) {
        isOpen = true;
        await read(answer, signOfLife);
      } else {
        again = (Number(answer.headers.get("retry-after")) || 60) * (1000 + Math.random() * 1000);
        control.abort();
      }
    } catch { /* The tab was hidden, the connection was lost, or the server is restarting. */ }
    clearTimeout(silence);
    const wasOpen = isOpen;
    [stream, isOpen, mayOpenAt] = [null, false, document.hidden ? 0 : Date.now() + again];
    if (wasOpen && !isChanged && !isFetching && !isOver && !document.hidden) plan(500 + Math.random() * 2000);
  };
  // A browser has six connections to a server over HTTP/1.1, for all tabs together.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { clearTimeout(timer); stream?.abort(); } else if (!isOver) { mayOpenAt = 0; plan(0); }
  });
  addEventListener("pagehide", () => stream?.abort());
  addEventListener("pageshow", (event) => { if (event.persisted && !isOver) plan(0); });

  for (const part of parts()) withoutHints(part);
  if (parts().length > 0) { listen(); plan(wait); } else isOver = true;
}

