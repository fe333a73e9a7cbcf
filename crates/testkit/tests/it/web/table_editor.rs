//! What the editor of the grid asks the server for: rows, choices, checks and commits.

use std::time::Instant;

use branchyard_testkit::{Actor, Server};
use serde_json::{Value, json};

use super::browser::Browser;
use super::rivers::signed_in;

const TABLE: &str = "/ada/world/tables/rivers";

/// Starts a server with a database that has rules of all kinds, and signs its owner in.
fn world() -> (Server, Actor, Browser) {
    let server = Server::start();
    let ada = server.user("ada");
    server.user("ben");
    ada.database("world");
    ada.write(
        "ada/world",
        "main",
        "create table countries (code text primary key, name text not null, area integer); \
         create table log (id integer primary key, what text); \
         create table loose (a, b); \
         create view long as select * from rivers; \
         create table rivers (id integer primary key, name text not null unique, km real check (km > 0), \
           country text references countries, note text, picture blob, miles as (km / 1.6)); \
         create trigger noted after update on rivers begin insert into log (what) values (new.name); end; \
         insert into countries values ('DE', 'Germany', 357), ('FR', 'France', 551), ('CH', 'Switzerland', 41); \
         insert into rivers (id, name, km, country, note, picture) values (1, 'Rhine', 1233.0, 'DE', '', x'00ff'), \
           (2, 'Loire', 1006.0, 'FR', null, null), (3, 'Seine', 775.0, null, printf('%01200d', 7), null); \
         insert into loose values (1, 'x')",
    );
    let browser = signed_in(&server, "ada");
    (server, ada, browser)
}

/// Returns the token of a signed-in browser.
fn token(browser: &Browser) -> String {
    browser.get(TABLE).expect(200).token()
}

fn head(ada: &Actor, branch: &str) -> Value {
    ada.get(&format!("/databases/ada/world/branches/{branch}")).expect(200).data()["head_commit_sha"].clone()
}

fn edit(base: &Value, rows: Value) -> Value {
    json!({"branch": "main", "base": base, "rows": rows})
}

fn check(browser: &Browser, token: &str, base: &Value, rows: Value) -> Value {
    browser.post_json(&format!("{TABLE}/edits/check"), token, &edit(base, rows), &[]).expect(200).json()
}

#[test]
fn a_sheet_has_the_rows_and_the_rules_of_their_columns() {
    let (_server, ada, browser) = world();
    let base = head(&ada, "main");
    let page = browser.get(TABLE).expect(200).shows("id=\"table-editor\"").shows("/static/table_editor.");
    assert!(page.text.contains("type=\"module\""), "{}", page.text);
    let sheet = browser.get(&format!("{TABLE}/sheet?sort=id")).expect(200).json();
    assert_eq!((&sheet["branch"], &sheet["head"], &sheet["base"]), (&json!("main"), &base, &base));
    assert_eq!((&sheet["key"], &sheet["unique"]), (&json!(["id"]), &json!(["name"])));
    let first = sheet["rows"][0].as_array().unwrap();
    let wanted = json!([{"n": "1"}, "Rhine", {"n": "1233.0"}, "DE", "", {"blob": "binary, 2 bytes"}]);
    assert_eq!(json!(first[..6]), wanted);
    assert_eq!(sheet["rows"][1][4], Value::Null, "NULL is not empty text");
    assert!(sheet["rows"][2][4]["cut"].as_str().unwrap().len() == 1_000, "a long text is cut: {sheet}");
    let columns = &sheet["columns"];
    assert_eq!((&columns[0]["numbered"], &columns[0]["affinity"]), (&json!(true), &json!("integer")));
    assert_eq!((&columns[1]["nullable"], &columns[2]["affinity"]), (&json!(false), &json!("real")));
    assert_eq!(
        (&columns[3]["refers"]["table"], &columns[3]["refers"]["column"]),
        (&json!("countries"), &json!("code"))
    );
    assert_eq!(columns[6]["generated"], true, "{columns}");

    // The rows at the commit that was edited, after the branch has moved.
    let filter = "column=id&test=eq&value=1";
    ada.write("ada/world", "main", "update rivers set name = 'Rhein' where id = 1");
    let now = browser.get(&format!("{TABLE}/sheet?{filter}")).expect(200).json();
    assert_eq!((&now["rows"][0][1], now["head"] == now["base"]), (&json!("Rhein"), true));
    let before = browser.get(&format!("{TABLE}/sheet?{filter}&base={}", base.as_str().unwrap())).expect(200).json();
    assert_eq!((&before["rows"][0][1], &before["base"], &before["head"]), (&json!("Rhine"), &base, &now["head"]));
    browser.get(&format!("{TABLE}/sheet?base=0123456789")).expect(404);
    browser.get("/ada/world/tables/long/sheet").expect(404);
    browser.get("/ada/world/tables/nowhere/sheet").expect(404);
}

