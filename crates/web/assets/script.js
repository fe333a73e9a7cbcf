// Progressive enhancement. Every page works without this script.
"use strict";

// Copy buttons: <button data-copy="#id-of-source">
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

// Menus (<details class="menu">) close on Escape and on a click outside.
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

// On narrow screens the tabs scroll. Scrolls the active tab into view.
for (const tab of document.querySelectorAll(".tabs [aria-current], .side [aria-current]")) {
  const tabs = tab.parentElement;
  tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}

// Filterable lists: <input data-filter="#id-of-list">, whose items have data-name.
for (const input of document.querySelectorAll("input[data-filter]")) {
  const items = document.querySelectorAll(`${input.dataset.filter} [data-name]`);
  input.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const item of items) item.hidden = !item.dataset.name.toLowerCase().includes(wanted);
  });
}

// "/" focuses the search field.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.getElementById("search");
  if (search) { event.preventDefault(); search.focus(); }
});

// Live parts of a page (<div id="…" data-live>) are fetched again until they no longer have data-live.
const follow = (part, wait) => setTimeout(async () => {
  let fresh = null;
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.status === 429 || answer.status >= 500) throw new Error("busy");
      if (!answer.ok || answer.redirected) return;
      fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
      if (!fresh) return;
      // Keeps a part that has the focus; the next response updates it.
      if (!part.contains(document.activeElement) || !("live" in fresh.dataset)) { part.replaceWith(fresh); part = fresh; }
    } catch { /* The server is busy or restarting. */ }
  }
  if (!fresh || "live" in fresh.dataset) follow(part, Math.min(wait * 1.3, 5000));
}, wait);
for (const part of document.querySelectorAll("[data-live]")) follow(part, 400);

// Forms that only read (data-asks) are submitted when a field changes.
for (const form of document.querySelectorAll("form[data-asks]")) {
  form.addEventListener("change", () => { if (form.checkValidity()) form.requestSubmit(); });
}

// The SQL editor: Ctrl+Enter submits, Ctrl+Space completes names. The history is stored in this browser only.
{
  const editor = document.querySelector("textarea.editor");
  const form = editor?.form;
  const send = (form) => form.requestSubmit(form.querySelector("button.primary"));
  const words = () => {
    const names = [...document.querySelectorAll("[data-insert], [data-word]")].map((item) => item.dataset.insert ?? item.dataset.word);
    return [...new Set(names)];
  };
  const complete = () => {
    const before = editor.value.slice(0, editor.selectionStart);
    const begun = before.match(/[\p{L}\p{N}_]*$/u)[0];
    const fits = words().filter((word) => word.toLowerCase().startsWith(begun.toLowerCase()));
    const output = document.getElementById("sql-words");
    output.textContent = fits.length > 1 ? fits.slice(0, 8).join(", ") : "";
    if (fits.length === 0) return;
    let common = fits[0];
    for (const word of fits) while (!word.toLowerCase().startsWith(common.toLowerCase())) common = common.slice(0, -1);
    if (common.length >= begun.length) editor.setRangeText(common, before.length - begun.length, before.length, "end");
  };
  const remembered = (key) => {
    try { return JSON.parse(localStorage.getItem(key)) ?? []; } catch { return []; }
  };
  const show = (key) => {
    const box = document.getElementById("sql-history");
    const list = box.querySelector("ul");
    const statements = remembered(key);
    box.hidden = statements.length === 0;
    list.replaceChildren(...statements.map((statement) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = "#q";
      link.textContent = statement.replace(/\s+/g, " ").slice(0, 80);
      link.title = statement.slice(0, 1000);
      link.addEventListener("click", (event) => { event.preventDefault(); editor.value = statement; editor.focus(); });
      item.append(link);
      return item;
    }));
  };
  if (editor) {
    const key = `branchyard sql ${form.dataset.history}`;
    document.getElementById("sql-keys").hidden = false;
    editor.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      if (event.key === "Enter") { event.preventDefault(); send(form); }
      if (event.key === " ") { event.preventDefault(); complete(); }
    });
    form.addEventListener("submit", () => {
      const statement = editor.value.trim();
      if (statement === "" || statement.length > 10000) return;
      const others = remembered(key).filter((other) => other !== statement);
      try { localStorage.setItem(key, JSON.stringify([statement, ...others].slice(0, 30))); } catch { /* Storage is off or full. */ }
    });
    // A preview is of the statements that were sent.
    const preview = document.getElementById("write-preview");
    if (preview) form.addEventListener("input", () => { preview.hidden = true; });
    document.getElementById("forget-history").addEventListener("click", () => { localStorage.removeItem(key); show(key); });
    show(key);
  }
}

// A query that runs: <p data-busy> with a button that stops it
for (const busy of document.querySelectorAll("[data-busy]")) {
  busy.closest("form").addEventListener("submit", () => { busy.hidden = false; });
  busy.querySelector("button").addEventListener("click", () => { window.stop(); busy.hidden = true; });
  // The page may be shown again from the history.
  addEventListener("pageshow", () => { busy.hidden = true; });
}

// Fields that the fragment of the address fills in: <input data-from-fragment>
for (const field of document.querySelectorAll("input[data-from-fragment]")) {
  const text = decodeURIComponent(location.hash.slice(1));
  if (/^[0-9a-v]{52}$/.test(text) && !field.value) field.value = text;
}
