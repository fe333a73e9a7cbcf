//! Authorization requests that are not valid: missing, repeated and long parameters, and redirects to other places.

use branchyard_testkit::{AuthorizationAttempt, OAuthClient, form_encoded};

use super::super::browser::Browser;
use super::super::{open_server, sign_up};
use super::{AUTHORIZE, NOTHING, csrf, granted, leads_nowhere, registered};

/// The parameters of a request.
type Parameters = Vec<(String, String)>;

/// What a request is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The consent page.
    Consent,
    /// An error page. The user is not redirected.
    Nowhere,
    /// A redirect to the application with this error.
    Error(&'static str),
}

/// Returns the parameters of a request, with these values of one of them.
fn with(attempt: &AuthorizationAttempt, name: &str, values: &[&str]) -> Parameters {
    let others = attempt.parameters().into_iter().filter(|(other, _)| other != name);
    others.chain(values.iter().map(|value| (name.to_owned(), (*value).to_owned()))).collect()
}

/// Returns the answer to a request as a query, and as an approved form.
fn answers(browser: &Browser, parameters: &Parameters) -> [super::Page; 2] {
    let read = browser.get(&format!("{AUTHORIZE}?{}", form_encoded(parameters)));
    let mut fields = parameters.clone();
    fields.extend([csrf(browser), ("decision".to_owned(), "approve".to_owned())]);
    [read, browser.forge(AUTHORIZE, &fields, &[])]
}

/// Checks a redirect to the application with an error.
#[track_caller]
fn leads_to_application(
    page: &super::Page,
    attempt: &AuthorizationAttempt,
    error: &str,
    state: Option<&str>,
    issuer: &str,
) {
    assert_eq!(page.status, 303, "{}", page.text);
    assert_eq!(page.headers["cache-control"], "no-store");
    let location = page.location.as_deref().unwrap();
    let query = location.strip_prefix(&format!("{}?", attempt.redirect_uri)).unwrap_or_else(|| panic!("{location}"));
    let answer: Parameters =
        reqwest::Url::parse(&format!("http://x.test/?{query}")).unwrap().query_pairs().into_owned().collect();
    let all =
        |name: &str| answer.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>();
    assert_eq!((all("error"), all("iss")), (vec![error], vec![issuer]), "{location}");
    assert_eq!(all("state"), state.into_iter().collect::<Vec<_>>(), "{location}");
    assert_eq!((all("code").len(), all("error_description").len()), (0, 1), "{location}");
}

#[test]
fn every_parameter_may_be_missing_repeated_and_too_long() {
    use Expected::{Consent, Error, Nowhere};
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let attempt = OAuthClient::dh(server.address()).attempt("api_read_write");
    let long = "a".repeat(2_049);
    let state = "s".repeat(1_025);
    let (challenge, redirect_uri) = (attempt.challenge(), attempt.redirect_uri.as_str());
    let long_uri = format!("http://localhost/{}", "a".repeat(484));
    let cases: Vec<(&str, Vec<&str>, Expected)> = vec![
        ("client_id", vec![], Nowhere),
        ("client_id", vec![""], Nowhere),
        ("client_id", vec!["dh", "dh"], Nowhere),
        ("client_id", vec!["dh", "other"], Nowhere),
        ("client_id", vec!["DH"], Nowhere),
        ("client_id", vec!["nothing"], Nowhere),
        ("client_id", vec!["d h"], Nowhere),
        ("client_id", vec![&long], Nowhere),
        ("redirect_uri", vec![], Nowhere),
        ("redirect_uri", vec![""], Nowhere),
        ("redirect_uri", vec![redirect_uri, redirect_uri], Nowhere),
        ("redirect_uri", vec![redirect_uri, "https://evil.test/"], Nowhere),
        ("redirect_uri", vec!["https://evil.test/", redirect_uri], Nowhere),
        ("redirect_uri", vec![&long_uri], Nowhere),
        ("response_type", vec![], Error("invalid_request")),
        ("response_type", vec![""], Error("invalid_request")),
        ("response_type", vec!["code", "code"], Error("invalid_request")),
        ("response_type", vec!["token"], Error("unsupported_response_type")),
        ("response_type", vec!["code token"], Error("unsupported_response_type")),
        ("response_type", vec![&long], Error("unsupported_response_type")),
        ("scope", vec![], Consent),
        ("scope", vec!["api_read api_read_write"], Consent),
        ("scope", vec!["api_read", "api_read"], Error("invalid_request")),
        ("scope", vec!["admin"], Error("invalid_scope")),
        ("scope", vec!["api_read admin"], Error("invalid_scope")),
        ("scope", vec![&long], Error("invalid_scope")),
        ("state", vec![], Consent),
        ("state", vec![&state[1..]], Consent),
        ("state", vec!["a b&c=d\"<>\u{e9}"], Consent),
        ("state", vec!["a", "a"], Error("invalid_request")),
        ("state", vec![&state], Nowhere),
        ("state", vec!["a\r\nSet-Cookie: b=c"], Nowhere),
        ("code_challenge", vec![], Error("invalid_request")),
        ("code_challenge", vec![&challenge, &challenge], Error("invalid_request")),
        ("code_challenge", vec![&challenge[..42]], Error("invalid_request")),
        ("code_challenge", vec![&long], Error("invalid_request")),
        ("code_challenge_method", vec![], Error("invalid_request")),
        ("code_challenge_method", vec!["plain"], Error("invalid_request")),
        ("code_challenge_method", vec!["S256", "S256"], Error("invalid_request")),
        ("code_challenge_method", vec![&long], Error("invalid_request")),
        ("prompt", vec!["none"], Consent),
    ];
    let mut codes = 0;
    for (name, values, expected) in cases {
        let what = format!("{name} {values:.40?}");
        let sent_state = match (name, values.as_slice()) {
            ("state", [one]) => Some(*one),
            ("state", _) => None,
            _ => Some(attempt.state.as_str()),
        };
        let [read, posted] = answers(&ada, &with(&attempt, name, &values));
        match expected {
            Expected::Nowhere => [read, posted].into_iter().for_each(|page| leads_nowhere(page, &what)),
            Expected::Error(error) => {
                for page in [&read, &posted] {
                    leads_to_application(page, &attempt, error, sent_state, &server.address());
                }
            }
            Expected::Consent => {
                read.expect(200).shows("id=\"approve\"");
                let location = posted.expect(303).location.unwrap();
                assert!(location.starts_with(&format!("{redirect_uri}?code=")), "{what}: {location}");
                let answer = reqwest::Url::parse(&location).unwrap();
                let states: Vec<_> = answer.query_pairs().filter(|(name, _)| name == "state").collect();
                assert_eq!(states.first().map(|(_, state)| state.as_ref()), sent_state, "{what}: {location}");
                assert!(states.len() < 2, "{what}: {location}");
                codes += 1;
            }
        }
        assert_eq!(granted(&server), [codes, 0, 0], "{what}");
    }
}

