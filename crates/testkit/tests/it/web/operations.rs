//! Forks, and operations while they wait, run and end.

use serde_json::json;

use super::browser::Browser;
use super::{database, open_server, sign_up};

#[test]
fn a_fork_is_followed_to_its_end_and_drawn() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let bob = sign_up(&server, "bob");
    let form = "/ada/rivers/forks";
    let page = bob.get(form).expect(200).shows("No forks yet").shows("<option value=\"bob\">");
    let done = bob.submit(&page, form, &[("owner", "bob")]).expect(303);
    let ended = bob.settled(done.location.as_deref().unwrap());
    ended.shows("Fork to bob").shows(">Succeeded<").shows("href=\"/bob/rivers\"");
    let drawn = ada.get(form).expect(200).shows("aria-label=\"Fork network\"").shows("href=\"/bob/rivers\"");
    assert!(drawn.text.contains("<text") && drawn.text.contains("aria-current=\"true\""));
    bob.get("/bob/rivers/forks").expect(200).shows("href=\"/ada/rivers\"").shows("No forks yet");
    bob.submit(&page, form, &[("owner", "bob")]).expect(422).shows("already exists");
    bob.submit(&page, form, &[("owner", "ada")]).expect(403).shows("You may not create databases");
    Browser::at(&server).get(form).expect(200).shows("Sign in to fork this database");
}

#[test]
fn a_private_fork_is_in_nobody_elses_drawing() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    database(&server, &ada, "ada");
    for (browser, name) in [(&bob, "bob"), (&sign_up(&server, "cyn"), "cyn")] {
        let page = browser.get("/ada/rivers/forks").expect(200);
        let done = browser.submit(&page, "/ada/rivers/forks", &[("owner", name)]).expect(303);
        browser.settled(done.location.as_deref().unwrap());
    }
    server.actor_of("bob").patch("/databases/bob/rivers", &json!({"visibility": "private"})).expect(200);
    bob.get("/ada/rivers/forks").expect(200).shows("href=\"/bob/rivers\"").shows("href=\"/cyn/rivers\"");
    for other in [&ada, &Browser::at(&server)] {
        let seen = other.get("/ada/rivers/forks").expect(200).shows("href=\"/cyn/rivers\"");
        assert!(!seen.text.contains("bob/rivers"), "{}", seen.text);
        let log = other.get("/ada/rivers/operations").expect(200);
        assert!(!log.text.contains("bob/rivers"), "{}", log.text);
    }
}

#[test]
fn operations_say_what_they_did_and_why_they_failed() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    let statements = "insert into r values (1, '<script>'); insert into r values (1, 'again')";
    let body = json!({"from_branch": "main", "to_branch": "main", "q": statements, "commit_message": "<b>both</b>"});
    let accepted = actor.post("/databases/ada/rivers/sql-writes", &body);
    let operation = actor.finish(&accepted);
    assert_eq!(operation["status"], "failed");
    let list =
        ada.get("/ada/rivers/operations").expect(200).shows("Write to main").shows(">Failed<").shows(">Succeeded<");
    let link = list.text.split("/ada/rivers/operations/").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let path = format!("/ada/rivers/operations/{link}");
    let page = ada.get(&path).expect(200).shows("id=\"operation-failure\"").shows("&#60;script&#62;");
    assert!(!page.text.contains("data-live") && !page.text.contains("<script>'"), "{}", page.text);
    ada.get("/ada/rivers/imports").expect(200).shows("No recent imports");
    // Of another database, or no operation at all.
    actor.database("lakes");
    for nowhere in [format!("/ada/lakes/operations/{link}"), "/ada/rivers/operations/1".to_owned()] {
        ada.get(&nowhere).expect(404);
    }
    let token = page.hidden_fields("/settings/theme");
    let late = ada.forge(&format!("{path}/cancel"), &token, &[]).expect(422);
    late.shows("The operation is no longer queued");
    Browser::at(&server).get(&path).expect(200);
    let bob = sign_up(&server, "bob");
    let token = bob.get(&path).expect(200).hidden_fields("/settings/theme");
    bob.forge(&format!("{path}/cancel"), &token, &[]).expect(403);
}
