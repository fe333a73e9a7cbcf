// Which values of a column exist in the table that it refers to, or in its own table, as far as the server was asked.

// Values that one request asks for, and requests at once. More values are left to the check before the commit.
const ASKED_AT_ONCE = 50;
const MOST_ASKED = 1000;

class KnownValues {
  constructor(onknown) {
    this.onknown = onknown;
    this.columns = new Map();
    this.timer = null;
  }

  column(address, name) {
    const key = `${address}&of=${encodeURIComponent(name)}`;
    if (!this.columns.has(key)) this.columns.set(key, { known: new Map(), wanted: new Set(), asked: 0 });
    return [key, this.columns.get(key)];
  }

  // Returns whether the value exists. `undefined` if that is not known; the server is asked then, if it was not before.
  has(address, name, value) {
    const [, column] = this.column(address, name);
    if (column.known.has(value)) return column.known.get(value);
    if (column.asked + column.wanted.size < MOST_ASKED) {
      column.wanted.add(value);
      this.timer ??= setTimeout(() => this.ask(), 150);
    }
    return undefined;
  }

  async ask() {
    this.timer = null;
    for (const [key, column] of this.columns) {
      const wanted = [...column.wanted];
      column.wanted.clear();
      column.asked += wanted.length;
      // Each value is asked for once, whether or not there is an answer.
      for (const value of wanted) column.known.set(value, undefined);
      for (let at = 0; at < wanted.length; at += ASKED_AT_ONCE) {
        const some = wanted.slice(at, at + ASKED_AT_ONCE);
        try {
          const answer = await fetch(key + some.map((value) => `&is=${encodeURIComponent(value)}`).join(""));
          if (!answer.ok) continue;
          const { values } = await answer.json();
          const found = new Set(values.map(([value]) => folded(value)));
          for (const value of some) column.known.set(value, found.has(folded(value)));
        } catch { /* The check before the commit says what is wrong. */ }
      }
    }
    this.onknown();
  }

  async choices(address, name, text) {
    const [key, column] = this.column(address, name);
    const answer = await fetch(`${key}&text=${encodeURIComponent(text)}`);
    if (!answer.ok) return { values: [], more: false };
    const found = await answer.json();
    for (const [value] of found.values) column.known.set(value, true);
    return found;
  }
}
