//! What rows and tables were before: their history, the commits of cells, and versions by time.

use serde_json::json;

use super::browser::Browser;
use super::rivers::{HOSTILE, assert_hidden, branch, escaped, rivers, signed_in};

const T: &str = "/ada/rivers/tables/rivers";

/// Returns the address of the link with an id.
#[track_caller]
fn link(page: &super::browser::Page, id: &str) -> String {
    let tag = page.text.split("<a ").find(|tag| tag.split('>').next().unwrap().contains(&format!("id=\"{id}\"")));
    let tag = tag.unwrap_or_else(|| panic!("no link {id} in {}", page.text));
    tag.split_once("href=\"").unwrap().1.split('"').next().unwrap().replace("&#38;", "&")
}

#[test]
fn a_row_shows_its_history_and_the_commit_of_each_cell() {
    let (server, ada, _) = rivers();
    branch(&ada, "work");
    ada.write("ada/rivers", "main", &format!("UPDATE rivers SET name = '{HOSTILE}' WHERE id = 2"));
    ada.write("ada/rivers", "work", "UPDATE rivers SET km = 1091 WHERE id = 2");
    let end = |name: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": name});
    let pull = json!({"title": "Elbe", "from_branch": end("work"), "to_branch": end("main")});
    ada.post("/databases/ada/rivers/pulls", &pull).expect(201);
    ada.finish(&ada.post("/databases/ada/rivers/pulls/1/merge", &json!({})));

    let browser = Browser::at(&server);
    let row = format!("{T}/row?column=id&test=eq&value=2");
    let page = browser.get(&row).expect(200);
    let blamed = browser.get(&link(&page, "blame-link")).expect(200).shows("pull request #1").shows("before: <del>");
    let blamed = blamed.shows(&escaped(HOSTILE)).shows("<span class=\"cell number\">1094</span></del>");
    assert!(!link(&blamed, "blame-link").contains("blame"));
    let history = browser.get(&link(&page, "history-link")).expect(200).shows("id = 2").shows("Looked at 5 commits.");
    assert_eq!(history.text.matches("class=\"box revision\"").count(), 4);
    history.shows("href=\"/ada/rivers/pulls/1\">#1</a>").shows("<ins><span class=\"cell number\">1091</span></ins>");

    let removed = ada.write("ada/rivers", "main", "DELETE FROM rivers WHERE id = 2");
    let key = "key=%7B%22id%22%3A%222%22%7D";
    browser.get(&format!("{T}/history?{key}")).expect(200).shows("tag removed").shows(&removed[..8]);
    browser.get(&format!("{T}/history?{key}&ref=work")).expect(200).shows("Looked at 3 commits");
    browser.get(&format!("{T}/history?key=%7B%22id%22%3A%2277%22%7D")).expect(404);
    browser.get(&format!("{T}/history?key=nonsense")).expect(400).shows("JSON object");
    browser.get(&format!("{T}/history?key=%7B%22name%22%3A%22x%22%7D")).expect(400).shows("primary key");
    browser.get("/ada/rivers/tables/nope/history").expect(404);
    ada.write("ada/rivers", "main", "CREATE VIEW v AS SELECT * FROM rivers");
    browser.get("/ada/rivers/tables/v/history").expect(422).shows("only tables have a history");
    assert!(!browser.get("/ada/rivers/tables/v").expect(200).text.contains("history-link"));
}

#[test]
fn a_table_shows_its_history_in_pages() {
    let (server, ada, _) = rivers();
    let rows: Vec<String> = (10..60).map(|id| format!("({id}, 'River {id}', {id})")).collect();
    ada.write("ada/rivers", "main", &format!("INSERT INTO rivers VALUES {}", rows.join(", ")));
    let browser = Browser::at(&server);
    let table = browser.get(T).expect(200);
    let mut address = link(&table, "history-link");
    let mut shown = Vec::new();
    for number in 0.. {
        let page = browser.get(&address).expect(200);
        // Rows that one commit changed are below one heading.
        assert_eq!(
            page.text.matches("<p class=\"box-head\"><strong>ada</strong>").count(),
            if number == 2 { 2 } else { 1 }
        );
        shown.extend(page.text.split("class=\"box revision").skip(1).map(|part| {
            let key = part.split_once("id = ").unwrap().1;
            key.split('<').next().unwrap().parse::<u32>().unwrap()
        }));
        if !page.text.contains("id=\"next-page\"") {
            page.shows(">Newest</a>");
            break;
        }
        assert!(number < 10);
        address = link(&page, "next-page");
    }
    assert_eq!(shown, (10..60).chain(1..4).collect::<Vec<_>>());
    let page = browser.get(&format!("{T}/history")).expect(200);
    let row =
        page.text.split("class=\"pad\"").nth(1).unwrap().split_once("href=\"").unwrap().1.split('"').next().unwrap();
    browser.get(&row.replace("&#38;", "&")).expect(200).shows("Looked at 3 commits");
}

