//! Editing a table in the grid: typing, ranges, rows, problems, commits, and what others did meanwhile.

use std::time::Instant;

use branchyard_testkit::{Actor, Server};
use serde_json::{Value, json};

use super::chromium::{Chromium, JavaScript, Theme};
use super::flows::{at_work, start};

const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";
const ESCAPE: &str = "\u{e00c}";
const BACKSPACE: &str = "\u{e003}";
const DELETE: &str = "\u{e017}";
const CONTROL: &str = "\u{e009}";
const SHIFT: &str = "\u{e008}";
const F2: &str = "\u{e032}";
const DOWN: &str = "\u{e015}";
const RIGHT: &str = "\u{e014}";
/// The WebDriver key that releases all pressed keys.
const RELEASE: &str = "\u{e000}";

const TABLE: &str = "/ada/rivers/tables/rivers";

/// Creates the tables that the tests edit.
fn rivers(ada: &Actor) {
    ada.write(
        "ada/rivers",
        "main",
        "create table countries (code text primary key, name text not null); \
         create table rivers (id integer primary key, name text not null, km real check (km > 0), country text references countries, note text); \
         insert into countries values ('DE', 'Germany'), ('FR', 'France'), ('CH', 'Switzerland'); \
         insert into rivers values (1, 'Rhine', 1233, 'DE', null), (2, 'Loire', 1006, 'FR', ''), (3, 'Seine', 775, null, 'Paris'), (4, 'Rhône', 813, 'CH', null)",
    );
}

/// Opens the table and starts to edit it.
fn edit(chromium: &Chromium) {
    chromium.go(TABLE);
    chromium.click("#edit-table");
    chromium.shows("#edit-status", "Nothing is changed yet");
}

fn with_editor() -> Option<(Server, Chromium, Actor)> {
    let server = start();
    let (chromium, ada) = at_work(&server, JavaScript::On)?;
    rivers(&ada);
    edit(&chromium);
    Some((server, chromium, ada))
}

/// Returns the selector of a cell. Rows and columns count from 1.
fn cell(row: usize, column: usize) -> String {
    format!("#edit-rows tbody tr:nth-child({row}) td:nth-child({})", column + 1)
}

/// Pastes a text into the cell that has the focus, as Ctrl+V does.
fn paste(chromium: &Chromium, text: &str) {
    let script = format!(
        "const data = new DataTransfer(); data.setData('text/plain', {}); document.activeElement.dispatchEvent(\
         new ClipboardEvent('paste', {{clipboardData: data, bubbles: true, cancelable: true}}))",
        json!(text)
    );
    chromium.run(&script);
}

fn read(ada: &Actor, branch: &str) -> Value {
    ada.read("ada/rivers", branch, "select id, name, km, country, note from rivers order by id")
}

fn head(ada: &Actor) -> Value {
    ada.get("/databases/ada/rivers/branches/main").data()["head_commit_sha"].clone()
}

/// Opens the dialog, and waits for the check.
fn review(chromium: &Chromium) {
    chromium.click("#review-edits");
    chromium.shows("#review-status", "Checked");
}

/// Commits what the dialog shows to the branch.
fn commit(chromium: &Chromium) {
    chromium.click("#review-commit");
    chromium.shows("#edit-message", "Committed to main as");
}

/// Checks how the page looks, wide and on a phone, in both color schemes.
fn look(chromium: &Chromium, name: &str) {
    for (width, theme) in [(1280, Theme::Light), (1280, Theme::Dark), (390, Theme::Light), (390, Theme::Dark)] {
        chromium.width(width);
        chromium.theme(theme);
        chromium.screenshot(name, theme, width);
        assert!(!chromium.overflows(), "{name} is wider than {width} pixels");
        assert_eq!(chromium.serious_faults(), Vec::<String>::new(), "{name} at {width} pixels");
    }
    chromium.width(1280);
    chromium.theme(Theme::Light);
}

