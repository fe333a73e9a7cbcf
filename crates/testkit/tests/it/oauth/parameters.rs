//! What the endpoints refuse: parameters, credentials, bodies and methods.

use branchyard_testkit::{OAuthClient, OAuthTokens, TestAnswer, form_encoded};
use reqwest::Method;
use reqwest::blocking::Body;

use super::{NO_CODE, OAuthHarness, has_form_of_error, refused};

/// The media type of forms.
const FORM: &str = "application/x-www-form-urlencoded";
/// Maximum length of a parameter in bytes.
const LONGEST_PARAMETER: usize = 2_048;
/// Maximum length of a body in bytes.
const LONGEST_BODY: usize = 16 << 10;

const ENDPOINTS: [&str; 3] = [OAuthClient::TOKEN, OAuthClient::DEVICES, OAuthClient::REVOCATION];

/// The fields of a form.
type Fields = Vec<(&'static str, String)>;

/// Returns a valid form for each grant type and each endpoint.
fn forms(tokens: &OAuthTokens) -> Vec<(&'static str, Fields)> {
    let of = |path: &'static str, fields: &[(&'static str, &str)]| {
        (path, fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    };
    vec![
        of(
            OAuthClient::TOKEN,
            &[
                ("grant_type", "authorization_code"),
                ("client_id", "dh"),
                ("code", NO_CODE),
                ("redirect_uri", OAuthClient::REDIRECT_URI),
                ("code_verifier", NO_CODE),
            ],
        ),
        of(
            OAuthClient::TOKEN,
            &[
                ("grant_type", "refresh_token"),
                ("client_id", "dh"),
                ("refresh_token", &tokens.refresh),
                ("scope", "api_read"),
            ],
        ),
        of(
            OAuthClient::TOKEN,
            &[("grant_type", OAuthClient::DEVICE_GRANT), ("client_id", "dh"), ("device_code", NO_CODE)],
        ),
        of(OAuthClient::DEVICES, &[("client_id", "dh"), ("scope", "api_read")]),
        of(OAuthClient::REVOCATION, &[("client_id", "dh"), ("token", &tokens.refresh)]),
    ]
}

impl OAuthHarness {
    fn post(&self, path: &str, fields: &Fields) -> TestAnswer {
        self.post_body(path, FORM, form_encoded(fields))
    }

    fn post_body(&self, path: &str, media_type: &str, body: impl Into<Body>) -> TestAnswer {
        let request = self.visitor.plain(Method::POST, path).header("content-type", media_type);
        self.visitor.send(request.body(body))
    }
}

#[test]
fn every_parameter_is_sent_once_and_has_a_limit() {
    let harness = OAuthHarness::new();
    let tokens = harness.authorized("api_read");
    for (path, fields) in forms(&tokens) {
        for (name, value) in &fields {
            let others: Fields = fields.iter().filter(|(other, _)| other != name).cloned().collect();
            let with = |values: &[&str]| -> Fields {
                others.iter().cloned().chain(values.iter().map(|value| (*name, (*value).to_owned()))).collect()
            };
            let long = "a".repeat(LONGEST_PARAMETER + 1);
            let mut cases = vec![with(&[value, value]), with(&[value, ""]), with(&[&long])];
            if *name != "scope" {
                cases.extend([with(&[]), with(&[""])]);
            }
            for case in cases {
                let answer = harness.post(path, &case);
                assert_eq!(answer.json()["error"], "invalid_request", "{path} {case:?}: {}", answer.text);
                refused(&answer, "invalid_request");
            }
        }
    }
    // Nothing was used up or revoked.
    OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));

    // A parameter that is just not too long.
    let (attempt, code) = harness.approved();
    refused(&harness.dh.redeem(&attempt, &"a".repeat(LONGEST_PARAMETER)), "invalid_grant");
    let mut elsewhere = attempt.clone();
    elsewhere.redirect_uri = "a".repeat(LONGEST_PARAMETER);
    refused(&harness.dh.redeem(&elsewhere, &code), "invalid_grant");
    OAuthTokens::of(&harness.dh.redeem(&attempt, &code));
}

#[test]
fn a_parameter_is_text_and_stands_in_the_body() {
    let harness = OAuthHarness::new();
    let tokens = harness.authorized("api_read");
    let good = format!("grant_type=refresh_token&client_id=dh&refresh_token={}", tokens.refresh);
    refused(&harness.post_body(OAuthClient::TOKEN, FORM, format!("{good}%FF")), "invalid_request");
    refused(&harness.post_body(OAuthClient::TOKEN, FORM, good.replace("client_id=dh", "client_id")), "invalid_request");
    let binary = [good.as_bytes(), &[0xff, 0xfe]].concat();
    refused(&harness.post_body(OAuthClient::TOKEN, FORM, binary), "invalid_request");
    // A token in a URL would be in logs.
    let in_query = format!("{}?{good}", OAuthClient::TOKEN);
    refused(&harness.post_body(&in_query, FORM, ""), "invalid_request");

    // Unknown parameters are ignored, even twice.
    let answer = harness.post_body(OAuthClient::TOKEN, FORM, format!("audience=x&{good}&audience=y&&z"));
    OAuthTokens::of(&answer);
}

