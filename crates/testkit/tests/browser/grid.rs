//! Grids of rows: what stays in sight, what can be copied, hidden and filtered.

use std::time::Duration;

use branchyard_testkit::{Actor, Server};
use serde_json::json;

use super::chromium::{Chromium, JavaScript};
use super::flows::{at_work, start};

const ENTER: &str = "\u{e007}";
const DOWN: &str = "\u{e015}";

/// A table of 300 rows that is wider than any window, with long texts, a document, an address and an image.
fn wide(actor: &Actor) {
    let columns: Vec<String> = (0..12).map(|n| format!("c{n} text")).collect();
    let long = "'Nordic_Hydrological_Observatory_' || i || ' with many words that do not fit into one line of a grid'";
    let values = [long; 12].join(", ");
    actor.write(
        "ada/rivers",
        "main",
        &format!(
            "create table wide (id integer primary key, km real, {}); insert into wide with recursive n(i) as \
             (select 1 union all select i + 1 from n where i < 300) select i, i / 4.0, {values} from n; \
             create table notes (id integer primary key, kind text, body text, picture blob); \
             insert into notes values (1, 'json', '{{\"a\":[1.10,true]}}', null), (2, 'web', 'https://a.test/x', null), \
             (3, 'text', 'it''s | so', x'47494638396101000100800000000000ffffff2c00000000010001000002024401003b'), \
             (4, null, 'last', null)",
            columns.join(", ")
        ),
    );
}

fn number(chromium: &Chromium, script: &str) -> f64 {
    chromium.run(&format!("return {script}")).as_f64().unwrap_or_else(|| panic!("no number: {script}"))
}

#[test]
fn a_wide_screen_is_used_and_heading_and_key_stay_in_sight() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    wide(&actor);
    chromium.size(1920, 1000);
    chromium.go("/ada/rivers/tables/wide?rows=100");
    chromium.shows("#summary", "1–100 of 300 rows");
    let of = |css: &str, what: &str| {
        number(&chromium, &format!("document.querySelector('{css}').getBoundingClientRect().{what}"))
    };
    let width = of(".scroll:has(#rows)", "width");
    assert!(width >= 0.88 * 1920.0, "{width}");
    let tallest = number(
        &chromium,
        "Math.max(...[...document.querySelectorAll('#rows tbody tr')].map((row) => row.offsetHeight))",
    );
    assert!(tallest < 40.0, "a row has one line: {tallest}");
    let (top, left) = (of("#rows thead th:nth-child(3)", "top"), of("#rows thead th.pin", "left"));
    chromium.run("document.querySelector('.scroll:has(#rows)').scrollTo(900, 600)");
    assert!(of("#rows tbody tr:nth-child(2)", "top") < 0.0 + top, "the rows have moved");
    assert!((of("#rows thead th:nth-child(3)", "top") - top).abs() < 2.0, "the heading stays");
    assert!((of("#rows tbody tr:nth-child(30) .pin", "left") - left).abs() < 2.0, "the key stays");
    assert!(of("#rows thead th:nth-child(3)", "left") < left, "other columns have moved");
    for css in ["#next-page", "#top-next-page"] {
        assert!(chromium.has(css), "{css}");
    }
    // Whole values can be shown without a script.
    chromium.run("document.getElementById('wrap-cells').click()");
    assert!(of("#rows tbody tr", "height") > 40.0);
}

#[test]
fn a_phone_shows_eight_rows() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    wide(&actor);
    chromium.size(390, 844);
    for path in ["/ada/rivers/tables/wide", "/ada/rivers/tables/wide?column=id&test=gt&value=3"] {
        chromium.go(path);
        let seen = "[...document.querySelectorAll('#rows tbody tr')].filter((row) => { \
                    const box = row.getBoundingClientRect(), head = document.querySelector('#rows thead').getBoundingClientRect(); \
                    return box.top >= head.bottom - 1 && box.bottom <= 844; }).length";
        let seen = number(&chromium, seen);
        assert!(seen >= 8.0, "{path}: {seen}");
        assert!(!chromium.overflows(), "{path}");
    }
}