/// Sends a request that must lead nowhere, as a signed-in user and as a visitor.
#[track_caller]
fn nowhere(browsers: &[&Browser], attempt: &AuthorizationAttempt, uri: &str) {
    for browser in browsers {
        for page in answers(browser, &with(attempt, "redirect_uri", &[uri])) {
            leads_nowhere(page, uri);
        }
    }
}

#[test]
fn no_request_leads_to_a_place_that_is_not_registered() {
    let server = open_server();
    let (ada, visitor) = (sign_up(&server, "ada"), Browser::at(&server));
    sign_up(&server, "bob");
    let application = registered(&server, "bob", "https://app.test/callback?from=yard");
    let attempt = application.attempt_at("https://app.test/callback?from=yard", "api_read");
    ada.get(&attempt.path()).expect(200);
    for uri in [
        "https://evil.test/callback?from=yard",
        "https://app.test.evil.test/callback?from=yard",
        "https://evil.test/https://app.test/callback?from=yard",
        "https://evilapp.test/callback?from=yard",
        "https://app.test/other?from=yard",
        "https://app.test/callback/../other?from=yard",
        "https://app.test/callback/%2e%2e/other?from=yard",
        "https://app.test/callback",
        "https://app.test/callback?from=yard&next=https://evil.test",
        "https://app.test/callback?from=other",
        "https://app.test/Callback?from=yard",
        "https://app.test:8443/callback?from=yard",
        "https://app.test:443/callback?from=yard",
        "https://ada@app.test/callback?from=yard",
        "https://app.test:x@evil.test/callback?from=yard",
        "https://app.test@evil.test/callback?from=yard",
        "https://app.test/callback?from=yard#fragment",
        "https://app.test/callback?from=yard#",
        "https://app.test\\@evil.test/callback?from=yard",
        "https:\\\\app.test\\callback?from=yard",
        "https://app.test\u{3002}evil.test/callback?from=yard",
        "http://app.test/callback?from=yard",
        "HTTPS://app.test/callback?from=yard",
        "https:app.test/callback?from=yard",
        "https:/app.test/callback?from=yard",
        "//app.test/callback?from=yard",
        "/callback?from=yard",
        "callback",
        "javascript:alert(document.domain)//https://app.test/callback?from=yard",
        "data:text/html,<script>alert(1)</script>",
        "app.test://callback?from=yard",
        " https://app.test/callback?from=yard",
        "https://app.test/callback?from=yard ",
        "https://app.test/callback?from=yard\r\nLocation: https://evil.test",
        "https://app.test/callback?from=yard\0",
    ] {
        nowhere(&[&ada, &visitor], &attempt, uri);
    }
    let dh = OAuthClient::dh(server.address()).attempt("api_read");
    for uri in [
        "http://localhost:53682/",
        "http://localhost:53682/callback/",
        "http://localhost:53682/callback?a=b",
        "http://localhost:53682/callback#",
        "http://localhost:53682/other/../callback",
        "http://localhost:53682//callback",
        "https://localhost:53682/callback",
        "http://localhost:0/callback",
        "http://localhost:65536/callback",
        "http://localhost:/callback",
        "http://localhost:53682@evil.test/callback",
        "http://localhost.evil.test:53682/callback",
        "http://evil.test/callback",
        "http://127.0.0.2:53682/callback",
        "http://127.1:53682/callback",
        "http://0x7f000001:53682/callback",
        "http://[::ffff:127.0.0.1]:53682/callback",
        "http://[::1%25lo]:53682/callback",
        "http://LOCALHOST:53682/callback",
        "https://app.test/callback?from=yard",
    ] {
        nowhere(&[&ada, &visitor], &dh, uri);
    }
    assert_eq!(granted(&server), NOTHING);
    // What is registered works, on each port of a loopback host.
    for uri in ["http://localhost:1/callback", "http://127.0.0.1:65535/callback", "http://[::1]:53682/callback"] {
        let attempt = OAuthClient::dh(server.address()).attempt_at(uri, "api_read");
        super::approve(&ada, &attempt);
    }
    assert_eq!(granted(&server), [3, 0, 0]);
}

#[test]
fn parameters_of_the_answer_follow_those_of_the_redirect_uri() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let uri = "https://app.test/callback?from=yard&code=none";
    let attempt = registered(&server, "ada", uri).attempt_at(uri, "api_read");
    let location = super::decide(&ada, &attempt, "approve").expect(303).location.unwrap();
    assert!(location.starts_with(&format!("{uri}&code=")), "{location}");
}
