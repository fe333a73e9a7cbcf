//! Grids of rows, the values of columns, cells, and the layout of pages, as a browser without JavaScript sees them.

use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server};
use serde_json::json;

use super::browser::Browser;
use super::{database, open_server, sign_in, sign_up};

fn places() -> (Server, Actor, Browser) {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("world");
    ada.write(
        "ada/world",
        "main",
        "create table places (id integer primary key, name text unique, kind text, people integer); \
         insert into places values (1, 'Paris', 'city', 2100), (2, 'Lyon', 'city', 520), (3, 'Ars', 'village', 1), \
           (4, 'a''b', NULL, 7), (5, '', 'town', 9)",
    );
    let browser = Browser::at(&server);
    (server, ada, browser)
}

/// Returns the address behind the link with this id.
fn link(page: &super::browser::Page, id: &str) -> String {
    let before = page.text.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}: {}", page.text)).0;
    before.rsplit_once("href=\"").unwrap().1.split('"').next().unwrap().replace("&#38;", "&")
}

#[test]
fn new_operators_filter_and_values_of_one_column_are_alternatives() {
    let (_server, _, browser) = places();
    let table = "/ada/world/tables/places";
    let shows = |query: &str, rows: &str| browser.get(&format!("{table}?{query}")).expect(200).shows(rows);
    shows("column=name&test=starts&value=PAR", "1–1 of 1 row").shows("Paris");
    shows("column=people&test=ge&value=7&column=people&test=le&value=520", "1–3 of 3 rows");
    shows("column=people&test=ge&value=&column=people&test=le&value=7", "1–2 of 2 rows");
    shows("column=kind&test=any&value=village&column=kind&test=any&value=town", "1–2 of 2 rows");
    shows("in=kind&is=village&is=town&column=people&test=gt&value=1", "1–1 of 1 row");
    // The last filter is one more than are honored.
    let many: String = (0..10).map(|_| "column=people&test=gt&value=0&").collect();
    shows(&format!("{many}column=name&test=eq&value=Lyon"), "1–5 of 5 rows");
    let values: String = (0..60).map(|n| format!("&is={n}")).collect();
    let page = shows(&format!("in=people{values}"), "of 3 rows");
    let form = page.text.split_once("id=\"filter-form\"").unwrap().1.split("</form>").next().unwrap();
    assert_eq!(form.matches("name=\"test\" value=\"any\"").count(), 50);
    assert_eq!(page.text.matches("is one of <strong>").count(), 1);
}

#[test]
fn the_query_of_a_table_opens_with_its_filter_and_order() {
    let (_server, _, browser) = places();
    let query = "column=kind&test=eq&value=city&column=name&test=ne&value=a%27b&sort=people&desc=1";
    let page = browser.get(&format!("/ada/world/tables/places?ref=main&{query}")).expect(200);
    let editor = browser.get(&link(&page, "query")).expect(200);
    let statement = "SELECT *\nFROM &#34;places&#34;\nWHERE &#34;kind&#34; = &#39;city&#39;\n  AND &#34;name&#34; IS NOT \
                     &#39;a&#39;&#39;b&#39;\nORDER BY &#34;people&#34; DESC";
    let editor = editor.shows(statement).shows("2 rows in").shows("value=\"main\"");
    assert!(editor.text.find("Paris").unwrap() < editor.text.find("Lyon").unwrap());
}