#[test]
fn choices_are_found_by_value_and_by_label() {
    let (_server, _, browser) = world();
    let choices = |query: &str| browser.get(&format!("/ada/world/tables/countries/choices?{query}")).expect(200).json();
    let all = choices("of=code");
    assert_eq!(all, json!({"values": [["CH", "Switzerland"], ["DE", "Germany"], ["FR", "France"]], "more": false}));
    assert_eq!(choices("of=code&text=d")["values"], json!([["DE", "Germany"], ["CH", "Switzerland"]]));
    assert_eq!(choices("of=code&is=DE&is=XX&is=FR")["values"], json!([["DE", "Germany"], ["FR", "France"]]));
    browser.get("/ada/world/tables/countries/choices").expect(404);
    assert!(browser.get("/ada/world/tables/countries/choices?of=nothing").status >= 400);
}

#[test]
fn a_check_names_what_is_wrong_with_each_row_and_keeps_nothing() {
    let (_server, ada, browser) = world();
    let (token, base) = (token(&browser), head(&ada, "main"));
    let good = check(
        &browser,
        &token,
        &base,
        json!([
            {"op": "update", "key": {"id": 1}, "set": {"km": "1230"}},
            {"op": "insert", "set": {"name": "Elbe"}},
            {"op": "delete", "key": {"id": 3}},
        ]),
    );
    assert_eq!((&good["status"], &good["head"]), (&json!("ok"), &base), "{good}");
    let tables = good["tables"].as_array().unwrap();
    assert_eq!(tables.iter().map(|table| &table["table"]).collect::<Vec<_>>(), ["log", "rivers"], "the trigger, too");
    assert_eq!((&tables[1]["added"], &tables[1]["removed"], &tables[1]["changed"]), (&json!(1), &json!(1), &json!(1)));
    let row = &tables[1]["rows"][0];
    assert_eq!(
        (&row["kind"], &row["from"][2], &row["to"][2]),
        (&json!("changed"), &json!({"n": "1233.0"}), &json!({"n": "1230.0"}))
    );

    let bad = check(
        &browser,
        &token,
        &base,
        json!([
            {"op": "update", "key": {"id": 1}, "set": {"km": "-5"}},
            {"op": "update", "key": {"id": 2}, "set": {"note": "fine"}},
            {"op": "update", "key": {"id": 3}, "set": {"country": "XX"}},
            {"op": "insert", "set": {"name": "Loire"}},
            {"op": "insert", "set": {"name": null}},
        ]),
    );
    assert_eq!(bad["status"], "problems", "{bad}");
    let problems = bad["problems"].as_array().unwrap();
    let told = |at: usize| (problems[at]["row"].as_u64(), problems[at]["column"].as_str());
    assert_eq!(
        [told(0), told(1), told(2), told(3)],
        [(Some(0), None), (Some(2), None), (Some(3), Some("name")), (Some(4), Some("name"))]
    );
    assert!(problems[0]["detail"].as_str().unwrap().starts_with("CHECK constraint failed"), "{bad}");
    assert!(problems[1]["detail"].as_str().unwrap().starts_with("FOREIGN KEY constraint failed"), "{bad}");
    assert_eq!(problems.len(), 4);

    // Others changed a cell, a row was removed, and a key was taken.
    ada.write(
        "ada/world",
        "main",
        "update rivers set name = 'Rhin', note = 'theirs' where id = 1; delete from rivers where id = 2; \
         insert into rivers (id, name) values (9, 'Inn')",
    );
    let conflicts = check(
        &browser,
        &token,
        &base,
        json!([
            {"op": "update", "key": {"id": 1}, "set": {"name": "Rhein", "km": 1}},
            {"op": "update", "key": {"id": 2}, "set": {"km": 5}},
            {"op": "insert", "set": {"id": 9, "name": "Lech"}},
        ]),
    );
    assert_eq!((&conflicts["status"], &conflicts["head"]), (&json!("conflicts"), &head(&ada, "main")), "{conflicts}");
    let wanted = json!([
        {"row": 0, "column": "name", "base": "Rhine", "theirs": "Rhin", "mine": "Rhein"},
        {"row": 1, "column": "km", "base": {"n": "1006.0"}, "theirs": {"absent": true}, "mine": {"n": "5"}},
        {"row": 2, "column": "name", "base": {"absent": true}, "theirs": "Inn", "mine": "Lech"},
    ]);
    assert_eq!(conflicts["conflicts"], wanted);
    let missing = check(&browser, &token, &base, json!([{"op": "delete", "key": {"id": 77}}]));
    assert_eq!((&missing["status"], &missing["problems"][0]["row"]), (&json!("problems"), &json!(0)), "{missing}");
    assert_eq!(ada.get("/databases/ada/world/commits").data().as_array().unwrap().len(), 3, "checks commit nothing");
    assert_eq!(ada.get("/databases/ada/world/operations?type=edit").data(), json!([]));
}

