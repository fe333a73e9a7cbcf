// Changes as tables of old and new values, with the looks of a comparison of two commits.

const MOST_SHOWN = 100;

const changedCell = (before, after, isNumber) => {
  const cell = element("td", { className: isNumber ? "number" : "" });
  const plain = (value) => value === undefined
    ? element("span", { className: "unset" }, "default") : paintValue(element("span", { className: "cell" }), value);
  const shown = (tag, value) => element(tag, {}, plain(value));
  if (before && after && JSON.stringify(before.value) === JSON.stringify(after.value)) cell.append(plain(after.value));
  else {
    if (before) cell.append(shown("del", before.value), " ");
    if (after) cell.append(shown("ins", after.value));
    if (before && after) cell.classList.add("differs");
  }
  return cell;
};

// `rows` are { kind, from, to }, with the values of the columns on both sides.
const changesTable = (label, columns, rows) => {
  const signs = { added: "+", removed: "−", changed: "~" };
  const isOfNumbers = (at) => rows.every(({ from, to }) => [from, to].every((side) => !side || side[at] === null || isNumberCell(side[at] ?? null)));
  const body = rows.map(({ kind, from, to }) => element("tr", { className: kind },
    element("td", { className: "sign" }, element("span", { className: "hidden" }, kind), element("span", { "aria-hidden": "true" }, signs[kind])),
    ...columns.map((name, at) => changedCell(from && { value: from[at] }, to && { value: to[at] }, isOfNumbers(at)))));
  return element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label }, element("table", { className: "grid" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, element("span", { className: "hidden" }, "Change")),
      ...columns.map((name, at) => element("th", { scope: "col", className: isOfNumbers(at) ? "number" : "" }, name)))), element("tbody", {}, ...body)));
};

// The edits as they are typed.
const typedChanges = (sheet, pending) => {
  const columns = sheet.columns.map((column) => column.name);
  const rows = pending.order().slice(0, MOST_SHOWN).map((id) => {
    const entry = pending.rows.get(id);
    const from = entry.cells && entry.cells.map(plainValue);
    const to = columns.map((name, at) => entry.set && Object.hasOwn(entry.set, name) ? entry.set[name] : from?.[at]);
    return {
      insert: { kind: "added", from: null, to }, update: { kind: "changed", from, to }, delete: { kind: "removed", from, to: null },
    }[entry.op];
  });
  const parts = [changesTable("Changes", columns, rows)];
  const more = pending.rows.size - MOST_SHOWN;
  if (more > 0) parts.push(element("p", { className: "soft small" }, `${counted(more, "more row is", "more rows are")} not shown.`));
  return parts;
};

// The changes that the server found when it tried the edits, of all tables: triggers and foreign keys may change others, too.
const triedChanges = (tables) => tables.flatMap((table) => [
  element("h3", {}, table.table, element("span", { className: "counts" }, ` +${table.added} −${table.removed} ~${table.changed}`)),
  changesTable(`Changes of ${table.table}`, table.columns, table.rows),
  table.more ? element("p", { className: "soft small" }, "More rows change than are shown.") : null,
].filter(Boolean));

const rowLabel = (sheet, pending, id) => {
  const entry = pending.rows.get(id);
  if (!entry || entry.op === "insert") {
    const key = sheet.key.map((name) => entry?.set[name]).filter((value) => value !== undefined && value !== null);
    return key.length > 0 ? `New row ${key.join(", ")}` : "New row";
  }
  return sheet.key.map((name) => `${name} ${entry.key[name]}`).join(", ");
};
