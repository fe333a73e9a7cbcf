//! The pages of a database.

use branchyard_testkit::{Actor, Server};

use super::browser::Browser;
use super::{open_server, sign_up};

/// Starts a server with `ada/world`: cities that refer to countries, and a README.
fn world() -> (Server, Actor, Browser) {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("world");
    ada.write(
        "ada/world",
        "main",
        "create table countries (code text primary key, name text not null); \
         create table cities (id integer primary key, name text, country text references countries, people integer); \
         create view big as select name from cities where people > 100; \
         insert into countries values ('FR', 'France'), ('NZ', 'New Zealand'); \
         insert into cities values (1, 'Paris', 'FR', 2100), (2, 'Lyon', 'FR', 520), (3, 'Wellington', 'NZ', 210), (4, NULL, NULL, 1)",
    );
    let browser = Browser::at(&server);
    (server, ada, browser)
}

#[test]
fn a_new_database_says_what_to_do_and_tables_show_with_their_rows() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let page = ada.get("/new").expect(200);
    let bad = [("owner", "ada"), ("name", "a b"), ("visibility", "public")];
    ada.submit(&page, "/new", &bad).expect(422).shows("a database name is 1 to 64");
    let done = ada.submit(&page, "/new", &[("owner", "ada"), ("name", "rivers"), ("visibility", "public")]);
    let first = ada.follow(&done.expect(303)).expect(200);
    first.shows("No tables yet").shows("Initialize database").shows("href=\"/ada/rivers/settings\"");
    let twice = [("owner", "ada"), ("name", "Rivers"), ("visibility", "public")];
    ada.submit(&page, "/new", &twice).expect(422).shows("already exists");
    let others = [("owner", "bob"), ("name", "rivers"), ("visibility", "public")];
    ada.submit(&page, "/new", &others).expect(422).shows("you may not create databases");

    let (_server, _, browser) = world();
    let page = browser.get("/ada/world").expect(200);
    let page = page
        .shows("4 rows")
        .shows("2 rows")
        .shows("21 bytes")
        .shows("89 bytes")
        .shows("href=\"/ada/world/tables/cities\"")
        .shows(">View<");
    assert!(!page.text.contains("/ada/world/settings"), "settings are for those who administer");
}

#[test]
fn rows_are_filtered_sorted_and_paged() {
    let (_server, ada, browser) = world();
    let table = "/ada/world/tables/cities";
    browser.get(table).expect(200).shows("1–4 of 4 rows").shows("class=\"null\">NULL");
    let french = browser.get(&format!("{table}?column=country&test=eq&value=FR")).expect(200);
    assert!(french.text.contains("Lyon") && !french.text.contains("Wellington"), "{}", french.text);
    let both = "column=country&test=eq&value=FR&column=people&test=gt&value=1000";
    browser.get(&format!("{table}?{both}")).expect(200).shows("1–1 of 1 row").shows("Paris");
    browser.get(&format!("{table}?column=name&test=has&value=LING")).expect(200).shows("Wellington").shows("1 row");
    browser.get(&format!("{table}?column=name&test=null&value=")).expect(200).shows("1–1 of 1 row");
    browser
        .get(&format!("{table}?column=name&test=eq&value=%27+or+1=1+--"))
        .expect(200)
        .shows("No rows match this filter");
    let sorted = browser.get(&format!("{table}?sort=people&desc=1")).expect(200).shows("aria-sort=\"descending\"");
    let place = |name: &str| sorted.text.find(&format!(">{name}<")).unwrap();
    assert!(place("Paris") < place("Lyon") && place("Lyon") < place("Wellington"));
    browser.get(&format!("{table}?column=nope&test=eq&value=1")).expect(400);
    browser.get("/ada/world/tables/nope").expect(404);

    let many: Vec<String> = (100..260).map(|id| format!("({id}, 'city {id}', 'FR', 0)")).collect();
    ada.write("ada/world", "main", &format!("insert into cities values {}", many.join(", ")));
    let first = browser.get(table).expect(200).shows("1–50 of 164 rows");
    assert!(!first.text.contains("id=\"previous-page\""));
    let last = browser.get(&format!("{table}?page=4")).expect(200).shows("151–164 of 164 rows");
    assert!(!last.text.contains("id=\"next-page\"") && last.text.contains("city 259"));
    browser.get(&format!("{table}?page=18446744073709551615")).expect(200).shows("Past the last");
}

