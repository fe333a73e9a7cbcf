// Progressive enhancement. Every page works without this script.
"use strict";

// Copy buttons: <button data-copy="#id-of-source">. Parts that are fetched again have them, too.
const offerCopies = (root) => {
  if (navigator.clipboard) for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
};
offerCopies(document);
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  const source = document.querySelector(button.dataset.copy);
  await navigator.clipboard.writeText(source.value ?? source.textContent);
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1500);
});

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

// A link to a folded part of the page (<a data-opens href="#id-of-details">) unfolds it.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-opens]");
  if (link) document.querySelector(link.hash).open = true;
});

// On narrow screens the tabs scroll. Scrolls the active tab into view.
for (const tab of document.querySelectorAll(".tabs [aria-current], .side [aria-current]")) {
  const tabs = tab.parentElement;
  tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}

// Filterable lists: <input data-filter="#id-of-list">, whose items have data-name. In a form, arrow keys choose among the links that
// match, and Enter opens the chosen one, the one that is named exactly so, or the first one. A text that matches no link is sent only if
// the server knows it.
for (const input of document.querySelectorAll("input[data-filter]")) {
  const items = [...document.querySelectorAll(`${input.dataset.filter} [data-name]`)];
  const shown = () => items.filter((item) => !item.hidden);
  let chosen = null;
  const choose = (item) => {
    chosen?.classList.remove("chosen");
    chosen = item ?? null;
    chosen?.classList.add("chosen");
    chosen?.scrollIntoView({ block: "nearest" });
  };
  input.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const item of items) item.hidden = !item.dataset.name.toLowerCase().includes(wanted);
    choose(wanted ? shown()[0] : null);
  });
  if (!input.form) continue;
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const list = shown();
    const at = list.indexOf(chosen);
    choose(list[at < 0 ? (step > 0 ? 0 : list.length - 1) : (at + step + list.length) % list.length]);
  });
  input.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wanted = input.value.trim();
    const exact = items.find((item) => item.dataset.name === wanted);
    if (!wanted && !chosen) return;
    if (exact || (chosen && chosen !== shown()[0])) { location.assign((exact ?? chosen).href); return; }
    const typed = new URL(input.form.action);
    typed.search = new URLSearchParams({ [input.name]: wanted });
    const isKnown = await fetch(typed, { headers: { accept: "text/html" } }).then((answer) => answer.ok, () => false);
    if (isKnown) location.assign(typed); else if (chosen) location.assign(chosen.href);
    else document.getElementById("ref-unknown").hidden = false;
  });
}

// Opening a menu puts the cursor into its field.
for (const menu of document.querySelectorAll("details.menu")) {
  menu.addEventListener("toggle", () => { if (menu.open) menu.querySelector("input[data-filter]")?.focus(); });
}

// "/" focuses the search field.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.getElementById("search");
  if (search) { event.preventDefault(); search.focus(); }
});

// "y" replaces the address by one that names the commit, which shows the same rows forever.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  const link = document.querySelector("a[data-permalink]");
  if (event.key !== "y" || typing || !link || event.ctrlKey || event.metaKey || event.altKey) return;
  history.replaceState(null, "", link.href);
});

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

// Edits of tables that are not committed are kept in this browser until the person signs out (see table_editor/pending_edits.js).
for (const form of document.querySelectorAll('form[action="/sign-out"]')) {
  form.addEventListener("submit", () => {
    try {
      for (const key of Object.keys(localStorage)) if (key.startsWith("branchyard edits ")) localStorage.removeItem(key);
    } catch { /* Storage is off. */ }
  });
}

// Fields that the fragment of the address fills in: <input data-from-fragment>
for (const field of document.querySelectorAll("input[data-from-fragment]")) {
  const text = decodeURIComponent(location.hash.slice(1));
  if (/^[0-9a-v]{52}$/.test(text) && !field.value) field.value = text;
}
