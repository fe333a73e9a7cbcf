//! OAuth over real sockets: what applications send, and what their tokens are good for. `web/oauth.rs` has the pages.

mod codes;
mod devices;
mod limits;
mod parameters;
mod refreshes;
mod revocation;
mod scopes;

use std::sync::{Arc, Barrier};

use branchyard_domain_testing::fakes::FixedClock;
use branchyard_testkit::{
    Actor, AuthorizationAttempt, CallbackListener, OAuthClient, OAuthTokens, PageSession, Server, TestAnswer,
};
use reqwest::Method;
use serde_json::json;

/// A text that has the form of a code, and is none.
const NO_CODE: &str = "0123456789012345678901234567890123456789012";

/// A server whose clock stands still, with the application `dh` and the signed-in user `ada`.
struct OAuthHarness {
    server: Server,
    clock: Arc<FixedClock>,
    ada: PageSession,
    dh: OAuthClient,
    visitor: Actor,
}

impl OAuthHarness {
    fn new() -> Self {
        let clock = Arc::new(FixedClock::default());
        let server = Server::with_clock(Arc::clone(&clock));
        server.user("ada");
        let (ada, dh) = (server.page_session("ada"), OAuthClient::dh(server.address()));
        let visitor = server.anonymous();
        Self { server, clock, ada, dh, visitor }
    }

    /// Returns a request that ada has approved, with its code.
    fn approved(&self) -> (AuthorizationAttempt, String) {
        let attempt = self.dh.attempt("api_read_write");
        let code = self.ada.approve(&attempt);
        (attempt, code)
    }

    /// Lets `dh` act for ada.
    fn authorized(&self, scope: &str) -> OAuthTokens {
        self.ada.authorize(&self.dh, scope)
    }

    /// Registers an application of the new user `bob`, with the redirect URI of `dh`.
    fn other_application(&self) -> OAuthClient {
        self.server.user("bob");
        let hub = self.server.hub();
        let bob = hub.people().user_named("bob").unwrap();
        let application = hub.applications().register(&bob, "Gauges", &["http://localhost/callback".to_owned()]);
        OAuthClient::new(self.server.address(), application.unwrap().id.as_str())
    }

    /// Sends a request with an access token to an absolute path.
    fn send(&self, method: Method, path: &str, access: &str) -> TestAnswer {
        self.visitor.send(self.visitor.plain(method, path).bearer_auth(access))
    }

    /// Returns the status that the API answers with to an access token.
    fn status(&self, access: &str) -> u16 {
        self.send(Method::GET, "/api/v2/user", access).status
    }

    /// Returns the number of grants of ada.
    fn grants(&self) -> usize {
        let ada = self.server.hub().people().user_named("ada").unwrap();
        self.server.hub().grants().list(&ada, None, 100).unwrap().len()
    }

    fn suspend(&self, user: &str) {
        let administration = self.server.hub().administration();
        administration.suspend(&administration.operator(), user).unwrap();
    }

    fn resume(&self, user: &str) {
        let administration = self.server.hub().administration();
        administration.resume(&administration.operator(), user).unwrap();
    }
}

/// Checks that an answer has an error with this code, in the form of RFC 6749 §5.2, which no cache may keep.
#[track_caller]
fn refused(answer: &TestAnswer, error: &str) {
    assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some(error)), "{}", answer.text);
    has_form_of_error(answer);
}

#[track_caller]
fn has_form_of_error(answer: &TestAnswer) {
    assert_eq!((answer.header("content-type"), answer.header("cache-control")), ("application/json", "no-store"));
    let json = answer.json();
    let description = json["error_description"].as_str().unwrap();
    let is_allowed = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    assert!(!description.is_empty() && description.bytes().all(is_allowed), "{description}");
    assert_eq!(json.as_object().unwrap().len(), 2, "{json}");
}

/// Does something twice at the same time.
fn at_once<T: Send>(act: impl Fn() -> T + Sync) -> [T; 2] {
    let barrier = Barrier::new(2);
    let run = || {
        barrier.wait();
        act()
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(run), scope.spawn(run)];
        threads.map(|thread| thread.join().unwrap())
    })
}

