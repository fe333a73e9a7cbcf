//! An in-process server with one database and several users.

use std::sync::{Arc, LazyLock};

use actix_web::http::header::HeaderMap;
use actix_web::{App, test, web};
use branchyard_api_v1alpha1::LegacySettings;
use branchyard_auth::{PlainToken, TokenExpiry};
use branchyard_domain::access::{Admin, Caller, DatabaseAccess, Level, Participate, Write};
use branchyard_domain::entities::{Role, User, Visibility};
use branchyard_domain::usecases::{NewBranch, NewDatabase, NewOrganization, NewPull, NewUser, SqlWrite};
use branchyard_domain::values::{DatabaseName, OwnerName, RefName, Revision, Title};
use branchyard_domain_testing::fakes::{self, FakeHub};
use branchyard_http_common::{AppState, HttpConfig, RateLimits, ServerKeys, Services};
use branchyard_openapi_check::{CheckedAnswer, Checker};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;

/// A server with `olga/rivers`, which has a table `t`, branches `main`, `work` and `spare`, an open pull request, and a queued
/// write.
pub(crate) struct LegacyHarness {
    pub(crate) fakes: FakeHub,
    pub(crate) state: AppState,
    pub(crate) settings: LegacySettings,
    olga: Caller,
    /// Id of the queued write.
    pub(crate) waiting: String,
}

pub(crate) struct LegacyAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
}

impl LegacyAnswer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON in {}: {}", self.status, self.text))
    }

    /// Returns the error text in either format.
    pub(crate) fn message(&self) -> String {
        let json = self.json();
        let message = json["message"].as_str().or(json["query_execution_message"].as_str());
        message.unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Fails the test if the OpenAPI document does not allow a response.
fn check(method: &str, path: &str, status: u16, headers: &HeaderMap, body: &[u8]) {
    static DOCUMENT: LazyLock<Checker> = LazyLock::new(|| Checker::new(&branchyard_api_v1alpha1::openapi()));
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    DOCUMENT.check(&CheckedAnswer { method, path, status, headers, body }).unwrap();
}

impl LegacyHarness {
    pub(crate) fn new(visibility: Visibility) -> Self {
        Self::with(visibility, None)
    }

    pub(crate) fn with(visibility: Visibility, rate_limits: Option<RateLimits>) -> Self {
        Self::over(fakes::hub(), visibility, rate_limits)
    }

    pub(crate) fn over(fakes: FakeHub, visibility: Visibility, rate_limits: Option<RateLimits>) -> Self {
        let mut config = HttpConfig::new("https://yard.test".to_owned());
        config.rate_limits = rate_limits;
        let state = AppState::new(
            Services::new(fakes.hub.clone(), fakes.deployments.clone()),
            config,
            ServerKeys::from_secret([7; 32]),
        );
        let olga = Caller::User(Arc::new(person(&fakes, "olga")));
        let mut world = Self { fakes, state, settings: LegacySettings::default(), olga, waiting: String::new() };
        world.furnish(visibility);
        world
    }

    fn furnish(&mut self, visibility: Visibility) {
        let hub = self.fakes.hub.clone();
        let name = DatabaseName::parse("rivers").unwrap();
        let database =
            NewDatabase { owner: "olga".to_owned(), name, visibility, description: None, default_branch: None };
        hub.databases().create(self.olga.user().unwrap(), database, None).unwrap();
        for (name, role) in [("rita", Role::Read), ("walt", Role::Write)] {
            person(&self.fakes, name);
            let user = hub.people().user_named(name).unwrap();
            hub.collaborators().put(&self.access::<Admin>(), &user, role).unwrap();
        }
        person(&self.fakes, "sam");
        let delta = NewOrganization::named(OwnerName::parse("delta").unwrap());
        hub.organizations().create(self.olga.user().unwrap(), delta, None).unwrap();
        self.write("main", "CREATE TABLE t(id INTEGER PRIMARY KEY)");
        self.write("work", "INSERT INTO t VALUES (1)");
        self.work();
        let name = RefName::parse("spare").unwrap();
        let from = Revision::Branch("main".to_owned());
        hub.branches().create(&self.access::<Write>(), NewBranch { name, from }, None).unwrap();
        let here = || ("olga".to_owned(), "rivers".to_owned());
        let pull = NewPull {
            title: Title::parse("A change").unwrap(),
            description: None,
            from_database: here(),
            from_branch: "work".to_owned(),
            to_database: here(),
            to_branch: "main".to_owned(),
            publish: false,
        };
        hub.pulls().open(&self.access::<Participate>(), pull, None).unwrap();
        self.waiting = self.write("busy", "INSERT INTO t VALUES (2)");
    }

    /// Runs all queued work.
    pub(crate) fn work(&self) {
        while self.fakes.hub.operations().run_next("test").unwrap().is_some() {}
        while self.fakes.hub.pulls().refresh_next(1).unwrap().is_some() {}
    }

    fn access<L: Level>(&self) -> DatabaseAccess<L> {
        self.fakes.hub.databases().access(&self.olga, "olga", "rivers").unwrap()
    }

    pub(crate) fn write(&self, branch: &str, statements: &str) -> String {
        let wanted = SqlWrite {
            from_branch: "main".to_owned(),
            to_branch: RefName::parse(branch).unwrap(),
            statements: statements.to_owned(),
            message: None,
        };
        self.fakes.hub.operations().sql_write(&self.access::<Write>(), wanted, None).unwrap().id.to_string()
    }

    /// Creates a token of a user.
    pub(crate) fn token(&self, name: &str) -> String {
        let hub = &self.fakes.hub;
        let user = hub.people().user_named(name).unwrap();
        let secret = PlainToken::mint(&mut StdRng::seed_from_u64(name.bytes().map(u64::from).sum()));
        let minted = hub.tokens().create(&user, "test", TokenExpiry::Days30, secret, None).unwrap();
        minted.secret.expose().to_owned()
    }

    /// Creates a request to an absolute path.
    pub(crate) fn request(authorization: Option<&str>, method: &str, path: &str) -> test::TestRequest {
        let request = test::TestRequest::default().method(method.parse().unwrap()).uri(path);
        match authorization {
            Some(value) => request.insert_header(("Authorization", value.to_owned())),
            None => request,
        }
    }

    /// Sends a request and checks the response against the OpenAPI document.
    pub(crate) async fn send(&self, request: test::TestRequest) -> LegacyAnswer {
        let app = App::new()
            .app_data(web::Data::new(self.state.clone()))
            .app_data(web::Data::new(self.settings.clone()))
            .configure(branchyard_api_v1alpha1::configure);
        let app = test::init_service(app).await;
        let request = request.to_request();
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let response = test::call_service(&app, request).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = test::read_body(response).await;
        check(&method, &path, status, &headers, &body);
        LegacyAnswer { status, headers, text: String::from_utf8_lossy(&body).into_owned(), bytes: body.to_vec() }
    }
}

fn person(fakes: &FakeHub, name: &str) -> User {
    let wanted = NewUser {
        name: OwnerName::parse(name).unwrap(),
        email: format!("{name}@example.test"),
        display_name: None,
        password: None,
        is_admin: false,
    };
    fakes.hub.people().create_user(wanted).unwrap()
}
