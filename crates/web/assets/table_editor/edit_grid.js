// The grid in which cells are edited: an ARIA grid with a selection, keys as in a spreadsheet, and the clipboard.

class EditGrid {
  constructor(pending, say) {
    this.pending = pending;
    this.say = say;
    this.known = new KnownValues(() => this.refresh([]));
    this.table = element("table", { className: "grid edit-rows", id: "edit-rows", role: "grid", "aria-multiselectable": "true" });
    this.note = element("p", { className: "small cell-note", id: "cell-note", role: "status" });
    this.problems = new Map();
    this.anchor = [0, 0];
    this.corner = [0, 0];
    this.input = null;
    this.pastesNull = true;
    this.table.addEventListener("keydown", (event) => this.onKey(event));
    this.table.addEventListener("pointerdown", (event) => { this.pressed = event.target.closest("td"); });
    this.table.addEventListener("click", (event) => this.onClick(event));
    this.table.addEventListener("focusin", (event) => this.onFocus(event.target));
    this.table.addEventListener("dblclick", (event) => { if (event.target.closest("td")) this.edit(); });
    this.table.addEventListener("mousedown", (event) => { if (event.shiftKey && event.target.closest("td")) event.preventDefault(); });
    document.addEventListener("copy", (event) => this.onCopy(event, false));
    document.addEventListener("cut", (event) => this.onCopy(event, true));
    document.addEventListener("paste", (event) => this.onPaste(event));
  }

  // Shows the rows of a page. Rows without a key that names them stay as they are.
  show(sheet) {
    const named = (wanted) => sheet.columns.find((column) => column.name.toLowerCase() === wanted.toLowerCase())?.name ?? wanted;
    this.sheet = { ...sheet, key: sheet.key.map(named), unique: sheet.unique.map(named) };
    const places = this.sheet.key.map((name) => sheet.columns.findIndex((column) => column.name === name));
    this.sheet.rows = sheet.rows.map((cells, at) => {
      const values = places.map((place) => cells[place]);
      const isNamed = values.length > 0 && values.every((cell) => cell !== null && !isFixed(cell));
      const key = isNamed ? Object.fromEntries(this.sheet.key.map((name, part) => [name, wireKey(values[part])])) : null;
      return { id: isNamed ? JSON.stringify(values.map(plainValue)) : `#${at}`, cells, key };
    });
    this.existing = new Map(this.sheet.rows.map((row) => [row.id, row]));
    this.table.setAttribute("aria-label", `Rows of ${sheet.table}`);
    this.table.setAttribute("aria-colcount", String(sheet.columns.length + 1));
    const heading = (column) => element("th", { scope: "col", role: "columnheader", className: isNumeric(column) ? "number" : "" }, column.name,
      element("span", { className: "type" }, column.type || "any", column.key ? element("b", {}, " key") : null,
        column.nullable || column.generated ? null : " not null", column.generated ? " generated" : null,
        column.refers ? ` → ${column.refers.table}` : null));
    const state = element("th", { scope: "col", role: "columnheader", className: "opens" }, element("span", { className: "hidden" }, "State"));
    this.body = element("tbody");
    this.table.replaceChildren(element("thead", {}, element("tr", { role: "row" }, state, ...sheet.columns.map(heading))), this.body);
    this.ids = [];
    this.lines = new Map();
    this.refresh([...this.existing.keys()]);
    this.select([0, 0], false, false);
  }

  entry(id) { return this.pending.rows.get(id) ?? null; }

  // The value that a cell would have: a base cell, null, a text, or undefined in a new row that leaves it to the table.
  value(id, at) {
    const column = this.sheet.columns[at];
    const set = this.entry(id)?.set;
    return set && Object.hasOwn(set, column.name) ? set[column.name] : this.existing.get(id)?.cells[at];
  }

  isEditable(id, at) {
    const entry = this.entry(id);
    const row = this.existing.get(id);
    if (this.sheet.columns[at].generated || entry?.op === "delete") return false;
    return entry?.op === "insert" || Boolean(row?.key && !isFixed(row.cells[at]));
  }

