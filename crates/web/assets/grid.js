// Grids of rows (<table class="grid" data-grid="path of the table">): columns that are resized and hidden, remembered in this browser,
// cells that are selected, and copies of them.
{
  const table = document.querySelector("table.grid[data-grid]");
  const tools = document.querySelector(".grid-options");
  const key = table && `branchyard grid ${table.dataset.grid}`;
  const headings = table ? [...table.tHead.rows[0].cells].slice(1) : [];
  const names = headings.map((heading) => heading.dataset.name);

  const remembered = () => {
    try { return { widths: {}, hidden: [], ...JSON.parse(localStorage.getItem(key)) }; } catch { return { widths: {}, hidden: [] }; }
  };
  const remember = (view) => {
    try { localStorage.setItem(key, JSON.stringify(view)); } catch { /* Storage is off or full. */ }
  };

  // Widths and hidden columns are rules of a style sheet of this script, which the content security policy allows.
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const show = (view) => {
    const rules = names.map((name, at) => {
      const cells = `#rows tr > :nth-child(${at + 2})`;
      if (view.hidden.includes(name)) return `${cells} { display: none }`;
      const width = Number(view.widths[name]);
      return width > 0 ? `${cells} { width: ${width}px; min-width: ${width}px; max-width: ${width}px }` : "";
    });
    sheet.replaceSync(rules.join("\n"));
  };

  const addGrip = (heading, name) => {
    const grip = document.createElement("span");
    grip.className = "grip";
    grip.tabIndex = 0;
    grip.setAttribute("role", "separator");
    grip.setAttribute("aria-orientation", "vertical");
    grip.setAttribute("aria-label", `Width of ${name}`);
    const resize = (width) => {
      const view = remembered();
      if (width) view.widths[name] = Math.round(Math.max(48, Math.min(width, 1600))); else delete view.widths[name];
      remember(view);
      show(view);
      grip.setAttribute("aria-valuenow", Math.round(heading.offsetWidth));
    };
    grip.setAttribute("aria-valuenow", Math.round(heading.offsetWidth));
    grip.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      grip.setPointerCapture(event.pointerId);
      const start = event.clientX - heading.offsetWidth;
      const move = (moved) => resize(moved.clientX - start);
      grip.addEventListener("pointermove", move);
      grip.addEventListener("lostpointercapture", () => grip.removeEventListener("pointermove", move), { once: true });
    });
    grip.addEventListener("dblclick", () => resize(0));
    grip.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -16, ArrowRight: 16 }[event.key];
      if (!step) return;
      event.preventDefault();
      resize(heading.offsetWidth + step);
    });
    heading.append(grip);
  };

  const addColumnsMenu = () => {
    const menu = document.createElement("details");
    menu.className = "menu right";
    menu.id = "columns-menu";
    const summary = document.createElement("summary");
    const drop = document.createElement("div");
    drop.className = "drop checks";
    const label = () => {
      const { hidden } = remembered();
      const count = names.filter((name) => hidden.includes(name)).length;
      summary.textContent = count ? `Columns (${count} hidden)` : "Columns";
    };
    const apply = (view) => { remember(view); show(view); label(); };
    for (const name of names) {
      const line = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = !remembered().hidden.includes(name);
      box.addEventListener("change", () => {
        const view = remembered();
        view.hidden = view.hidden.filter((other) => other !== name);
        if (!box.checked) view.hidden.push(name);
        apply(view);
      });
      line.append(box, " ", name);
      drop.append(line);
    }
    const reset = document.createElement("button");
    reset.type = "button";
    reset.textContent = "Reset columns";
    reset.addEventListener("click", () => {
      localStorage.removeItem(key);
      for (const box of drop.querySelectorAll("input")) box.checked = true;
      apply({ widths: {}, hidden: [] });
    });
    drop.append(reset);
    menu.append(summary, drop);
    label();
    tools.append(menu);
  };

  // What is copied: rows of cells as { text, kind }, without hidden columns.
  const valueOf = (cell) => ({
    text: cell.classList.contains("null") ? null : cell.textContent,
    isNumber: cell.classList.contains("number"),
    isBlob: cell.classList.contains("blob"),
    isCut: "cut" in cell.dataset,
  });
  const flat = (text) => text.replace(/[\t\r\n]+/g, " ");
  const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
  const isJsonNumber = (text) => /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  const plain = (value) => value.isBlob ? null : value.text;
  const formats = {
    TSV: (columns, rows) => rows.map((row) => row.map((value) => flat(plain(value) ?? "")).join("\t")).join("\n"),
    Markdown: (columns, rows) => {
      const line = (texts) => `| ${texts.map((text) => flat(text).replaceAll("|", "\\|")).join(" | ")} |`;
      return [line(columns), line(columns.map(() => "---")), ...rows.map((row) => line(row.map((value) => plain(value) ?? "")))].join("\n");
    },
    JSON: (columns, rows) => {
      const cell = (value) => {
        const text = plain(value);
        return text === null ? "null" : value.isNumber && isJsonNumber(text) ? text : JSON.stringify(text);
      };
      const object = (row) => `{${row.map((value, at) => `${JSON.stringify(columns[at])}: ${cell(value)}`).join(", ")}}`;
      return `[\n${rows.map((row) => `  ${object(row)}`).join(",\n")}\n]`;
    },
    INSERT: (columns, rows) => {
      const cell = (value) => {
        const text = plain(value);
        return text === null ? "NULL" : value.isNumber && isJsonNumber(text) ? text : `'${text.replaceAll("'", "''")}'`;
      };
      const into = `INSERT INTO ${quoted(table.dataset.table)} (${columns.map(quoted).join(", ")}) VALUES`;
      return `${into}\n${rows.map((row) => `  (${row.map(cell).join(", ")})`).join(",\n")};`;
    },
  };

  // The selected cells are a rectangle between an anchor and a corner, as [row, column].
  let anchor = null;
  let corner = null;
  const body = table?.tBodies[0];
  const placeOf = (cell) => [cell.parentElement.sectionRowIndex, cell.cellIndex];
  const cellAt = ([row, column]) => body.rows[row]?.cells[column];
  const between = (a, b) => [Math.min(a, b), Math.max(a, b)];
  const mark = () => {
    for (const cell of body.querySelectorAll(".selected")) cell.classList.remove("selected");
    if (!anchor) return;
    const [top, bottom] = between(anchor[0], corner[0]);
    const [left, right] = between(anchor[1], corner[1]);
    for (let row = top; row <= bottom; row += 1) {
      for (let column = left; column <= right; column += 1) cellAt([row, column])?.classList.add("selected");
    }
  };
  const select = (cell, extend) => {
    corner = placeOf(cell);
    if (!extend || !anchor) anchor = corner;
    mark();
    for (const other of body.querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus({ preventScroll: false });
  };
  // Returns the selected rows, or all rows of the page if at most one cell is selected.
  const chosenRows = () => {
    const visible = headings.map((heading, at) => at + 1).filter((at) => headings[at - 1].offsetWidth > 0);
    const isRange = anchor && (anchor[0] !== corner[0] || anchor[1] !== corner[1]);
    const [top, bottom] = isRange ? between(anchor[0], corner[0]) : [0, body.rows.length - 1];
    const [left, right] = isRange ? between(anchor[1], corner[1]) : [1, headings.length];
    const columns = visible.filter((at) => at >= left && at <= right);
    const rows = [...body.rows].slice(top, bottom + 1).map((row) => columns.map((at) => valueOf(row.cells[at])));
    return [columns.map((at) => names[at - 1]), rows];
  };
  const say = (text) => { document.getElementById("copy-status").textContent = text; };
  const copy = async (format) => {
    const [columns, rows] = chosenRows();
    await navigator.clipboard.writeText(formats[format](columns, rows));
    const cells = rows.flat();
    const cut = cells.filter((value) => value.isCut).length;
    const blobs = cells.filter((value) => value.isBlob).length;
    const notes = [cut && `${cut} long values are truncated`, blobs && `${blobs} binary values are left out`].filter(Boolean);
    say(`Copied ${rows.length} ${rows.length === 1 ? "row" : "rows"} as ${format}${notes.length ? `; ${notes.join(", ")}` : ""}.`);
  };
  const addCopyMenu = () => {
    const menu = document.createElement("details");
    menu.className = "menu right";
    menu.id = "copy-menu";
    const summary = document.createElement("summary");
    summary.textContent = "Copy";
    const drop = document.createElement("div");
    drop.className = "drop";
    for (const format of Object.keys(formats)) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "plain";
      button.textContent = `As ${format}`;
      button.dataset.format = format;
      button.addEventListener("click", async () => { await copy(format); menu.open = false; });
      drop.append(button);
    }
    const hint = document.createElement("p");
    hint.className = "soft small";
    hint.textContent = "All rows of this page, or the cells you select: click one, then Shift-click another.";
    drop.append(hint);
    menu.append(summary, drop);
    const status = document.createElement("span");
    status.id = "copy-status";
    status.className = "soft small";
    status.setAttribute("role", "status");
    tools.append(status, menu);
  };

  if (table && tools) {
    show(remembered());
    headings.forEach((heading, at) => addGrip(heading, names[at]));
    addColumnsMenu();
    if (navigator.clipboard) addCopyMenu();
    body.addEventListener("click", (event) => {
      const cell = event.target.closest("td");
      if (!cell || cell.cellIndex === 0 || event.target.closest("a")) return;
      select(cell, event.shiftKey);
      if (!event.shiftKey) cell.dispatchEvent(new CustomEvent("cell-open", { bubbles: true }));
    });
    body.addEventListener("mousedown", (event) => { if (event.shiftKey && event.target.closest("td")) event.preventDefault(); });
    const first = body.rows[0]?.cells[1];
    if (first) first.tabIndex = 0;
    body.addEventListener("keydown", (event) => {
      const cell = event.target.closest("td");
      if (!cell || event.target !== cell || event.ctrlKey || event.metaKey || event.altKey) return;
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (event.key === "Enter") cell.dispatchEvent(new CustomEvent("cell-open", { bubbles: true }));
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      let [row, column] = placeOf(cell);
      do { row += step[0]; column += step[1]; } while (cellAt([row, column])?.offsetWidth === 0);
      const next = column > 0 && cellAt([row, column]);
      if (next) select(next, event.shiftKey);
    });
    document.addEventListener("copy", (event) => {
      if (!anchor || !body.contains(document.activeElement) || String(getSelection())) return;
      const [columns, rows] = anchor[0] === corner[0] && anchor[1] === corner[1]
        ? [[], [[valueOf(cellAt(anchor))]]] : chosenRows();
      event.clipboardData.setData("text/plain", formats.TSV(columns, rows));
      event.preventDefault();
      say("Copied.");
    });
  }
}
