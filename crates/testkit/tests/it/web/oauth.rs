//! The pages of OAuth: consent, devices, applications, and what users and administrators revoke.

mod applications;
mod consent;
mod devices;
mod requests;

use branchyard_testkit::{Actor, AuthorizationAttempt, OAuthClient, OAuthTokens, Server};
use reqwest::Method;

use super::browser::{Browser, Page};

/// The page that asks a user about an application.
const AUTHORIZE: &str = "/oauth/authorize";
/// The page that asks a user about a device.
const DEVICE: &str = "/oauth/device";
/// The page of a user's applications and grants.
const APPLICATIONS: &str = "/settings/applications";

/// Sends a decision with the form of the consent page.
#[track_caller]
fn decide(browser: &Browser, attempt: &AuthorizationAttempt, decision: &str) -> Page {
    let page = browser.get(&attempt.path()).expect(200);
    browser.submit(&page, AUTHORIZE, &[("decision", decision)])
}

/// Approves a request, and returns the code that the application receives.
#[track_caller]
fn approve(browser: &Browser, attempt: &AuthorizationAttempt) -> String {
    attempt.code(&decide(browser, attempt, "approve").expect(303).location.unwrap())
}

/// Lets an application act for the user of a browser.
#[track_caller]
fn authorize(browser: &Browser, application: &OAuthClient, attempt: &AuthorizationAttempt) -> OAuthTokens {
    OAuthTokens::of(&application.redeem(attempt, &approve(browser, attempt)))
}

/// Returns the status that the API answers with to an access token.
fn status(visitor: &Actor, tokens: &OAuthTokens) -> u16 {
    visitor.send(visitor.plain(Method::GET, "/api/v2/user").bearer_auth(&tokens.access)).status
}

/// Registers an application without the pages.
fn registered(server: &Server, owner: &str, redirect_uri: &str) -> OAuthClient {
    let owner = server.hub().people().user_named(owner).unwrap();
    let application = server.hub().applications().register(&owner, "River <gauges>", &[redirect_uri.to_owned()]);
    OAuthClient::new(server.address(), application.unwrap().id.as_str())
}

/// Returns the CSRF token of a browser's session, as a field.
fn csrf(browser: &Browser) -> (String, String) {
    ("csrf".to_owned(), browser.get("/explore").expect(200).token())
}

/// Returns the number of codes, grants and access tokens in the store.
fn granted(server: &Server) -> [i64; 3] {
    use rusqlite::{Connection, OpenFlags};
    let file = server.dir.path().join("data/metadata.sqlite");
    let uri = format!("file:{}?doltlite_engine=sqlite", file.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags).unwrap();
    ["oauth_codes", "oauth_grants", "oauth_access_tokens"]
        .map(|table| connection.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap())
}

/// Nothing is in the store, see [`granted`].
const NOTHING: [i64; 3] = [0; 3];

/// Checks that a response is an error page of an authorization request, and leads nowhere.
#[track_caller]
fn leads_nowhere(page: Page, what: &str) {
    assert_eq!((page.status, page.location.as_deref()), (400, None), "{what}: {}", page.text);
    assert!(page.headers.get("refresh").is_none(), "{what}");
    page.shows("This authorization request is not valid").shows("Nothing was granted");
}