#[test]
fn an_unknown_application_is_an_invalid_client() {
    let harness = OAuthHarness::new();
    let (attempt, code) = harness.approved();
    let tokens = harness.authorized("api_read");
    for id in ["nothing", "DH", "00000000-0000-7000-8000-000000000000"] {
        let unknown = OAuthClient::new(harness.server.address(), id);
        refused(&unknown.begin_device("api_read"), "invalid_client");
        refused(&unknown.redeem(&attempt, &code), "invalid_client");
        refused(&unknown.refresh(&tokens.refresh), "invalid_client");
        refused(&unknown.poll(NO_CODE), "invalid_client");
    }
    OAuthTokens::of(&harness.dh.redeem(&attempt, &code));
    OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));
}

#[test]
fn a_text_that_is_no_client_identifier_is_an_invalid_client() {
    let harness = OAuthHarness::new();
    for id in ["d h", "dh/", "d\u{e9}", &"a".repeat(65)] {
        let malformed = OAuthClient::new(harness.server.address(), id);
        refused(&malformed.begin_device("api_read"), "invalid_client");
        refused(&malformed.refresh("a"), "invalid_client");
        refused(&malformed.revoke("a"), "invalid_client");
    }
}

#[test]
fn applications_have_no_credential() {
    let harness = OAuthHarness::new();
    let tokens = harness.authorized("api_read_write");
    let form = format!("grant_type=refresh_token&client_id=dh&refresh_token={0}&token={0}", tokens.refresh);
    for path in ENDPOINTS {
        for value in ["Basic ZGg6c2VjcmV0", &format!("Bearer {}", tokens.access), "Basic", "x"] {
            let request = harness.visitor.plain(Method::POST, path).header("content-type", FORM);
            let answer = harness.visitor.send(request.header("authorization", value).body(form.clone())).expect(401);
            assert_eq!(answer.json()["error"], "invalid_client", "{path} {value}");
            has_form_of_error(&answer);
            assert!(answer.header("www-authenticate").starts_with("Basic "), "{path} {value}");
        }
    }
    OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));
}

#[test]
fn a_body_is_a_form_of_at_most_16_kib() {
    let harness = OAuthHarness::new();
    let tokens = harness.authorized("api_read");
    let form = format!("grant_type=refresh_token&client_id=dh&refresh_token={}&token=a&x=", tokens.refresh);
    let json =
        format!("{{\"grant_type\":\"refresh_token\",\"client_id\":\"dh\",\"refresh_token\":\"{}\"}}", tokens.refresh);
    for path in ENDPOINTS {
        refused(&harness.post_body(path, "application/json", json.clone()), "invalid_request");
        for media_type in ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded2"] {
            refused(&harness.post_body(path, media_type, form.clone()), "invalid_request");
        }
        let bare = harness.visitor.plain(Method::POST, path).body(form.clone());
        refused(&harness.visitor.send(bare), "invalid_request");

        let long = form.clone() + &"a".repeat(LONGEST_BODY + 1 - form.len());
        assert_eq!(harness.post_body(path, FORM, long.clone()).status, 413, "{path}");
        // Without a declared length.
        let chunked = Body::new(std::io::Cursor::new(long.into_bytes()));
        assert_eq!(harness.post_body(path, FORM, chunked).status, 413, "{path}");
    }
    let full = form.clone() + &"a".repeat(LONGEST_BODY - form.len());
    let kind = "Application/X-WWW-Form-Urlencoded; charset=UTF-8";
    OAuthTokens::of(&harness.post_body(OAuthClient::TOKEN, kind, full));
}

#[test]
fn there_are_three_grant_types() {
    let harness = OAuthHarness::new();
    for grant_type in [
        "password",
        "client_credentials",
        "implicit",
        "Authorization_Code",
        "authorization_code ",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
    ] {
        let fields = [("grant_type", grant_type), ("client_id", "dh"), ("username", "ada"), ("password", "x")];
        refused(&harness.dh.post(OAuthClient::TOKEN, &fields), "unsupported_grant_type");
    }
}

#[test]
fn other_methods_are_405() {
    let harness = OAuthHarness::new();
    let tokens = harness.authorized("api_read");
    let query = format!("grant_type=refresh_token&client_id=dh&refresh_token={0}&token={0}", tokens.refresh);
    for path in ENDPOINTS {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::PATCH, Method::DELETE] {
            let request = harness.visitor.plain(method.clone(), &format!("{path}?{query}"));
            let answer = harness.visitor.send(request).expect(405);
            assert_eq!(answer.header("allow"), "POST, OPTIONS", "{method} {path}");
        }
    }
    OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));
}