/// Returns the rows of a page, and the paging links by their ids.
fn rows_of(page: &super::browser::Page) -> (Vec<String>, std::collections::BTreeMap<&'static str, String>) {
    let rows = page.text.split("<tbody").nth(1).unwrap().split("</tbody>").next().unwrap().split("<tr>").skip(1);
    let links = ["first-page", "previous-page", "next-page", "last-page"].into_iter().filter_map(|id| {
        let tag =
            page.text.split("<a ").find(|tag| tag.split('>').next().unwrap().contains(&format!("id=\"{id}\"")))?;
        let href = tag.split_once("href=\"").unwrap().1.split('"').next().unwrap();
        Some((id, href.replace("&#38;", "&")))
    });
    (rows.map(|row| row.split_once("</td>").unwrap().1.to_owned()).collect(), links.collect())
}

#[test]
fn pages_lead_through_a_whole_table_forwards_and_back() {
    let (_server, ada, browser) = world();
    ada.write(
        "ada/world",
        "main",
        "create table kinds (id integer primary key, kind text, note text); create index by_kind on kinds (kind); \
         insert into kinds with recursive n(i) as (select 1 union all select i + 1 from n where i < 230) \
           select i, case when i % 3 = 0 then null else 'kind ' || (i % 4) end, case when i = 150 then hex(zeroblob(2000)) else i end from n; \
         create table bare (v); insert into bare select i % 5 from (select id as i from kinds)",
    );
    for (table, orders) in
        [("kinds", &["", "sort=kind", "sort=kind&desc=1", "sort=note"][..]), ("bare", &["", "sort=v&desc=1"])]
    {
        for order in orders {
            let address = format!("/ada/world/tables/{table}?{order}");
            let mut pages = Vec::new();
            let mut page = browser.get(&address).expect(200).shows("1–50 of 230 rows");
            loop {
                let (rows, links) = rows_of(&page);
                let (first, last) = (pages.len() * 50 + 1, pages.len() * 50 + rows.len());
                page = page.shows(&format!("{first}–{last} of 230 rows"));
                pages.push(rows);
                let Some(next) = links.get("next-page") else { break };
                page = browser.get(next).expect(200);
            }
            let all: Vec<String> = pages.concat();
            assert_eq!(all.len(), 230, "{address}");
            assert_eq!(all.iter().filter(|row| row.contains("kind 1")).count(), if table == "kinds" { 39 } else { 0 });
            // From the last page back to the first.
            let (_, links) = rows_of(&browser.get(&address).expect(200));
            let mut page = browser.get(&links["last-page"]).expect(200).shows("181–230 of 230 rows");
            let mut back: Vec<String> = Vec::new();
            loop {
                let (rows, links) = rows_of(&page);
                assert_eq!(links.contains_key("next-page"), !back.is_empty());
                assert_eq!(links.contains_key("first-page"), links.contains_key("previous-page"));
                back.splice(0..0, rows);
                let Some(previous) = links.get("previous-page") else { break };
                page = browser.get(previous).expect(200);
            }
            assert_eq!(back, all, "{address}");
        }
    }
    // Without a primary key, a row is addressed by its position.
    let (_, links) = rows_of(&browser.get("/ada/world/tables/bare?sort=v").expect(200));
    let last = browser.get(&links["last-page"]).expect(200);
    let row = last.text.rsplit("<td><a href=\"").next().unwrap().split('"').next().unwrap().replace("&#38;", "&");
    assert!(row.contains("/tables/bare/row?"), "{row}");
    browser.get(&row).expect(200).shows(">4<");

    // The branch has moved on. The next page begins where the last one ended, and shows no invented row numbers.
    let (_, links) = rows_of(&browser.get("/ada/world/tables/kinds").expect(200));
    ada.write("ada/world", "main", "delete from kinds where id < 10");
    let next = browser.get(&links["next-page"]).expect(200).shows("50 of 221 rows").shows(">51<");
    let (_, links) = rows_of(&next);
    browser.get(&links["previous-page"]).expect(200).shows("1–50 of 221 rows");
    // A page token of another list leads to the first page.
    let token = links["next-page"].split("page=").nth(1).unwrap().to_owned();
    browser.get(&format!("/ada/world/tables/kinds?sort=note&page={token}")).expect(200).shows("1–50 of 221 rows");
}

