// The dialog before a commit: what changes, what the server says about it, where it goes, and conflicts with what others did meanwhile.

class ReviewDialog {
  constructor(editor) {
    this.editor = editor;
    const { branch } = editor.place;
    this.title = element("h2", { id: "review-title" });
    this.status = element("div", { id: "review-status", role: "status" });
    this.list = element("div", { id: "review-changes" });
    const target = (value, label, checked) => element("label", { className: "choice" },
      element("input", { type: "radio", name: "target", value, checked }), " ", element("span", {}, label));
    this.name = element("input", { id: "review-branch", autocomplete: "off", spellcheck: false, maxLength: 250 });
    this.nameField = element("div", { className: "field", hidden: true }, element("label", { for: "review-branch" }, "New branch"), this.name);
    this.message = element("input", { id: "review-message", autocomplete: "off", maxLength: 2000, "aria-describedby": "review-message-hint" });
    this.commit = element("button", { type: "submit", className: "primary", id: "review-commit" });
    this.resolve = element("button", { type: "button", id: "review-resolve", className: "primary", hidden: true }, "Use these values");
    const cancel = element("button", { type: "button", id: "review-cancel" }, "Back to the grid");
    this.form = element("form", { id: "review-form" },
      element("fieldset", { id: "review-target" }, element("legend", {}, "Commit to"), target("branch", branch, true),
        target("new", "A new branch", false), target("pull", "A new branch, then open a pull request", false)),
      this.nameField,
      element("div", { className: "field" }, element("label", { for: "review-message" }, "Commit message"), this.message,
        element("p", { className: "hint", id: "review-message-hint" }, "Leave empty to name the table.")),
      element("p", { className: "actions" }, this.commit, this.resolve, cancel));
    this.dialog = element("dialog", { id: "review-dialog", className: "review-dialog", "aria-labelledby": "review-title" },
      this.title, this.status, this.list, this.form);
    cancel.addEventListener("click", () => this.dialog.close());
    this.resolve.addEventListener("click", () => this.useChoices());
    this.form.addEventListener("change", () => this.paintTarget());
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    this.dialog.addEventListener("close", () => editor.grid.select(editor.grid.corner, false));
    document.body.append(this.dialog);
  }

  target() { return this.form.elements.target.value; }

  paintTarget() {
    const isNew = this.target() !== "branch";
    this.nameField.hidden = !isNew;
    this.name.required = isNew;
    this.commit.textContent = {
      branch: `Commit to ${this.editor.place.branch}`, new: "Commit to the new branch", pull: "Commit and open a pull request",
    }[this.target()];
  }

  open() {
    this.paintTarget();
    this.dialog.showModal();
    this.check();
  }

  say(text, kind) {
    this.status.replaceChildren(element("p", { className: kind === "bad" ? "alert" : "soft" }, text));
  }

  // Returns the request: the edits in the order of `ids`.
  request(more) {
    const { pending, grid } = this.editor;
    const columns = new Map(grid.sheet.columns.map((column, at) => [column.name, { column, at }]));
    const rows = this.ids.map((id) => {
      const entry = pending.rows.get(id);
      const set = entry.set && Object.fromEntries(Object.entries(entry.set).map(([name, value]) => {
        const { column, at } = columns.get(name) ?? { column: { affinity: "" }, at: -1 };
        return [name, wireValue(column, value, entry.cells?.[at])];
      }));
      return { insert: { op: "insert", set }, update: { op: "update", key: entry.key, set }, delete: { op: "delete", key: entry.key } }[entry.op];
    });
    return { branch: this.editor.place.branch, base: pending.base, rows, ...more };
  }

  async post(path, body) {
    const headers = { "content-type": "application/json", "x-csrf-token": document.querySelector("meta[name=csrf-token]").content };
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    if (answer.headers.get("content-type")?.startsWith("application/json")) return answer.json();
    const texts = {
      403: "You signed in or out in another tab, or can no longer write here. Your changes are kept in this browser: reload the page and sign in again.",
      404: "The table or the database is not here any more.",
      413: "The changes are too large for one commit. Undo some, commit the rest, and go on.",
      429: "Too many requests. Wait a moment and try again.",
      503: "The server is busy. Try again in a moment.",
    };
    return { status: "failed", error: texts[answer.status] ?? `The server could not do this (HTTP ${answer.status}). Your changes are kept.` };
  }

