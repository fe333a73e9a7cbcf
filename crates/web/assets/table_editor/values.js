// Values of cells. The server sends null, a text, { n } for a number, and { blob } or { cut } for what cannot be edited in the grid.
// What is typed is null or a text; the type of the column decides what is stored, as in SQL.

const isFixed = (cell) => cell !== null && typeof cell === "object" && cell.n === undefined;
const isNumberCell = (cell) => cell !== null && typeof cell === "object" && cell.n !== undefined;
const plainValue = (cell) => isNumberCell(cell) ? cell.n : cell;
const shownValue = (cell) => {
  if (cell === null) return "NULL";
  if (typeof cell === "string") return cell;
  if (cell.absent) return "no row";
  return cell.n ?? cell.blob ?? `${cell.cut}…`;
};

const isNumeric = (column) => column.affinity === "integer" || column.affinity === "real";
const isNumberText = (text) => /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text.trim());
const isIntegerText = (text) => isNumberText(text) && Number.isInteger(Number(text));

// Returns the value as JSON, so that the server stores and compares it as it was shown.
const wireNumber = (text) => {
  const number = Number(text);
  const isExact = Number.isFinite(number) && (!Number.isInteger(number) || Number.isSafeInteger(number));
  return isExact ? number : text;
};
const wireKey = (cell) => isNumberCell(cell) ? wireNumber(cell.n) : cell;
const wireValue = (column, value, old) => {
  // A column without a type keeps texts and numbers apart: a number stays one.
  const staysNumber = column.affinity === "blob" && value !== null && isNumberCell(old ?? null) && isNumberText(value);
  return staysNumber ? wireNumber(value) : value;
};

// Values that are compared without regard to their spelling, as a foreign key of this type compares them.
const folded = (text) => isNumberText(text) ? String(Number(text)) : text.toLowerCase();

// Ranges of cells as spreadsheets copy them: lines of cells between tabs, quoted if they have tabs, quotes or line ends.
const parseTsv = (text) => {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"(?=[\t\r\n]|$)|([^\t\r\n]*))(\t|\r\n|\n|\r|$)/g)) {
    rows.at(-1).push(quoted?.replaceAll('""', '"').replaceAll("\r\n", "\n") ?? plain);
    if (end === "") break;
    if (end !== "\t") rows.push([]);
  }
  // The last line ends with a line end, too.
  if (text === "" || /[\r\n]$/.test(text)) rows.pop();
  return rows;
};
const formatTsv = (rows) => rows.map((row) => row.map((text) => /[\t\r\n"]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text).join("\t")).join("\n");
