//! The SQL workbench.

use super::browser::Browser;
use super::rivers::{HOSTILE, assert_hidden, escaped, rivers, signed_in};

fn sql(q: &str) -> String {
    format!("/ada/rivers/sql?q={}", percent_encoding::utf8_percent_encode(q, percent_encoding::NON_ALPHANUMERIC))
}

#[test]
fn a_read_gives_rows_types_and_an_address_to_share() {
    let (server, ..) = rivers();
    let browser = Browser::at(&server);
    browser.get("/ada/rivers/sql").expect(200).shows("Run a query").shows("data-word=\"km\"");
    let page = browser.get(&sql("SELECT name, km, NULL AS gone, x'00ff' AS bytes FROM rivers ORDER BY id LIMIT 2"));
    let page = page.expect(200).shows("2 rows in ").shows("Rhein").shows("<span class=\"type\">TEXT</span>");
    let page =
        page.shows("<td class=\"null\">NULL</td>").shows("binary, 2 bytes").shows("<td class=\"number\">1233</td>");
    let page = page.shows("<th scope=\"col\" class=\"number\">km").shows("<th scope=\"col\">name");
    let link = page.text.split_once("href=\"/ada/rivers/sql.csv?").unwrap().1.split('"').next().unwrap();
    let csv = browser.get(&format!("/ada/rivers/sql.csv?{}", link.replace("&#38;", "&")));
    assert_eq!(csv.expect(200).text, "name,km,gone,bytes\nRhein,1233,,AP8=\nElbe,1094,,AP8=\n");
    browser.get(&sql("SELEC 1")).expect(200).shows("query error: Error parsing SQL");
    browser.get("/ada/rivers/sql.csv?q=SELEC+1").expect(422).shows("Error parsing SQL");
    browser.get("/ada/rivers/sql?q=SELECT+1&ref=nowhere").expect(404).shows("There is no branch, tag or commit named");
}

#[test]
fn rows_cells_and_columns_beyond_the_limits_are_cut_and_said_to_be() {
    let (server, ..) = rivers();
    let browser = Browser::at(&server);
    let many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x<501) SELECT x FROM n";
    let page = browser.get(&sql(many)).expect(200).shows("First 500 rows").shows(">500</td>");
    assert!(!page.text.contains(">501</td>"));
    let exact = many.replace("501", "500");
    browser.get(&sql(&exact)).expect(200).shows("500 rows in ");
    let long = browser.get(&sql("SELECT printf('%.*c', 201, 'x') AS a, printf('%.*c', 200, 'y') AS b")).expect(200);
    assert!(long.text.contains(&format!("{}…", "x".repeat(200))) && !long.text.contains(&"x".repeat(201)));
    assert!(long.text.contains(&format!("{}</td>", "y".repeat(200))));
    let columns: Vec<String> = (0..101).map(|n| format!("{n} AS c{n}")).collect();
    browser.get(&sql(&format!("SELECT {}", columns.join(",")))).expect(200).shows("1 more columns are not shown");
}

#[test]
fn a_write_becomes_a_commit_on_a_branch() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    let q = "UPDATE rivers SET km = 295 WHERE id = 3";
    let page = browser.get(&sql(q)).expect(200).shows("id=\"write-link\"");
    assert!(page.text.contains("/ada/rivers/sql/write?q=UPDATE"), "{}", page.text);
    let form = browser.get("/ada/rivers/sql/write").expect(200);
    let fields = [("q", q), ("message", "Measure the Isar"), ("branch", "main"), ("target", "branch")];
    let sent = browser.submit(&form, "/ada/rivers/sql/write", &fields).expect(303);
    browser.follow(&sent).expect(200).shows("1 row changed in").shows("commit <a");
    assert_eq!(ada.read("ada/rivers", "main", "SELECT km FROM rivers WHERE id = 3")[0][0], "295");
    browser.get("/ada/rivers/commits").expect(200).shows("Measure the Isar");

    let broken = [("q", "UPDATE nowhere SET a = 1"), ("branch", "main"), ("target", "branch")];
    let sent = browser.submit(&form, "/ada/rivers/sql/write", &broken).expect(303);
    browser.follow(&sent).expect(200).shows("Nothing was changed.").shows("UPDATE nowhere");
}

#[test]
fn what_is_wrong_with_a_write_stands_beside_its_field() {
    let (server, ..) = rivers();
    let browser = signed_in(&server, "ada");
    let form = browser.get("/ada/rivers/sql/write").expect(200);
    let send = |fields: &[(&str, &str)]| browser.submit(&form, "/ada/rivers/sql/write", fields);
    send(&[("q", " "), ("branch", "main")]).expect(422).shows("Enter at least one statement");
    let missing = send(&[("q", "DELETE FROM rivers"), ("branch", "nope")]).expect(422);
    let missing = missing.shows(&escaped("There is no branch 'nope'"));
    assert!(missing.text.contains("DELETE FROM rivers"), "the statements are still there");
    let taken = [("q", "DELETE FROM rivers"), ("branch", "main"), ("target", "pull"), ("new_branch", "main")];
    send(&taken).expect(422).shows("already exists");
    let bad = [("q", "DELETE FROM rivers"), ("branch", "main"), ("target", "pull"), ("new_branch", "a b~")];
    send(&bad).expect(422).shows("id=\"new_branch-error\"");
}