#[test]
fn changed_rows_have_one_line_each() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::Off) else { return };
    wide(&actor);
    let hash = actor.write("ada/rivers", "main", "update wide set c3 = 'short', km = 7.5 where id < 9");
    chromium.size(1920, 1000);
    chromium.go(&format!("/ada/rivers/commits/{hash}"));
    let (width, height) = chromium.extent(".change .scroll");
    assert!(width >= 0.88 * 1920.0, "{width}");
    assert!(height < 9.0 * 40.0, "eight rows and a heading: {height}");
    assert!(chromium.has(".change tbody td.number.differs del"), "numbers are aligned");
}

#[test]
fn columns_are_resized_and_hidden_and_stay_so_in_this_browser() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    wide(&actor);
    chromium.go("/ada/rivers/tables/wide");
    let width = || number(&chromium, "document.querySelector('th[data-name=c0]').offsetWidth");
    let before = width();
    for _ in 0..5 {
        chromium.press("th[data-name=c0] .grip", "\u{e012}");
    }
    let after = width();
    assert!(after < before - 60.0, "{before} {after}");
    chromium.click("#columns-menu summary");
    chromium.click("#columns-menu label:nth-of-type(4)");
    chromium.shows("#columns-menu summary", "1 hidden");
    chromium.go("/ada/rivers/tables/wide?sort=km");
    assert!((width() - after).abs() < 2.0);
    assert_eq!(number(&chromium, "document.querySelector('th[data-name=c1]').offsetWidth"), 0.0);
    chromium.click("#columns-menu summary");
    chromium.click("#columns-menu button");
    chromium.wait("the column", |this| number(this, "document.querySelector('th[data-name=c1]').offsetWidth") > 0.0);
}

#[test]
fn a_cell_is_viewed_and_its_value_filters() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    wide(&actor);
    chromium.go("/ada/rivers/tables/notes");
    chromium.click("#rows tbody tr:nth-child(1) td:nth-child(4)");
    chromium.shows("#cell-panel pre", "\"a\": [\n    1.10,");
    chromium.press("#rows td[tabindex='0']", DOWN);
    chromium.press("#rows td[tabindex='0']", ENTER);
    chromium.shows("#cell-panel a[rel]", "https://a.test/x");
    chromium.click("#rows tbody tr:nth-child(3) td:nth-child(5)");
    chromium.wait("the picture", |this| {
        this.run("const image = document.querySelector('#cell-panel img'); return !!image && image.naturalWidth === 1")
            == true
    });
    chromium.click("#rows tbody tr:nth-child(2) td:nth-child(3)");
    chromium.shows("#cell-panel", "Filter by this value");
    chromium.send("#cell-panel .value-links a");
    chromium.shows("#summary", "1–1 of 1 row");
    chromium.shows("#filters", "kind = web");
    assert!(chromium.serious_faults().is_empty());
}

#[test]
fn cells_are_copied_in_four_formats() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    wide(&actor);
    chromium.go("/ada/rivers/tables/notes?column=id&test=ge&value=3");
    chromium.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
    let copy = |format: &str| {
        chromium.run("window.copied = null");
        chromium.click("#copy-menu summary");
        chromium.click(&format!("#copy-menu [data-format={format}]"));
        chromium.wait("the copy", |this| this.run("return window.copied").is_string());
        chromium.run("return window.copied").as_str().unwrap().to_owned()
    };
    assert_eq!(copy("TSV"), "3\ttext\tit's | so\t\n4\t\tlast\t");
    assert_eq!(
        copy("Markdown"),
        "| id | kind | body | picture |\n| --- | --- | --- | --- |\n| 3 | text | it's \\| so |  |\n| 4 |  | last |  |"
    );
    let objects: serde_json::Value = serde_json::from_str(&copy("JSON")).unwrap();
    assert_eq!(objects[0], json!({"id": 3, "kind": "text", "body": "it's | so", "picture": null}));
    assert_eq!(objects[1]["kind"], json!(null));
    assert_eq!(
        copy("INSERT"),
        "INSERT INTO \"notes\" (\"id\", \"kind\", \"body\", \"picture\") VALUES\n  (3, 'text', 'it''s | so', NULL),\n  (4, NULL, 'last', NULL);"
    );
    // A selection of cells.
    chromium.click("#rows tbody tr:nth-child(1) td:nth-child(2)");
    chromium.run("document.querySelector('#rows tbody tr:nth-child(2) td:nth-child(3)').dispatchEvent(new MouseEvent('click', {bubbles: true, shiftKey: true}))");
    assert_eq!(copy("TSV"), "3\ttext\n4\t");
    chromium.shows("#copy-status", "Copied 2 rows as TSV.");
}

