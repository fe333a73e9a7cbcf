// What the page can say about edits before anything is sent: types, NOT NULL, keys that are there already, and references to nothing.
// CHECK constraints, triggers and everything else are tried by the server before a commit.

const problemOfType = (column, value) => {
  if (value === null || value === undefined) return null;
  if (column.affinity === "integer" && !isIntegerText(value)) return value === "" ? "Enter a whole number, or NULL." : "Enter a whole number.";
  const wantsNumber = column.affinity === "real" || /^(numeric|decimal|number)/i.test(column.type);
  if (wantsNumber && !isNumberText(value)) return value === "" ? "Enter a number, or NULL." : "Enter a number.";
  return null;
};

const problemOfNull = (column, entry, value) => {
  if (column.nullable || column.generated) return null;
  if (value === undefined) return entry.op === "insert" && column.default === null && !column.numbered ? "This column needs a value." : null;
  return value === null && !(column.numbered && entry.op === "insert") ? "This column can't be NULL." : null;
};

// The problems of all rows: id → column → text.
const findProblems = (sheet, pending, known) => {
  const problems = new Map();
  const report = (id, column, text) => {
    if (!problems.has(id)) problems.set(id, new Map());
    if (!problems.get(id).has(column)) problems.get(id).set(column, text);
  };
  for (const [id, entry] of pending.rows) {
    if (entry.op === "delete") continue;
    for (const column of sheet.columns) {
      const value = entry.set[column.name];
      const text = problemOfNull(column, entry, value) ?? problemOfType(column, value);
      if (text) report(id, column.name, text);
      else if (column.refers && value !== null && value !== undefined) {
        const { table, choices, column: name } = column.refers;
        const isOwn = table === sheet.table && [...pending.rows.values()].some((other) => other.op !== "delete" && other.set[name] === value);
        if (!isOwn && known.has(choices, name, value) === false) report(id, column.name, `${table} has no row with ${name} ${value}.`);
      }
    }
  }
  const unique = [sheet.key, ...sheet.unique.map((name) => [name])].filter((names) => names.length > 0);
  for (const names of unique) findDuplicates(sheet, pending, known, names, report);
  return problems;
};

const findDuplicates = (sheet, pending, known, names, report) => {
  const places = names.map((name) => sheet.columns.findIndex((column) => column.name === name));
  const valueAt = (cells, entry, at) => {
    const value = entry?.set?.[names[at]];
    return value !== undefined ? value : cells ? plainValue(cells[places[at]]) : undefined;
  };
  const keyOf = (cells, entry) => {
    const values = names.map((_, at) => valueAt(cells, entry, at));
    const isWhole = values.every((value) => typeof value === "string");
    return isWhole ? JSON.stringify(values.map((value, at) => sheet.columns[places[at]].affinity === "text" ? value : folded(value))) : null;
  };
  const owners = new Map();
  for (const row of sheet.rows) {
    const entry = pending.rows.get(row.id);
    if (entry?.op === "delete" || names.some((name) => entry?.set?.[name] !== undefined)) continue;
    const key = keyOf(row.cells, entry);
    if (key) owners.set(key, row.id);
  }
  // Keys of rows at the base that are deleted, or get another key.
  const freed = new Set();
  for (const entry of pending.rows.values()) {
    const isFreed = entry.cells && (entry.op === "delete" || names.some((name) => entry.set[name] !== undefined));
    if (isFreed) freed.add(keyOf(entry.cells, null));
  }
  for (const [id, entry] of pending.rows) {
    if (entry.op === "delete" || !names.some((name) => entry.set[name] !== undefined)) continue;
    const key = keyOf(entry.cells, entry);
    if (!key) continue;
    const label = names.map((name, at) => `${name} ${valueAt(entry.cells, entry, at)}`).join(", ");
    if (owners.has(key)) report(id, names[0], `Another row has ${label}.`);
    else if (names.length === 1 && !freed.has(key) && known.has(sheet.choices, names[0], valueAt(entry.cells, entry, 0))) {
      report(id, names[0], `Another row has ${label}.`);
    }
    owners.set(key, id);
  }
};
