//! Branches and forks that lead somewhere: how far they are apart, syncs, contributions, numbers beside tabs.

use branchyard_testkit::{AMPLE, Actor, Server, wait_for};
use serde_json::json;

use super::browser::{Browser, Page};
use super::rivers::{branch, rivers, signed_in};

/// Starts a server with Ada's database of rivers and Ben's fork of it.
fn forked() -> (Server, Actor, Actor) {
    let (server, ada, ben) = rivers();
    ben.finish(&ben.post("/databases/ada/rivers/forks", &json!({"owner": "ben"})));
    (server, ada, ben)
}

fn insert(id: u32) -> String {
    format!("INSERT INTO rivers VALUES ({id},'River',{id})")
}

/// Returns the text of the line about the branch, without tags.
fn standing(page: &Page) -> String {
    let (_, rest) = page.text.split_once("id=\"standing\"><p").unwrap_or_else(|| panic!("none in {}", page.text));
    let line = rest.split("</p>").next().unwrap();
    let texts = line.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
    texts.collect()
}

/// Loads the page of the fork until it says how far its branch is from the one of the parent.
fn stands(browser: &Browser, expected: &str) -> Page {
    wait_for(expected, AMPLE, || {
        let page = browser.get("/ben/rivers").expect(200);
        let found = standing(&page);
        if found == expected { Ok(page) } else { Err(found) }
    })
}

/// Sends the form that syncs the branch that a page shows.
fn sync(browser: &Browser, page: &Page) -> Page {
    browser.submit(page, "/ben/rivers/sync", &[]).expect(303)
}

/// Changes the role of Ben on the database of rivers.
fn give_role(ada: &Browser, role: &str) {
    let form = "/ada/rivers/settings/collaborators";
    let page = ada.get(form).expect(200);
    ada.submit(&page, form, &[("username", "ben"), ("role", role)]).expect(303);
}

#[test]
fn a_fork_is_synced_and_contributes() {
    let (server, ada, ben) = forked();
    let browser = signed_in(&server, "ben");
    let page = browser.get("/ben/rivers").expect(200);
    assert_eq!(standing(&page), "Up to date with ada/rivers:main");
    assert!(!page.text.contains("id=\"sync\"") && !page.text.contains("id=\"contribute\""));

    // The fork has no commits of its own, so that the branch moves.
    let head = ada.write("ada/rivers", "main", &insert(10));
    let before = stands(&browser, "0 ahead, 1 behind ada/rivers:main");
    sync(&browser, &before);
    stands(&browser, "Up to date with ada/rivers:main");
    assert_eq!(ben.get("/databases/ben/rivers/branches/main").expect(200).data()["head_commit_sha"], head.as_str());
    browser.get("/ben/rivers/pulls?state=merged").expect(200).shows("Sync main with ada/rivers:main");
    // The form again finds nothing to do.
    let done = sync(&browser, &before);
    browser.follow(&done).expect(200).shows("Branch main has all commits of the parent.");
    browser.get("/ben/rivers/pulls/2").expect(404);

    // Both sides have commits, which are merged.
    ben.write("ben/rivers", "main", &insert(20));
    ada.write("ada/rivers", "main", &insert(11));
    sync(&browser, &stands(&browser, "1 ahead, 1 behind ada/rivers:main"));
    // The commit and the merge.
    stands(&browser, "2 ahead, 0 behind ada/rivers:main");
    let rows = ben.read("ben/rivers", "main", "SELECT id FROM rivers WHERE id > 9 ORDER BY id");
    assert_eq!(rows, json!([["10"], ["11"], ["20"]]));

    let page = browser.get("/ben/rivers").expect(200).shows("id=\"contribute\"");
    let address = "/ada/rivers/pulls/new?source=ben%2Frivers&from=main&to=main";
    page.shows(&address.replace('&', "&#38;"));
    let form = browser.get(address).expect(200).shows("value=\"ben/rivers\"");
    browser.submit(&form, "/ada/rivers/pulls", &[("title", "Ours")]).expect(303);
    let page = browser.get("/ben/rivers").expect(200).shows("Pull request #1").shows("href=\"/ada/rivers/pulls/1\"");
    assert!(!page.text.contains("id=\"contribute\""), "a pull request is open");
}