  // Tries the edits on the server, which keeps nothing.
  async check() {
    const { pending, grid } = this.editor;
    this.ids = pending.order();
    this.conflicts = null;
    [this.commit.disabled, this.commit.hidden, this.resolve.hidden] = [true, false, true];
    this.title.textContent = `Review ${counted(pending.rows.size, "row", "rows")}`;
    this.list.replaceChildren(...typedChanges(grid.sheet, pending));
    if (grid.problems.size > 0) {
      this.showProblems([...grid.problems].flatMap(([id, columns]) => [...columns].map(([column, detail]) => ({ id, column, detail }))));
      return;
    }
    this.say("Checking the changes…");
    let found;
    try {
      found = await this.post(`${this.editor.place.edits}/check`, this.request({}));
    } catch {
      found = { status: "failed", error: "The server can't be reached. Your changes are kept in this browser." };
    }
    if (!this.dialog.open) return;
    this.head = found.head;
    const problems = (found.problems ?? []).map((problem) => ({ ...problem, id: problem.row === null ? null : this.ids[problem.row] }));
    if (found.status === "ok") {
      this.say(found.tables.length > 0 ? "Checked. Nothing is committed yet." : "Checked: the branch has these values already.");
      if (found.tables.length > 0) this.list.replaceChildren(...triedChanges(found.tables));
      this.commit.disabled = false;
    } else if (found.status === "conflicts") this.showConflicts(found.conflicts);
    else if (found.status === "unchecked") {
      this.say(`These changes could not be checked: ${found.error} You can still commit them; a change that is not allowed fails then, and nothing is lost.`, "bad");
      this.commit.disabled = false;
    } else if (problems.length > 0) this.showProblems(problems);
    else this.say(found.error, "bad");
  }

  showProblems(problems) {
    const { grid, pending } = this.editor;
    const shown = problems.slice(0, 20);
    const line = ({ id, column, detail }) => {
      const label = [id === null ? "All rows together" : rowLabel(grid.sheet, pending, id), column].filter(Boolean).join(", ");
      const item = element("li", {}, element("strong", {}, label), `: ${detail} `);
      const [row, at] = [grid.ids.indexOf(id), grid.sheet.columns.findIndex((one) => one.name === column)];
      if (row >= 0) {
        const go = element("button", { type: "button", className: "small" }, "Go to cell");
        go.addEventListener("click", () => { this.dialog.close(); grid.select([row, Math.max(at, 0)], false); });
        item.append(go);
      }
      return item;
    };
    const more = problems.length - shown.length;
    this.status.replaceChildren(element("div", { className: "alert", role: "alert" },
      element("p", {}, element("strong", {}, `${counted(problems.length, "problem", "problems")} to fix before you commit.`)),
      element("ul", { id: "review-problems" }, ...shown.map(line)), more > 0 ? element("p", { className: "small" }, `And ${more} more.`) : null));
  }

  showConflicts(found) {
    const { grid, pending } = this.editor;
    this.conflicts = new Conflicts(grid.sheet, pending, this.ids, found);
    this.title.textContent = "Someone else changed these rows";
    this.say("Choose which value stays. Nothing is committed yet, and nothing of theirs is lost until you commit.", "bad");
    this.list.replaceChildren(...this.conflicts.view());
    [this.commit.hidden, this.resolve.hidden] = [true, false];
  }

  // Goes on from the commit that has the values of the others, and checks again.
  async useChoices() {
    const rows = this.conflicts.resolved();
    if (!rows) { this.say("Choose a value for each cell first.", "bad"); return; }
    const { editor } = this;
    editor.pending.rebase(this.head, rows);
    await editor.load();
    if (rows.size === 0) { this.dialog.close(); editor.say("You kept their values. There is nothing left to commit."); return; }
    this.check();
  }

  async send() {
    const { editor } = this;
    if (this.commit.disabled || !this.form.reportValidity()) return;
    this.commit.disabled = true;
    this.say("Committing…");
    const kind = this.target();
    const branch = this.name.value.trim();
    const more = { ...(kind === "branch" ? {} : { to_branch: branch }), ...(this.message.value.trim() ? { message: this.message.value } : {}) };
    let ended;
    try {
      ended = await this.post(editor.place.edits, this.request(more));
    } catch {
      ended = { status: "failed", error: "The connection was lost. The changes may have been committed: look at the commits before you send them again." };
    }
    if (ended.status === "committed") { editor.committed(kind, branch, ended); return; }
    if (ended.status === "running") {
      this.status.replaceChildren(element("p", { className: "alert" }, "The commit still runs. Your changes are kept here until it has ended: ",
        element("a", { href: ended.operation, id: "review-operation" }, "follow the operation"), " before you send them again."));
      return;
    }
    // What others did since the check is compared by another one.
    if (ended.is_conflict) { this.check(); return; }
    const problems = (ended.problems ?? []).map((problem) => ({ ...problem, id: problem.row === null ? null : this.ids[problem.row] }));
    if (problems.length > 0) this.showProblems(problems); else this.say(ended.error, "bad");
    this.commit.disabled = false;
  }
}
