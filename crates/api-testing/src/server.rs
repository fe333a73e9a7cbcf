//! The server under test.

use actix_http::Request;
use actix_web::dev::{Extensions, ServiceResponse};
use actix_web::{test, web};
use branchyard_auth::{CodeChallenge, CodeVerifier, PlainToken, TokenExpiry};
use branchyard_domain::Hub;
use branchyard_domain::entities::{Application, User};
use branchyard_domain::usecases::{AuthorizationRequest, NewUser};
use branchyard_domain::values::{ApplicationId, OwnerName, RedirectUri, Scope};
use branchyard_domain_testing::fakes::{BrokenMetadata, FakeHub};
use branchyard_http_common::{AppState, HttpConfig, ServerKeys, Services};
use branchyard_openapi_check::CheckedAnswer;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::answer::InProcessAnswer;
use crate::app::ApiUnderTest;

/// The stores and the configuration of a server, at `https://yard.test`, with keys from a fixed secret.
pub struct InProcessServer {
    /// The stores and the clock.
    pub fakes: FakeHub,
    /// The state of all handlers.
    pub state: AppState,
}

impl InProcessServer {
    /// Creates a server without rate limits. `change` changes its configuration.
    pub fn new(fakes: FakeHub, change: impl FnOnce(&mut HttpConfig)) -> Self {
        let mut config = HttpConfig::new("https://yard.test".to_owned());
        config.rate_limits = None;
        change(&mut config);
        let state = state(Services::new(fakes.hub.clone(), fakes.deployments.clone()), config);
        Self { fakes, state }
    }

    /// Restarts the server with another configuration, over the same stores.
    pub fn reconfigure(&mut self, change: impl FnOnce(&mut HttpConfig)) {
        let mut config = self.state.config.clone();
        change(&mut config);
        self.state = state(Services::new(self.fakes.hub.clone(), self.fakes.deployments.clone()), config);
    }

    /// Makes all later calls of handlers to the metadata store fail.
    pub fn break_metadata(&mut self, fault: BrokenMetadata) {
        let (hub, deployments) = self.fakes.broken(fault);
        self.state = state(Services::new(hub, deployments), self.state.config.clone());
    }

    /// Mints a token of a user. Each `number` yields a different token.
    pub fn token(&self, name: &str, number: u64) -> String {
        let user = self.fakes.hub.people().user_named(name).unwrap();
        let seed = name.bytes().fold(number, |sum, byte| sum * 257 + u64::from(byte));
        let secret = PlainToken::mint(&mut StdRng::seed_from_u64(seed));
        let minted = self.fakes.hub.tokens().create(&user, "test", TokenExpiry::Days30, secret, None).unwrap();
        minted.secret.expose().to_owned()
    }

    /// Returns an access token that the command-line client gets from a user.
    pub fn access_token(&self, name: &str, scope: Scope) -> String {
        let hub = &self.fakes.hub;
        let user = hub.people().user_named(name).unwrap();
        let verifier = CodeVerifier::parse(&"v".repeat(43)).unwrap();
        let request = AuthorizationRequest {
            application: ApplicationId::parse(Application::DH).unwrap(),
            redirect_uri: RedirectUri::parse("http://localhost:53682/callback").unwrap(),
            scope,
            challenge: CodeChallenge::of(&verifier),
        };
        let code = hub.grants().authorize(&user, None, &request).unwrap();
        let redirect_uri = request.redirect_uri.as_str();
        let issued = hub.grants().redeem(&request.application, &code.hash(), redirect_uri, &verifier).unwrap();
        issued.access.expose().to_owned()
    }

    /// Runs all queued operations and refreshes all outdated pull requests.
    pub fn work(&self) {
        while self.fakes.hub.operations().run_next("test").unwrap().is_some() {}
        while self.fakes.hub.pulls().refresh_next(1).unwrap().is_some() {}
    }

    /// Sends a request and reads the response. Fails the test if the OpenAPI document does not allow it.
    pub async fn send(&self, api: &ApiUnderTest, request: Request, data: Extensions) -> InProcessAnswer {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let answer = self.send_undocumented(api, request, data).await;
        // The document describes bodies before they are compressed.
        if answer.header("content-encoding").is_empty() {
            let headers = answer.headers.iter();
            let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
            let InProcessAnswer { status, ref bytes, .. } = answer;
            let checked = CheckedAnswer { method: &method, path: &path, status, headers, body: bytes };
            api.document.check(&checked).unwrap();
        }
        answer
    }

    /// Sends a request that the OpenAPI document does not know, and reads the response.
    pub async fn send_undocumented(&self, api: &ApiUnderTest, request: Request, data: Extensions) -> InProcessAnswer {
        let response = self.respond(api, request, data).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = test::read_body(response).await.to_vec();
        InProcessAnswer { status, headers, text: String::from_utf8_lossy(&bytes).into_owned(), bytes }
    }

    /// Sends a request. `data` is the application data that the adapter needs beside the state.
    pub async fn respond(&self, api: &ApiUnderTest, request: Request, mut data: Extensions) -> ServiceResponse {
        data.insert(web::Data::new(self.state.clone()));
        api.respond(request, data).await
    }
}

fn state(services: Services, config: HttpConfig) -> AppState {
    AppState::new(services, config, ServerKeys::from_secret([7; 32]))
}

/// Creates a user without a password.
pub fn create_user(hub: &Hub, name: &str) -> User {
    let wanted = NewUser {
        name: OwnerName::parse(name).unwrap(),
        email: format!("{name}@example.test"),
        display_name: None,
        password: None,
        is_admin: false,
    };
    hub.people().create_user(wanted).unwrap()
}

/// Returns a well-formed token that was never issued.
pub fn never_issued_token() -> String {
    format!("hsat.v1.{}3mhf8X", "A".repeat(43))
}
