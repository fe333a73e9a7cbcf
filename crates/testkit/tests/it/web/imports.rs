//! Imports of files into tables.

use branchyard_testkit::{AMPLE, Server, wait_for};
use serde_json::Value;

use super::browser::{Browser, Page};
use super::{database, open_server, sign_up};

const NEW: &str = "/ada/rivers/imports/new";

fn send(browser: &Browser, name: &str, bytes: &[u8]) -> Page {
    let page = browser.get(NEW).expect(200);
    browser.submit_file(&page, NEW, &[("file_type", "")], (name, bytes))
}

/// Returns the fields that the preview page of a file sends unchanged.
fn options<'a>(page: &'a Page, table: &'a str, mode: &'a str) -> Vec<(&'a str, &'a str)> {
    assert!(page.text.contains("id=\"import-options\""), "{}", page.text);
    vec![("table_name", table), ("import_operation", mode), ("branch_name", "main"), ("landing", "branch")]
}

fn start() -> (Server, Browser, branchyard_testkit::Actor) {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    (server, ada, actor)
}

#[test]
fn a_file_is_looked_at_then_imported_without_javascript() {
    let (_server, ada, actor) = start();
    let done = send(&ada, "Big <i>Cities.csv", b"id,name,people\n1,Paris,2.1\n2,<script>x</script>,\n").expect(303);
    let at = done.location.clone().unwrap();
    let page = ada.follow(&done).expect(200);
    let page = page.shows("INTEGER").shows("REAL").shows("TEXT").shows("&#60;script&#62;x").shows(">NULL<");
    let page = page.shows("Big &#60;i&#62;Cities.csv").shows("value=\"big__i_cities\"");
    let action = at.split('?').next().unwrap();
    let mut fields = options(&page, "cities", "create");
    fields.extend([("primary_keys", "id"), ("file_name", "Big <i>Cities.csv")]);
    let wrong =
        [("table_name", "sqlite_x"), ("import_operation", "create"), ("branch_name", "nope"), ("landing", "branch")];
    ada.submit(&page, action, &wrong).expect(422).shows("are reserved");
    let done = ada.submit(&page, action, &fields).expect(303);
    let ended = ada.settled(done.location.as_deref().unwrap());
    let ended = ended.shows(">Succeeded<").shows("Import Big &#60;i&#62;Cities.csv into cities").shows("Primary key");
    ended.shows("/tables/cities?ref=main\">Table <strong>cities</strong>");
    let rows = actor.read("ada/rivers", "main", "select id, name, people from cities order by id");
    assert_eq!(rows[0][2], "2.1");
    // A file can be imported only once.
    ada.get(&at).expect(409).shows("already used");
    ada.get("/ada/rivers/imports").expect(200).shows(">Succeeded<");
}

#[test]
fn an_import_shows_how_far_it_is() {
    let (_server, ada, _actor) = start();
    const ROWS: usize = 1_200_000;
    let lines: String = (0..ROWS).map(|id| format!("{id},river\n")).collect();
    let done = send(&ada, "many.csv", format!("id,name\n{lines}").as_bytes()).expect(303);
    let page = ada.follow(&done).expect(200);
    let action = done.location.as_deref().unwrap().split('?').next().unwrap().to_owned();
    let mut fields = options(&page, "many", "create");
    fields.push(("primary_keys", "id"));
    let done = ada.submit(&page, &action, &fields).expect(303);
    let path = done.location.unwrap();
    let seen = wait_for("rows of the whole, with the rate and the rest", AMPLE, || {
        let page = ada.get(&path).expect(200);
        assert!(!page.text.contains(">Succeeded<"), "it ended before it was seen");
        if page.text.contains("id=\"time-left\"") && page.text.contains("Writing rows: ") {
            Ok(page)
        } else {
            Err(page.text)
        }
    });
    let seen = seen.shows(" of 1,200,000 rows</span>").shows("rows a second</span>").shows(" left</span>");
    let seen = seen.shows("id=\"operation-progress\"").shows("max=\"1200000\"");
    assert!(seen.text.contains(" data-watch=\"/ada/rivers/live?operation="), "{}", seen.text);
    let ended = ada.settled(&path).shows(">Succeeded<");
    assert!(!ended.text.contains("<progress") && !ended.text.contains("data-watch"), "{}", ended.text);
}