#[test]
fn a_branch_is_shown_as_it_was_at_a_time() {
    let (server, ada, _) = rivers();
    let first = ada.get("/databases/ada/rivers/branches/main").expect(200).data()["head_commit_sha"].clone();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let now = ada.read("ada/rivers", "main", "select strftime('%Y-%m-%dT%H:%M:%fZ', 'now')");
    let at = now[0][0].as_str().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let second = ada.write("ada/rivers", "main", "UPDATE rivers SET km = 1091 WHERE id = 2");
    let third = ada.write("ada/rivers", "main", "UPDATE rivers SET km = 1090 WHERE id = 2");
    ada.post("/databases/ada/rivers/tags", &json!({"name": "v1", "from": {"branch": "main"}})).expect(201);
    let browser = Browser::at(&server);
    let then = browser.get(&format!("{T}?at={at}")).expect(200).shows(">1094<").shows("id=\"moment\"");
    assert!(!then.text.contains(">1090<"));
    // Everything that the page links to stays at that time.
    let first = first.as_str().unwrap();
    then.shows(&format!("href=\"/ada/rivers?ref={first}\"")).shows(&format!("tables/rivers/history?ref={first}"));
    for path in ["", "/schema", "/commits", "/sql?q=select+km+from+rivers+where+id+=+2", "/tables/rivers/history"] {
        let sign = if path.contains('?') { '&' } else { '?' };
        browser.get(&format!("/ada/rivers{path}{sign}ref=main&at={at}")).expect(200).shows(first);
    }
    let row = format!("{T}/row?column=id&test=eq&value=2");
    browser.get(&format!("{row}&at={at}")).expect(200).shows(">1094<");
    // As the form sends it: a minute before there was nothing.
    browser.get(&format!("{T}?ref=main&at=2001-09-04T12:00")).expect(422).shows("had no commit at that time");
    browser.get(&format!("{T}?ref=main&at=2100-09-04T12:00:30")).expect(200).shows(">1090<");
    browser.get(&format!("{T}?at=yesterday")).expect(400).shows("must be a time");
    for fixed in ["v1", first] {
        browser.get(&format!("{T}?ref={fixed}&at={at}")).expect(400).shows("Only a branch has a commit of a time");
    }
    browser.get(&format!("{T}?ref=nope&at={at}")).expect(404);

    // Step by step, without a script.
    let page = browser.get(&row).expect(200).shows(">1090<");
    assert!(!page.text.contains("id=\"newer-version\"") && !page.text.contains("id=\"latest-version\""));
    let page = browser.get(&link(&page, "older-version")).expect(200).shows(">1091<").shows(&second[..8]);
    let page = browser.get(&link(&page, "older-version")).expect(200).shows(">1094<");
    let page = browser.get(&link(&page, "newer-version")).expect(200).shows(">1091<");
    let page = browser.get(&link(&page, "newer-version")).expect(200).shows(">1090<").shows(&third[..8]);
    browser.get(&link(&page, "latest-version")).expect(200).shows(">1090<");
    let filtered = browser.get(&format!("{T}?column=km&test=gt&value=1090&sort=km")).expect(200);
    let older = browser.get(&link(&filtered, "older-version")).expect(200).shows(">1091<");
    assert!(!older.text.contains(">292<"), "the filter stays");
}

#[test]
fn the_versions_of_a_branch_are_its_own_line_newest_first() {
    let (server, ada, _) = rivers();
    let first = ada.get("/databases/ada/rivers/branches/main").expect(200).data()["head_commit_sha"].clone();
    branch(&ada, "work");
    ada.write("ada/rivers", "work", "UPDATE rivers SET km = 1091 WHERE id = 2");
    let second = ada.write("ada/rivers", "main", "UPDATE rivers SET km = 900 WHERE id = 1");
    let end = |name: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": name});
    let pull = json!({"title": "Elbe", "from_branch": end("work"), "to_branch": end("main")});
    ada.post("/databases/ada/rivers/pulls", &pull).expect(201);
    ada.finish(&ada.post("/databases/ada/rivers/pulls/1/merge", &json!({})));
    let head = ada.get("/databases/ada/rivers/branches/main").expect(200).data()["head_commit_sha"].clone();
    let browser = Browser::at(&server);
    let versions = |query: &str| {
        let page = browser.get(&format!("/ada/rivers/versions{query}")).expect(200);
        let found: serde_json::Value = serde_json::from_str(&page.text).unwrap();
        found["versions"].as_array().unwrap().clone()
    };
    let main = versions("?branch=main");
    let commits: Vec<_> = main.iter().map(|version| version["commit"].clone()).collect();
    assert_eq!(commits[..3], [head, json!(second), first], "the commit of the merged branch is not among them");
    assert!(main[0]["text"].as_str().unwrap().starts_with("ada, "), "{main:?}");
    assert_eq!(versions(""), main);
    assert_eq!(versions("?branch=work").len(), commits.len() - 1);
    for none in ["?branch=nope", "?branch=.."] {
        assert!(versions(none).is_empty(), "{none}");
    }
    browser.get(T).expect(200).shows("data-versions=\"/ada/rivers/versions?branch=main\"");
    ada.post("/databases/ada/rivers/tags", &json!({"name": "v1", "from": {"branch": "main"}})).expect(201);
    let tagged = browser.get(&format!("{T}?ref=v1")).expect(200);
    assert!(!tagged.text.contains("data-versions"), "a tag has a single version");
}

#[test]
fn the_past_of_a_private_database_is_hidden() {
    let (server, ada, _) = rivers();
    ada.post("/databases", &json!({"owner": "ada", "name": "secret", "visibility": "private"})).expect(201);
    ada.write("ada/secret", "main", "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)");
    let paths = [
        "/versions",
        "/tables/t/history",
        "/tables/t/history?key=%7B%22id%22%3A%221%22%7D",
        "/tables/t?at=2100-01-01T00:00:00Z",
    ];
    assert_hidden(&server, &paths);
    signed_in(&server, "ada").get("/ada/secret/tables/t/history").expect(200).shows("added");
}