#[test]
fn references_that_are_deferred_fail_for_all_rows_together() {
    let (_server, ada, browser) = world();
    ada.write(
        "ada/world",
        "main",
        "create table kin (id integer primary key, parent integer references kin deferrable initially deferred)",
    );
    let (token, base) = (token(&browser), head(&ada, "main"));
    let check = |rows: Value| {
        let body = edit(&base, rows);
        browser.post_json("/ada/world/tables/kin/edits/check", &token, &body, &[]).expect(200).json()
    };
    let row = |id: u32, parent: Option<u32>| json!({"op": "insert", "set": {"id": id, "parent": parent}});
    assert_eq!(check(json!([row(1, Some(2)), row(2, None)]))["status"], "ok", "the order does not matter");
    let together = check(json!([row(1, None), row(2, Some(99))]));
    assert_eq!(
        (&together["status"], &together["problems"][0]["row"]),
        (&json!("problems"), &Value::Null),
        "{together}"
    );
    let alone = check(json!([row(2, Some(99))]));
    assert_eq!((&alone["status"], &alone["problems"][0]["row"]), (&json!("problems"), &json!(0)), "{alone}");
}

#[test]
fn edits_are_committed_to_the_branch_or_to_a_new_one() {
    let (_server, ada, browser) = world();
    let (token, base) = (token(&browser), head(&ada, "main"));
    let send = |body: &Value| browser.post_json(&format!("{TABLE}/edits"), &token, body, &[]);
    let rows = json!([{"op": "update", "key": {"id": 1}, "set": {"name": "Rhein"}}]);
    let mut body = edit(&base, rows);
    body["to_branch"] = json!("fix");
    body["message"] = json!("In German");
    let done = send(&body).expect(200).json();
    assert_eq!((&done["status"], &done["commit"]), (&json!("committed"), &head(&ada, "fix")), "{done}");
    assert_eq!(head(&ada, "main"), base);
    assert_eq!(ada.get("/databases/ada/world/commits?ref=fix").data()[0]["message"], "In German");
    // A branch that is there already is no new one.
    let taken = send(&body).expect(422).json();
    assert_eq!(taken["error"], "Branch 'fix' already exists. Choose another name.");
    assert_eq!(json!(done["commit"]), head(&ada, "fix"));

    ada.write("ada/world", "main", "update rivers set name = 'Rhin' where id = 1");
    let moved = head(&ada, "main");
    body["to_branch"] = json!(null);
    let failed = send(&body).expect(422).json();
    assert_eq!((&failed["status"], &failed["is_conflict"]), (&json!("failed"), &json!(true)), "{failed}");
    assert_eq!((&failed["problems"][0]["row"], &failed["problems"][0]["column"]), (&json!(0), &json!("name")));
    assert_eq!(head(&ada, "main"), moved, "nothing is overwritten");
    body["base"] = moved;
    send(&body).expect(200);
    assert_eq!(ada.read("ada/world", "main", "select name from rivers where id = 1")[0][0], "Rhein");

    // A table without a key takes new rows only.
    let loose = |rows: Value| {
        let body = edit(&head(&ada, "main"), rows);
        browser.post_json("/ada/world/tables/loose/edits", &token, &body, &[])
    };
    loose(json!([{"op": "insert", "set": {"a": 2, "b": null}}])).expect(200);
    let refused = loose(json!([{"op": "delete", "key": {"a": 2}}])).expect(422).json();
    assert!(refused["problems"][0]["detail"].as_str().unwrap().contains("no primary key"), "{refused}");
}

