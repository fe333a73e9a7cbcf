// A slider through the versions of a branch (<div data-versions="address of the versions">). While it moves, the parts of the page that
// depend on the version (<… id data-of-version>) show the version at which it is; when it rests there, the page of that version is opened.
{
  const place = document.querySelector("[data-versions]");
  const slider = document.createElement("input");
  const text = document.createElement("output");
  const pageOf = ({ commit }, isHead) => {
    const page = new URL(isHead ? place.dataset.head : place.dataset.page, location.href);
    if (!isHead) for (const [name, value] of [["ref", commit], ["branch", place.dataset.branch]]) page.searchParams.set(name, value);
    page.hash = slider.id;
    return page;
  };
  const pause = (ms) => new Promise((over) => { setTimeout(over, ms); });

  let wanted = null, isShowing = false, leave = 0;
  const showParts = (page) => {
    for (const part of document.querySelectorAll("[data-of-version]")) {
      const fresh = page.getElementById(part.id);
      // Headings that are the same keep what other scripts added to them.
      if (fresh && fresh.textContent !== part.textContent) part.replaceChildren(...fresh.childNodes);
    }
  };
  // One request at a time, for the version at which the slider then is.
  const show = async () => {
    if (isShowing) return;
    isShowing = true;
    while (wanted) {
      const asked = wanted;
      wanted = null;
      try {
        const answer = await fetch(asked.page, { headers: { accept: "text/html" } });
        if (answer.ok) showParts(new DOMParser().parseFromString(await answer.text(), "text/html"));
        if (answer.status === 404 && !wanted) text.textContent = `${asked.text} (not in this version)`;
      } catch { /* The server is busy or restarting; the page of the version says so. */ }
      await pause(100);
    }
    isShowing = false;
  };
  const start = async () => {
    const answer = await fetch(place.dataset.versions, { headers: { accept: "application/json" } });
    if (!answer.ok) return;
    const { versions } = await answer.json();
    const newest = versions.length - 1;
    const shown = versions.findIndex(({ commit }) => commit === place.dataset.commit);
    if (newest < 1 || shown < 0) return;
    // The oldest version is at the left.
    const chosen = () => versions[newest - slider.valueAsNumber];
    const say = () => { text.textContent = chosen().text; slider.setAttribute("aria-valuetext", chosen().text); };
    Object.assign(slider, { type: "range", id: "version-slider", min: 0, max: newest, value: newest - shown });
    const label = document.createElement("label");
    Object.assign(label, { htmlFor: slider.id, className: "small", textContent: `Versions of ${place.dataset.branch}` });
    Object.assign(text, { id: "version-text", className: "small soft", htmlFor: slider.id });
    place.append(label, slider, text);
    place.hidden = false;
    say();
    const page = () => pageOf(chosen(), slider.valueAsNumber === newest);
    slider.addEventListener("input", () => {
      clearTimeout(leave);
      say();
      wanted = { page: page(), text: chosen().text };
      show();
    });
    slider.addEventListener("change", () => {
      clearTimeout(leave);
      leave = setTimeout(() => { if (chosen().commit !== place.dataset.commit) location.assign(page()); }, 800);
    });
    if (location.hash === `#${slider.id}`) {
      history.replaceState(null, "", location.pathname + location.search);
      slider.focus();
    }
  };
  if (place) {
    const inSight = new IntersectionObserver(([{ isIntersecting }]) => {
      if (!isIntersecting && location.hash !== "#version-slider") return;
      inSight.disconnect();
      start().catch(() => { /* Older and Newer do the same, step by step. */ });
    }, { rootMargin: "300px" });
    inSight.observe(place.parentElement);
  }
}