#[test]
fn a_sync_with_conflicts_leads_to_a_pull() {
    let (server, ada, ben) = forked();
    let browser = signed_in(&server, "ben");
    ben.write("ben/rivers", "main", "UPDATE rivers SET km = 1 WHERE id = 1");
    ada.write("ada/rivers", "main", "UPDATE rivers SET km = 2 WHERE id = 1");
    let done = sync(&browser, &browser.get("/ben/rivers").expect(200));
    assert_eq!(done.location.as_deref(), Some("/ben/rivers/pulls/1"));
    let pull = browser.settled("/ben/rivers/pulls/1").shows("This branch has conflicts with main");
    pull.shows("Sync main with ada/rivers:main").shows("id=\"see-conflicts\"");
    let rows = ben.read("ben/rivers", "main", "SELECT km FROM rivers WHERE id = 1");
    assert_eq!(rows, json!([["1"]]), "nothing has changed");
    // A later sync goes on with this pull request.
    let done = sync(&browser, &browser.get("/ben/rivers").expect(200));
    assert_eq!(done.location.as_deref(), Some("/ben/rivers/pulls/1"));
    browser.get("/ben/rivers/pulls/2").expect(404);
}

#[test]
fn only_writers_sync_a_fork() {
    let (server, ada, _) = forked();
    ada.write("ada/rivers", "main", &insert(10));
    let reader = signed_in(&server, "ada");
    let page = reader.get("/ben/rivers").expect(200);
    assert_eq!(standing(&page), "0 ahead, 1 behind ada/rivers:main");
    assert!(!page.text.contains("id=\"sync\""), "ada only reads the fork");
    let token: Vec<_> = page.hidden_fields("/settings/theme").into_iter().filter(|(name, _)| name == "csrf").collect();
    let with_branch = |fields: &[(String, String)]| {
        let branch = ("branch".to_owned(), "main".to_owned());
        fields.iter().cloned().chain([branch]).collect::<Vec<_>>()
    };
    reader.forge("/ben/rivers/sync", &with_branch(&token), &[]).expect(403).shows("You don&#39;t have permission");
    // Reading never syncs.
    let writer = signed_in(&server, "ben");
    assert!(matches!(writer.get("/ben/rivers/sync").status, 404 | 405));
    writer.forge("/ben/rivers/sync", &with_branch(&[]), &[]).expect(403).shows("Your session changed");
    writer.get("/ben/rivers").expect(200).shows("0 ahead, 1 behind");
    // A database that is no fork has nothing to sync, and neither has a branch that does not exist.
    let page = writer.get("/ben/rivers").expect(200);
    writer.submit(&page, "/ben/rivers/sync", &[("branch", "none")]).expect(404);
    reader.forge("/ada/rivers/sync", &with_branch(&token), &[]).expect(404);
    let visitor = Browser::at(&server);
    assert!(!visitor.get("/ben/rivers").expect(200).text.contains("id=\"contribute\""));
}

#[test]
fn a_parent_that_became_private_is_neither_shown_nor_synced() {
    let (server, ada, _) = forked();
    ada.write("ada/rivers", "main", &insert(10));
    let browser = signed_in(&server, "ben");
    let before = browser.get("/ben/rivers").expect(200).shows("id=\"sync\"");
    ada.patch("/databases/ada/rivers", &json!({"visibility": "private"})).expect(200);
    let page = browser.get("/ben/rivers").expect(200);
    assert!(!page.text.contains("id=\"standing\"") && !page.text.contains("ada/rivers"), "{}", page.text);
    browser.submit(&before, "/ben/rivers/sync", &[]).expect(404);
    // A reader of the parent learns what a sync needs.
    let owner = signed_in(&server, "ada");
    give_role(&owner, "read");
    browser.get("/ben/rivers").expect(200).shows("id=\"sync-denied\"").shows("the write role on ada/rivers");
    let done = browser.submit(&before, "/ben/rivers/sync", &[]).expect(303);
    browser.follow(&done).expect(200).shows("Not synced: the parent is private.");
    give_role(&owner, "write");
    let address = "/ben/rivers/pulls/new?source=ada%2Frivers&from=main&to=main";
    browser.get("/ben/rivers").expect(200).shows("id=\"sync-by-pull\"").shows(&address.replace('&', "&#38;"));
    browser.get(address).expect(200).shows("This pull request makes the branch public.");
}