#[test]
fn a_pull_is_opened_where_that_was_chosen_and_a_table_that_is_there_is_known() {
    let (_server, ada, _actor) = start();
    let done = send(&ada, "r.csv", b"id,name\n7,Loire\n").expect(303);
    let page = ada.follow(&done).expect(200).shows("<option value=\"update\" selected>");
    let branch = page.value_of("pull_request_branch_name");
    assert!(branch.starts_with("ada/import-"), "{branch}");
    let action = done.location.as_deref().unwrap().split('?').next().unwrap().to_owned();
    let mut fields = options(&page, "r", "update");
    fields.retain(|(name, _)| *name != "landing");
    fields.extend([("landing", "pull"), ("pull_request_branch_name", branch.as_str())]);
    let done = ada.submit(&page, &action, &fields).expect(303);
    ada.settled(done.location.as_deref().unwrap()).shows("href=\"/ada/rivers/pulls/1\"");
    let done = send(&ada, "r.csv", b"id,name\n8,Seine\n").expect(303);
    let page = ada.follow(&done).expect(200);
    let action = done.location.as_deref().unwrap().split('?').next().unwrap().to_owned();
    let mut fields = options(&page, "r", "update");
    fields.retain(|(name, _)| *name != "landing");
    fields.extend([("landing", "pull"), ("pull_request_branch_name", "main")]);
    ada.submit(&page, &action, &fields).expect(422).shows("must differ from the target branch");
}

#[test]
fn what_is_wrong_with_a_file_is_said_by_line_and_early() {
    let (_server, ada, _actor) = start();
    let done = send(&ada, "bad.csv", b"id,name\n1,a\n2\n3,b,c\n").expect(303);
    let page = ada.follow(&done).expect(200).shows("id=\"preview-refused\"");
    assert!(
        page.text.contains("<td class=\"number\">3</td>") && page.text.contains("<td class=\"number\">4</td>"),
        "{}",
        page.text
    );
    send(&ada, "notes.txt", b"x").expect(422).shows("Choose a format");
    assert!(!page.text.contains("start-import"), "there is nothing to import");
    send(&ada, "empty.csv", b"").expect(422).shows("This file is empty.");
    let script =
        send(&ada, "make.sql", b"create table s (id integer primary key); insert into s values (1)").expect(303);
    let page = ada.follow(&script).expect(200).shows("This is a SQL script");
    let action = script.location.as_deref().unwrap().split('?').next().unwrap().to_owned();
    assert!(!page.text.contains("name=\"table_name\"") && !page.text.contains("name=\"import_operation\""));
    assert!(page.text.contains("id=\"start-import\""));
    let fields = [("branch_name", "main"), ("landing", "branch")];
    let done = ada.submit(&page, &action, &fields).expect(303);
    ada.settled(done.location.as_deref().unwrap()).shows(">Succeeded<");
}

#[test]
fn a_form_takes_sixteen_mebibytes_and_not_a_byte_more() {
    let (_server, ada, _actor) = start();
    let mut file = b"id\n1\n".to_vec();
    file.resize(16 << 20, b'\n');
    send(&ada, "long.csv", &file).expect(303);
    file.push(b'\n');
    send(&ada, "long.csv", &file).expect(422).shows("has more than 16777216 bytes");
}

