//! An in-process server, and its users.

use std::sync::LazyLock;

use actix_web::http::header::HeaderMap;
use actix_web::{App, test, web};
use branchyard_auth::{PlainToken, TokenExpiry};
use branchyard_domain::usecases::{Limits, NewUser};
use branchyard_domain::values::OwnerName;
use branchyard_domain_testing::fakes::{self, FakeHub};
use branchyard_http_common::{AppState, HttpConfig, ServerKeys, Services};
use branchyard_openapi_check::{CheckedAnswer, Checker};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

pub(crate) struct ApiHarness {
    pub(crate) fakes: FakeHub,
    pub(crate) state: AppState,
}

/// The token of a caller; `None` for an anonymous caller.
pub(crate) type Who<'a> = Option<&'a str>;

pub(crate) struct ApiAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl ApiAnswer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON in {}: {}", self.status, self.text))
    }

    pub(crate) fn data(&self) -> Value {
        self.json()["data"].take()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Returns the status, the code, and the location of the first validation error.
    pub(crate) fn problem(&self) -> (u16, String, String) {
        let json = self.json();
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(json["status"], self.status);
        assert_eq!(json["request_id"], self.header("x-request-id"));
        let first = &json["errors"][0];
        let place = first["pointer"].as_str().or(first["parameter"].as_str()).unwrap_or_default();
        (self.status, json["code"].as_str().unwrap().to_owned(), place.to_owned())
    }

    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        let (is, named, _) = self.problem();
        assert_eq!((is, named.as_str()), (status, code), "{}", self.text);
    }

    #[track_caller]
    pub(crate) fn refused_at(&self, status: u16, place: &str) {
        let (is, _, at) = self.problem();
        assert_eq!((is, at.as_str()), (status, place), "{}", self.text);
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Asserts that the OpenAPI document allows a response.
fn check(method: &str, path: &str, status: u16, headers: &HeaderMap, body: &[u8]) {
    static DOCUMENT: LazyLock<Checker> = LazyLock::new(|| Checker::new(&branchyard_api_v2::openapi()));
    let plain = headers.get("content-encoding").is_none();
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    if plain {
        DOCUMENT.check(&CheckedAnswer { method, path, status, headers, body }).unwrap();
    }
}

impl ApiHarness {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut HttpConfig)) -> Self {
        Self::over(fakes::hub(), change)
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        Self::over(fakes::hub_with(limits), |_| {})
    }

    pub(crate) fn services(&self) -> Services {
        Services::new(self.fakes.hub.clone(), self.fakes.deployments.clone())
    }

    pub(crate) fn over(fakes: FakeHub, change: impl FnOnce(&mut HttpConfig)) -> Self {
        let mut config = HttpConfig::new("https://yard.test".to_owned());
        config.rate_limits = None;
        change(&mut config);
        let state = AppState::new(
            Services::new(fakes.hub.clone(), fakes.deployments.clone()),
            config,
            ServerKeys::from_secret([7; 32]),
        );
        Self { fakes, state }
    }

    /// Creates a user. Returns a token of the user.
    pub(crate) fn user(&self, name: &str) -> String {
        let wanted = NewUser {
            name: OwnerName::parse(name).unwrap(),
            email: format!("{name}@example.test"),
            display_name: None,
            password: None,
            is_admin: false,
        };
        self.fakes.hub.people().create_user(wanted).unwrap();
        self.token(name, 1)
    }

    /// Mints a token of a user. Each `number` yields a different token.
    pub(crate) fn token(&self, name: &str, number: u64) -> String {
        let user = self.fakes.hub.people().find_user(&OwnerName::parse(name).unwrap()).unwrap();
        let seed = name.bytes().fold(number, |sum, byte| sum * 257 + u64::from(byte));
        let secret = PlainToken::mint(&mut StdRng::seed_from_u64(seed));
        let minted = self.fakes.hub.tokens().create(&user, "test", TokenExpiry::Days30, secret, None).unwrap();
        minted.secret.expose().to_owned()
    }

    /// Sends a complete request, whose path includes the base path.
    pub(crate) async fn send(&self, request: test::TestRequest) -> ApiAnswer {
        self.answer(request.to_request()).await
    }

    /// Sends a request with any kind of body.
    pub(crate) async fn answer(&self, request: actix_http::Request) -> ApiAnswer {
        let app = App::new().app_data(web::Data::new(self.state.clone())).configure(branchyard_api_v2::configure);
        let app = test::init_service(app).await;
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let response = test::call_service(&app, request).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = test::read_body(response).await;
        self::check(&method, &path, status, &headers, &body);
        let text = String::from_utf8_lossy(&body).into_owned();
        ApiAnswer { status, headers, text }
    }

    /// Returns a request of a caller to a path below the base path.
    pub(crate) fn request(who: Who<'_>, method: &str, path: &str) -> test::TestRequest {
        let uri = format!("{}{path}", branchyard_api_v2::BASE);
        let request = test::TestRequest::default().method(method.parse().unwrap()).uri(&uri);
        match who {
            Some(token) => request.insert_header(("Authorization", format!("Bearer {token}"))),
            None => request,
        }
    }

    pub(crate) async fn get(&self, who: Who<'_>, path: &str) -> ApiAnswer {
        self.send(Self::request(who, "GET", path)).await
    }

    pub(crate) async fn delete(&self, who: Who<'_>, path: &str) -> ApiAnswer {
        self.send(Self::request(who, "DELETE", path)).await
    }

    pub(crate) async fn post(&self, who: Who<'_>, path: &str, body: Value) -> ApiAnswer {
        self.send(Self::request(who, "POST", path).set_json(body)).await
    }

    pub(crate) async fn patch(&self, who: Who<'_>, path: &str, body: Value) -> ApiAnswer {
        self.send(Self::request(who, "PATCH", path).set_json(body)).await
    }

    pub(crate) async fn put(&self, who: Who<'_>, path: &str, body: Value) -> ApiAnswer {
        self.send(Self::request(who, "PUT", path).set_json(body)).await
    }

    /// Sends a request with `If-Match`.
    pub(crate) async fn if_match(
        &self,
        who: &str,
        method: &str,
        path: &str,
        etag: &str,
        body: Option<Value>,
    ) -> ApiAnswer {
        let request = Self::request(Some(who), method, path).insert_header(("If-Match", etag.to_owned()));
        self.send(match body {
            Some(body) => request.set_json(body),
            None => request,
        })
        .await
    }

    /// Creates a database.
    pub(crate) async fn database(&self, who: &str, owner: &str, name: &str, visibility: &str) {
        let body = json!({"owner": owner, "name": name, "visibility": visibility});
        self.post(Some(who), "/databases", body).await.expect(201);
    }

    /// Runs all queued operations and refreshes all outdated pull requests.
    pub(crate) fn work(&self) {
        while self.fakes.hub.operations().run_next("test").unwrap().is_some() {}
        while self.fakes.hub.pulls().refresh_next(1).unwrap().is_some() {}
    }

    /// Runs the operation of a 202 response to its end. Returns the operation.
    pub(crate) async fn finish(&self, who: &str, accepted: &ApiAnswer) -> Value {
        assert_eq!(accepted.status, 202, "{}", accepted.text);
        self.work();
        let href = accepted.data()["href"].as_str().unwrap().to_owned();
        let path = href.strip_prefix("https://yard.test/api/v2").unwrap();
        self.get(Some(who), path).await.expect(200).data()
    }

    /// Writes to a branch by SQL and asserts success. Returns the new head.
    pub(crate) async fn write(&self, who: &str, database: &str, branch: &str, statements: &str) -> String {
        let body = json!({"from_branch": branch, "to_branch": branch, "q": statements});
        let accepted = self.post(Some(who), &format!("/databases/{database}/sql-writes"), body).await;
        let operation = self.finish(who, &accepted).await;
        assert_eq!(operation["status"], "succeeded", "{operation}");
        operation["result"]["commit_sha"].as_str().unwrap().to_owned()
    }

    /// Creates a branch at the head of another branch.
    pub(crate) async fn branch(&self, who: &str, database: &str, name: &str, from: &str) {
        let body = json!({"name": name, "from": {"branch": from}});
        self.post(Some(who), &format!("/databases/{database}/branches"), body).await.expect(201);
    }
}