#[test]
fn a_branch_contributes_to_the_default_one() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    assert!(!browser.get("/ada/rivers").expect(200).text.contains("id=\"standing\""), "the default branch of no fork");
    branch(&ada, "work/a");
    let page = browser.get("/ada/rivers?ref=work%2Fa").expect(200);
    assert_eq!(standing(&page), "Up to date with main");
    ada.write("ada/rivers", "work/a", &insert(10));
    ada.write("ada/rivers", "main", &insert(11));
    let page = browser.get("/ada/rivers?ref=work%2Fa").expect(200);
    assert_eq!(standing(&page), "1 ahead, 1 behind main");
    assert!(!page.text.contains("id=\"sync\""), "{}", page.text);
    let address = "/ada/rivers/pulls/new?from=work%2Fa&to=main";
    page.shows(&address.replace('&', "&#38;"));
    let form = browser.get(address).expect(200);
    browser.submit(&form, "/ada/rivers/pulls", &[("title", "Ours")]).expect(303);
    browser.get("/ada/rivers?ref=work%2Fa").expect(200).shows("id=\"contribution\"").shows("Pull request #1");
    // A tag or a commit contributes nothing.
    let head = ada.get("/databases/ada/rivers/branches/main").data()["head_commit_sha"].as_str().unwrap().to_owned();
    assert!(!browser.get(&format!("/ada/rivers?ref={head}")).expect(200).text.contains("id=\"standing\""));
}

#[test]
fn a_branch_that_was_just_written_is_proposed_to_its_author() {
    let (server, ada, _) = rivers();
    let (browser, ben) = (signed_in(&server, "ada"), signed_in(&server, "ben"));
    let has = |browser: &Browser, path: &str| browser.get(path).expect(200).text.contains("id=\"recent-push\"");
    assert!(!has(&browser, "/ada/rivers"), "main is the default branch");
    branch(&ada, "topic");
    assert!(!has(&browser, "/ada/rivers"), "nothing to contribute");
    ada.write("ada/rivers", "topic", &insert(10));
    for page in ["/ada/rivers", "/ada/rivers/pulls"] {
        let address = "/ada/rivers/pulls/new?from=topic&#38;to=main";
        browser.get(page).expect(200).shows("<strong>topic</strong> had recent changes").shows(address);
        assert!(!has(&ben, page) && !has(&Browser::at(&server), page), "others wrote nothing");
    }
    assert!(!has(&browser, "/ada/rivers?ref=topic"), "the page of the branch itself has the button");
    let form = browser.get("/ada/rivers/pulls/new?from=topic&to=main").expect(200);
    browser.submit(&form, "/ada/rivers/pulls", &[("title", "Ours")]).expect(303);
    assert!(!has(&browser, "/ada/rivers") && !has(&browser, "/ada/rivers/pulls"), "its pull request is open");
}

#[test]
fn tabs_show_numbers_up_to_99() {
    let (server, ada, _) = rivers();
    let browser = Browser::at(&server);
    let tab = |label: &str| {
        let page = browser.get("/ada/rivers/branches").expect(200);
        let (_, rest) = page.text.split_once(&format!("\">{label}")).unwrap_or_else(|| panic!("no {label}"));
        let text = rest.split("</a>").next().unwrap();
        text.replace(" <span class=\"tag\">", "").replace("</span>", "")
    };
    assert_eq!((tab("Pull requests"), tab("Releases"), tab("Tags")), Default::default(), "none");
    branch(&ada, "work");
    ada.write("ada/rivers", "work", &insert(10));
    let end = |name: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": name});
    let pull = json!({"title": "Ours", "from_branch": end("work"), "to_branch": end("main")});
    ada.post("/databases/ada/rivers/pulls", &pull).expect(201);
    assert_eq!(tab("Pull requests"), "1");
    for number in 0..99 {
        let from = json!({"branch": "main"});
        let body = json!({"name": format!("v{number}"), "from": from});
        ada.post("/databases/ada/rivers/tags", &body).expect(201);
    }
    assert_eq!(tab("Tags"), "99");
    ada.post("/databases/ada/rivers/tags", &json!({"name": "v99", "from": {"branch": "main"}})).expect(201);
    assert_eq!(tab("Tags"), "99+");
}

#[test]
fn a_fork_is_offered_to_others_than_the_owner() {
    let (server, _, _) = rivers();
    let owner = signed_in(&server, "ada").get("/ada/rivers/forks").expect(200);
    owner.shows("id=\"no-owner\"").shows("New organization");
    let other = signed_in(&server, "ben").get("/ada/rivers/forks").expect(200).shows("id=\"fork-form\"");
    assert!(!other.text.contains("<option value=\"ada\""), "{}", other.text);
    Browser::at(&server).get("/ada/rivers/forks").expect(200).shows("Sign in to fork");
}