#[test]
fn the_values_of_a_column_are_counted_and_lead_to_rows() {
    let (_server, ada, browser) = places();
    let page = browser.get("/ada/world/tables/places").expect(200);
    assert!(page.text.contains("/ada/world/tables/places/values?of=kind"), "{}", page.text);
    let values = "/ada/world/tables/places/values";
    let page = browser.get(&format!("{values}?of=Kind")).expect(200).shows("In 5 rows").shows("1 row</span>");
    let place = |text: &str| page.text.find(&format!("value=\"{text}\"")).unwrap();
    assert!(place("city") < place("town") && place("town") < place("village"));
    browser.get(&link(&page, "only-nulls")).expect(200).shows("1–1 of 1 row");
    browser.get(&link(&page, "without-nulls")).expect(200).shows("1–4 of 4 rows");
    // The filter of another column holds, that of this column is ticked.
    let narrowed = format!("{values}?of=kind&column=people&test=gt&value=1&column=kind&test=any&value=city&sort=name");
    let page = browser.get(&narrowed).expect(200).shows("In 4 rows").shows("value=\"city\" checked");
    assert!(!page.text.contains("value=\"village\""), "{}", page.text);
    let kept = page.hidden_fields("/ada/world/tables/places");
    let kept: Vec<(&str, &str)> = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(kept[..4], [("column", "people"), ("test", "gt"), ("value", "1"), ("sort", "name")]);
    browser
        .get(&format!("{values}?of=name"))
        .expect(200)
        .shows("(empty text)")
        .shows("From <span class=\"mono\"></span>");
    browser.get(&format!("{values}?of=nope")).expect(400);
    browser.get(values).expect(404);
    browser.get("/ada/world/tables/nope/values?of=a").expect(404);
    let head = ada.write("ada/world", "main", "delete from places");
    browser.get(&format!("{values}?of=kind")).expect(200).shows("In 0 rows");
    browser.get(&format!("{values}?of=kind&ref={head}")).expect(200).shows("In 0 rows");
    ada.patch("/databases/ada/world", &json!({"visibility": "private"})).expect(200);
    browser.get(&format!("{values}?of=kind")).expect(404);
    browser.get("/ada/world/tables/places/cell?of=kind&column=id&test=eq&value=1").expect(404);
}