#[test]
fn cells_are_typed_undone_kept_over_a_reload_and_committed() {
    let Some((_server, chromium, ada)) = with_editor() else { return };
    let base = head(&ada);
    // Typing replaces; Enter goes down; Escape forgets.
    chromium.press(&cell(1, 2), &format!("Rhein{ENTER}"));
    chromium.shows(&cell(1, 2), "Rhein");
    chromium.shows("#edit-status", "1 changed.");
    chromium.press(&cell(2, 2), &format!("X{ESCAPE}"));
    chromium.shows(&cell(2, 2), "Loire");
    // NULL and empty text look different, and each can be chosen.
    chromium.shows(&cell(1, 5), "NULL");
    chromium.shows(&cell(2, 5), "empty");
    chromium.press(&cell(2, 5), DELETE);
    chromium.shows(&cell(2, 5), "NULL");
    chromium.double_click(&cell(1, 5));
    assert_eq!(chromium.property("#cell-null", "ariaPressed"), "true");
    chromium.click("#cell-null");
    chromium.press("#cell-field", ENTER);
    chromium.shows(&cell(1, 5), "empty");
    chromium.shows("#edit-status", "2 changed.");
    // Undo and redo, by keys and by buttons.
    chromium.press(&cell(1, 1), &format!("{CONTROL}z{RELEASE}"));
    chromium.shows(&cell(1, 5), "NULL");
    chromium.click("#edit-undo");
    chromium.shows(&cell(2, 5), "empty");
    chromium.press(&cell(1, 1), &format!("{CONTROL}y{RELEASE}"));
    chromium.shows(&cell(2, 5), "NULL");
    chromium.shows("#edit-status", "2 changed.");
    assert_eq!(head(&ada), base, "nothing is sent");

    // A reload, and another page, keep what is not committed.
    chromium.go(TABLE);
    chromium.shows(&cell(1, 2), "Rhein");
    chromium.shows("#edit-status", "2 changed.");
    chromium.go("/ada/rivers");
    chromium.go(TABLE);
    chromium.shows(&cell(1, 2), "Rhein");

    look(&chromium, "table-edit-changed");
    review(&chromium);
    let changes = chromium.text("#review-changes");
    assert!(changes.contains("Rhine") && changes.contains("Rhein"), "{changes}");
    assert_eq!(chromium.text("#review-changes del").trim(), "Rhine");
    look(&chromium, "table-edit-review");
    chromium.fill("#review-message", "German names");
    commit(&chromium);
    assert_eq!(read(&ada, "main")[0], json!(["1", "Rhein", "1233.0", "DE", null]));
    assert_eq!(read(&ada, "main")[1], json!(["2", "Loire", "1006.0", "FR", null]));
    let log = ada.get("/databases/ada/rivers/commits").data();
    assert_eq!((&log[0]["message"], &log[1]["sha"]), (&json!("German names"), &base));
    assert_eq!(
        chromium.run("return Object.keys(localStorage).filter((key) => key.startsWith('branchyard edits')).length"),
        0
    );
    // The page behind is a new one.
    chromium.send("#edit-done");
    chromium.shows("#rows", "Rhein");
}

#[test]
fn edits_end_with_the_session_and_are_never_shown_to_another_person() {
    let Some((server, chromium, ada)) = with_editor() else { return };
    chromium.press(&cell(1, 2), &format!("Secret{ENTER}"));
    chromium.shows("#edit-status", "1 changed.");
    let kept = "return Object.keys(localStorage).filter((key) => key.startsWith('branchyard edits')).length";
    assert_eq!(chromium.run(kept), 1);
    // A session that ends by itself leaves them to the same person only.
    chromium.run("window.kept = Object.entries(localStorage).find(([key]) => key.startsWith('branchyard edits')); sessionStorage.kept = JSON.stringify(window.kept)");
    chromium.click("#account-menu summary");
    chromium.send("#sign-out");
    assert_eq!(chromium.run(kept), 0, "signing out discards them");
    chromium.run("const [key, value] = JSON.parse(sessionStorage.kept); localStorage.setItem(key, value)");
    chromium.sign_up("cyn");
    let cyn = server.actor_of("cyn");
    cyn.database("rivers");
    let role =
        ada.request(reqwest::Method::PUT, "/databases/ada/rivers/collaborators/cyn").json(&json!({"role": "write"}));
    assert!(role.send().unwrap().status().is_success());
    chromium.go(TABLE);
    chromium.wait("the button", |this| this.has("#edit-table"));
    assert!(!chromium.has("#edit-rows"), "nothing is pending");
    assert_eq!(chromium.run(kept), 0, "those of another person are removed");
    chromium.click("#edit-table");
    chromium.shows(&cell(1, 2), "Rhine");
}

