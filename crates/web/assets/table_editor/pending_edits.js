// Edits that are not committed yet: what they do to each row, how they are undone, and how this browser keeps them.
//
// An entry is { op: "update", key, cells, set }, { op: "delete", key, cells } or { op: "insert", set }. `cells` is the row at the base, `set`
// maps columns to new values. Entries are never changed in place, so that undoing only puts back what was there.

const KEPT = "branchyard edits ";
// Characters that are kept at most. Browsers keep about five million for a server.
const MOST_KEPT = 2_000_000;
const MOST_UNDONE = 200;

class PendingEdits {
  constructor(place) {
    this.place = place;
    this.base = null;
    this.mostRows = 10_000;
    this.rows = new Map();
    this.done = [];
    this.undone = [];
    this.isKept = true;
    this.onchange = () => {};
  }

  // The edits of other people who used this browser are removed, and never read.
  static removeOthers(person) {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(KEPT) && !key.startsWith(`${KEPT}${person} `)) localStorage.removeItem(key);
    }
  }

  prefix() {
    const { person, database, branch, table } = this.place;
    return `${KEPT}${[person, database, branch, table].map(encodeURIComponent).join(" ")} `;
  }

  // Reads what this browser kept. The key ends with the commit that was edited.
  restore() {
    try {
      PendingEdits.removeOthers(this.place.person);
      const key = Object.keys(localStorage).find((key) => key.startsWith(this.prefix()));
      if (!key) return false;
      this.adopt(key, localStorage.getItem(key));
      return this.rows.size > 0;
    } catch { return false; }
  }

  // Takes over what is kept under a key, as another tab may have written it.
  adopt(key, text) {
    this.rows = new Map(text ? JSON.parse(text) : []);
    if (text) this.base = key.slice(this.prefix().length);
    [this.done, this.undone] = [[], []];
  }

  keep() {
    try {
      const text = JSON.stringify([...this.rows]);
      this.isKept = text.length <= MOST_KEPT;
      const wanted = this.rows.size > 0 && this.isKept ? this.prefix() + this.base : null;
      const isOld = (key) => key.startsWith(this.prefix()) && key !== wanted;
      for (const key of Object.keys(localStorage)) if (isOld(key)) localStorage.removeItem(key);
      if (wanted) localStorage.setItem(wanted, text);
    } catch { this.isKept = false; }
  }

  put(changes, side) {
    for (const change of changes) {
      const entry = change[side];
      if (entry) this.rows.set(change.id, entry); else this.rows.delete(change.id);
    }
    this.keep();
    this.onchange(changes.map((change) => change.id));
  }

  // Applies [id, entry or null] for each row, as one step. Returns false if there would be too many rows.
  change(steps) {
    const changes = steps.map(([id, after]) => ({ id, before: this.rows.get(id) ?? null, after }));
    const added = changes.filter((change) => !change.before && change.after).length;
    if (this.rows.size + added > this.mostRows) return false;
    this.done.push(changes);
    if (this.done.length > MOST_UNDONE) this.done.shift();
    this.undone = [];
    this.put(changes, "after");
    return true;
  }

  undo() {
    const changes = this.done.pop();
    if (!changes) return null;
    this.undone.push(changes);
    this.put(changes, "before");
    return changes;
  }

  redo() {
    const changes = this.undone.pop();
    if (!changes) return null;
    this.done.push(changes);
    this.put(changes, "after");
    return changes;
  }

  // Goes on from another commit, with these entries. What was done before cannot be undone there.
  rebase(base, rows) {
    [this.base, this.rows, this.done, this.undone] = [base, rows, [], []];
    this.keep();
  }

  newId() {
    return `+${1 + Math.max(0, ...[...this.rows.keys()].filter((id) => id.startsWith("+")).map((id) => Number(id.slice(1))))}`;
  }

  inserts() {
    const ids = [...this.rows.keys()].filter((id) => this.rows.get(id).op === "insert");
    return ids.sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
  }

  counts() {
    const counts = { insert: 0, update: 0, delete: 0 };
    for (const { op } of this.rows.values()) counts[op] += 1;
    return counts;
  }

  // Returns the ids in the order in which they are sent: what is deleted first makes room for the keys of new rows.
  order() {
    const rank = { delete: 0, update: 1, insert: 2 };
    const ids = [...this.rows.keys()].filter((id) => this.rows.get(id).op !== "insert");
    return [...ids.sort((a, b) => rank[this.rows.get(a).op] - rank[this.rows.get(b).op]), ...this.inserts()];
  }
}
