//! The documentation that the server publishes, in the layout of all other pages.

use branchyard_testkit::{Actor, Server};
use reqwest::Method;

use super::browser::{Browser, Page};

/// Returns the reference page of an API, after checking that it contains each operation of the document with its parts.
fn reference(server: &Server, actor: &Actor, name: &str, base: &str) -> Page {
    let document =
        actor.send(actor.plain(Method::GET, &format!("{base}/openapi.json")).bearer_auth(actor.token().unwrap()));
    let document = document.expect(200).json();
    let page = Browser::at(server).get(&format!("/docs/api/{name}")).expect(200);
    let mut count = 0;
    for item in document["paths"].as_object().unwrap().values() {
        for id in item.as_object().unwrap().values().map(|operation| operation["operationId"].as_str().unwrap()) {
            assert!(page.text.contains(&format!("<article id=\"{id}\">")), "{id}");
            assert!(page.text.contains(&format!("href=\"#{id}\"")), "{id}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
    assert_eq!(page.text.matches("<h4>Example</h4>").count(), count);
    assert_eq!(page.text.matches("<h4>Errors</h4>").count(), count);
    page.shows(&format!("href=\"{base}/openapi.json\"")).shows(&format!("{base}/user&#39;"))
}

#[test]
fn every_operation_is_in_the_reference_of_its_api() {
    let server = Server::start();
    let ada = server.user("ada");
    reference(&server, &ada, "v2", "/api/v2").shows("/docs/errors/idempotency-key-reused");
    reference(&server, &ada, "hosted-v1", "/api/v1").shows("/docs/errors/spending-limit-exceeded");
    let page = reference(&server, &ada, "v1alpha1", "/api/v1alpha1")
        .shows("<code>branch not found: &#60;name&#62;</code>")
        .shows("/csv/ada/rivers/main/gauges&#39;");
    let upload = page.text.split("<article id=\"upload\">").nth(1).unwrap();
    assert!(upload.contains("-F &#39;file=@file&#39;"), "uploads are forms");
    assert!(!page.text.contains("ada/{"), "every path is filled in");
    Browser::at(&server).get("/docs/api/v3").expect(404).shows("<h1>");
}

#[test]
fn every_error_has_a_page() {
    let server = Server::start();
    let browser = Browser::at(&server);
    let page = browser.get("/docs/errors").expect(200);
    let mut count = 0;
    for piece in page.text.split("href=\"/docs/errors/").skip(1) {
        let suffix = piece.split('"').next().unwrap();
        browser.get(&format!("/docs/errors/{suffix}")).expect(200).shows("What clients should do");
        count += 1;
    }
    assert!(count >= 20, "{count}");
    browser.get("/docs/errors/nothing").expect(404).shows("<h1>");
}