#[test]
fn a_script_sends_parts_and_lands_on_the_same_page() {
    let (server, ada, _actor) = start();
    let page = ada.get(NEW).expect(200);
    let token = page.hidden_fields(NEW).remove(0).1;
    let open = "/ada/rivers/imports/uploads";
    let csv = b"id,name\n1,Rhine\n2,Rhone\n".as_slice();
    let size = csv.len().to_string();
    let fields = |name: &str, size: &str| {
        [("csrf", token.as_str()), ("file_name", name), ("file_size", size), ("file_type", "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    let told = |page: Page| serde_json::from_str::<Value>(&page.text).unwrap();
    assert!(
        told(ada.forge(open, &fields("a.bin", &size), &[]).expect(422))["error"].as_str().unwrap().contains("format")
    );
    ada.forge(open, &fields("a.csv", "0"), &[]).expect(422).shows("This file is empty.");
    ada.forge(open, &fields("a.csv", "99999999999999"), &[]).expect(422).shows("A file can have at most");
    let session = told(ada.forge(open, &fields("a.csv", &size), &[]).expect(201));
    let (part, next) = (session["parts"][0].as_str().unwrap(), session["next"].as_str().unwrap());
    assert_eq!(session["parts"].as_array().unwrap().len(), 1);

    ada.get(next).expect(404);
    ada.put(part, "nope", csv).expect(403);
    let bob = sign_up(&server, "bob");
    let theirs = bob.get("/").expect(200).hidden_fields("/settings/theme");
    let theirs = theirs.into_iter().find(|(name, _)| name == "csrf").unwrap().1;
    bob.put(part, &theirs, csv).expect(403);
    ada.put(part, &token, csv).expect(204);
    ada.get(next).expect(200).shows("Rhone").shows("INTEGER");
    // Another writer cannot see the file either.
    let put = serde_json::json!({"role": "write"});
    let put =
        server.actor_of("ada").request(reqwest::Method::PUT, "/databases/ada/rivers/collaborators/bob").json(&put);
    assert!(put.send().unwrap().status().is_success());
    bob.put(part, &theirs, csv).expect(403);
    bob.get(next).expect(404);
}

#[test]
fn imports_are_for_writers_and_a_form_with_a_file_wants_its_token_first() {
    let (server, ada, _actor) = start();
    let bob = sign_up(&server, "bob");
    bob.get(NEW).expect(403);
    assert_eq!(
        Browser::at(&server).get(NEW).expect(303).location.as_deref(),
        Some("/sign-in?next=%2Fada%2Frivers%2Fimports%2Fnew")
    );
    let page = ada.get(NEW).expect(200);
    bob.submit_file(&page, NEW, &[], ("a.csv", b"a\n1\n")).expect(403);
    let stale = ada.forge(NEW, &[("csrf".to_owned(), "x".to_owned())], &[]).expect(403);
    stale.shows("Your session changed");
    let forged = Page { text: page.text.replace("name=\"csrf\" value=\"", "name=\"csrf\" value=\"x"), ..page };
    ada.submit_file(&forged, NEW, &[("file_type", "csv")], ("a.csv", b"a\n1\n"))
        .expect(403)
        .shows("Your session changed");
}

/// Returns the text of the page of an uploaded file without its line ends.
fn preview(browser: &Browser, name: &str, bytes: &[u8]) -> (Page, String) {
    let done = send(browser, name, bytes).expect(303);
    let page = browser.follow(&done).expect(200);
    let action = done.location.as_deref().unwrap().split('?').next().unwrap().to_owned();
    (page, action)
}

#[test]
fn the_preview_says_which_values_change_their_spelling() {
    let (_server, ada, actor) = start();
    let file = "phone,version,code,mixed\n+4712345678,1.10,1e5,1\n+4787654321,1.2,2e5,2.5\n";
    let (page, action) = preview(&ada, "spelled.csv", file.as_bytes());
    let chosen = page.text.matches("<option value=\"TEXT\" selected>").count();
    assert_eq!(chosen, 1, "phone numbers are text: {}", page.text);
    assert_eq!(page.text.matches("<option value=\"NUMERIC\" selected>NUMERIC</option>").count(), 1);
    let page = page.shows("INTEGER: changes 2 values").shows("<code>+4712345678 → 4712345678</code>");
    let page = page.shows("REAL: changes 1 value").shows("<code>1.10 → 1.1</code>");
    let page = page.shows("<td>+4712345678</td>").shows("<td>1.10</td>");
    let page = page.shows("<code>1e5 → 100000.0</code>").shows("<code>1 → 1.0</code>");
    let mut fields = options(&page, "spelled", "create");
    fields.extend(["TEXT", "TEXT", "TEXT", "NUMERIC"].map(|column_type| ("column_types", column_type)));
    let done = ada.submit(&page, &action, &fields).expect(303);
    ada.settled(done.location.as_deref().unwrap()).shows(">Succeeded<");
    let rows = actor.read("ada/rivers", "main", "select * from spelled");
    assert_eq!(rows, serde_json::json!([["+4712345678", "1.10", "1e5", "1"], ["+4787654321", "1.2", "2e5", "2.5"]]));
}

#[test]
fn the_proposed_mode_can_succeed() {
    let (_server, ada, actor) = start();
    actor.write(
        "ada/rivers",
        "main",
        "create table keyless (a text); create table keyed (id integer primary key, a text)",
    );
    let proposed = |name: &str, file: &str, mode: &str, table: &str| {
        let (page, _) = preview(&ada, name, file.as_bytes());
        let page = page.shows(&format!("<option value=\"{mode}\" selected>"));
        assert_eq!(page.value_of("table_name"), table);
    };
    proposed("keyless.csv", "a\nx\n", "replace", "keyless");
    proposed("keyed.csv", "id,a\n1,x\n", "update", "keyed");
    proposed("keyed.csv", "a\nx\n", "replace", "keyed");
    proposed("keyed.csv", "id,other\n1,x\n", "create", "keyed_2");
    proposed("new.csv", "a\nx\n", "create", "new");
}

#[test]
fn delimiter_and_encoding_are_chosen_where_they_apply() {
    let (_server, ada, actor) = start();
    let western = b"navn;\xe5r\nBj\xf8rn;1999\n";
    let (page, action) = preview(&ada, "western.csv", western);
    assert!(!page.text.contains("start-import"), "it is not UTF-8");
    page.shows("not valid UTF-8").shows("id=\"text-options\"");
    let again = format!("{action}?name=western.csv&delimiter=%3B&delimiter_typed=&encoding=windows-1252");
    let page = ada.get(&again).expect(200).shows("år").shows("Bjørn").shows("<option value=\";\" selected>");
    let done = ada.submit(&page, &action, &options(&page, "western", "create")).expect(303);
    ada.settled(done.location.as_deref().unwrap()).shows(">Succeeded<");
    assert_eq!(actor.read("ada/rivers", "main", "select * from western")[0], serde_json::json!(["Bjørn", "1999"]));

    let (page, _) = preview(&ada, "tabs.tsv", b"a\tb\n1\t2\n");
    page.shows("TSV").shows("value=\"b\"");
    let (page, _) = preview(&ada, "list.json", b"[{\"a\": 1}]");
    assert!(!page.text.contains("text-options"));
}

#[test]
fn the_tables_of_a_sqlite_file_are_named() {
    let (_server, ada, actor) = start();
    let file = crate::files::sqlite(
        "create table lakes (id integer primary key); create table seas (name text); insert into seas values ('North')",
    );
    let (page, action) = preview(&ada, "water.sqlite", &file);
    page.shows("Tables in this file").shows(">lakes</a>").shows(">seas</a>");
    let page = ada.get(&format!("{action}?name=water.sqlite&table=seas")).expect(200).shows("North");
    let done = ada.submit(&page, &action, &options(&page, "seas", "create")).expect(303);
    ada.settled(done.location.as_deref().unwrap()).shows(">Succeeded<");
    assert_eq!(actor.read("ada/rivers", "main", "select name from seas")[0][0], "North");
    let (page, _) = preview(&ada, "one.sqlite", &crate::files::sqlite("create table only_one (a)"));
    page.shows("Table in this file: only_one");
}
