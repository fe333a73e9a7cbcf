//! Moving a branch back to an earlier commit.

use branchyard_testkit::Server;
use serde_json::json;

use super::browser::{Browser, Page};
use super::rivers::{assert_hidden, branch, rivers, signed_in};

/// The commits of `ada/rivers` after the first two: what `main` had before, and two commits since.
fn with_commits() -> (Server, branchyard_testkit::Actor, [String; 3]) {
    let (server, ada, _) = rivers();
    let head = ada.get("/databases/ada/rivers/branches/main").data()["head_commit_sha"].as_str().unwrap().to_owned();
    let second = ada.write("ada/rivers", "main", "INSERT INTO rivers VALUES (10,'Lech',256)");
    let third = ada.write("ada/rivers", "main", "DELETE FROM rivers WHERE id < 3");
    (server, ada, [head, second, third])
}

fn head(ada: &branchyard_testkit::Actor, branch: &str) -> String {
    ada.get(&format!("/databases/ada/rivers/branches/{branch}")).data()["head_commit_sha"].as_str().unwrap().to_owned()
}

fn short(commit: &str) -> &str {
    &commit[..8]
}

fn address(branch: &str, to: &str) -> String {
    format!("/ada/rivers/branches/{branch}/reset?to={to}")
}

/// Confirms a question that was asked at an address.
fn confirm(browser: &Browser, question: &Page, address: &str) -> Page {
    browser.submit(question, address, &[])
}

#[test]
fn a_branch_is_moved_back_after_a_question() {
    let (server, ada, [first, second, third]) = with_commits();
    let browser = signed_in(&server, "ada");
    let commits = browser.get("/ada/rivers/commits").expect(200);
    let link = |to: &str| format!("href=\"{}\"", address("main", to));
    let commits = commits.shows(&link(&first)).shows(&link(&second));
    assert!(!commits.text.contains(&link(&third)), "the branch is there");
    let reset = address("main", &first);
    let question = browser.get(&reset).expect(200).shows(&format!("Reset main to {}?", short(&first)));
    let question = question.shows(&format!("moves back from {} to {}", short(&third), short(&first)));
    let question =
        question.shows("2 commits would no longer be in any branch or tag:").shows("An administrator can undo");
    let question = question.shows(&format!("href=\"/ada/rivers/commits/{second}\""));
    assert_eq!(head(&ada, "main"), third, "a question changes nothing");

    let done = confirm(&browser, &question, &reset).expect(303);
    browser.follow(&done).expect(200).shows(&format!("Branch main is at {} again.", short(&first)));
    assert_eq!(head(&ada, "main"), first);
    ada.get(&format!("/databases/ada/rivers/commits/{third}")).expect(404);
    let rows = ada.read("ada/rivers", "main", "SELECT id FROM rivers ORDER BY id");
    assert_eq!(rows, json!([["1"], ["2"], ["3"]]));
    // The same form again does nothing.
    assert!(confirm(&browser, &question, &reset).status == 422);
    assert_eq!(head(&ada, "main"), first);
}

#[test]
fn a_branch_that_moved_meanwhile_is_not_moved_back() {
    let (server, ada, [first, ..]) = with_commits();
    let browser = signed_in(&server, "ada");
    let reset = address("main", short(&first));
    let question = browser.get(&reset).expect(200);
    let newer = ada.write("ada/rivers", "main", "INSERT INTO rivers VALUES (11,'Spree',400)");
    let refused = confirm(&browser, &question, &reset).expect(422).shows("It changed since it was read");
    assert_eq!(head(&ada, "main"), newer);
    // The new question shows the new commit, and can be confirmed.
    let refused = refused.shows("3 commits would").shows(short(&newer));
    confirm(&browser, &refused, &reset).expect(303);
    assert_eq!(head(&ada, "main"), first);
}

#[test]
fn commits_that_something_else_reaches_are_not_lost() {
    let (server, ada, [first, second, _]) = with_commits();
    let browser = signed_in(&server, "ada");
    let tag = json!({"name": "v1", "from": {"commit": second}});
    ada.post("/databases/ada/rivers/tags", &tag).expect(201);
    browser.get(&address("main", &first)).expect(200).shows("1 commit would no longer be in any branch or tag:");
    branch(&ada, "copy");
    browser.get(&address("main", &first)).expect(200).shows("Its later commits stay in other branches or tags.");
    // Other branches can be moved back, too.
    let other = address("copy", &second);
    let question = browser.get(&other).expect(200);
    confirm(&browser, &question, &other).expect(303);
    assert_eq!(head(&ada, "copy"), second);
    // Only to what is behind them.
    let third = head(&ada, "main");
    browser.get(&address("copy", &third)).expect(422).shows("is not an earlier commit of branch");
    browser.get(&address("copy", &second)).expect(422);
    for missing in ["0123456789", "nope", ""] {
        browser.get(&address("copy", missing)).expect(404);
    }
    browser.get(&address("none", &first)).expect(404);
}

#[test]
fn writers_alone_move_branches_back() {
    let (server, ada, [first, _, third]) = with_commits();
    let (reader, writer) = (signed_in(&server, "ben"), signed_in(&server, "ada"));
    let reset = address("main", &first);
    assert!(!reader.get("/ada/rivers/commits").expect(200).text.contains("/reset?to="));
    reader.get(&reset).expect(403);
    Browser::at(&server).get(&reset).expect(303);
    let fields = |token: Option<(String, String)>| {
        let sent = [("to", &first), ("head", &third)].map(|(name, value)| (name.to_owned(), value.clone()));
        sent.into_iter().chain(token).collect::<Vec<_>>()
    };
    let token = |browser: &Browser| {
        let all = browser.get("/").hidden_fields("/settings/theme");
        all.into_iter().find(|(name, _)| name == "csrf")
    };
    reader.forge(&reset, &fields(token(&reader)), &[]).expect(403).shows("You don&#39;t have permission");
    writer.forge(&reset, &fields(None), &[]).expect(403).shows("Your session changed");
    writer.forge(&reset, &fields(token(&reader)), &[]).expect(403).shows("Your session changed");
    writer.forge(&reset, &fields(token(&writer)), &[("Origin", "https://evil.test")]).expect(403);
    assert_eq!(head(&ada, "main"), third);
    ada.post("/databases", &json!({"owner": "ada", "name": "secret", "visibility": "private"})).expect(201);
    assert_hidden(&server, &["/branches/main/reset", "/branches/main/reset?to=main"]);
}
