// The viewer of a cell, and the values of a column. Both show parts of pages that also work by themselves.
{
  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const fetched = async (address) => {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (!answer.ok || answer.redirected) throw new Error(`HTTP ${answer.status}`);
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  };

  // A panel at the edge of the window, which leaves the rows in sight.
  const grid = document.querySelector("table.grid[data-grid]");
  let panel = null;
  let asked = 0;
  const close = () => { panel?.remove(); panel = null; asked += 1; };
  const open = async (cell) => {
    const turn = ++asked;
    const name = grid.tHead.rows[0].cells[cell.cellIndex].dataset.name;
    const href = cell.parentElement.cells[0].querySelector("a").href;
    panel?.remove();
    const title = element("h2", { textContent: name });
    const done = element("button", { type: "button", textContent: "Close", id: "close-cell" });
    done.addEventListener("click", () => { close(); cell.focus(); });
    const content = element("div", { className: "cell-content", textContent: cell.textContent, tabIndex: 0 });
    panel = element("aside", { className: "cell-panel", id: "cell-panel" }, element("div", { className: "row" }, title, done), content);
    panel.setAttribute("aria-label", `Value of ${name}`);
    grid.closest(".scroll").after(panel);
    try {
      const page = await fetched(href);
      if (turn !== asked) return;
      const field = [...page.querySelectorAll("#row tr")].find((row) => row.dataset.name === name);
      const value = field.querySelector("td");
      const links = value.querySelector(".value-links");
      const text = value.querySelector(".value").textContent.trim();
      content.replaceChildren(...value.querySelectorAll(".value"));
      const row = element("a", { href, textContent: "Open row" });
      links.append(" ", row);
      if (navigator.clipboard) {
        const copy = element("button", { type: "button", textContent: "Copy value" });
        copy.addEventListener("click", async () => { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; });
        links.append(" ", copy);
      }
      content.after(links);
    } catch {
      if (turn === asked) content.after(element("p", { className: "wrong", textContent: "The value could not be loaded. Try again." }));
    }
  };
  grid?.addEventListener("cell-open", (event) => open(event.target));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && panel) close(); });

  // Links to the values of a column open a dialog.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest?.("a.facet");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    try {
      const values = (await fetched(link.href)).getElementById("values");
      const done = element("button", { type: "button", textContent: "Close", id: "close-values" });
      const dialog = element("dialog", { className: "values-dialog", id: "values-dialog" },
        element("div", { className: "row" }, element("h2", { textContent: values.dataset.title }), done), values);
      done.addEventListener("click", () => dialog.close());
      dialog.addEventListener("click", (inside) => { if (inside.target === dialog) dialog.close(); });
      dialog.addEventListener("close", () => { dialog.remove(); link.focus(); });
      document.body.append(dialog);
      dialog.showModal();
    } catch {
      location.assign(link.href);
    }
  });
}
