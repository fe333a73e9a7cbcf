// Offers to edit the table of the page, and puts the grid, its tools and the dialog together.

class TableEditor {
  constructor(root) {
    this.root = root;
    this.place = { ...root.dataset };
    this.pending = new PendingEdits(this.place);
    this.grid = new EditGrid(this.pending, (text) => this.say(text));
    this.hasCommitted = false;
    this.pending.onchange = (ids) => {
      if (!this.grid.sheet) return;
      this.say("");
      this.grid.refresh(ids);
    };
    this.grid.onrefresh = () => this.paintTools();
    this.button = element("button", { type: "button", className: "button", id: "edit-table" }, "Edit");
    this.button.addEventListener("click", () => this.start());
    document.querySelector("#add-row").before(this.button, " ");
    const isKept = this.pending.restore();
    if (isKept || location.hash === "#edit") this.start();
    // Another tab of this person edits the same table.
    addEventListener("storage", (event) => {
      if (!this.grid.sheet || !event.key?.startsWith(this.pending.prefix())) return;
      this.pending.adopt(event.key, event.newValue);
      this.load();
    });
    addEventListener("beforeunload", (event) => { if (!this.pending.isKept && this.pending.rows.size > 0) event.preventDefault(); });
  }

  say(text) { this.message.textContent = text; }

  tool(id, label, work) {
    const button = element("button", { type: "button", id }, label);
    button.addEventListener("click", work);
    return button;
  }

  async start() {
    this.button.disabled = true;
    if (!this.status) this.build();
    this.root.hidden = false;
    document.getElementById("rows").closest(".scroll").hidden = true;
    for (const part of document.querySelectorAll(".grid-options, #add-row")) part.hidden = true;
    this.button.hidden = true;
    // The other pages of the table open for editing, too.
    for (const link of document.querySelectorAll(".grid-tools a, .filters a, #filters a")) link.hash = "edit";
    history.replaceState(null, "", "#edit");
    await this.load();
    if (this.grid.sheet) this.grid.select(this.grid.corner, false);
  }

  build() {
    const { grid, pending } = this;
    this.status = element("span", { id: "edit-status", role: "status" });
    this.message = element("span", { id: "edit-message", role: "status" });
    this.review = this.tool("review-edits", "Review and commit", () => this.openReview());
    this.review.className = "primary";
    this.undo = this.tool("edit-undo", "Undo", () => grid.undo());
    this.redo = this.tool("edit-redo", "Redo", () => grid.redo());
    this.remove = this.tool("edit-delete", "Delete row", () => grid.deleteRows());
    this.discard = this.tool("edit-discard", "Discard all", () => {
      pending.change([...pending.rows.keys()].map((id) => [id, null]));
      this.say("All changes are discarded. Undo brings them back.");
      if (!grid.sheet) this.load();
    });
    const option = (value, label) => element("option", { value }, label);
    const empty = element("select", { id: "paste-empty" }, option("null", "NULL"), option("text", "empty text"));
    empty.addEventListener("change", () => { grid.pastesNull = empty.value === "null"; });
    this.tools = element("div", { className: "editor-tools", id: "editor-tools", role: "group", "aria-label": "Edit rows" },
      this.tool("edit-add", "Add row", () => grid.addRow()), this.tool("edit-duplicate", "Duplicate", () => grid.duplicateRows()),
      this.remove, this.tool("edit-null", "Set NULL", () => grid.clear(true)), this.undo, this.redo,
      element("label", { className: "small", for: "paste-empty" }, "Paste empty cells as ", empty), this.discard, this.review,
      this.tool("edit-done", "Close", () => this.close()));
    const keys = element("p", { className: "soft small edit-keys" }, "Type to replace a cell, F2 or Enter to edit it, Delete for NULL, ",
      "Ctrl+Z to undo, Ctrl+V to paste a range. Escape leaves the grid.");
    const lines = element("p", { className: "small soft edit-lines" }, this.status, " ", this.message);
    this.root.replaceChildren(this.tools, lines, element("div", { className: "scroll box" }, grid.table), grid.note, keys);
    this.dialog = new ReviewDialog(this);
  }

