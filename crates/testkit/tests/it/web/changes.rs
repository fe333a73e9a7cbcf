//! Commits, and the diffs between them.

use super::browser::Browser;
use super::rivers::{HOSTILE, assert_hidden, branch, escaped, rivers, signed_in};

#[test]
fn the_history_is_drawn_paged_and_leads_to_commits() {
    let (server, ada, _) = rivers();
    for n in 0..60 {
        ada.write("ada/rivers", "main", &format!("INSERT INTO rivers VALUES ({}, 'r', 1)", 100 + n));
    }
    let browser = Browser::at(&server);
    let page = browser.get("/ada/rivers/commits").expect(200).shows("<svg class=\"graph\"");
    assert_eq!(page.text.matches("<svg class=\"graph\"").count(), 50);
    assert!(page.text.contains("ref=main\">main</a>"), "the branch stands beside its head: {}", page.text);
    let next = page.text.split_once("rel=\"next\"").unwrap().0.rsplit_once("href=\"").unwrap().1;
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    let older = browser.get(&next).expect(200).shows("Newest");
    assert_eq!(older.text.matches("<svg class=\"graph\"").count(), 12, "61 writes and the beginning");
    assert!(!older.text.contains("rel=\"next\""));
    browser.get("/ada/rivers/commits?page=rubbish").expect(200);
}

#[test]
fn a_commit_shows_rows_and_definitions() {
    let (server, ada, _) = rivers();
    let changes = "ALTER TABLE rivers ADD COLUMN land TEXT; UPDATE rivers SET km = 1230 WHERE id = 1; \
                   DELETE FROM rivers WHERE id = 2; INSERT INTO rivers VALUES (4,'Lech',256,'AT'); CREATE TABLE lakes (id INTEGER PRIMARY KEY)";
    let hash = ada.write("ada/rivers", "main", changes);
    let browser = Browser::at(&server);
    let page = browser.get(&format!("/ada/rivers/commits/{hash}")).expect(200).shows("2 tables changed");
    let page =
        page.shows("land TEXT").shows("Table added").shows("<tr class=\"removed\">").shows("<tr class=\"added\">");
    let page = page.shows("<del><span class=\"cell number\">1233</span></del>");
    page.shows("<ins><span class=\"cell number\">1230</span></ins>");
    let sent = browser.get("/ada/rivers/commits/main").expect(303);
    assert_eq!(sent.location, Some(format!("/ada/rivers/commits/{hash}")));
    browser.get(&format!("/ada/rivers/commits/{hash}?table=nowhere")).expect(404);
    let sent = browser.get(&format!("/ada/rivers/commits/{}", &hash[..8])).expect(303);
    assert_eq!(sent.location, Some(format!("/ada/rivers/commits/{hash}")));
    browser.get(&format!("/ada/rivers?ref={}", &hash[..8])).expect(200).shows(&hash[..8]);
    browser.get(&format!("/ada/rivers?ref={}", &hash[..6])).expect(404);
    browser.get("/ada/rivers/commits/nowhere").expect(404).shows("Branch, tag or commit not found");
    browser.get(&format!("/ada/rivers/commits/{}", "0".repeat(40))).expect(404);
}

#[test]
fn many_changed_rows_are_paged_within_their_table() {
    let (server, ada, _) = rivers();
    let values: Vec<String> = (0..150).map(|n| format!("({}, 'row{n}', {n})", 1_000 + n)).collect();
    let hash = ada.write("ada/rivers", "main", &format!("INSERT INTO rivers VALUES {}", values.join(",")));
    let browser = Browser::at(&server);
    let page = browser.get(&format!("/ada/rivers/commits/{hash}")).expect(200).shows("All changed rows of rivers");
    assert_eq!(page.text.matches("<tr class=\"added\">").count(), 10);
    let first = browser.get(&format!("/ada/rivers/commits/{hash}?table=rivers")).expect(200).shows("row99");
    assert_eq!(first.text.matches("<tr class=\"added\">").count(), 100);
    let next = first.text.split_once("rel=\"next\"").unwrap().0.rsplit_once("href=\"").unwrap().1;
    let second = browser.get(&next.split('"').next().unwrap().replace("&#38;", "&")).expect(200).shows("row149");
    assert_eq!(second.text.matches("<tr class=\"added\">").count(), 50);
    assert!(!second.text.contains("rel=\"next\""));
}

#[test]
fn refs_are_compared_since_they_parted_or_directly() {
    let (server, ada, _) = rivers();
    branch(&ada, "feature/x");
    ada.write("ada/rivers", "feature/x", "INSERT INTO rivers VALUES (7,'Inn',517)");
    ada.write("ada/rivers", "main", "INSERT INTO rivers VALUES (8,'Oder',840)");
    let browser = Browser::at(&server);
    let sent = browser.get("/ada/rivers/compare?from=main&to=feature%2Fx").expect(303);
    let page = browser.follow(&sent).expect(200).shows("Inn").shows("since it branched").shows("id=\"open-pull\"");
    assert!(!page.text.contains("Oder"));
    browser.get("/ada/rivers/compare/main..feature%2Fx").expect(200).shows("Inn").shows("Oder");
    browser.get("/ada/rivers/compare/main...main").expect(200).shows("No changes");
    browser.get("/ada/rivers/compare").expect(200).shows(">Compare</label>");
    browser.get("/ada/rivers/compare/main...nope").expect(404).shows("Branch, tag or commit not found");
    browser.get("/ada/rivers/compare/main").expect(404);
}

#[test]
fn nothing_stored_is_taken_for_markup() {
    let (server, ada, _) = rivers();
    let q = format!(
        "CREATE TABLE \"t{HOSTILE}\" (\"c{HOSTILE}\" TEXT PRIMARY KEY); INSERT INTO \"t{HOSTILE}\" VALUES ('{HOSTILE}')"
    );
    let body = serde_json::json!({"from_branch": "main", "to_branch": "main", "q": q, "commit_message": HOSTILE});
    let operation = ada.finish(&ada.post("/databases/ada/rivers/sql-writes", &body));
    let hash = operation["result"]["commit_sha"].as_str().unwrap();
    let browser = signed_in(&server, "ada");
    for path in [
        "/ada/rivers/commits",
        &format!("/ada/rivers/commits/{hash}"),
        &format!("/ada/rivers/compare/{hash}~1..{hash}"),
    ] {
        let page = browser.get(path).expect(200);
        assert!(!page.text.contains(HOSTILE), "{path}: {}", page.text);
        assert!(page.text.contains(&escaped(HOSTILE)), "{path}: {}", page.text);
    }
}

#[test]
fn hidden_databases_look_like_missing_ones() {
    let (server, ada, _) = rivers();
    let body = serde_json::json!({"owner": "ada", "name": "secret", "visibility": "private"});
    ada.post("/databases", &body).expect(201);
    assert_hidden(&server, &["/commits", "/commits/main", "/compare", "/compare/main...main"]);
}