#[test]
fn many_different_values_stay_bounded() {
    let (_server, ada, browser) = places();
    ada.write(
        "ada/world",
        "main",
        "create table many (id integer primary key, v text, w text); insert into many with recursive n(i) as \
         (select 1 union all select i + 1 from n where i < 50000) select i, 'value ' || i, hex(zeroblob(150)) || i from n",
    );
    for column in ["v", "w", "id"] {
        let began = Instant::now();
        let page = browser.get(&format!("/ada/world/tables/many/values?of={column}")).expect(200);
        println!("values of {column}: {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        let shown = page.text.matches("name=\"is\"").count();
        assert_eq!(shown, if column == "w" { 0 } else { 50 }, "{}", page.text);
        assert_eq!(page.text.contains("And more"), shown > 0);
    }
    ada.write(
        "ada/world",
        "main",
        "create view slow as with recursive n(i) as (select 1 union all select i + 1 from n) select i from n",
    );
    let began = Instant::now();
    browser.get("/ada/world/tables/slow/values?of=i").expect(200);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn a_cell_is_sent_as_an_image_only_if_it_is_a_safe_one() {
    let (_server, ada, browser) = places();
    ada.write(
        "ada/world",
        "main",
        "create table files (id integer primary key, b); insert into files values (1, x'474946383961'), \
         (2, cast('<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>' as blob)), \
         (3, '<html><script>alert(1)</script>'), (4, NULL), (5, 12), (6, zeroblob(17 << 20)), (7, '{\"a\":[1]}'), \
         (8, 'https://a.test/?b=c'), (9, 'javascript:alert(1)')",
    );
    let path = |id: u32| format!("/ada/world/tables/files/cell?of=b&column=id&test=eq&value={id}");
    let of = |id: u32| {
        let (headers, bytes) = browser.bytes(&path(id));
        let header = |name: &str| headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-security-policy"), "default-src 'none'; sandbox");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(header("cache-control"), "private, no-cache");
        (header("content-type"), header("content-disposition"), bytes)
    };
    assert_eq!(of(1), ("image/gif".to_owned(), "inline; filename*=UTF-8''b".to_owned(), b"GIF89a".to_vec()));
    let (kind, disposition, _) = of(2);
    assert_eq!((kind.as_str(), disposition.as_str()), ("application/octet-stream", "attachment; filename*=UTF-8''b"));
    let (kind, disposition, _) = of(3);
    assert_eq!(
        (kind.as_str(), disposition.as_str()),
        ("text/plain; charset=utf-8", "attachment; filename*=UTF-8''b.txt")
    );
    browser.get(&path(4)).expect(404);
    assert_eq!(of(5).2, b"12");
    browser.get(&path(6)).expect(413);
    browser.get(&path(99)).expect(404);
    browser.get("/ada/world/tables/files/cell?of=nope&column=id&test=eq&value=1").expect(400);
    let row = |id: u32| browser.get(&format!("/ada/world/tables/files/row?column=id&test=eq&value={id}")).expect(200);
    row(1)
        .shows("<img src=\"/ada/world/tables/files/cell?column=id&#38;test=eq&#38;value=1&#38;of=b\"")
        .shows("gif, 6 bytes");
    assert!(!row(2).text.contains("<img src=\"/ada"));
    row(7).shows("<code>{\n  &#34;a&#34;: [\n    1\n  ]\n}</code>");
    row(8).shows("<a href=\"https://a.test/?b=c\" rel=\"nofollow noopener noreferrer ugc\">");
    row(9).shows("javascript:alert(1)").shows("Filter by this value");
}

#[test]
fn pages_have_as_many_rows_as_are_chosen() {
    let (_server, ada, browser) = places();
    ada.write(
        "ada/world",
        "main",
        "create table many (id integer primary key); insert into many with recursive n(i) as \
         (select 1 union all select i + 1 from n where i < 230) select i from n",
    );
    let page = browser.get("/ada/world/tables/many?rows=100").expect(200).shows("1–100 of 230 rows");
    assert_eq!(page.text.matches("aria-label=\"Open row\"").count(), 100);
    let second = browser.get(&link(&page, "next-page")).expect(200).shows("101–200 of 230 rows");
    assert_eq!(link(&second, "next-page"), link(&second, "top-next-page"), "pages lead on above and below the rows");
    browser.get(&link(&second, "last-page")).expect(200).shows("131–230 of 230 rows");
    browser.get("/ada/world/tables/many?rows=500&page=2").expect(200).shows("Past the last of 230 rows");
    browser.get("/ada/world/tables/many?rows=7").expect(200).shows("1–50 of 230 rows");
}

#[test]
fn a_missing_row_tells_no_one_to_sign_in() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let row = "/ada/rivers/tables/r/row?column=id&test=eq&value=7";
    for browser in [&ada, &Browser::at(&server)] {
        let page = browser.get(row).expect(404).shows("Row not found").shows("Back to the table");
        assert!(!page.text.contains("sign in with"), "{}", page.text);
    }
    let page = ada.get("/ada/nothing").expect(404).shows("Page not found");
    assert!(!page.text.contains("sign in"), "{}", page.text);
    Browser::at(&server).get("/ada/nothing").expect(404).shows("sign in with an account");
}

#[test]
fn automatic_indexes_are_not_shown() {
    let (_server, ada, browser) = places();
    let page = browser.get("/ada/world/schema").expect(200).shows("places");
    assert!(!page.text.contains("sqlite_autoindex"), "{}", page.text);
    let hash = ada.write("ada/world", "main", "create table more (id integer primary key, a text unique)");
    let page = browser.get(&format!("/ada/world/commits/{hash}")).expect(200).shows("Table added");
    assert!(!page.text.contains("sqlite_autoindex"), "{}", page.text);
}

#[test]
fn a_new_view_is_called_a_view() {
    let (_server, ada, browser) = places();
    let hash = ada.write("ada/world", "main", "create view towns as select name from places where kind = 'town'");
    let page = browser.get(&format!("/ada/world/commits/{hash}")).expect(200).shows("View added");
    assert!(!page.text.contains("Table added"), "{}", page.text);
    let hash = ada.write("ada/world", "main", "drop view towns");
    let page = browser.get(&format!("/ada/world/commits/{hash}")).expect(200).shows("View removed");
    assert!(!page.text.contains("Table removed"), "{}", page.text);
}