  // Reads the rows of the page: at the commit that the edits are based on, if there are edits.
  async load() {
    const address = new URL(this.place.sheet, location.href);
    if (this.pending.rows.size > 0) address.searchParams.set("base", this.pending.base);
    let sheet = null;
    let isGone = false;
    try {
      const answer = await fetch(address, { headers: { accept: "application/json" } });
      isGone = answer.status === 404;
      if (answer.ok && answer.headers.get("content-type")?.startsWith("application/json")) sheet = await answer.json();
    } catch { /* Said below. */ }
    const buttons = [...this.tools.querySelectorAll("button")];
    for (const button of buttons) button.disabled = !sheet && !["edit-discard", "edit-done"].includes(button.id);
    if (!sheet) {
      this.say(isGone && this.pending.rows.size > 0
        ? "The version that you edited is not here any more. Discard your changes to go on."
        : "The rows could not be read. Reload the page to try again; your changes are kept in this browser.");
      return;
    }
    this.pending.base = sheet.base;
    this.pending.mostRows = sheet.most_rows;
    this.grid.show(sheet);
  }

  paintTools() {
    const { pending, grid } = this;
    const counts = pending.counts();
    const count = pending.rows.size;
    this.review.textContent = count > 0 ? `Review and commit (${count})` : "Review and commit";
    this.review.disabled = this.discard.disabled = count === 0;
    this.undo.disabled = pending.done.length === 0;
    this.redo.disabled = pending.undone.length === 0;
    const hasKey = grid.sheet.key.length > 0;
    this.remove.disabled = !hasKey && counts.insert === 0;
    const words = [counts.update && `${counts.update} changed`, counts.insert && `${counts.insert} added`, counts.delete && `${counts.delete} deleted`].filter(Boolean);
    const cells = [...grid.problems.values()].reduce((sum, columns) => sum + columns.size, 0);
    const notes = [
      count === 0 ? "Nothing is changed yet." : `${words.join(", ")}.`,
      cells > 0 && `${counted(cells, "cell needs", "cells need")} attention.`,
      !pending.isKept && "These changes are too large to be kept when you close this page: commit soon.",
      grid.sheet.head !== grid.sheet.base && `${grid.sheet.branch} has moved since you began; your changes are compared with it before you commit.`,
    ];
    this.status.textContent = notes.filter(Boolean).join(" ");
    this.status.classList.toggle("wrong", cells > 0);
  }

  openReview() {
    this.grid.input?.commit();
    this.dialog.open();
  }

  // Goes on after a commit.
  async committed(kind, branch, { short }) {
    this.pending.rebase(null, new Map());
    this.hasCommitted = true;
    this.dialog.message.value = "";
    if (kind === "pull") {
      location.assign(`${this.grid.sheet.pulls}?${new URLSearchParams({ from: branch, to: this.place.branch })}`);
      return;
    }
    if (kind === "new") { location.assign(`${this.place.path}?${new URLSearchParams({ ref: branch })}`); return; }
    this.dialog.dialog.close();
    await this.load();
    this.say(`Committed to ${this.place.branch} as ${short}.`);
  }

  // Shows the page as before. Edits stay until they are committed or discarded.
  close() {
    history.replaceState(null, "", location.pathname + location.search);
    if (this.hasCommitted) { location.reload(); return; }
    this.root.hidden = true;
    document.getElementById("rows").closest(".scroll").hidden = false;
    for (const part of document.querySelectorAll(".grid-options, #add-row")) part.hidden = false;
    [this.button.hidden, this.button.disabled] = [false, false];
    this.button.textContent = this.pending.rows.size > 0 ? `Edit (${this.pending.rows.size} pending)` : "Edit";
    this.button.focus();
  }
}

new TableEditor(document.getElementById("table-editor"));
