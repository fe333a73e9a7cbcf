// Cells that somebody else changed since they were read: three values of each, and the choice between them.

const REPLACED = "theirs";
const HELD = "mine";
const OTHER = "other";

// What happened to the row: "gone", "changed" (a row that is deleted here), "exists" (a new row here), or "cells".
const kindOfConflict = (entry, cells) => {
  if (entry.op === "delete") return "changed";
  if (entry.op === "insert") return "exists";
  return cells.every((cell) => cell.theirs?.absent) ? "gone" : "cells";
};

class Conflicts {
  constructor(sheet, pending, ids, found) {
    [this.sheet, this.pending] = [sheet, pending];
    this.rows = new Map();
    for (const conflict of found) {
      const id = ids[conflict.row];
      if (!this.rows.has(id)) this.rows.set(id, []);
      this.rows.get(id).push(conflict);
    }
  }

  choice(name, legend, options) {
    const group = element("fieldset", { className: "conflict-choice" }, element("legend", { className: "hidden" }, legend));
    for (const [value, label] of options) {
      group.append(element("label", { className: "choice" }, element("input", { type: "radio", name, value }), " ", element("span", {}, label)));
    }
    return group;
  }

  // Returns the choices. Nothing is chosen at first.
  view() {
    const parts = [];
    let number = 0;
    this.choices = [];
    for (const [id, cells] of this.rows) {
      const entry = this.pending.rows.get(id);
      const kind = kindOfConflict(entry, cells);
      const label = rowLabel(this.sheet, this.pending, id);
      const heads = element("tr", {}, ...["Column", "Base", "Theirs", "Mine"].map((text) => element("th", { scope: "col" }, text)));
      const lines = cells.flatMap((cell) => {
        const line = element("tr", {}, element("th", { scope: "row" }, cell.column),
          ...[cell.base, cell.theirs, cell.mine].map((value) => paintValue(element("td"), value)));
        if (kind === "gone" || kind === "changed") return [line];
        const group = this.choice(`conflict-${number}`, `${label}, ${cell.column}`, [[REPLACED, "Theirs"], [HELD, "Mine"], [OTHER, "Other"]]);
        const other = element("input", { className: "conflict-other", "aria-label": `Other value of ${cell.column}, ${label}`, autocomplete: "off" });
        other.addEventListener("input", () => { group.querySelector(`[value=${OTHER}]`).checked = true; });
        group.append(other);
        this.choices.push({ id, kind, cell, group, other });
        number += 1;
        return [line, element("tr", {}, element("td", { colSpan: 4 }, group))];
      });
      const text = {
        cells: "Someone else changed this row.", exists: "Someone else added a row with this key.",
        gone: "Someone else deleted this row.", changed: "Someone else changed this row, which you deleted.",
      }[kind];
      const section = element("section", { className: "conflict-row", "aria-label": label },
        element("h3", {}, label), element("p", { className: "small" }, text),
        element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `Values of ${label}` },
          element("table", { className: "grid" }, element("thead", {}, heads), element("tbody", {}, ...lines))));
      if (kind === "gone" || kind === "changed") {
        const isWhole = kind === "changed" || entry.cells.every((cell) => !isFixed(cell));
        const options = kind === "gone"
          ? [[REPLACED, "Leave it deleted"], ...(isWhole ? [[HELD, "Add it again with my values"]] : [])]
          : [[REPLACED, "Keep their row"], [HELD, "Delete it"]];
        const group = this.choice(`conflict-${number}`, label, options);
        this.choices.push({ id, kind, cell: null, group });
        section.append(group);
        number += 1;
      }
      parts.push(section);
    }
    return parts;
  }

  // Returns the edits that follow from the choices. `null` if something is not chosen yet.
  resolved() {
    const rows = new Map(this.pending.rows);
    for (const { id, kind, cell, group, other } of this.choices) {
      const chosen = group.querySelector("[type=radio]:checked")?.value;
      if (!chosen) return null;
      const entry = rows.get(id);
      if (kind === "gone" || kind === "changed") {
        if (chosen === REPLACED) rows.delete(id);
        else if (kind === "gone") {
          rows.delete(id);
          const cells = this.sheet.columns.map((column, at) => [column, entry.cells[at]]).filter(([column]) => !column.generated);
          const set = { ...Object.fromEntries(cells.map(([column, value]) => [column.name, plainValue(value)])), ...entry.set };
          const last = Math.max(0, ...[...rows.keys()].filter((id) => id.startsWith("+")).map((id) => Number(id.slice(1))));
          rows.set(`+${last + 1}`, { op: "insert", set });
        }
        continue;
      }
      const set = { ...entry.set };
      if (chosen === REPLACED) delete set[cell.column];
      if (chosen === OTHER) set[cell.column] = other.value;
      const at = this.sheet.columns.findIndex((column) => column.name === cell.column);
      const cells = [...(entry.cells ?? this.sheet.columns.map((column) => entry.set[column.name] ?? null))];
      if (at >= 0) cells[at] = cell.theirs;
      rows.set(id, { ...entry, set, cells });
    }
    return this.withExisting(rows);
  }

  // New rows whose key exists now become changes of that row; what was left as it is becomes none.
  withExisting(rows) {
    const all = new Map();
    for (const [id, entry] of rows) {
      const isExisting = entry.op === "insert" && entry.cells;
      if (!isExisting) {
        if (entry.op !== "update" || Object.keys(entry.set).length > 0) all.set(id, entry);
        continue;
      }
      const values = this.sheet.key.map((name) => entry.set[name]);
      const asked = new Set(this.rows.get(id).map((cell) => cell.column));
      const set = Object.fromEntries(Object.entries(entry.set).filter(([name]) => asked.has(name) && !this.sheet.key.includes(name)));
      const key = Object.fromEntries(this.sheet.key.map((name, at) => [name, values[at]]));
      if (Object.keys(set).length > 0) all.set(JSON.stringify(values), { op: "update", key, cells: entry.cells, set });
    }
    return all;
  }
}