#[test]
fn a_thousand_cells_are_committed_within_the_budget() {
    let (_server, ada, browser) = world();
    let sql = "create table cells (id integer primary key, a text, b text, c integer, d real, e text); insert into cells \
               with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) select i, 'a' || i, 'b' || i, i, i / 2.0, null from n";
    ada.write("ada/world", "main", sql);
    let (token, base) = (token(&browser), head(&ada, "main"));
    let rows: Vec<Value> = (1..=200)
        .map(|id| json!({"op": "update", "key": {"id": id}, "set": {"a": format!("A{id}"), "b": "", "c": id * 2, "d": "0.5", "e": "new"}}))
        .collect();
    let began = Instant::now();
    let done = browser.post_json("/ada/world/tables/cells/edits", &token, &edit(&base, json!(rows)), &[]).expect(200);
    let took = began.elapsed();
    eprintln!("1,000 cells of 200 rows were committed in {} ms", took.as_millis());
    assert_eq!(done.json()["status"], "committed");
    let sum = ada.read("ada/world", "main", "select sum(c), count(*), sum(e = 'new') from cells where b = ''");
    assert_eq!(sum, json!([["40200", "200", "200"]]));
    // The budget is of a release build on an idle machine.
    let most = if cfg!(debug_assertions) { 10 } else { 1 };
    assert!(took.as_secs() < most, "{took:?}");
}

#[test]
fn limits_of_rows_and_bytes_hold_at_and_past_them() {
    let (_server, ada, browser) = world();
    let (token, base) = (token(&browser), head(&ada, "main"));
    let inserts =
        |count: usize| -> Vec<Value> { (0..count).map(|n| json!({"op": "insert", "set": {"a": n}})).collect() };
    let send =
        |path: &str, body: &Value| browser.post_json(&format!("/ada/world/tables/loose/{path}"), &token, body, &[]);
    let checked = send("edits/check", &edit(&base, json!(inserts(10_000)))).expect(200).json();
    assert_eq!((&checked["status"], &checked["tables"][0]["added"]), (&json!("ok"), &json!(10_000)), "{checked}");
    assert_eq!(checked["tables"][0]["rows"].as_array().unwrap().len(), 100);
    for path in ["edits", "edits/check"] {
        let refused = send(path, &edit(&base, json!(inserts(10_001)))).expect(400).json();
        assert!(refused["error"].as_str().unwrap().contains("at most 10000"), "{refused}");
        let empty = send(path, &edit(&base, json!([]))).expect(400).json();
        assert!(empty["error"].as_str().unwrap().contains("must not be empty"), "{empty}");
        let large = json!([{"op": "insert", "set": {"a": "x".repeat(2 << 20)}}]);
        send(path, &edit(&base, large)).expect(413);
        browser
            .post_json(&format!("/ada/world/tables/none/{path}"), &token, &edit(&base, json!(inserts(1))), &[])
            .expect(404);
        let unknown = send(path, &edit(&base, json!([{"op": "insert", "set": {"z/1": 1}}]))).expect(422).json();
        assert_eq!(
            (&unknown["problems"][0]["row"], &unknown["problems"][0]["column"]),
            (&json!(0), &json!("z/1")),
            "{unknown}"
        );
    }
    assert_eq!(head(&ada, "main"), base);
}

