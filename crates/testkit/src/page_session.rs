//! Users who are signed in on the pages.

use reqwest::blocking::{Client, RequestBuilder};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;

use crate::oauth_client::form_encoded;
use crate::{AuthorizationAttempt, OAuthClient, OAuthTokens, TestAnswer};

/// A user who is signed in on the pages. Redirects are not followed.
#[derive(Debug)]
pub struct PageSession {
    origin: String,
    /// The value of the `Cookie` header. Empty before the first page.
    cookie: String,
    client: Client,
}

impl PageSession {
    pub(crate) fn new(origin: String, cookie: String) -> Self {
        let client = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        Self { origin, cookie, client }
    }

    /// Signs in a user with the form of the sign-in page.
    pub fn sign_in(origin: String, name: &str, password: &str) -> Self {
        let mut session = Self::new(origin, String::new());
        let page = session.get("/sign-in").expect(200);
        session.cookie = cookie_of(&page);
        let fields = [("name", name), ("password", password)];
        session.cookie = cookie_of(&session.submit(&page, "/sign-in", &fields).expect(303));
        session
    }

    fn send(&self, request: RequestBuilder) -> TestAnswer {
        let request = if self.cookie.is_empty() { request } else { request.header("Cookie", &self.cookie) };
        let response = request.send().unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        TestAnswer { status, headers, text: response.text().unwrap() }
    }

    /// Opens a page.
    pub fn get(&self, path: &str) -> TestAnswer {
        self.send(self.client.get(format!("{}{path}", self.origin)))
    }

    /// Sends a form with the CSRF token of a page.
    pub fn submit(&self, page: &TestAnswer, action: &str, fields: &[(&str, &str)]) -> TestAnswer {
        let (_, rest) = page.text.split_once("name=\"csrf-token\" content=\"").expect("the page has a CSRF token");
        let token = rest.split('"').next().unwrap_or_default();
        let mut fields = fields.to_vec();
        fields.push(("csrf", token));
        let request = self.client.post(format!("{}{action}", self.origin));
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request.body(form_encoded(&fields)))
    }

    /// Opens the consent page of a request, sends a decision, and returns where the user is sent then.
    #[track_caller]
    pub fn decide(&self, attempt: &AuthorizationAttempt, decision: &str) -> String {
        let page = self.get(&attempt.path()).expect(200);
        let parameters = attempt.parameters();
        let mut fields: Vec<(&str, &str)> =
            parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields.push(("decision", decision));
        self.submit(&page, "/oauth/authorize", &fields).expect(303).header("location").to_owned()
    }

    /// Approves a request, and returns the code that the application receives.
    #[track_caller]
    pub fn approve(&self, attempt: &AuthorizationAttempt) -> String {
        attempt.code(&self.decide(attempt, "approve"))
    }

    /// Lets an application act for the user, and returns its first tokens.
    #[track_caller]
    pub fn authorize(&self, application: &OAuthClient, scope: &str) -> OAuthTokens {
        let attempt = application.attempt(scope);
        OAuthTokens::of(&application.redeem(&attempt, &self.approve(&attempt)))
    }

    /// Opens the consent page of the device that shows this code, and sends a decision.
    #[track_caller]
    pub fn decide_device(&self, user_code: &str, decision: &str) -> TestAnswer {
        let page = self.get(&format!("/oauth/device?user_code={user_code}")).expect(200);
        self.submit(&page, "/oauth/device", &[("user_code", user_code), ("decision", decision)])
    }
}

/// Returns the cookie that a response sets, without its attributes.
fn cookie_of(answer: &TestAnswer) -> String {
    answer.header("set-cookie").split(';').next().unwrap_or_default().to_owned()
}