fn values_filter(javascript: JavaScript) {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, javascript) else { return };
    wide(&actor);
    let on = javascript == JavaScript::On;
    chromium.go("/ada/rivers/tables/notes?sort=id&desc=1");
    let open = || if on { chromium.click("th:nth-child(3) a.facet") } else { chromium.send("th:nth-child(3) a.facet") };
    open();
    chromium.shows("#values-summary", "In 4 rows");
    if on {
        assert!(chromium.has("dialog[open]"));
        assert!(chromium.serious_faults().is_empty());
    }
    chromium.click("#values-form input[value=json]");
    chromium.click("#values-form input[value=text]");
    chromium.send("#values-form button");
    chromium.shows("#summary", "1–2 of 2 rows");
    assert!(chromium.path().contains("sort=id"), "{}", chromium.path());
    open();
    chromium.shows("#values-summary", "In 4 rows");
    chromium.send("#only-nulls");
    chromium.shows("#summary", "1–1 of 1 row");
    chromium.send("#clear-filters");
    if on {
        chromium.click("th:nth-child(2) a.facet")
    } else {
        chromium.send("th:nth-child(2) a.facet")
    }
    chromium.shows("#range", "From 1 to 4");
    chromium.fill("#range-form [aria-label='At least']", "2");
    chromium.fill("#range-form [aria-label='At most']", "3");
    chromium.send("#range-form button");
    chromium.shows("#summary", "1–2 of 2 rows");
    chromium.shows("#filters", "id ≥ 2");
}

#[test]
fn the_values_of_a_column_filter() {
    values_filter(JavaScript::On);
}

#[test]
fn the_values_of_a_column_filter_without_javascript() {
    values_filter(JavaScript::Off);
}

#[test]
fn the_menu_of_versions_opens_what_is_typed() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    wide(&actor);
    let head = actor.get("/databases/ada/rivers/branches/main").expect(200).data()["head_commit_sha"].clone();
    let head = head.as_str().unwrap();
    for name in ["draft/lengths", "draft/names", "fix-names"] {
        let body = json!({"name": name, "from": {"branch": "main"}});
        actor.post("/databases/ada/rivers/branches", &body).expect(201);
    }
    let typed = |text: &str| {
        chromium.go("/ada/rivers");
        chromium.click("#ref-menu summary");
        chromium.wait("the field", |this| this.run("return document.activeElement.id") == "ref");
        chromium.press("#ref", text);
    };
    let leads_to = |text: &str, expected: &str| {
        typed(text);
        chromium.wait(text, |this| this.path() == expected);
    };
    leads_to(&format!("names{ENTER}"), "/ada/rivers?ref=draft%2Fnames");
    leads_to(&format!("draft{DOWN}{ENTER}"), "/ada/rivers?ref=draft%2Fnames");
    leads_to(&format!("{DOWN}{DOWN}{ENTER}"), "/ada/rivers?ref=draft%2Fnames");
    leads_to(&format!("{head}{ENTER}"), &format!("/ada/rivers?ref={head}"));
    typed(&format!("nothing{ENTER}"));
    chromium.shows("#ref-unknown", "No branch, tag or commit has this name.");
    assert_eq!(chromium.path(), "/ada/rivers");
    // "y" gives the address at the commit.
    chromium.go("/ada/rivers/tables/wide?ref=draft%2Fnames&sort=km");
    chromium.press("body", "y");
    chromium.wait("the address", |this| this.path() == format!("/ada/rivers/tables/wide?ref={head}&sort=km"));
}