/// The steps of `dh auth login`, and of each later command, as the source of the client has them.
#[test]
fn dh_signs_in_and_stays_signed_in() {
    let harness = OAuthHarness::new();
    // 1. It listens, and 2. opens the page in the browser of its user.
    let listener = CallbackListener::start();
    let attempt = harness.dh.attempt_at(&listener.redirect_uri(), "api_read_write");
    let location = harness.ada.decide(&attempt, "approve");
    // 3. The browser leads the user to it, with the code.
    let browser = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    assert_eq!(browser.get(&location).send().unwrap().status(), 200);
    let arrived = listener.only_callback();
    assert_eq!(arrived, location);
    let code = attempt.code(&arrived);
    // 4. It redeems the code.
    let answer = harness.dh.redeem(&attempt, &code).expect(200);
    let json = answer.json();
    assert_eq!(json["token_type"], "Bearer");
    assert!(json["expires_in"].as_i64().is_some_and(|seconds| seconds > 0), "{json}");
    let first = OAuthTokens::of(&answer);
    assert_eq!(first.scope, "api_read_write");
    // 5. It asks for the name of its user.
    let user = harness.send(Method::GET, "/api/v2/user", &first.access).expect(200);
    assert_eq!(user.data()["username"], "ada");
    // 6. It refreshes. Two commands at once may send the same token.
    let second = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    let again = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    assert_eq!(again.refresh, second.refresh);
    assert_ne!(second.refresh, first.refresh);
    assert_eq!(harness.status(&second.access), 200);

    // The user refuses.
    let refusing = harness.dh.attempt_at(&listener.redirect_uri(), "api_read_write");
    assert_eq!(refusing.error(&harness.ada.decide(&refusing, "deny")), "access_denied");
    // A wrong code.
    let wrong = harness.dh.redeem(&refusing, NO_CODE);
    refused(&wrong, "invalid_grant");
}

#[test]
fn the_metadata_names_every_endpoint() {
    let server = Server::start();
    let origin = server.address();
    let visitor = server.anonymous();
    let answer = visitor.send(visitor.plain(Method::GET, "/.well-known/oauth-authorization-server")).expect(200);
    assert_eq!(answer.header("content-type"), "application/json");
    let expected = json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/oauth/authorize"),
        "token_endpoint": format!("{origin}/api/oauth/access_token"),
        "device_authorization_endpoint": format!("{origin}/api/oauth/device_authorization"),
        "revocation_endpoint": format!("{origin}/api/oauth/revoke"),
        "scopes_supported": ["api_read", "api_read_write"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", OAuthClient::DEVICE_GRANT],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    assert_eq!(answer.json(), expected);
    let posted = visitor.send(visitor.plain(Method::POST, "/.well-known/oauth-authorization-server")).expect(405);
    assert!(posted.header("allow").starts_with("GET"), "{}", posted.header("allow"));

    // A server behind a proxy names its public URL.
    let server = Server::start_with(|config| config.public_url = Some("https://yard.test".to_owned()));
    let visitor = server.anonymous();
    let json = visitor.send(visitor.plain(Method::GET, "/.well-known/oauth-authorization-server")).expect(200).json();
    assert_eq!(json["issuer"], "https://yard.test");
    assert_eq!(json["token_endpoint"], "https://yard.test/api/oauth/access_token");
}

#[test]
fn unknown_paths_of_the_api_answer_a_problem() {
    let server = Server::start();
    let visitor = server.anonymous();
    let paths = [
        "/api/",
        "/api/nothing",
        "/api/oauth",
        "/api/oauth/",
        "/api/oauth/nothing",
        "/api/oauth/access_token/",
        "/api/oauth/access_token/more",
        "/api/oauth/Access_Token",
        "/api/oauths",
        "/api/v9/user",
        "/api/v2/nothing",
        "/.well-known/oauth-authorization-server/more",
    ];
    for path in paths {
        for method in [Method::GET, Method::POST] {
            let answer = visitor.send(visitor.plain(method.clone(), path));
            let kind = answer.header("content-type");
            assert_eq!((answer.status, kind), (404, "application/problem+json"), "{method} {path}: {}", answer.text);
            assert_eq!(answer.code(), "NOT_FOUND", "{method} {path}");
        }
    }
    // A browser gets a page where no endpoint is.
    let page = visitor.send(visitor.plain(Method::GET, "/api/nothing").header("accept", "text/html,*/*;q=0.8"));
    assert!(page.expect(404).header("content-type").starts_with("text/html"));
}