#[test]
fn ranges_are_pasted_and_rows_added_duplicated_and_deleted() {
    let Some((_server, chromium, ada)) = with_editor() else { return };
    // Two rows exist; the third and the fourth line are new.
    chromium.click(&cell(3, 1));
    paste(
        &chromium,
        "3\tSeine\t777\tFR\r\n4\t\"Rhône, or\nRodano\"\t812.5\t\r\n5\tElbe\t1094\tDE\r\n6\tSpree\t400\tDE\r\n",
    );
    chromium.shows("#edit-status", "2 changed, 2 added.");
    chromium.shows(&cell(5, 2), "Elbe");
    chromium.shows(&cell(4, 4), "NULL");
    // One step back, one step forth.
    chromium.press(&cell(1, 1), &format!("{CONTROL}z{RELEASE}"));
    chromium.shows("#edit-status", "Nothing is changed yet");
    chromium.click("#edit-redo");
    chromium.shows("#edit-status", "2 changed, 2 added.");
    // A duplicate gets a key of its own. A deleted row can be brought back.
    chromium.click(&cell(1, 2));
    chromium.click("#edit-duplicate");
    chromium.shows(&cell(7, 2), "Rhine");
    chromium.shows(&cell(7, 1), "automatic");
    chromium.click(&cell(2, 2));
    chromium.click("#edit-delete");
    chromium.shows("#edit-status", "2 changed, 3 added, 1 deleted.");
    chromium.click("#edit-delete");
    chromium.shows("#edit-status", "2 changed, 3 added.");
    chromium.click("#edit-delete");
    chromium.click("#edit-add");
    chromium.press(&cell(8, 2), &format!("Isar{ENTER}"));
    chromium.shows("#edit-status", "2 changed, 4 added, 1 deleted.");
    // A single value fills a range, which Shift and the arrows select.
    chromium.click(&cell(5, 5));
    chromium.press(&cell(5, 5), &format!("{SHIFT}{DOWN}{DOWN}{RELEASE}"));
    paste(&chromium, "new");
    chromium.shows(&cell(7, 5), "new");
    let copied = chromium.run(
        "const data = new DataTransfer(); document.activeElement.dispatchEvent(new ClipboardEvent('copy', \
         {clipboardData: data, bubbles: true, cancelable: true})); return data.getData('text/plain')",
    );
    assert_eq!(copied, "new\nnew\nnew");
    review(&chromium);
    commit(&chromium);
    let wanted = json!([
        ["1", "Rhine", "1233.0", "DE", null],
        ["3", "Seine", "777.0", "FR", "Paris"],
        ["4", "Rhône, or\nRodano", "812.5", null, null],
        ["5", "Elbe", "1094.0", "DE", "new"],
        ["6", "Spree", "400.0", "DE", "new"],
        ["7", "Rhine", "1233.0", "DE", "new"],
        ["8", "Isar", null, null, null],
    ]);
    assert_eq!(read(&ada, "main"), wanted);
    assert_eq!(ada.get("/databases/ada/rivers/commits").data().as_array().unwrap().len(), 3, "one commit");
}

