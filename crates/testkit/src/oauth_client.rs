//! Applications of OAuth: the requests that they send.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::Rng as _;
use reqwest::Url;
use reqwest::blocking::Client;
use reqwest::header::CONTENT_TYPE;
use sha2::{Digest as _, Sha256};

use crate::TestAnswer;

/// The media type of forms.
const FORM: &str = "application/x-www-form-urlencoded";

/// An application: a public client (RFC 6749 §2.1), which proves its requests with PKCE (RFC 7636).
#[derive(Debug, Clone)]
pub struct OAuthClient {
    origin: String,
    id: String,
    client: Client,
}

/// A request to a user, with what the application keeps until the answer arrives.
#[derive(Debug, Clone)]
pub struct AuthorizationAttempt {
    /// The client identifier.
    pub client_id: String,
    /// Where the answer arrives. It has no query.
    pub redirect_uri: String,
    /// The scope that the application asks for.
    pub scope: String,
    /// The state, which the answer repeats: 43 characters of base64url.
    pub state: String,
    /// The code verifier: 43 characters of base64url.
    pub verifier: String,
}

/// The tokens that an application received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthTokens {
    /// The access token.
    pub access: String,
    /// The refresh token.
    pub refresh: String,
    /// What the access token allows.
    pub scope: String,
}

impl OAuthClient {
    /// The path of the token endpoint.
    pub const TOKEN: &str = "/api/oauth/access_token";

    /// The path at which a device begins to wait for its user.
    pub const DEVICES: &str = "/api/oauth/device_authorization";

    /// The path of the revocation endpoint.
    pub const REVOCATION: &str = "/api/oauth/revoke";

    /// The grant type of devices (RFC 8628 §3.4).
    pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

    /// Where `dh` listens unless a test says otherwise.
    pub const REDIRECT_URI: &str = "http://localhost:53682/callback";

    /// Creates an application with this client identifier for the server at `origin`.
    pub fn new(origin: String, id: &str) -> Self {
        let client = Client::builder().no_proxy().build().unwrap();
        Self { origin, id: id.to_owned(), client }
    }

    /// Creates `dh`, DoltHub's command-line client, which every server knows.
    pub fn dh(origin: String) -> Self {
        Self::new(origin, "dh")
    }

    /// Returns the application with another HTTP client, for example one with another source address.
    pub fn with_client(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// Returns the client identifier.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a new request to a user, whose answer arrives at [`OAuthClient::REDIRECT_URI`].
    pub fn attempt(&self, scope: &str) -> AuthorizationAttempt {
        self.attempt_at(Self::REDIRECT_URI, scope)
    }

    /// Returns a new request to a user, whose answer arrives at `redirect_uri`.
    pub fn attempt_at(&self, redirect_uri: &str, scope: &str) -> AuthorizationAttempt {
        AuthorizationAttempt {
            client_id: self.id.clone(),
            redirect_uri: redirect_uri.to_owned(),
            scope: scope.to_owned(),
            state: random_text(),
            verifier: random_text(),
        }
    }

    /// Posts a form without a credential. Fails if the server does not answer.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn try_post(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::Result<TestAnswer> {
        let request = self.client.post(format!("{}{path}", self.origin)).header(CONTENT_TYPE, FORM);
        let response = request.body(form_encoded(fields)).send()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(TestAnswer { status, headers, text: response.text()? })
    }

    /// Posts a form without a credential.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> TestAnswer {
        self.try_post(path, fields).unwrap()
    }

    /// Redeems a code with the redirect URI and the verifier of a request.
    pub fn redeem(&self, attempt: &AuthorizationAttempt, code: &str) -> TestAnswer {
        let fields: [(&str, &str); 5] = [
            ("grant_type", "authorization_code"),
            ("client_id", &self.id),
            ("code", code),
            ("redirect_uri", &attempt.redirect_uri),
            ("code_verifier", &attempt.verifier),
        ];
        self.post(Self::TOKEN, &fields)
    }

    /// Asks for the next tokens.
    pub fn refresh(&self, refresh_token: &str) -> TestAnswer {
        self.try_refresh(refresh_token).unwrap()
    }

    /// Asks for the next tokens. Fails if the server does not answer.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn try_refresh(&self, refresh_token: &str) -> reqwest::Result<TestAnswer> {
        let fields: [(&str, &str); 3] =
            [("grant_type", "refresh_token"), ("client_id", &self.id), ("refresh_token", refresh_token)];
        self.try_post(Self::TOKEN, &fields)
    }

    /// Asks for the next tokens, with this scope.
    pub fn refresh_with(&self, refresh_token: &str, scope: &str) -> TestAnswer {
        let fields: [(&str, &str); 4] = [
            ("grant_type", "refresh_token"),
            ("client_id", &self.id),
            ("refresh_token", refresh_token),
            ("scope", scope),
        ];
        self.post(Self::TOKEN, &fields)
    }

    /// Revokes a token.
    pub fn revoke(&self, token: &str) -> TestAnswer {
        self.post(Self::REVOCATION, &[("client_id", &self.id), ("token", token)])
    }

    /// Begins to wait for the user of a device.
    pub fn begin_device(&self, scope: &str) -> TestAnswer {
        self.post(Self::DEVICES, &[("client_id", &self.id), ("scope", scope)])
    }

    /// Asks whether the user of the device has decided.
    pub fn poll(&self, device_code: &str) -> TestAnswer {
        let fields: [(&str, &str); 3] =
            [("grant_type", Self::DEVICE_GRANT), ("client_id", &self.id), ("device_code", device_code)];
        self.post(Self::TOKEN, &fields)
    }
}