#[test]
fn only_people_who_may_write_edit_and_only_from_our_pages() {
    let (server, ada, browser) = world();
    ada.post("/databases/ada/world/tags", &json!({"name": "v1", "from": {"branch": "main"}})).expect(201);
    let secret = json!({"owner": "ada", "name": "secret", "visibility": "private"});
    ada.post("/databases", &secret).expect(201);
    ada.write("ada/secret", "main", "create table rivers (id integer primary key); insert into rivers values (1)");
    let (ben, anonymous) = (signed_in(&server, "ben"), Browser::at(&server));
    let base = head(&ada, "main");
    let body = edit(&base, json!([{"op": "delete", "key": {"id": 1}}]));
    let (ours, bens) = (token(&browser), ben.get(TABLE).expect(200).token());

    // Reading is not writing. The button is for writers at a branch.
    for page in [
        ben.get(TABLE).expect(200),
        anonymous.get(TABLE).expect(200),
        browser.get(&format!("{TABLE}?ref=v1")).expect(200),
    ] {
        assert!(!page.text.contains("table_editor"), "{}", page.text);
    }
    for path in ["sheet", "choices?of=id"] {
        ben.get(&format!("{TABLE}/{path}")).expect(403);
        anonymous.get(&format!("{TABLE}/{path}")).expect(303);
        let (hidden, missing) =
            (format!("/ada/secret/tables/rivers/{path}"), format!("/ada/nothere/tables/rivers/{path}"));
        assert_eq!(ben.get(&hidden).expect(404).text.replace("secret", "nothere"), ben.get(&missing).expect(404).text);
    }
    browser.get(&format!("{TABLE}/sheet?ref=v1")).expect(404);
    for path in ["edits", "edits/check"] {
        ben.post_json(&format!("{TABLE}/{path}"), &bens, &body, &[]).expect(403).shows("You don&#39;t have permission");
        ben.post_json(&format!("/ada/secret/tables/rivers/{path}"), &bens, &body, &[]).expect(404);
        ben.post_json(&format!("/ada/nothere/tables/rivers/{path}"), &bens, &body, &[]).expect(404);
        // Without the token of this session, or from elsewhere.
        for wrong in ["", bens.as_str(), "AAAA"] {
            browser.post_json(&format!("{TABLE}/{path}"), wrong, &body, &[]).expect(403).shows("Your session changed");
        }
        for header in [("Origin", "https://evil.test"), ("Sec-Fetch-Site", "cross-site")] {
            browser.post_json(&format!("{TABLE}/{path}"), &ours, &body, &[header]).expect(403);
        }
        anonymous.post_json(&format!("{TABLE}/{path}"), &ours, &body, &[]).expect(403);
        assert!(matches!(browser.get(&format!("{TABLE}/{path}")).status, 404 | 405));
        let at_tag = json!({"branch": "v1", "base": base, "rows": body["rows"]});
        browser.post_json(&format!("{TABLE}/{path}"), &ours, &at_tag, &[]).expect(404);
    }
    assert_eq!(head(&ada, "main"), base, "nothing was changed");
    browser.post_json(&format!("{TABLE}/edits"), &ours, &body, &[]).expect(200);
}
