//! The parameters of an authorization request (RFC 6749 §4.1.1, RFC 7636 §4.3).

use branchyard_auth::CodeChallenge;
use branchyard_domain::values::{ApplicationId, RedirectUri, Scope};

use crate::paths;

/// The path of the page that reads the parameters.
const PAGE: &str = "/oauth/authorize";

/// The parameters that are read. Others are ignored (RFC 6749 §3.1).
const NAMES: [&str; 7] =
    ["response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method"];

/// Maximum length of a state in bytes.
const MAX_STATE_BYTES: usize = 1_024;

/// The parameters of a request, in its query or in the form of the consent page.
#[derive(Debug)]
pub(super) struct AuthorizationParams(Vec<(&'static str, Vec<String>)>);

/// How often a parameter was sent. A parameter without a value counts as absent, and none may occur twice (RFC 6749 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent<'a> {
    Absent,
    Once(&'a str),
    Repeated,
}

/// An error that the application receives (RFC 6749 §4.1.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AuthorizationError {
    pub(super) code: &'static str,
    pub(super) description: &'static str,
}

impl AuthorizationError {
    /// The user refused.
    pub(super) const DENIED: Self =
        Self { code: "access_denied", description: "The user refused to authorize the application." };

    const fn invalid_request(description: &'static str) -> Self {
        Self { code: "invalid_request", description }
    }
}

impl AuthorizationParams {
    /// Reads the parameters. `values` returns all values of the parameter with this name.
    pub(super) fn read(values: impl Fn(&str) -> Vec<String>) -> Self {
        Self(NAMES.into_iter().map(|name| (name, values(name))).collect())
    }

    fn values(&self, name: &str) -> &[String] {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, values)| values.as_slice()).unwrap_or_default()
    }

    fn sent(&self, name: &str) -> Sent<'_> {
        match self.values(name) {
            [] => Sent::Absent,
            [one] if one.is_empty() => Sent::Absent,
            [one] => Sent::Once(one),
            _ => Sent::Repeated,
        }
    }

    fn required(&self, name: &str) -> Result<&str, String> {
        match self.sent(name) {
            Sent::Once(value) => Ok(value),
            Sent::Absent => Err(format!("the parameter {name} is missing")),
            Sent::Repeated => Err(format!("the parameter {name} occurs more than once")),
        }
    }

    /// Returns the application and where it receives the answer. These need not belong together.
    ///
    /// # Errors
    /// Why nothing may be sent to the application: one of the two is not valid, or the state is none that could be sent back.
    pub(super) fn client(&self) -> Result<(ApplicationId, RedirectUri), String> {
        let application = ApplicationId::parse(self.required("client_id")?).map_err(|why| why.to_string())?;
        let redirect_uri = RedirectUri::parse(self.required("redirect_uri")?).map_err(|why| why.to_string())?;
        // A form changes the line ends of its fields, and a state has to be returned as it was sent.
        let is_unfit = |state: &String| state.len() > MAX_STATE_BYTES || state.contains(char::is_control);
        if self.values("state").iter().any(is_unfit) {
            return Err(format!("the parameter state has at most {MAX_STATE_BYTES} bytes and no control characters"));
        }
        Ok((application, redirect_uri))
    }

    /// Returns what the application asks for.
    ///
    /// # Errors
    /// What the application receives if the request is not valid.
    pub(super) fn wanted(&self) -> Result<(Scope, CodeChallenge), AuthorizationError> {
        let invalid = AuthorizationError::invalid_request;
        match self.sent("response_type") {
            Sent::Once("code") => {}
            Sent::Once(_) => {
                let description = "The only response_type is code.";
                return Err(AuthorizationError { code: "unsupported_response_type", description });
            }
            Sent::Absent | Sent::Repeated => return Err(invalid("The parameter response_type has to occur once.")),
        }
        let Sent::Once(challenge) = self.sent("code_challenge") else {
            return Err(invalid("The parameter code_challenge has to occur once."));
        };
        let challenge = CodeChallenge::parse(challenge)
            .map_err(|_| invalid("The code_challenge is not 43 characters of base64url."))?;
        if self.sent("code_challenge_method") != Sent::Once("S256") {
            return Err(invalid("The only code_challenge_method is S256."));
        }
        let scope = match self.sent("scope") {
            Sent::Absent => Scope::Read,
            Sent::Once(names) => Scope::parse_list(names).map_err(|_| AuthorizationError {
                code: "invalid_scope",
                description: "The scopes are api_read and api_read_write.",
            })?,
            Sent::Repeated => return Err(invalid("The parameter scope occurs more than once.")),
        };
        if self.sent("state") == Sent::Repeated {
            return Err(invalid("The parameter state occurs more than once."));
        }
        Ok((scope, challenge))
    }

    /// Returns the state, as it was sent. `None` if there is none, or more than one.
    pub(super) fn state(&self) -> Option<&str> {
        match self.sent("state") {
            Sent::Once(state) => Some(state),
            Sent::Absent | Sent::Repeated => None,
        }
    }

    /// Returns the names and values of the parameters that were sent once.
    fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().filter_map(|(name, _)| match self.sent(name) {
            Sent::Once(value) => Some((*name, value)),
            Sent::Absent | Sent::Repeated => None,
        })
    }

    /// Returns the parameters as hidden fields of a form.
    pub(super) fn hidden(&self) -> Vec<(&'static str, String)> {
        self.given().map(|(name, value)| (name, value.to_owned())).collect()
    }

    /// Returns the path and query of the consent page.
    pub(super) fn path(&self) -> String {
        paths::with_query(PAGE, &self.given().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::{AuthorizationError, AuthorizationParams};
    use branchyard_domain::values::Scope;

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    const VALID: [(&str, &str); 7] = [
        ("response_type", "code"),
        ("client_id", "dh"),
        ("redirect_uri", "http://localhost:53682/callback"),
        ("scope", "api_read_write"),
        ("state", "a b&c"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
    ];

    fn params(pairs: &[(&str, &str)]) -> AuthorizationParams {
        AuthorizationParams::read(|name| {
            pairs.iter().filter(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()).collect()
        })
    }

    /// Returns a valid request, except for the parameter `name`, which has these values.
    fn with(name: &str, values: &[&str]) -> AuthorizationParams {
        let others = VALID.into_iter().filter(|(key, _)| *key != name);
        params(&others.chain(values.iter().map(|value| (name, *value))).collect::<Vec<_>>())
    }

    #[test]
    fn a_valid_request_is_read_and_repeated() {
        let sent = params(&[&VALID[..], &[("prompt", "none")]].concat());
        let (application, redirect_uri) = sent.client().unwrap();
        assert_eq!((application.as_str(), redirect_uri.as_str()), ("dh", VALID[2].1));
        assert_eq!(sent.wanted().unwrap().0, Scope::ReadWrite);
        assert_eq!(sent.state(), Some("a b&c"));
        assert_eq!(sent.hidden(), VALID.map(|(name, value)| (name, value.to_owned())));
        let path = sent.path();
        assert!(
            path.starts_with("/oauth/authorize?response_type=code&client_id=dh&redirect_uri=http%3A%2F%2F"),
            "{path}"
        );
        assert!(path.contains("&state=a%20b%26c&"), "{path}");
    }

    #[test]
    fn nothing_is_sent_to_an_application_that_is_not_identified() {
        for (name, values) in [
            ("client_id", &[][..]),
            ("client_id", &[""]),
            ("client_id", &["dh", "dh"]),
            ("client_id", &["d h"]),
            ("redirect_uri", &[]),
            ("redirect_uri", &["https://a.test", "https://a.test"]),
            ("redirect_uri", &["http://a.test"]),
            ("state", &[&"a".repeat(1_025)]),
            ("state", &["a", &"a".repeat(1_025)]),
            ("state", &["a\r\nb"]),
        ] {
            assert!(with(name, values).client().is_err(), "{name} {values:?}");
        }
        for values in [&[][..], &[""], &["a", "b"], &[&"a".repeat(1_024)]] {
            assert!(with("state", values).client().is_ok(), "{values:?}");
        }
    }

    #[test]
    fn other_errors_have_the_codes_of_the_standard() {
        let code = |name: &str, values: &[&str]| with(name, values).wanted().map(drop).map_err(|error| error.code);
        for (name, values, expected) in [
            ("response_type", &[][..], "invalid_request"),
            ("response_type", &["code", "code"], "invalid_request"),
            ("response_type", &["token"], "unsupported_response_type"),
            ("code_challenge", &[], "invalid_request"),
            ("code_challenge", &["short"], "invalid_request"),
            ("code_challenge", &[CHALLENGE, CHALLENGE], "invalid_request"),
            ("code_challenge_method", &[], "invalid_request"),
            ("code_challenge_method", &["plain"], "invalid_request"),
            ("code_challenge_method", &["s256"], "invalid_request"),
            ("code_challenge_method", &["S256", "S256"], "invalid_request"),
            ("scope", &["api_read", "api_read"], "invalid_request"),
            ("scope", &["admin"], "invalid_scope"),
            ("state", &["a", "b"], "invalid_request"),
        ] {
            assert_eq!(code(name, values), Err(expected), "{name} {values:?}");
        }
        assert_eq!(with("state", &["a", "b"]).state(), None);
    }

    #[test]
    fn without_a_scope_an_application_may_read() {
        for values in [&[][..], &[""]] {
            assert_eq!(with("scope", values).wanted().unwrap().0, Scope::Read);
        }
    }

    #[test]
    fn descriptions_have_no_characters_that_the_standard_forbids() {
        // RFC 6749 §4.1.2.1: printable ASCII without the quotation mark and the backslash.
        let is_allowed = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        let errors = [
            ("response_type", "x"),
            ("response_type", ""),
            ("code_challenge", ""),
            ("code_challenge", "x"),
            ("code_challenge_method", "x"),
            ("scope", "x"),
        ]
        .map(|(name, value)| with(name, &[value]).wanted().map(drop).unwrap_err());
        for error in errors.into_iter().chain([AuthorizationError::DENIED]) {
            assert!(error.description.bytes().all(is_allowed), "{error:?}");
        }
    }
}
