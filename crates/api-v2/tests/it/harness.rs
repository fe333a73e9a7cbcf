//! An in-process server, and its users.

use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::LazyLock;
use std::time::Duration;

use actix_web::dev::Extensions;
use actix_web::rt::time::sleep;
use actix_web::test::TestRequest;
use branchyard_api_testing::{ApiUnderTest, InProcessAnswer, InProcessServer, create_user};
use branchyard_domain::usecases::Limits;
use branchyard_domain_testing::fakes::{self, FakeHub};
use branchyard_http_common::HttpConfig;
use futures_util::future::{Either, select};
use serde_json::{Value, json};

static API: LazyLock<ApiUnderTest> =
    LazyLock::new(|| ApiUnderTest::new(branchyard_api_v2::configure, &branchyard_api_v2::openapi()));

pub(crate) struct ApiHarness(InProcessServer);

/// The token of a caller; `None` for an anonymous caller.
pub(crate) type Who<'a> = Option<&'a str>;

impl Deref for ApiHarness {
    type Target = InProcessServer;

    fn deref(&self) -> &InProcessServer {
        &self.0
    }
}

impl DerefMut for ApiHarness {
    fn deref_mut(&mut self) -> &mut InProcessServer {
        &mut self.0
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

    pub(crate) fn over(fakes: FakeHub, change: impl FnOnce(&mut HttpConfig)) -> Self {
        Self(InProcessServer::new(fakes, change))
    }

    /// Creates a user. Returns a token of the user.
    pub(crate) fn user(&self, name: &str) -> String {
        create_user(&self.fakes.hub, name);
        self.token(name, 1)
    }

    /// Sends a complete request, whose path includes the base path.
    pub(crate) async fn send(&self, request: TestRequest) -> InProcessAnswer {
        self.answer(request.to_request()).await
    }

    /// Sends a complete request and runs operations until it is answered.
    pub(crate) async fn send_and_work(&self, request: TestRequest) -> InProcessAnswer {
        let work = async {
            loop {
                sleep(Duration::from_millis(1)).await;
                self.work();
            }
        };
        match select(pin!(self.send(request)), pin!(work)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), _)) => panic!("the work has no end"),
        }
    }

    /// Sends a request with any kind of body.
    pub(crate) async fn answer(&self, request: actix_http::Request) -> InProcessAnswer {
        self.0.send(&API, request, Extensions::new()).await
    }

    /// Returns a request of a caller to a path below the base path.
    pub(crate) fn request(who: Who<'_>, method: &str, path: &str) -> TestRequest {
        let uri = format!("{}{path}", branchyard_api_v2::BASE);
        let request = TestRequest::default().method(method.parse().unwrap()).uri(&uri);
        match who {
            Some(token) => request.insert_header(("Authorization", format!("Bearer {token}"))),
            None => request,
        }
    }

    pub(crate) async fn get(&self, who: Who<'_>, path: &str) -> InProcessAnswer {
        self.send(Self::request(who, "GET", path)).await
    }

    pub(crate) async fn delete(&self, who: Who<'_>, path: &str) -> InProcessAnswer {
        self.send(Self::request(who, "DELETE", path)).await
    }

    pub(crate) async fn post(&self, who: Who<'_>, path: &str, body: Value) -> InProcessAnswer {
        self.send(Self::request(who, "POST", path).set_json(body)).await
    }

    pub(crate) async fn patch(&self, who: Who<'_>, path: &str, body: Value) -> InProcessAnswer {
        self.send(Self::request(who, "PATCH", path).set_json(body)).await
    }

    pub(crate) async fn put(&self, who: Who<'_>, path: &str, body: Value) -> InProcessAnswer {
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
    ) -> InProcessAnswer {
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

    /// Runs the operation of a 202 response to its end. Returns the operation.
    pub(crate) async fn finish(&self, who: &str, accepted: &InProcessAnswer) -> Value {
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
