// Makes pages quicker to use. Every page works without it.
"use strict";

// Copy buttons: <button data-copy="#id-of-what-is-copied">
for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.querySelector(button.dataset.copy);
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
}

// Lists that open (<details class="menu">) close on Escape and when something else is clicked.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

// Lists that can be narrowed: <input data-filter="#id-of-the-list">, whose items have data-name.
for (const input of document.querySelectorAll("input[data-filter]")) {
  const items = document.querySelectorAll(`${input.dataset.filter} [data-name]`);
  input.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const item of items) item.hidden = !item.dataset.name.toLowerCase().includes(wanted);
  });
}

// "/" goes to the search field.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.getElementById("search");
  if (search) { event.preventDefault(); search.focus(); }
});

// Parts of a page that go on, such as <div id="…" data-live>: they are fetched again until they say no more.
const follow = (part, wait) => setTimeout(async () => {
  let fresh = null;
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok || answer.redirected) return;
      fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
      if (!fresh) return;
      // What is in use stays: the next one will do.
      if (!part.contains(document.activeElement) || !("live" in fresh.dataset)) { part.replaceWith(fresh); part = fresh; }
    } catch { /* the server may be restarting */ }
  }
  if (!fresh || "live" in fresh.dataset) follow(part, Math.min(wait * 1.3, 5000));
}, wait);
for (const part of document.querySelectorAll("[data-live]")) follow(part, 400);
