//! The SQL workbench.

use serde_json::json;

use super::chromium::{Chromium, JavaScript};
use super::flows::{at_work, start};

const CONTROL: &str = "\u{e009}";
const ENTER: &str = "\u{e007}";
/// The WebDriver key that releases all pressed keys.
const RELEASE: &str = "\u{e000}";

#[test]
fn a_statement_is_completed_run_by_keys_remembered_and_shared() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    actor.write(
        "ada/rivers",
        "main",
        "create table rivers (id integer primary key, name text); insert into rivers values (1, 'Rhine')",
    );
    chromium.go("/ada/rivers/sql");
    chromium.shows("#sql-keys", "Ctrl");
    assert!(chromium.text("#sql-history").is_empty(), "nothing was run yet");
    chromium.fill("#q", "select name from riv");
    chromium.press("#q", &format!("{CONTROL} {RELEASE}"));
    chromium.wait("the completed name", |this| this.property("#q", "value") == "select name from rivers");
    chromium.press("#q", &format!("{CONTROL}{ENTER}{RELEASE}"));
    chromium.shows("#rows", "Rhine");
    let shared = chromium.path();
    assert!(shared.contains("q=select"), "{shared}");

    // A signed-out visitor sees the same at its URL.
    let other = Chromium::open(&server, JavaScript::Off).unwrap();
    other.go(&shared);
    other.shows("#rows", "Rhine");
    assert_eq!(other.property("#q", "value").trim(), "select name from rivers");
    assert!(other.text("#sql-keys").is_empty(), "keys that need a script are not offered without one");

    chromium.go("/ada/rivers/sql");
    chromium.click("#sql-history summary");
    chromium.shows("#sql-history", "select name from rivers");
    chromium.click("#sql-history a");
    assert_eq!(chromium.property("#q", "value"), "select name from rivers");
    chromium.click("#forget-history");
    chromium.wait("no history", |this| this.text("#sql-history").is_empty());
    chromium.go("/ada/rivers/sql");
    assert!(chromium.text("#sql-history").is_empty());
}

#[test]
fn a_statement_is_run_without_javascript() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::Off) else { return };
    actor.write(
        "ada/rivers",
        "main",
        "create table rivers (id integer primary key, name text); insert into rivers values (1, 'Rhine')",
    );
    chromium.go("/ada/rivers/sql");
    chromium.fill("#q", "select name from rivers");
    chromium.send("#run");
    chromium.shows("#rows", "Rhine");
    chromium.fill("#q", "select nam from rivers");
    chromium.send("#run");
    chromium.shows("#sql-error", "nam");
    chromium.fill("#q", "delete from rivers");
    chromium.send("#run");
    chromium.shows("#sql-writes", "one read-only statement");
    chromium.send("#write-link");
    assert_eq!(chromium.property("#q", "value").trim(), "delete from rivers");
}

#[test]
fn a_write_is_previewed_and_committed_with_and_without_javascript() {
    for javascript in [JavaScript::On, JavaScript::Off] {
        let server = start();
        let Some((chromium, actor)) = at_work(&server, javascript) else { return };
        actor.write(
            "ada/rivers",
            "main",
            "create table rivers (id integer primary key, name text); insert into rivers values (1, 'Rhein'), (2, 'Elbe')",
        );
        chromium.go("/ada/rivers/sql/write");
        chromium.fill("#q", "update rivers set name = 'Rhine'");
        chromium.send("#preview-write");
        chromium.shows("#write-preview", "UPDATE on rivers has no WHERE");
        chromium.shows("#write-preview", "1 table would change; the statements affect 2 rows.");
        if javascript == JavaScript::On {
            assert_eq!(chromium.serious_faults(), Vec::<String>::new());
            // What is edited was not previewed.
            chromium.press("#q", " where id = 1");
            chromium.wait("no stale preview", |this| this.text("#write-preview").is_empty());
            chromium.press("#q", &format!("{CONTROL}{ENTER}{RELEASE}"));
            chromium.shows("#write-preview", "1 row");
        }
        chromium.shows("#commit", "Commit to main");
        chromium.send("#commit");
        chromium.shows("#live", "Committed");
    }
}

#[test]
fn a_long_query_shows_that_it_runs_and_can_be_canceled() {
    let server = start();
    let Some((chromium, _)) = at_work(&server, JavaScript::On) else { return };
    chromium.go("/ada/rivers/sql");
    assert!(chromium.text("[data-busy]").is_empty());
    let endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n";
    chromium.fill("#q", endless);
    // In one step, because the driver waits for the next page between two.
    let states = chromium.run(
        "const busy = document.querySelector('[data-busy]');
         document.getElementById('run').click();
         const shown = busy.checkVisibility();
         document.getElementById('cancel-query').click();
         return [shown, busy.checkVisibility()];",
    );
    assert_eq!(states, json!([true, false]));
    assert_eq!(chromium.path(), "/ada/rivers/sql");
    assert_eq!(chromium.property("#q", "value").trim(), endless, "the statement is still there");
    chromium.fill("#q", "select 40 + 2 as answer");
    chromium.send("#run");
    chromium.shows("#rows", "42");
}

#[test]
fn a_table_is_browsed_to_its_end_and_back() {
    for javascript in [JavaScript::On, JavaScript::Off] {
        let server = start();
        let Some((chromium, actor)) = at_work(&server, javascript) else { return };
        let fill = "create table t (id integer primary key, v integer); insert into t with recursive n(i) as \
                    (select 1 union all select i + 1 from n where i < 120) select i, i % 7 from n";
        actor.write("ada/rivers", "main", fill);
        chromium.go("/ada/rivers/tables/t");
        chromium.shows("#summary", "1–50 of 120 rows");
        chromium.send("#last-page");
        chromium.shows("#summary", "71–120 of 120 rows");
        chromium.send("#previous-page");
        chromium.shows("#summary", "21–70 of 120 rows");
        chromium.send("#first-page");
        chromium.send("#next-page");
        chromium.shows("#summary", "51–100 of 120 rows");
        chromium.send("#rows thead th:last-child a");
        chromium.shows("#summary", "1–50 of 120 rows");
        assert!(chromium.path().ends_with("?sort=v"), "{}", chromium.path());
    }
}