impl AuthorizationAttempt {
    /// Returns the code challenge, which is made from the verifier by the method `S256` (RFC 7636 §4.2).
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }

    /// Returns the parameters of the request.
    pub fn parameters(&self) -> Vec<(String, String)> {
        let challenge = self.challenge();
        let parameters: [(&str, &str); 7] = [
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", &self.redirect_uri),
            ("scope", &self.scope),
            ("state", &self.state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// Returns the path and query of the page that asks the user.
    pub fn path(&self) -> String {
        format!("/oauth/authorize?{}", form_encoded(&self.parameters()))
    }

    /// Returns the parameters of an answer that arrived at `location`. The answer must have come to the redirect URI, with one state, which
    /// is unchanged.
    #[track_caller]
    pub fn answer(&self, location: &str) -> Vec<(String, String)> {
        let uri = location.split('?').next();
        assert_eq!(uri, Some(self.redirect_uri.as_str()), "{location}");
        let answer: Vec<(String, String)> = Url::parse(location).unwrap().query_pairs().into_owned().collect();
        assert_eq!(values(&answer, "state"), [self.state.as_str()], "{location}");
        answer
    }

    /// Returns the code of an answer that arrived at `location`. The answer must have one code, which is not empty, and no error.
    #[track_caller]
    pub fn code(&self, location: &str) -> String {
        let answer = self.answer(location);
        let (codes, errors) = (values(&answer, "code"), values(&answer, "error"));
        assert!(codes.len() == 1 && !codes[0].is_empty() && errors.is_empty(), "{location}");
        codes[0].to_owned()
    }

    /// Returns the error of an answer that arrived at `location`. The answer must have one error, and no code.
    #[track_caller]
    pub fn error(&self, location: &str) -> String {
        let answer = self.answer(location);
        let (codes, errors) = (values(&answer, "code"), values(&answer, "error"));
        assert!(errors.len() == 1 && codes.is_empty(), "{location}");
        errors[0].to_owned()
    }
}

impl OAuthTokens {
    /// Reads a successful answer of the token endpoint, which must have what RFC 6749 §5.1 demands.
    #[track_caller]
    pub fn of(answer: &TestAnswer) -> Self {
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.header("cache-control"), "no-store");
        let json = answer.json();
        assert_eq!(json["token_type"], "Bearer", "{json}");
        assert!(json["expires_in"].as_i64().is_some_and(|seconds| seconds > 0), "{json}");
        let text = |name: &str| match json[name].as_str() {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => panic!("no {name} in {json}"),
        };
        Self { access: text("access_token"), refresh: text("refresh_token"), scope: text("scope") }
    }
}

/// Encodes fields as a form, and as a query.
pub fn form_encoded<N: AsRef<str>, V: AsRef<str>>(fields: &[(N, V)]) -> String {
    let url = Url::parse_with_params("http://form.test/", fields).unwrap();
    url.query().unwrap_or_default().to_owned()
}

/// Returns the values of the parameters with a name.
fn values<'a>(parameters: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    parameters.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
}

/// Returns 256 random bits as 43 characters of base64url.
fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(rand::rng().random::<[u8; 32]>())
}

#[cfg(test)]
mod tests {
    use super::OAuthClient;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636 appendix B.
        let mut attempt = OAuthClient::dh("http://yard.test".to_owned()).attempt("api_read");
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".clone_into(&mut attempt.verifier);
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(
            attempt.path().contains("&redirect_uri=http%3A%2F%2Flocalhost%3A53682%2Fcallback&scope=api_read&state=")
        );
        assert_eq!(attempt.state.len(), 43);
    }
}
