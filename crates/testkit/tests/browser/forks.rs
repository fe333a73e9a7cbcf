//! From a fork over a sync to a contribution, and a branch that is moved back.

use branchyard_testkit::Server;
use serde_json::json;

use super::chromium::{Chromium, JavaScript};
use super::flows::start;

/// Opens a browser for Ada, who has a fork of Ben's database of rivers.
fn with_fork(server: &Server, javascript: JavaScript) -> Option<Chromium> {
    let chromium = Chromium::open(server, javascript)?;
    chromium.sign_up("ada");
    let ben = server.user("ben");
    ben.database("rivers");
    ben.write("ben/rivers", "main", "create table rivers (id integer primary key, name text)");
    chromium.go("/ben/rivers");
    chromium.send("#fork");
    chromium.send("#fork-form button");
    chromium.wait("the fork", |this| {
        this.go("/ada/rivers");
        this.has("#standing")
    });
    ben.write("ben/rivers", "main", "insert into rivers values (1, 'Rhein')");
    Some(chromium)
}

fn from_a_sync_to_a_contribution(javascript: JavaScript) {
    let server = start();
    let Some(chromium) = with_fork(&server, javascript) else { return };
    let ada = server.actor_of("ada");
    chromium.go("/ada/rivers");
    chromium.shows("#standing", "0 ahead, 1 behind ben/rivers:main");
    chromium.send("#sync");
    chromium.wait("the end of the sync", |this| {
        this.go("/ada/rivers");
        this.text("#standing").contains("Up to date")
    });
    assert_eq!(ada.read("ada/rivers", "main", "select name from rivers"), json!([["Rhein"]]));

    // A branch is proposed, and leads to a pull request to the parent.
    ada.post("/databases/ada/rivers/branches", &json!({"name": "topic", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/rivers", "topic", "insert into rivers values (2, 'Elbe')");
    let last = ada.write("ada/rivers", "topic", "delete from rivers");
    chromium.go("/ada/rivers");
    chromium.shows("#recent-push", "topic had recent changes");

    // The last commit was a mistake.
    chromium.go("/ada/rivers/commits?ref=topic");
    chromium.send("#commits li:nth-child(2) a[href*='/reset?']");
    chromium.shows("main", "1 commit would no longer be in any branch or tag");
    chromium.shows("#affected", &last[..8]);
    chromium.send("#confirm");
    chromium.shows("body", "Branch topic is at");
    assert_eq!(ada.read("ada/rivers", "topic", "select id from rivers"), json!([["1"], ["2"]]));

    chromium.go("/ada/rivers?ref=topic");
    chromium.shows("#standing", "1 ahead, 0 behind ben/rivers:main");
    chromium.send("#contribute");
    assert!(chromium.path().starts_with("/ben/rivers/pulls/new?"), "{}", chromium.path());
    assert_eq!(chromium.property("#source", "value"), "ada/rivers");
    assert_eq!(chromium.property("#from", "value"), "topic");
    chromium.fill("#title", "The Elbe");
    chromium.send("#open");
    chromium.shows("#state", "open");
    chromium.go("/ada/rivers?ref=topic");
    chromium.shows("#contribution", "Pull request #1");
    assert!(!chromium.has("#recent-push"));
    chromium.width(390);
    for page in ["/ada/rivers?ref=topic", "/ada/rivers/commits?ref=topic", "/ada/rivers/branches"] {
        chromium.go(page);
        assert!(!chromium.overflows(), "{page}");
        if javascript == JavaScript::On {
            let faults = chromium.serious_faults();
            assert!(faults.is_empty(), "{page}: {faults:?}");
        }
    }
}

#[test]
fn a_fork_is_synced_and_contributes() {
    from_a_sync_to_a_contribution(JavaScript::On);
}

#[test]
fn a_fork_is_synced_and_contributes_without_javascript() {
    from_a_sync_to_a_contribution(JavaScript::Off);
}
