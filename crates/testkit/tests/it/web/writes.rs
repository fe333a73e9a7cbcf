//! Writes typed as SQL: their preview, where they go, and what becomes of their text.

use super::browser::{Browser, Page};
use super::programs::{Workplace, code};
use super::rivers::{branch, escaped, rivers, signed_in};
use super::{PASSWORD, database, open_server, sign_up};

const WRITE: &str = "/ada/rivers/sql/write";

fn preview(browser: &Browser, q: &str, fields: &[(&str, &str)]) -> Page {
    let form = browser.get(WRITE).expect(200);
    let all = [&[("q", q), ("branch", "main"), ("action", "preview")][..], fields].concat();
    browser.submit(&form, WRITE, &all)
}

/// Returns the part of a page from the form that commits a preview on.
fn commit_form(page: Page) -> Page {
    let at =
        page.text.find("<form method=\"post\" action=\"/ada/rivers/sql/write\" id=\"commit-form\"").expect("a form");
    Page { text: page.text[at..].to_owned(), ..page }
}

fn heads(ada: &branchyard_testkit::Actor) -> serde_json::Value {
    ada.get("/databases/ada/rivers/branches").expect(200).data()
}

#[test]
fn a_write_is_previewed_and_then_committed_as_it_was_shown() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    let before = heads(&ada);
    let shown = preview(&browser, "UPDATE rivers SET km = 295 WHERE id = 3; DELETE FROM rivers WHERE id = 2", &[]);
    let shown = shown.expect(200).shows("1 table would change; the statements affect 2 rows.");
    let shown = shown.shows("<del>").shows("295").shows("Commit to main</button>").shows("Open a pull request");
    assert!(!shown.text.contains("has no WHERE") && !shown.text.contains("may differ"));
    assert_eq!(heads(&ada), before, "nothing is committed");
    let form = commit_form(shown);
    let sent = browser.submit(&form, WRITE, &[("action", "commit"), ("message", "Measure")]).expect(303);
    browser.follow(&sent).expect(200).shows("2 rows changed in");
    assert_eq!(ada.read("ada/rivers", "main", "SELECT km FROM rivers ORDER BY id")[1][0], "295");

    // The same form cannot commit again: the branch has moved.
    let again = browser.submit(&form, WRITE, &[("action", "commit")]).expect(200);
    again.shows("main has moved since you previewed these statements").shows("id=\"preview-empty\"");
}

#[test]
fn a_preview_warns_about_what_stands_out() {
    let (server, ..) = rivers();
    let browser = signed_in(&server, "ada");
    let all = preview(&browser, "DELETE FROM rivers", &[]).expect(200);
    all.shows("DELETE on rivers has no WHERE, so it applies to every row.").shows("3 rows");
    let random = preview(&browser, "UPDATE rivers SET km = random() WHERE id = 1", &[]).expect(200);
    random.shows("the result may differ");
    let text = preview(&browser, "UPDATE rivers SET name = 'random() where' WHERE id = 1 -- random()", &[]).expect(200);
    assert!(!text.text.contains("may differ"));
    let failing = preview(&browser, "UPDATE rivers SET km = 1 WHERE id = 1; DELETE FROM gone", &[]).expect(422);
    failing.shows("table not found: gone (statement 2)").shows("UPDATE rivers SET km = 1");
    let nothing = preview(&browser, "UPDATE rivers SET km = 292 WHERE id = 3", &[]).expect(200);
    let nothing = nothing.shows("These statements change nothing.");
    assert!(!nothing.text.contains("id=\"commit\""));
    let refused =
        preview(&browser, "DELETE FROM rivers WHERE id = 1; ALTER TABLE rivers ADD COLUMN x", &[]).expect(200);
    refused.shows("id=\"preview-refused\"").shows("Commit to main without a preview");
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO rivers SELECT x, '', 0 FROM n WHERE x < 0";
    preview(&browser, endless, &[]).expect(200).shows("took longer than 5 s");
}