#[test]
fn statements_may_have_a_megabyte() {
    let (server, ..) = rivers();
    let browser = signed_in(&server, "ada");
    let form = browser.get("/ada/rivers/sql/write").expect(200);
    let most = format!("SELECT '{}'", "x".repeat((1 << 20) - 9));
    let fields = [("q", most.as_str()), ("branch", "main"), ("target", "branch")];
    let sent = browser.submit(&form, "/ada/rivers/sql/write", &fields).expect(303);
    browser.follow(&sent).expect(200).shows("Only the beginning is shown.");
    // The answer repeats what was sent, which is more than pages of a browser may have.
    let (_, token) = form.hidden_fields("/ada/rivers/sql/write").remove(0);
    let session = browser.cookies.borrow()["branchyard_session"].clone();
    let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("{}/ada/rivers/sql/write", server.address()));
    let request = request.header("Cookie", format!("branchyard_session={session}"));
    let request = request.header("Content-Type", "application/x-www-form-urlencoded");
    let answer = request.body(format!("csrf={token}&branch=main&q={}+", most.replace(' ', "+"))).send().unwrap();
    assert_eq!(answer.status(), 422);
    assert!(answer.text().unwrap().contains("at most 1048576 bytes; these have 1048577"));
}

#[test]
fn only_writers_write_and_only_by_our_forms() {
    let (server, ..) = rivers();
    let q = "DELETE FROM rivers";
    let stranger = Browser::at(&server);
    let page = stranger.get(&sql(q)).expect(200).shows("you need write access");
    assert!(!page.text.contains("id=\"write\""));
    stranger.get("/ada/rivers/sql/write").expect(303);
    let ben = signed_in(&server, "ben");
    ben.get("/ada/rivers/sql/write").expect(403);
    let token = ben.get("/").hidden_fields("/settings/theme").into_iter().find(|(name, _)| name == "csrf").unwrap();
    let fields: Vec<(String, String)> =
        [("q", q), ("branch", "main"), ("target", "branch")].map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
    let with_token: Vec<_> = fields.iter().cloned().chain([token.clone()]).collect();
    ben.forge("/ada/rivers/sql/write", &with_token, &[]).expect(403).shows("You don&#39;t have permission");
    let ada = signed_in(&server, "ada");
    ada.forge("/ada/rivers/sql/write", &fields, &[]).expect(403).shows("Your session changed");
    ada.forge("/ada/rivers/sql/write", &with_token, &[]).expect(403).shows("Your session changed");
}

#[test]
fn nothing_stored_or_sent_is_taken_for_markup() {
    let (server, ada, _) = rivers();
    ada.write(
        "ada/rivers",
        "main",
        &format!("CREATE TABLE \"t{HOSTILE}\" (\"c{HOSTILE}\" TEXT); INSERT INTO \"t{HOSTILE}\" VALUES ('{HOSTILE}')"),
    );
    let browser = signed_in(&server, "ada");
    let hidden = |text: &str| assert!(!text.contains(HOSTILE), "{text}");
    let page = browser.get(&sql(&format!("SELECT *, '{HOSTILE}' AS \"x{HOSTILE}\" FROM \"t{HOSTILE}\""))).expect(200);
    hidden(&page.text);
    assert!(page.text.matches(&escaped(HOSTILE)).count() >= 7, "{}", page.text);
    hidden(&browser.get(&sql(&format!("SELEC {HOSTILE}"))).expect(200).text);
    hidden(&browser.get(&format!("/ada/rivers/sql?q=SELECT+1&ref={}", "%3Cmarquee%3E%26lt%3B")).expect(404).text);
    let form = browser.get("/ada/rivers/sql/write").expect(200);
    let q = format!("UPDATE nowhere SET a = '{HOSTILE}' -- </textarea>");
    hidden(&browser.submit(&form, "/ada/rivers/sql/write", &[("q", &q), ("branch", HOSTILE)]).expect(422).text);
    let sent = browser.submit(&form, "/ada/rivers/sql/write", &[("q", &q), ("branch", "main")]).expect(303);
    hidden(&browser.follow(&sent).expect(200).text);
}

#[test]
fn hidden_databases_look_like_missing_ones() {
    let (server, ada, _) = rivers();
    let body = serde_json::json!({"owner": "ada", "name": "secret", "visibility": "private"});
    ada.post("/databases", &body).expect(201);
    assert_hidden(&server, &["/sql", "/sql?q=SELECT+1", "/sql.csv?q=SELECT+1", "/sql/write", "/sql/writes/x"]);
}
