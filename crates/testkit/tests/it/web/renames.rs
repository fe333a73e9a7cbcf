//! Renames and transfers of databases on pages, and pages at the addresses that databases had.

use serde_json::json;

use super::browser::Browser;
use super::{database, open_server, sign_up};

const RENAME: &str = "/ada/rivers/settings/rename";

#[test]
fn a_database_is_renamed_and_pages_at_its_old_address_lead_on() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let actor = database(&server, &ada, "ada");
    actor.database("taken");
    let visitor = Browser::at(&server);
    visitor.get("/ada/rivers").expect(200);
    let before = bob.get("/ada/rivers").expect(200);
    let settings = ada.get("/ada/rivers/settings").expect(200);
    assert_eq!(settings.value_of("name"), "rivers");
    ada.submit(&settings, RENAME, &[("name", "-x")]).expect(422).shows("id=\"rename-form\"");
    let refused = ada.submit(&settings, RENAME, &[("name", "Taken")]).expect(422);
    let refused = refused.shows("already exists");
    assert_eq!(refused.value_of("name"), "Taken", "what was typed is kept");
    let done = ada.submit(&settings, RENAME, &[("name", "streams")]).expect(303);
    assert_eq!(done.location.as_deref(), Some("/ada/streams/settings"));
    ada.follow(&done).expect(200).shows("The database is now ada/streams.").shows("<code>ada/rivers</code>");

    for browser in [&ada, &bob, &visitor] {
        for (old, new) in [
            ("/ada/rivers", "/ada/streams"),
            ("/ADA/Rivers", "/ada/streams"),
            ("/ada/rivers/tables/r?ref=main&sort=name", "/ada/streams/tables/r?ref=main&sort=name"),
            ("/ada/rivers/sql?q=select%201%2B1", "/ada/streams/sql?q=select%201%2B1"),
            ("/ada/rivers/sql.csv?q=select%201", "/ada/streams/sql.csv?q=select%201"),
            ("/ada/rivers/commits", "/ada/streams/commits"),
        ] {
            let moved = browser.get(old).expect(308);
            assert_eq!(moved.location.as_deref(), Some(new));
            assert_eq!(moved.headers["cache-control"], "private, no-cache", "another database may take the address");
            browser.follow(&moved).expect(200);
        }
    }
    visitor.get("/ada/rivers/settings").expect(303);
    bob.get("/ada/rivers/settings").expect(403);
    // A form from before the rename still takes effect.
    bob.submit(&before, "/ada/rivers/star", &[("star", "1")]).expect(303);
    bob.get("/ada/streams").expect(200).shows(">1 star<");
    // The spelling alone redirects nothing.
    ada.get("/ada/STREAMS").expect(200);
    // A new database takes the old address.
    actor.database("rivers");
    visitor.get("/ada/rivers").expect(200);
}

#[test]
fn a_hidden_database_leads_nowhere_from_its_old_address() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let actor = database(&server, &ada, "ada");
    actor.patch("/databases/ada/rivers", &json!({"visibility": "private", "name": "streams"})).expect(200);
    // The tokens of forms around it differ.
    let content = |text: &str| text.split_once("<main").unwrap().1.split_once("</main>").unwrap().0.to_owned();
    for browser in [&bob, &Browser::at(&server)] {
        let hidden = browser.get("/ada/rivers").expect(404);
        let missing = browser.get("/ada/mirage").expect(404);
        assert!(!hidden.text.contains("streams"));
        assert_eq!(content(&hidden.text).replace("rivers", "mirage"), content(&missing.text));
        assert_eq!(hidden.location, None);
    }
    ada.get("/ada/rivers").expect(308);
}

#[test]
fn a_database_is_transferred_by_who_types_its_name() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let address = "/ada/rivers/settings/transfer";
    ada.get(address).expect(200).shows("Create an organization");
    let page = ada.get("/organizations/new").expect(200);
    ada.submit(&page, "/organizations/new", &[("name", "acme"), ("base_role", "read")]).expect(303);
    ada.get("/ada/rivers/settings").expect(200).shows("id=\"transfer-database\"");
    let page = ada.get(address).expect(200).shows("Transfer ada/rivers?");
    for wrong in ["", "rivers", "acme/rivers"] {
        ada.submit(&page, address, &[("owner", "acme"), ("name", wrong)]).expect(422).shows("Nothing was transferred");
    }
    ada.submit(&page, address, &[("name", "ada/rivers")]).expect(422).shows("Choose the new owner");
    ada.submit(&page, address, &[("owner", "unknown"), ("name", "ada/rivers")]).expect(403);
    ada.get("/ada/rivers").expect(200);
    let done = ada.submit(&page, address, &[("owner", "acme"), ("name", "ada/rivers")]).expect(303);
    assert_eq!(done.location.as_deref(), Some("/acme/rivers"));
    ada.follow(&done).expect(200).shows("The database is now acme/rivers.");
    let moved = ada.get("/ada/rivers/settings").expect(308);
    ada.follow(&moved).expect(200).shows("<code>ada/rivers</code>");
}