#[test]
fn a_pull_request_comes_from_a_preview() {
    let (server, ada, _) = rivers();
    branch(&ada, "ada-edit-1");
    let browser = signed_in(&server, "ada");
    let shown = preview(&browser, "UPDATE rivers SET km = 295 WHERE id = 3", &[]).expect(200);
    assert_eq!(shown.value_of("new_branch"), "ada-edit-2", "a name that is free");
    let form = commit_form(shown);
    let taken = browser.submit(&form, WRITE, &[("action", "pull"), ("new_branch", "ada-edit-1")]).expect(422);
    taken.shows("already exists").shows("UPDATE rivers SET km = 295");
    let sent = browser.submit(&form, WRITE, &[("action", "pull"), ("new_branch", "measure")]).expect(303);
    browser.follow(&sent).expect(200).shows("/ada/rivers/pulls/new?from=measure&#38;to=main");
    assert_eq!(ada.read("ada/rivers", "main", "SELECT km FROM rivers WHERE id = 3")[0][0], "292");
}

/// Before, a write while a tag was viewed went to the default branch.
#[test]
fn a_write_at_a_tag_or_commit_goes_to_a_new_branch() {
    let (server, ada, _) = rivers();
    let tag = serde_json::json!({"name": "v1.0", "from": {"branch": "main"}});
    ada.post("/databases/ada/rivers/tags", &tag).expect(201);
    ada.write("ada/rivers", "main", "INSERT INTO rivers VALUES (4, 'Lech', 256)");
    let browser = signed_in(&server, "ada");
    let page = browser.get("/ada/rivers/sql?ref=v1.0&q=DELETE+FROM+rivers").expect(200);
    let page = page.shows("/ada/rivers/sql/write?ref=v1.0&#38;q=DELETE");
    drop(page);
    let form = browser.get("/ada/rivers/sql/write?ref=v1.0&q=DELETE+FROM+rivers").expect(200);
    let form = form.shows("The statements run on <strong>v1.0</strong>").shows("Preview changes");
    assert_eq!(form.value_of("new_branch"), "ada-edit-1");
    let fields = [("q", "DELETE FROM rivers"), ("new_branch", "emptied"), ("action", "preview")];
    let shown = browser.submit(&form, WRITE, &fields).expect(200);
    let shown = shown.shows("3 rows").shows("Commit to emptied</button>");
    assert!(!shown.text.contains("Commit to main"));
    let sent = browser.submit(&commit_form(shown), WRITE, &[("action", "commit")]).expect(303);
    browser.follow(&sent).expect(200).shows("3 rows changed in").shows("pulls/new?from=emptied&#38;to=main");
    let count = |at: &str| ada.read("ada/rivers", at, "SELECT count(*) FROM rivers")[0][0].clone();
    assert_eq!((count("main"), count("emptied"), count("v1.0")), ("4".into(), "0".into(), "3".into()));

    // A commit by its hash, without a preview: the form names the version, and never the default branch.
    let commits = ada.get("/databases/ada/rivers/commits?ref=v1.0").expect(200).data();
    let hash = commits[0]["sha"].as_str().unwrap();
    let form = browser.get(&format!("/ada/rivers/sql/write?ref={hash}")).expect(200).shows("and a new branch is made");
    let fields = [("q", "DELETE FROM rivers"), ("new_branch", "main"), ("action", "commit")];
    browser.submit(&form, WRITE, &fields).expect(422).shows("already exists");
    assert_eq!(count("main"), "4");
}

/// Before, the result said "0 rows changed".
#[test]
fn a_change_of_a_definition_has_no_number_of_rows() {
    let (server, ..) = rivers();
    let browser = signed_in(&server, "ada");
    let shown = preview(&browser, "ALTER TABLE rivers ADD COLUMN mouth TEXT", &[]).expect(200);
    let shown = shown.shows("1 table would change.").shows("mouth TEXT");
    let sent = browser.submit(&commit_form(shown), WRITE, &[("action", "commit")]).expect(303);
    let done = browser.follow(&sent).expect(200).shows("<strong>Committed.</strong> See commit");
    assert!(!done.text.contains("0 rows"));
}

#[test]
fn a_ref_that_does_not_resolve_keeps_the_text() {
    let (server, ..) = rivers();
    let browser = signed_in(&server, "ada");
    let page = browser.get("/ada/rivers/sql?ref=gone&q=SELECT+km+FROM+rivers").expect(404);
    let page = page
        .shows(&escaped("There is no branch, tag or commit named 'gone'"))
        .shows("SELECT km FROM rivers</textarea>");
    assert!(!page.text.contains("id=\"rows\""));
    let page = browser.get("/ada/rivers/sql/write?ref=gone&q=DELETE+FROM+rivers").expect(404);
    page.shows(&escaped("There is no branch, tag or commit 'gone'")).shows("DELETE FROM rivers</textarea>");
}

