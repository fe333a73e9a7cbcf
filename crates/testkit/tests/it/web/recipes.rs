//! Recipes that open tables in other programs, run as the page shows them.

use branchyard_testkit::{Actor, Server};
use reqwest::Method;
use serde_json::json;

use super::browser::Browser;
use super::programs::{Workplace, code};
use super::rivers::signed_in;

/// The name of a table that every language has to be careful with, and its address.
const ODD: &str = "it's \"odd\" $HOME `x` é %41";
const OPEN: &str = "/ada/d/open?table=it%27s%20%22odd%22%20%24HOME%20%60x%60%20%C3%A9%20%2541&ref=draft%2Fa";

/// Starts a server with `ada/d`, whose branch `draft/a` has a row that `main` lacks.
fn world() -> (Server, Actor) {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let name = ODD.replace('"', "\"\"");
    ada.write(
        "ada/d",
        "main",
        &format!(
            "create table \"{name}\" (id integer primary key, name text); insert into \"{name}\" values (2, 'Loire'); \
             create view plain as select id from \"{name}\""
        ),
    );
    ada.post("/databases/ada/d/branches", &json!({"name": "draft/a", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/d", "draft/a", &format!("insert into \"{name}\" values (1, 'Rhône, \"le\"')"));
    (server, ada)
}

fn run_all(browser: &Browser, ada: &Actor, is_private: bool) {
    let token = ada.token().unwrap();
    let page = browser.get(OPEN).expect(200);
    assert!(!page.text.contains(token));
    assert_eq!(page.text.contains("id=\"needs-token\""), is_private);
    assert_eq!(page.text.contains("$BRANCHYARD_TOKEN"), is_private);
    // Where no token is needed, none is sent.
    let workplace = Workplace::new(if is_private { token } else { "" });
    for program in ["python", "pandas", "r", "duckdb"] {
        let Some(printed) = workplace.run(program, &code(&page, &format!("open-{program}"))) else { continue };
        assert!(printed.contains("Rhône") && printed.contains("Loire"), "{program}: {printed}");
    }
    if workplace.run("shell", &code(&page, "open-shell")).is_some() {
        let file = std::fs::read_to_string(workplace.path("it_s__odd___HOME__x_____41.csv")).unwrap();
        assert_eq!(file, "id,name\n1,\"Rhône, \"\"le\"\"\"\n2,Loire\n");
    }
    let address = code(&page, "open-excel");
    let mut request = ada.plain(Method::GET, address.strip_prefix(ada.origin()).unwrap());
    if is_private {
        request = request.bearer_auth(token);
    }
    let bytes = request.send().unwrap().error_for_status().unwrap().bytes().unwrap();
    assert!(bytes.starts_with(b"PK"), "a workbook is an archive");
    std::fs::write(workplace.path("book.xlsx"), &bytes).unwrap();
    let read = "import openpyxl\nfor row in openpyxl.load_workbook('book.xlsx').active.values:\n    print(row)";
    if let Some(printed) = workplace.run("openpyxl", read) {
        assert!(printed.contains("'id', 'name'") && printed.contains("(1, 'Rhône, \"le\"')"), "{printed}");
    }

    let page = browser.get("/ada/d/open?ref=draft%2Fa").expect(200).shows("Choose a table for pandas");
    if let Some(printed) = workplace.run("python", &code(&page, "open-python")) {
        assert_eq!(printed.trim(), ODD);
    }
    if workplace.run("shell", &code(&page, "open-shell")).is_some() {
        assert!(std::fs::read(workplace.path("d.sqlite")).unwrap().starts_with(b"SQLite format 3"));
    }
}

#[test]
fn recipes_run_as_they_are_shown() {
    let (server, ada) = world();
    run_all(&Browser::at(&server), &ada, false);
    ada.patch("/databases/ada/d", &json!({"visibility": "private"})).expect(200);
    run_all(&signed_in(&server, "ada"), &ada, true);
}

#[test]
fn recipes_are_found_where_files_are_downloaded() {
    let (server, ada) = world();
    let visitor = Browser::at(&server);
    let table = OPEN.replace("/open?table=", "/tables/").replace("&ref", "?ref");
    visitor.get(&table).expect(200).shows(&OPEN.replace('&', "&#38;")).shows("href=\"#api\" data-opens");
    visitor.get("/ada/d").expect(200).shows("href=\"/ada/d/open\"");
    visitor.get("/ada/d/sql?q=select+1").expect(200).shows("href=\"#api\" data-opens");
    let page = visitor.get("/ada/d/open?table=PLAIN").expect(200);
    assert!(
        code(&page, "open-excel").ends_with("/export?format=xlsx&table=plain"),
        "views too, and their own spelling"
    );
    visitor.get("/ada/d/open?table=nope").expect(404);
    visitor.get("/ada/d/open?ref=nope").expect(404);
    ada.patch("/databases/ada/d", &json!({"visibility": "private"})).expect(200);
    visitor.get("/ada/d/open?table=plain").expect(404);
}