#[test]
fn problems_are_shown_before_anything_is_sent() {
    let Some((_server, chromium, ada)) = with_editor() else { return };
    let base = head(&ada);
    let is_wrong = |place: String| chromium.shows(&format!("{place}.wrong-cell"), "");
    chromium.press(&cell(1, 3), &format!("long{ENTER}"));
    chromium.wait("a type", |this| this.has(&format!("{}[aria-invalid]", cell(1, 3))));
    chromium.click("#edit-add");
    chromium.wait("NOT NULL", |this| this.has(&format!("{}[aria-invalid]", cell(5, 2))));
    chromium.press(&cell(5, 1), &format!("2{ENTER}"));
    chromium.wait("a key", |this| this.has(&format!("{}[aria-invalid]", cell(5, 1))));
    chromium.click(&cell(5, 1));
    chromium.shows("#cell-note", "Another row has id 2");
    chromium.press(&cell(2, 4), &format!("XX{ENTER}"));
    chromium.wait("a reference", |this| this.has(&format!("{}[aria-invalid]", cell(2, 4))));
    is_wrong(cell(2, 4));
    chromium.shows("#edit-status", "4 cells need attention");
    chromium.click("#review-edits");
    chromium.shows("#review-problems", "countries has no row with code XX");
    assert_eq!(chromium.property("#review-commit", "disabled"), "true");
    look(&chromium, "table-edit-problems");
    chromium.click("#review-cancel");

    // The picker finds a country by its name.
    chromium.press(&cell(2, 4), &format!("Ger{RELEASE}"));
    chromium.shows("#cell-choices", "DE Germany");
    assert!(!chromium.text("#cell-choices").contains("France"));
    look(&chromium, "table-edit-choices");
    chromium.press("#cell-field", &format!("{DOWN}{ENTER}"));
    chromium.shows(&cell(2, 4), "DE");
    chromium.press(&cell(5, 1), &format!("9{ENTER}"));
    chromium.press(&cell(5, 2), &format!("Inn{ENTER}"));
    // CHECK is left to the server, which says so before the commit.
    chromium.press(&cell(1, 3), &format!("-1{ENTER}"));
    chromium.wait("no problem that the page knows", |this| !this.has("#edit-rows [aria-invalid]"));
    chromium.click("#review-edits");
    chromium.shows("#review-problems", "CHECK constraint failed");
    assert_eq!(chromium.property("#review-commit", "disabled"), "true");
    assert_eq!(head(&ada), base, "nothing was committed");
    chromium.click("#review-problems button");
    chromium.press(&cell(1, 3), &format!("1230{ENTER}"));
    review(&chromium);
    commit(&chromium);
    assert_eq!(read(&ada, "main")[0][2], "1230.0");
    assert_eq!(read(&ada, "main")[1][3], "DE");
    assert_eq!(read(&ada, "main")[4], json!(["9", "Inn", null, null, null]));
}

#[test]
fn edits_go_to_a_new_branch_or_into_a_pull() {
    let Some((_server, chromium, ada)) = with_editor() else { return };
    let base = head(&ada);
    chromium.press(&cell(1, 2), &format!("Rhein{ENTER}"));
    review(&chromium);
    chromium.click("#review-target [value=new]");
    chromium.fill("#review-branch", "german");
    chromium.send("#review-commit");
    chromium.wait("the new branch", |this| this.path() == format!("{TABLE}?ref=german"));
    chromium.shows("#rows", "Rhein");
    assert_eq!((read(&ada, "german")[0][1].clone(), head(&ada)), (json!("Rhein"), base.clone()));

    edit(&chromium);
    chromium.press(&cell(3, 2), &format!("la Seine{ENTER}"));
    review(&chromium);
    chromium.click("#review-target [value=pull]");
    chromium.fill("#review-branch", "french");
    chromium.send("#review-commit");
    chromium.wait("the form", |this| this.path() == "/ada/rivers/pulls/new?from=french&to=main");
    assert_eq!((read(&ada, "french")[2][1].clone(), head(&ada)), (json!("la Seine"), base));
}