  // Brings lines up to date with the edits, and finds problems again.
  refresh(changed) {
    const wanted = [...this.sheet.rows.map((row) => row.id), ...this.pending.inserts()];
    const isWanted = new Set(wanted);
    for (const id of this.ids) if (!isWanted.has(id)) { this.lines.get(id).remove(); this.lines.delete(id); }
    this.ids = wanted;
    const stale = new Set([...changed, ...this.problems.keys()]);
    this.problems = findProblems(this.sheet, this.pending, this.known);
    for (const id of this.problems.keys()) stale.add(id);
    const added = [];
    for (const id of wanted) {
      if (this.lines.has(id)) continue;
      const line = element("tr", { role: "row" }, element("th", { role: "rowheader", scope: "row" }),
        ...this.sheet.columns.map(() => element("td", { role: "gridcell", tabIndex: -1 })));
      this.lines.set(id, line);
      added.push(line);
      stale.add(id);
    }
    this.table.setAttribute("aria-rowcount", String(wanted.length + 1));
    for (const id of stale) this.paint(id);
    // One insertion of finished lines: styles are found once.
    this.body.append(...added);
    this.corner = this.within(this.corner);
    this.anchor = this.within(this.anchor);
    this.mark();
    this.onrefresh?.();
  }

  paint(id) {
    const line = this.lines.get(id);
    if (!line) return;
    const entry = this.entry(id);
    const [sign, word] = { insert: ["+", "New row"], update: ["~", "Changed row"], delete: ["−", "Deleted row"] }[entry?.op] ?? ["", "Row"];
    line.className = { insert: "added", update: "changed", delete: "removed" }[entry?.op] ?? "";
    line.cells[0].replaceChildren(element("span", { className: "hidden" }, word), element("span", { "aria-hidden": "true" }, sign));
    this.sheet.columns.forEach((column, at) => {
      const cell = line.cells[at + 1];
      if (cell.classList.contains("editing")) return;
      const value = this.value(id, at);
      const problem = this.problems.get(id)?.get(column.name);
      const isChanged = entry?.op === "update" && Object.hasOwn(entry.set, column.name);
      cell.className = isNumberCell(value ?? null) || (typeof value === "string" && isNumeric(column)) ? "number" : "";
      if (value === undefined) {
        const none = column.nullable ? "NULL" : "required";
        cell.textContent = column.generated ? "generated" : column.numbered ? "automatic" : column.default ?? none;
        cell.classList.add("unset");
      } else paintValue(cell, value);
      cell.classList.toggle("dirty", isChanged);
      cell.classList.toggle("wrong-cell", Boolean(problem));
      for (const [name, holds] of [["aria-readonly", !this.isEditable(id, at)], ["aria-invalid", problem]]) {
        if (holds) cell.setAttribute(name, "true"); else cell.removeAttribute(name);
      }
      cell.title = problem ?? (isChanged ? `Was ${shownValue(entry.cells[at])}` : "");
    });
  }

  within([row, column]) {
    return [Math.max(0, Math.min(row, this.ids.length - 1)), Math.max(0, Math.min(column, this.sheet.columns.length - 1))];
  }

  cellAt([row, column]) { return this.lines.get(this.ids[row])?.cells[column + 1]; }

  range() {
    const sides = (at) => [Math.min(this.anchor[at], this.corner[at]), Math.max(this.anchor[at], this.corner[at])];
    return [sides(0), sides(1)];
  }

  mark() {
    for (const cell of this.marked ?? []) { cell.classList.remove("selected"); cell.removeAttribute("aria-selected"); cell.tabIndex = -1; }
    this.marked = [];
    const [[top, bottom], [left, right]] = this.range();
    for (let row = top; row <= bottom; row += 1) {
      for (let column = left; column <= right; column += 1) {
        const cell = this.cellAt([row, column]);
        if (!cell) continue;
        cell.classList.add("selected");
        cell.setAttribute("aria-selected", "true");
        this.marked.push(cell);
      }
    }
    const focused = this.cellAt(this.corner);
    if (focused) focused.tabIndex = 0;
  }