#[test]
fn a_slider_goes_through_the_versions_of_a_branch() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    actor.write("ada/rivers", "main", "create table t (id integer primary key, v text)");
    let commits: Vec<String> =
        (1..=5).map(|n| actor.write("ada/rivers", "main", &format!("insert into t values ({n}, 'v{n}')"))).collect();
    let slide = |to: u32, is_released: bool| {
        let events = if is_released { "['input', 'change']" } else { "['input']" };
        chromium.run(&format!(
            "const slider = document.getElementById('version-slider'); slider.focus(); slider.value = {to}; \
             for (const kind of {events}) slider.dispatchEvent(new Event(kind, {{ bubbles: true }}))"
        ));
    };
    chromium.go("/ada/rivers/tables/t?sort=id&desc=1");
    chromium.wait("the slider", |this| this.has("#version-slider"));
    // The first version is empty, and the table was created in the second one.
    assert_eq!(chromium.property("#version-slider", "max"), "6");
    assert_eq!(chromium.property("#version-slider", "value"), "6");
    chromium.shows("#version-text", "insert into t values (5");
    // While it moves, the rows are those of the version.
    slide(3, false);
    chromium.wait("two rows", |this| this.text("#summary").contains("2 rows"));
    assert_eq!(chromium.text("#row-values tr td:nth-child(3)"), "v2", "the order stays");
    chromium.shows("#version-text", "insert into t values (2");
    assert_eq!(chromium.path(), "/ada/rivers/tables/t?sort=id&desc=1");
    assert!(chromium.has("#rows .grip"), "the headings are as they were");
    slide(0, false);
    chromium.shows("#version-text", "(not in this version)");
    // Where it is released, the page of the version is opened, and keys go on from there.
    slide(4, true);
    let third = format!("/ada/rivers/tables/t?sort=id&desc=1&ref={}&branch=main", commits[2]);
    chromium.wait("the page", |this| this.path() == third);
    chromium.wait("the slider", |this| this.run("return document.activeElement.id") == "version-slider");
    assert_eq!(chromium.property("#version-slider", "value"), "4");
    slide(6, true);
    chromium.wait("the newest page", |this| this.path() == "/ada/rivers/tables/t?sort=id&desc=1");
    chromium.shows("#summary", "5 rows");
    // A row has the same one.
    chromium.go("/ada/rivers/tables/t/row?column=id&test=eq&value=4");
    chromium.wait("the slider", |this| this.has("#version-slider"));
    slide(2, false);
    chromium.shows("#version-text", "(not in this version)");
}

#[test]
fn no_page_scrolls_sideways_on_a_phone() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    wide(&actor);
    let long = "n".repeat(64);
    actor.database(&long);
    let text = json!({"description": format!("https://{}.example/{}", "host".repeat(15), "path".repeat(60))});
    actor.patch(&format!("/databases/ada/{long}"), &text).expect(200);
    chromium.size(390, 844);
    for path in [
        "/",
        "/ada",
        "/explore",
        "/explore?q=nnnn",
        "/settings/sessions",
        "/ada/rivers",
        &format!("/ada/{long}"),
        "/ada/rivers/tables/notes",
        "/ada/rivers/tables/notes/values?of=kind",
        "/ada/rivers/tables/notes/row?column=id&test=eq&value=1",
        "/ada/rivers/sql?q=select+*+from+wide",
        "/ada/rivers/schema",
    ] {
        chromium.go(path);
        assert!(!chromium.overflows(), "{path}");
    }
}

#[test]
fn many_different_values_open_at_once() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::Off) else { return };
    fifty_thousand(&server, &actor);
    chromium.go("/ada/rivers");
    let began = std::time::Instant::now();
    chromium.go("/ada/rivers/tables/many/values?of=v");
    chromium.shows("#more-values", "And more");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

fn fifty_thousand(_: &Server, actor: &Actor) {
    actor.write(
        "ada/rivers",
        "main",
        "create table many (id integer primary key, v text); insert into many with recursive n(i) as \
         (select 1 union all select i + 1 from n where i < 50000) select i, 'value ' || i from n",
    );
}