#[test]
fn two_people_on_one_row_see_three_values_and_overwrite_nothing() {
    let Some((_server, chromium, ada)) = with_editor() else { return };
    chromium.press(&cell(1, 2), &format!("Mine{ENTER}"));
    chromium.press(&cell(1, 3), &format!("1{ENTER}"));
    chromium.press(&cell(1, 5), &format!("my note{ENTER}"));
    chromium.click(&cell(2, 1));
    chromium.click("#edit-delete");
    chromium.press(&cell(3, 2), &format!("My Seine{ENTER}"));
    chromium.shows("#edit-status", "2 changed, 1 deleted.");
    let statement = "update rivers set name = 'Theirs', km = 2, note = 'their note' where id = 1; update rivers set km = 1007 where id = 2; \
                     delete from rivers where id = 3; update rivers set name = 'Rotten' where id = 4";
    ada.write("ada/rivers", "main", statement);
    let theirs = read(&ada, "main");
    // The rows stay those that were edited, and the page says that the branch has moved.
    chromium.go(TABLE);
    chromium.shows(&cell(1, 2), "Mine");
    chromium.shows(&cell(4, 2), "Rhône");
    chromium.click("#review-edits");
    chromium.shows("#review-title", "Someone else changed these rows");
    let shown = chromium.text("#review-changes");
    for value in ["Rhine", "Theirs", "Mine", "1233.0", "2.0", "their note", "my note"] {
        assert!(shown.contains(value), "{value} in {shown}");
    }
    look(&chromium, "table-edit-conflicts");
    assert!(chromium.text("#review-form").contains("Use these values"));
    chromium.click("#review-resolve");
    chromium.shows("#review-status", "Choose a value for each cell first");
    assert_eq!(read(&ada, "main"), theirs, "nothing is overwritten");

    let section = |at: usize| format!(".conflict-row:nth-of-type({at})");
    // Each column has a line of values and a line of choices.
    let choices = |at: usize, column: usize| format!("{} tbody tr:nth-child({})", section(at), 2 * column);
    let choose = |at: usize, column: usize, value: &str| {
        chromium.click(&format!("{} [value={value}]", choices(at, column)));
    };
    // Deleted rows come first in what is sent: theirs stays; mine, theirs and another value; their deletion.
    chromium.click(&format!("{} [value=theirs]", section(1)));
    choose(2, 1, "mine");
    choose(2, 2, "theirs");
    chromium.fill(&format!("{} .conflict-other", choices(2, 3)), "both notes");
    chromium.click(&format!("{} [value=theirs]", section(3)));
    // Another change meanwhile is noticed, too.
    chromium.click("#review-resolve");
    chromium.shows("#review-status", "Checked");
    ada.write("ada/rivers", "main", "update rivers set name = 'Again' where id = 1");
    chromium.click("#review-commit");
    chromium.shows("#review-title", "Someone else changed these rows");
    chromium.shows("#review-changes", "Again");
    choose(1, 1, "mine");
    chromium.click("#review-resolve");
    chromium.shows("#review-status", "Checked");
    commit(&chromium);
    let wanted = json!([
        ["1", "Mine", "2.0", "DE", "both notes"],
        ["2", "Loire", "1007.0", "FR", ""],
        ["4", "Rotten", "813.0", "CH", null],
    ]);
    assert_eq!(read(&ada, "main"), wanted);
}

#[test]
fn everything_is_done_by_keys() {
    let server = start();
    let Some((chromium, ada)) = at_work(&server, JavaScript::On) else { return };
    rivers(&ada);
    chromium.go(TABLE);
    chromium.press("#edit-table", ENTER);
    chromium.shows("#edit-status", "Nothing is changed yet");
    let active = || chromium.run("return document.activeElement.id || document.activeElement.closest('td')?.cellIndex");
    // The first cell has the focus. F2 edits what is there, Tab goes on, Backspace empties.
    chromium.wait("the focus", |this| this.run("return document.activeElement.matches('#edit-rows td')") == true);
    chromium.press("#edit-rows td[tabindex='0']", &format!("{RIGHT}{F2}"));
    chromium.press("#cell-field", &format!("{RIGHT}!{TAB}"));
    chromium.press("#edit-rows td[tabindex='0']", &format!("1234{TAB}"));
    chromium.press("#edit-rows td[tabindex='0']", DELETE);
    chromium.press("#edit-rows td[tabindex='0']", &format!("{RIGHT}{BACKSPACE}"));
    chromium.press("#cell-field", &format!("x{ENTER}"));
    chromium.shows(&cell(1, 2), "Rhine!");
    chromium.shows(&cell(1, 4), "NULL");
    chromium.shows(&cell(1, 5), "x");
    assert!(chromium.has(&format!("{}[tabindex='0']", cell(2, 5))), "Enter goes down");
    chromium.press("#edit-rows td[tabindex='0']", &format!("{CONTROL}z{RELEASE}"));
    chromium.shows(&cell(1, 5), "NULL");
    // Escape leaves the grid for the tools; Tab leads to the button that commits.
    chromium.press("#edit-rows td[tabindex='0']", ESCAPE);
    assert_eq!(active(), "edit-add");
    chromium.press("#review-edits", ENTER);
    chromium.shows("#review-status", "Checked");
    chromium.press("#review-message", &format!("By keys{ENTER}"));
    chromium.shows("#edit-message", "Committed to main as");
    assert_eq!(read(&ada, "main")[0], json!(["1", "Rhine!", "1234.0", null, null]));
    // Tab at the last cell leaves the grid.
    chromium.press("#edit-rows td[tabindex='0']", &format!("{CONTROL}\u{e010}{RELEASE}"));
    chromium.press("#edit-rows td[tabindex='0']", TAB);
    assert_ne!(chromium.run("return document.activeElement.closest('#edit-rows') === null"), false);
}

