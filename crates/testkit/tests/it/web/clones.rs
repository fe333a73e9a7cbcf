//! How pages tell people to use a database with DoltLite.

use branchyard_testkit::Server;
use serde_json::json;

use super::browser::Browser;
use super::{database, open_server, sign_up};

#[test]
fn over_http_a_page_says_what_works_and_what_does_not() {
    let server = open_server();
    let browser = sign_up(&server, "ada");
    let ada = database(&server, &browser, "ada");
    let address = server.address();
    let page = browser.get("/ada/rivers").expect(200);
    let page = page.shows(&format!("SELECT dolt_clone('{address}/ada/rivers');")).shows("Nothing can be pushed");
    assert!(!page.text.contains("dolt_push"), "{}", page.text);
    ada.database("fresh");
    browser.get("/ada/fresh").expect(200).shows("A file can be pushed here once this server is reached over https");
    Browser::at(&server).get("/ada/fresh").expect(200).shows("There is nothing to clone yet");
    let private = json!({"owner": "ada", "name": "secret", "visibility": "private"});
    ada.post("/databases", &private).expect(201);
    ada.write("ada/secret", "main", "create table t (id integer primary key)");
    browser.get("/ada/secret").expect(200).shows("A private database can be cloned once");
}

#[test]
fn over_https_a_page_has_the_lines_to_clone_and_a_fork_those_of_its_source() {
    let server = Server::start_with(|config| config.public_url = Some("https://yard.test".to_owned()));
    let (ada, bob) = (server.user("ada"), server.user("bob"));
    ada.database("rivers");
    ada.write("ada/rivers", "main", "create table t (id integer primary key)");
    bob.finish(&bob.post("/databases/ada/rivers/forks", &json!({"owner": "bob"})));
    let visitor = Browser::at(&server);
    let page = visitor.get("/ada/rivers").expect(200);
    let page = page.shows("SELECT dolt_clone('https://yard.test/ada/rivers');").shows("#clone-title");
    assert!(!page.text.contains("upstream"), "{}", page.text);
    let upstream = "SELECT dolt_remote('add', 'upstream', 'https://yard.test/ada/rivers');";
    visitor.get("/bob/rivers").expect(200).shows(upstream);
    let off = Server::start_with(|config| config.remotes.enabled = false);
    let cara = off.user("cara");
    cara.database("rivers");
    assert!(!Browser::at(&off).get("/cara/rivers").expect(200).text.contains("dolt_"));
}