#[test]
fn a_merged_branch_offers_no_pull_request() {
    let (_server, ada, browser) = places();
    ada.post("/databases/ada/world/branches", &json!({"name": "draft", "from": {"branch": "main"}})).expect(201);
    let compare = "/ada/world/compare/main...draft";
    let page = browser.get(compare).expect(200).shows("No changes");
    assert!(!page.text.contains("id=\"open-pull\""), "nothing was changed yet");
    ada.write("ada/world", "draft", "delete from places where id = 1");
    browser.get(compare).expect(200).shows("id=\"open-pull\"");
    let place = |branch: &str| json!({"database": {"owner": "ada", "name": "world"}, "branch_name": branch});
    let pull = json!({"title": "t", "from_branch": place("draft"), "to_branch": place("main")});
    ada.post("/databases/ada/world/pulls", &pull).expect(201);
    ada.finish(&ada.post("/databases/ada/world/pulls/1/merge", &json!({})));
    let page = browser.get(compare).expect(200).shows("No changes");
    assert!(!page.text.contains("id=\"open-pull\""), "{}", page.text);
}

#[test]
fn documentation_and_scripts_are_compressed_and_pages_with_data_are_not() {
    let (server, _, _) = places();
    let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let get = |path: &str, coding: &str| {
        client.get(format!("{}{path}", server.address())).header("Accept-Encoding", coding).send().unwrap()
    };
    let plain = get("/docs/api/v2", "identity");
    assert!(!plain.headers().contains_key("content-encoding"));
    let page = plain.text().unwrap();
    let styles =
        page.split("href=\"").find(|rest| rest.starts_with("/static/style")).unwrap().split('"').next().unwrap();
    let script =
        page.split("src=\"").find(|rest| rest.starts_with("/static/script")).unwrap().split('"').next().unwrap();
    for (path, whole) in [("/docs/api/v2", page.len()), (styles, usize::MAX), (script, usize::MAX)] {
        for coding in ["gzip", "br"] {
            let answer = get(path, coding);
            assert_eq!(answer.headers()["content-encoding"], coding, "{path}");
            assert!(answer.headers().get_all("vary").iter().any(|value| value == "Accept-Encoding"), "{path}");
            let length = answer.bytes().unwrap().len();
            println!("{path} as {coding}: {length} bytes");
            assert!(length < whole / 3, "{path}: {length}");
            // The budget of a page.
            assert!(path != script || length < 60_000, "{length}");
        }
    }
    assert!(!get("/ada/world/tables/places", "br").headers().contains_key("content-encoding"));
    // The token of forms has another spelling on each of these pages, and each of them is valid.
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let tokens = [0, 1].map(|_| {
        let page = ada.get("/docs/errors/not-found").expect(200);
        let done = ada.submit(&page, "/settings/theme", &[("theme", "dark")]).expect(303);
        drop(done);
        page.hidden_fields("/settings/theme")[0].1.clone()
    });
    assert_ne!(tokens[0], tokens[1]);
}

#[test]
fn an_empty_organization_offers_members_a_new_database() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    server.actor_of("ada").post("/organizations", &json!({"name": "acme"})).expect(201);
    let page = ada.get("/acme").expect(200).shows("id=\"new-database\"");
    let form = ada.get(&link(&page, "new-database")).expect(200);
    assert!(form.text.contains("<option selected>acme"), "{}", form.text);
    for (browser, path) in [(&bob, "/acme"), (&Browser::at(&server), "/acme"), (&bob, "/ada")] {
        let page = browser.get(path).expect(200);
        assert!(!page.text.contains("id=\"new-database\""), "{path}");
    }
    ada.get("/ada").expect(200).shows("id=\"new-database\"");
}

#[test]
fn an_email_address_at_sign_in_is_answered_with_what_is_wanted() {
    let server = open_server();
    sign_up(&server, "ada");
    let browser = Browser::at(&server);
    sign_in(&browser, "ada@example.test", "correct horse").expect(422).shows("Sign in with your username");
    sign_in(&browser, "nobody@example.test", "x").expect(422).shows("Sign in with your username");
    sign_in(&browser, "ada", "wrong").expect(422).shows("Wrong username or password");
}