  select(place, extend, focus = true) {
    this.corner = this.within(place);
    if (!extend) this.anchor = this.corner;
    this.mark();
    this.describe();
    const cell = this.cellAt(this.corner);
    if (focus && cell) {
      cell.focus({ preventScroll: true });
      cell.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  // Says what the title of a cell says to people with a mouse.
  describe() {
    const [id, at] = [this.ids[this.corner[0]], this.corner[1]];
    const column = this.sheet.columns[at];
    if (!id || !column) { this.note.textContent = "This page has no rows. Add one."; return; }
    const entry = this.entry(id);
    const parts = [];
    const problem = this.problems.get(id)?.get(column.name);
    if (problem) parts.push(problem);
    if (entry?.op === "update" && Object.hasOwn(entry.set, column.name)) parts.push(`Was ${shownValue(entry.cells[at])}.`);
    if (entry?.op === "delete") parts.push("This row will be deleted.");
    else if (!this.isEditable(id, at)) {
      const cell = this.existing.get(id)?.cells[at];
      if (column.generated) parts.push("The table computes this value.");
      else if (this.sheet.key.length === 0) parts.push("The table has no primary key, so rows can only be added.");
      else if (isFixed(cell ?? null)) parts.push("Change binary and long values with the row's form, SQL or the API.");
      else parts.push("This row has no key that names it. Change it with SQL.");
    }
    this.note.textContent = `${column.name}${parts.length > 0 ? `: ${parts.join(" ")}` : ""}`;
    this.note.classList.toggle("wrong", Boolean(problem));
  }

  edit(typed) {
    const [row, at] = this.corner;
    const id = this.ids[row];
    if (!id || this.input) return;
    if (!this.isEditable(id, at)) { this.describe(); return; }
    const column = this.sheet.columns[at];
    const cell = this.cellAt(this.corner);
    const value = this.value(id, at);
    this.input = openCellInput({
      cell, column, typed, known: this.known,
      label: `${column.name}, row ${row + 1}`,
      value: value === undefined ? undefined : plainValue(value),
      placeholder: value === undefined ? column.default ?? "" : "",
      finish: (result, step) => {
        this.input = null;
        cell.classList.remove("editing");
        if (result) this.set([[id, at, result.value]]);
        this.paint(id);
        if (step) this.select([row + step[0], at + step[1]], false);
      },
    });
    this.anchor = this.corner;
    this.mark();
  }

  // Returns the steps that set cells, given as [id, column, value].
  stepsOf(cells) {
    const entries = new Map();
    for (const [id, at, value] of cells) {
      const { name } = this.sheet.columns[at];
      const row = this.existing.get(id);
      const entry = entries.get(id) ?? this.entry(id) ?? { op: "update", key: row.key, cells: row.cells, set: {} };
      const set = { ...entry.set, [name]: value };
      if (entry.op === "update" && plainValue(entry.cells[at]) === value) delete set[name];
      entries.set(id, { ...entry, set });
    }
    const isEmpty = (entry) => entry.op === "update" && Object.keys(entry.set).length === 0;
    const steps = [...entries].map(([id, entry]) => [id, isEmpty(entry) ? null : entry]);
    return steps.filter(([id, entry]) => entry || this.entry(id));
  }

  set(cells) { return this.change(this.stepsOf(cells)); }

  change(steps) {
    if (steps.length === 0) return true;
    if (this.pending.change(steps)) return true;
    this.say(`At most ${counted(this.pending.mostRows, "row", "rows")} can be changed in one commit. Commit these first.`);
    return false;
  }

  selectedIds() {
    const [[top, bottom]] = this.range();
    return this.ids.slice(top, bottom + 1);
  }

  addRow() {
    const id = this.pending.newId();
    if (this.change([[id, { op: "insert", set: {} }]])) this.select([this.ids.indexOf(id), 0], false);
  }

  duplicateRows() {
    let left = 0;
    let number = Number(this.pending.newId().slice(1));
    const steps = this.selectedIds().map((from) => {
      const set = {};
      this.sheet.columns.forEach((column, at) => {
        const value = this.value(from, at);
        if (column.generated || column.numbered || value === undefined) return;
        if (isFixed(value)) { left += 1; return; }
        set[column.name] = plainValue(value);
      });
      return [`+${number++}`, { op: "insert", set }];
    });
    if (!this.change(steps)) return;
    if (left > 0) this.say(`${counted(left, "binary or long value was", "binary or long values were")} left out of the copies.`);
    this.select([this.ids.indexOf(steps[0]?.[0]), this.corner[1]], false);
  }

  // Deletes the selected rows, or brings them back if all of them are deleted.
  deleteRows() {
    const ids = this.selectedIds();
    const isRestored = ids.every((id) => this.entry(id)?.op === "delete");
    const steps = ids.flatMap((id) => {
      const row = this.existing.get(id);
      if (this.entry(id)?.op === "insert") return [[id, null]];
      if (!row?.key) return [];
      return [[id, isRestored ? null : { op: "delete", key: row.key, cells: row.cells }]];
    });
    if (steps.length === 0) this.describe(); else if (this.change(steps)) this.select(this.corner, false);
  }

  eachSelected(use) {
    const [[top, bottom], [left, right]] = this.range();
    for (let row = top; row <= bottom; row += 1) {
      for (let at = left; at <= right; at += 1) if (this.ids[row] && this.isEditable(this.ids[row], at)) use(this.ids[row], at, row - top, at - left);
    }
  }

  // Sets the selected cells to NULL, and those that cannot be NULL to empty text unless `onlyNull`.
  clear(onlyNull) {
    const cells = [];
    this.eachSelected((id, at) => {
      const { nullable } = this.sheet.columns[at];
      if (nullable || !onlyNull) cells.push([id, at, nullable ? null : ""]);
    });
    if (cells.length === 0 && onlyNull) this.say("These cells can't be NULL."); else this.set(cells);
    this.describe();
  }

  hasFocus() { return !this.input && this.table.contains(document.activeElement); }

  onCopy(event, isCut) {
    if (!this.hasFocus()) return;
    event.preventDefault();
    const [[top, bottom], [left, right]] = this.range();
    const text = (id, at) => { const value = this.value(id, at); return value === null || value === undefined || isFixed(value) ? "" : plainValue(value); };
    const columns = Array.from({ length: right - left + 1 }, (_, at) => left + at);
    event.clipboardData.setData("text/plain", formatTsv(this.ids.slice(top, bottom + 1).map((id) => columns.map((at) => text(id, at)))));
    if (isCut) this.clear(false);
    this.say(`${counted(this.marked.length, "cell", "cells")} ${isCut ? "cut" : "copied"}.`);
  }

  onPaste(event) {
    if (!this.hasFocus()) return;
    event.preventDefault();
    const rows = parseTsv(event.clipboardData.getData("text/plain"));
    if (rows.length > 0) this.paste(rows);
  }

  paste(rows) {
    const [[top, bottom], [left, right]] = this.range();
    const width = Math.max(...rows.map((row) => row.length));
    const isFill = rows.length === 1 && width === 1 && (bottom > top || right > left);
    const valueOf = (text, at) => {
      const column = this.sheet.columns[at];
      const value = column.affinity === "text" || column.affinity === "blob" ? text : text.trim();
      if (value !== "" || !column.nullable) return value;
      return this.pastesNull || column.affinity !== "text" ? null : "";
    };
    const cells = [];
    if (isFill) {
      this.eachSelected((id, at) => cells.push([id, at, valueOf(rows[0][0], at)]));
      this.set(cells);
      this.say(`${counted(cells.length, "cell", "cells")} filled.`);
      return;
    }
    // Rows beyond the last one are new.
    const added = Math.max(0, top + rows.length - this.ids.length);
    const first = Number(this.pending.newId().slice(1));
    const inserts = new Map(Array.from({ length: added }, (_, at) => [`+${first + at}`, { op: "insert", set: {} }]));
    const ids = [...this.ids, ...inserts.keys()];
    let skipped = 0;
    let pasted = 0;
    rows.forEach((row, down) => row.forEach((text, over) => {
      const [id, at] = [ids[top + down], left + over];
      if (at >= this.sheet.columns.length) { skipped += 1; return; }
      if (inserts.has(id)) {
        if (this.sheet.columns[at].generated) { skipped += 1; return; }
        inserts.get(id).set[this.sheet.columns[at].name] = valueOf(text, at);
      } else if (this.isEditable(id, at)) cells.push([id, at, valueOf(text, at)]);
      else { skipped += 1; return; }
      pasted += 1;
    }));
    if (!this.change([...this.stepsOf(cells), ...inserts])) return;
    this.anchor = this.within([top, left]);
    this.select([top + rows.length - 1, left + width - 1], true);
    const notes = [added && `${counted(added, "row", "rows")} added`, skipped && `${counted(skipped, "cell", "cells")} left out`].filter(Boolean);
    this.say(`${counted(pasted, "cell", "cells")} pasted${notes.length > 0 ? `; ${notes.join(", ")}` : ""}.`);
  }

  // Assistive technology moves the focus by itself.
  onFocus(cell) {
    if (this.input || !cell.matches("td") || cell === this.cellAt(this.corner)) return;
    this.select([cell.parentElement.sectionRowIndex, cell.cellIndex - 1], false, false);
  }

  onClick(event) {
    // The end of an edit may move cells between the press and the click.
    const cell = this.pressed ?? event.target.closest("td");
    this.pressed = null;
    if (!cell || cell.classList.contains("editing")) return;
    const isTouch = event.pointerType ? event.pointerType === "touch" : matchMedia("(pointer: coarse)").matches;
    this.input?.commit();
    this.select([cell.parentElement.sectionRowIndex, cell.cellIndex - 1], event.shiftKey);
    if (isTouch) this.edit();
  }

  onKey(event) {
    if (this.input || event.isComposing) return;
    const isCommand = event.ctrlKey || event.metaKey;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const [row, column] = this.corner;
    const move = (place) => { event.preventDefault(); event.stopPropagation(); this.select(place, event.shiftKey && key !== "Tab"); };
    const act = (work) => { event.preventDefault(); event.stopPropagation(); work(); };
    if (isCommand && key === "z") { act(() => event.shiftKey ? this.redo() : this.undo()); return; }
    if (isCommand && key === "y") { act(() => this.redo()); return; }
    if (isCommand && key === "a") { act(() => { this.anchor = [0, 0]; this.select([this.ids.length - 1, this.sheet.columns.length - 1], true); }); return; }
    if (isCommand && key === "Home") { move([0, 0]); return; }
    if (isCommand && key === "End") { move([this.ids.length - 1, this.sheet.columns.length - 1]); return; }
    if (isCommand || event.altKey) return;
    const steps = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, this.sheet.columns.length - 1], PageUp: [row - 10, column], PageDown: [row + 10, column],
    };
    if (steps[key]) { move(steps[key]); return; }
    if (key === "Tab") {
      // Beyond the first and the last cell, Tab leaves the grid.
      const next = row * this.sheet.columns.length + column + (event.shiftKey ? -1 : 1);
      const width = this.sheet.columns.length;
      if (next >= 0 && next < this.ids.length * width) move([Math.floor(next / width), next % width]);
      return;
    }
    if (key === "Enter" || key === "F2") { act(() => this.edit()); return; }
    if (key === "Delete") { act(() => this.clear(false)); return; }
    if (key === "Backspace") { act(() => this.edit("")); return; }
    if (key === "Escape") { act(() => document.querySelector("#editor-tools button:not(:disabled)")?.focus()); return; }
    if (event.key.length === 1) act(() => this.edit(event.key));
  }

  undo() { this.repeat("undo", "Nothing to undo."); }

  redo() { this.repeat("redo", "Nothing to redo."); }

  // Selects the first row that was undone or done again. The row that has the focus may be gone.
  repeat(what, none) {
    const hadFocus = this.hasFocus();
    const changes = this.pending[what]();
    if (!changes) { this.say(none); return; }
    const at = this.ids.indexOf(changes[0].id);
    this.select(at < 0 ? this.corner : [at, this.corner[1]], false, hadFocus);
  }
}