#[test]
fn a_row_leads_to_what_it_refers_to_and_back() {
    let (_server, _, browser) = world();
    let table = browser.get("/ada/world/tables/cities").expect(200);
    let link = "/ada/world/tables/countries/row?column=code&#38;test=eq&#38;value=FR";
    assert!(table.text.contains(link), "{}", table.text);
    let france = browser.get("/ada/world/tables/countries/row?column=code&test=eq&value=FR").expect(200);
    let france = france.shows("France").shows("cities by country");
    assert!(
        france.text.contains("/ada/world/tables/cities?column=country&#38;test=eq&#38;value=FR"),
        "{}",
        france.text
    );
    browser.get("/ada/world/tables/countries/row?column=code&test=eq&value=XX").expect(404);
    browser.get("/ada/world/tables/big").expect(200).shows("/ada/world/tables/big/row").shows("1–3 of 3 rows");
    browser.get("/ada/world/tables/big/row?page=2").expect(200).shows("Lyon");
}

#[test]
fn everything_can_be_seen_at_any_ref() {
    let (_server, ada, browser) = world();
    let before = ada.write("ada/world", "main", "insert into countries values ('DE', 'Germany')");
    ada.write("ada/world", "main", "drop view big; delete from cities where id = 4");
    browser.get("/ada/world/tables/cities").expect(200).shows("3 rows");
    let page = browser.get(&format!("/ada/world?ref={before}")).expect(200).shows("4 rows").shows("commit</span>");
    assert!(page.text.contains(&format!("/ada/world/tables/cities?ref={before}")), "links keep the ref");
    browser.get(&format!("/ada/world/tables/big?ref={before}")).expect(200);
    browser.get("/ada/world/tables/big").expect(404);
    browser
        .get("/ada/world?ref=nope")
        .expect(404)
        .shows("There is no branch, tag or commit named")
        .shows("Back to the database");
}

#[test]
fn the_schema_is_drawn_and_a_table_is_downloaded() {
    let (_server, _, browser) = world();
    let schema = browser.get("/ada/world/schema").expect(200);
    assert_eq!(schema.text.matches("class=\"edge\"").count(), 1, "{}", schema.text);
    schema.shows("<svg class=\"diagram\"").shows("references").shows("not null");
    let csv = browser.get("/ada/world/tables/countries/csv").expect(200);
    assert_eq!(csv.text, "code,name\nFR,France\nNZ,New Zealand\n");
    assert!(csv.headers["content-disposition"].to_str().unwrap().contains("countries.csv"));
    browser.get("/ada/world/tables/nope/csv").expect(404);
}

#[test]
fn a_readme_in_the_database_is_shown() {
    let (_server, ada, browser) = world();
    assert!(!browser.get("/ada/world").expect(200).text.contains("id=\"readme\""));
    let text = "# World\\n\\nA **small** one. <img src=x onerror=alert(1)> [bad](javascript:alert(1))";
    ada.write("ada/world", "main", "create table README (text text)");
    let insert = format!("insert into README values ('{}')", text.replace("\\n", "\n"));
    ada.write("ada/world", "main", &insert);
    let page = browser.get("/ada/world").expect(200).shows("id=\"readme\"").shows("<strong>small</strong>");
    assert!(!page.text.contains("<img src=x"), "{}", page.text);
}