/// Before, the text was lost.
#[test]
fn statements_survive_the_end_of_a_session_for_their_author_alone() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    sign_up(&server, "ben");
    database(&server, &ada, "ada");
    let secret = format!("DELETE FROM rivers WHERE name = 'only for ada' -- {}", "x".repeat((32 << 10) - 60));
    let typed = || {
        let browser = signed_in(&server, "ada");
        let form = browser.get(WRITE).expect(200);
        browser.cookies.borrow_mut().remove("branchyard_session");
        let fields = [("q", secret.as_str()), ("branch", "main"), ("action", "preview")];
        let kept = browser.submit(&form, WRITE, &fields).expect(403).shows("Your statements are kept");
        assert!(!kept.text.contains("only for ada"), "the text is sealed");
        (browser, form, kept)
    };
    let sign_in = |browser: &Browser, on: &Page, name: &str| {
        browser.submit(on, "/sign-in", &[("name", name), ("password", PASSWORD)])
    };
    let (browser, _, kept) = typed();
    let wrong = browser.submit(&kept, "/sign-in", &[("name", "ada"), ("password", "wrong")]).expect(422);
    let back = sign_in(&browser, &wrong, "ada").expect(200).shows("Your statements are still here");
    let form = browser.submit(&back, WRITE, &[("action", "edit")]).expect(200);
    assert!(form.text.contains(&escaped(&secret)), "the text is back");
    assert_eq!(form.value_of("branch"), "main");

    // Another person who signs in there gets nothing of it.
    let (browser, stale, kept) = typed();
    let other = sign_in(&browser, &kept, "ben").expect(303);
    assert_eq!(other.location.as_deref(), Some(WRITE), "without the text");
    let after = browser.follow(&other);
    assert!(!after.text.contains("only for ada"));
    let fields = [("q", secret.as_str()), ("branch", "main"), ("action", "preview")];
    browser.submit(&stale, WRITE, &fields).expect(403).shows("Your session changed");

    // The author who has signed in again elsewhere in the same browser goes on at once; nothing has run.
    let browser = signed_in(&server, "ada");
    browser.submit(&stale, WRITE, &fields).expect(200).shows("Your statements are still here").shows("only for ada");

    // A form that names no author, or one that another server sealed, is refused as before.
    let browser = Browser::at(&server);
    let forged = [("q", "DELETE FROM rivers"), ("author", "0199c3a7"), ("csrf", "x")];
    browser.submit(&stale, WRITE, &forged).expect(403).shows("Your session changed");
    let long = "x".repeat((32 << 10) + 1);
    let (browser, ..) = typed();
    let kept = browser.submit(&stale, WRITE, &[("q", long.as_str()), ("branch", "main")]).expect(403);
    kept.shows("more than 32 KiB cannot be kept");
    // With their escapes these are too long for the form of the sign-in.
    let quoted = ["\"".repeat(12_588), "x".repeat(20_080)].concat();
    let kept = browser.submit(&stale, WRITE, &[("q", quoted.as_str()), ("branch", "main")]).expect(403);
    kept.shows("cannot be kept");
}

#[test]
fn the_requests_of_the_api_run_as_they_are_shown() {
    let (server, ada, _) = rivers();
    let q = "/ada/rivers/sql?q=SELECT+name+%7C%7C+%27%27%27%22%5C%24x%27+AS+n%2C+km%0AFROM+rivers+WHERE+km+%3E+1100";
    let filtered = "/ada/rivers/tables/rivers?column=km&test=gt&value=1100";
    for is_private in [false, true] {
        let browser = if is_private { signed_in(&server, "ada") } else { Browser::at(&server) };
        let workplace = Workplace::new(if is_private { ada.token().unwrap() } else { "" });
        for (path, cells) in [(q, vec!["Rhein", "$x", "1233"]), (filtered, vec!["1", "Rhein", "1233"])] {
            let page = browser.get(path).expect(200).shows("<summary>API</summary>");
            assert!(!page.text.contains(ada.token().unwrap()));
            for language in ["curl", "python", "javascript"] {
                let Some(printed) = workplace.run(language, &code(&page, &format!("api-{language}"))) else { continue };
                for cell in &cells {
                    assert!(printed.contains(cell), "{language}: {printed}");
                }
                assert!(!printed.contains("Elbe"), "{language}: {printed}");
            }
        }
        ada.patch("/databases/ada/rivers", &serde_json::json!({"visibility": "private"})).expect(200);
    }
}