#[test]
fn a_tap_edits_on_a_phone() {
    let Some((_server, chromium, ada)) = with_editor() else { return };
    chromium.size(390, 844);
    chromium.tap(&cell(1, 2));
    chromium.wait("the field", |this| this.has("#cell-field"));
    assert!(!chromium.overflows());
    chromium.press("#cell-field", "Rhein");
    chromium.tap(&cell(2, 4));
    chromium.shows(&cell(1, 2), "Rhein");
    chromium.shows("#cell-choices", "CH Switzerland");
    chromium.tap("#cell-choices li:nth-child(1)");
    chromium.shows(&cell(2, 4), "CH");
    chromium.tap("#edit-add");
    chromium.tap(&cell(5, 2));
    chromium.press("#cell-field", "Isar");
    chromium.tap("#review-edits");
    chromium.shows("#review-status", "Checked");
    chromium.tap("#review-commit");
    chromium.shows("#edit-message", "Committed to main as");
    assert_eq!(read(&ada, "main")[4][1], "Isar");
    assert_eq!(read(&ada, "main")[1][3], "CH");
}

#[test]
fn what_cannot_be_edited_in_the_grid_is_read_only() {
    let Some((server, chromium, ada)) = with_editor() else { return };
    ada.write(
        "ada/rivers",
        "main",
        "create table loose (a, b text); insert into loose values (1, 'x'); \
         create table odd (id integer primary key, picture blob, body text); insert into odd values (1, x'00', printf('%02000d', 7))",
    );
    chromium.go("/ada/rivers/tables/odd#edit");
    chromium.shows(&cell(1, 2), "binary, 1 byte");
    for column in [2, 3] {
        chromium.press(&cell(1, column), "x");
        assert!(!chromium.has("#cell-field"), "column {column} is read-only");
        chromium.shows("#cell-note", "Change binary and long values");
    }
    chromium.go("/ada/rivers/tables/loose#edit");
    chromium.press(&cell(1, 1), "x");
    assert!(!chromium.has("#cell-field"));
    chromium.shows("#cell-note", "rows can only be added");
    assert_eq!(chromium.property("#edit-delete", "disabled"), "true");
    chromium.click("#edit-add");
    chromium.press(&cell(2, 2), &format!("y{ENTER}"));
    review(&chromium);
    commit(&chromium);
    assert_eq!(ada.read("ada/rivers", "main", "select a, b from loose"), json!([["1", "x"], [null, "y"]]));
    // Without a script, the form of a row is there.
    let plain = Chromium::open(&server, JavaScript::Off).unwrap();
    plain.go(TABLE);
    assert!(!plain.has("#edit-table"));
}

#[test]
fn a_thousand_cells_are_edited_and_committed() {
    let Some((_server, chromium, ada)) = with_editor() else { return };
    let sql = "create table cells (id integer primary key, a text, b text, c integer, d real, e text); insert into cells \
               with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) select i, 'a' || i, 'b' || i, i, i / 2.0, null from n";
    ada.write("ada/rivers", "main", sql);
    chromium.go("/ada/rivers/tables/cells?rows=500#edit");
    chromium.wait("the rows", |this| this.has(&cell(500, 1)));
    let text: Vec<String> = (1..=200).map(|n| format!("A{n}\tB{n}\t{}\t0.5\tnew", n * 2)).collect();
    let began = Instant::now();
    chromium.click(&cell(1, 2));
    paste(&chromium, &text.join("\n"));
    chromium.shows("#edit-status", "200 changed.");
    let pasted = began.elapsed();
    review(&chromium);
    let reviewed = began.elapsed();
    let began = Instant::now();
    chromium.click("#review-commit");
    chromium.shows("#edit-message", "Committed to main as");
    eprintln!("1,000 cells: pasted after {pasted:?}, checked after {reviewed:?}, committed in {:?}", began.elapsed());
    let sum = ada.read("ada/rivers", "main", "select sum(c), count(*) from cells where e = 'new'");
    assert_eq!(sum, json!([["40200", "200"]]));
    let operations = ada.get("/databases/ada/rivers/operations?type=edit").data();
    assert_eq!(operations[0]["status"], "succeeded");
}
