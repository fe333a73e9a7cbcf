//! An in-process server with one database and several users.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use actix_web::dev::{Extensions, ServiceResponse};
use actix_web::test::TestRequest;
use actix_web::web;
use branchyard_api_testing::{ApiUnderTest, InProcessAnswer, InProcessServer, create_user};
use branchyard_api_v1alpha1::LegacySettings;
use branchyard_domain::access::{Admin, Caller, DatabaseAccess, Level, Participate, Write};
use branchyard_domain::entities::{Role, Visibility};
use branchyard_domain::usecases::{NewBranch, NewDatabase, NewOrganization, NewPull, SqlWrite};
use branchyard_domain::values::{DatabaseName, OwnerName, RefName, Revision, Scope, Title};
use branchyard_domain_testing::fakes::{self, FakeHub};
use branchyard_http_common::RateLimits;

/// A server with `olga/rivers`, which has a table `t`, branches `main`, `work` and `spare`, an open pull request, and a queued
/// write.
pub(crate) struct LegacyHarness {
    server: InProcessServer,
    pub(crate) settings: LegacySettings,
    olga: Caller,
    /// Id of the queued write.
    pub(crate) waiting: String,
}

/// Returns the error text in either format.
pub(crate) fn message(answer: &InProcessAnswer) -> String {
    let json = answer.json();
    let message = json["message"].as_str().or(json["query_execution_message"].as_str());
    message.unwrap_or_default().to_owned()
}

static API: LazyLock<ApiUnderTest> =
    LazyLock::new(|| ApiUnderTest::new(branchyard_api_v1alpha1::configure, &branchyard_api_v1alpha1::openapi()));

impl Deref for LegacyHarness {
    type Target = InProcessServer;

    fn deref(&self) -> &InProcessServer {
        &self.server
    }
}

impl DerefMut for LegacyHarness {
    fn deref_mut(&mut self) -> &mut InProcessServer {
        &mut self.server
    }
}

impl LegacyHarness {
    pub(crate) fn new(visibility: Visibility) -> Self {
        Self::with(visibility, None)
    }

    pub(crate) fn with(visibility: Visibility, rate_limits: Option<RateLimits>) -> Self {
        Self::over(fakes::hub(), visibility, rate_limits)
    }

    pub(crate) fn over(fakes: FakeHub, visibility: Visibility, rate_limits: Option<RateLimits>) -> Self {
        let server = InProcessServer::new(fakes, |config| config.rate_limits = rate_limits);
        let olga = Caller::User(Arc::new(create_user(&server.fakes.hub, "olga")));
        let mut world = Self { server, settings: LegacySettings::default(), olga, waiting: String::new() };
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
            create_user(&hub, name);
            let user = hub.people().user_named(name).unwrap();
            hub.collaborators().put(&self.access::<Admin>(), &user, role).unwrap();
        }
        create_user(&hub, "sam");
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

    fn access<L: Level>(&self) -> DatabaseAccess<L> {
        self.fakes.hub.databases().access(&self.olga, "olga", "rivers").unwrap()
    }

    pub(crate) fn write(&self, branch: &str, statements: &str) -> String {
        let wanted = SqlWrite {
            from_branch: "main".to_owned(),
            to_branch: RefName::parse(branch).unwrap(),
            statements: statements.to_owned(),
            message: None,
            expected_head: None,
            start: None,
        };
        self.fakes.hub.operations().sql_write(&self.access::<Write>(), wanted, None).unwrap().id.to_string()
    }

    /// Creates a token of a user.
    pub(crate) fn token(&self, name: &str) -> String {
        self.server.token(name, 1)
    }

    /// Returns an access token that an application gets from a user.
    pub(crate) fn access_token(&self, name: &str, scope: Scope) -> String {
        self.server.access_token(name, scope)
    }

    /// Creates a request to an absolute path.
    pub(crate) fn request(authorization: Option<&str>, method: &str, path: &str) -> TestRequest {
        let request = TestRequest::default().method(method.parse().unwrap()).uri(path);
        match authorization {
            Some(value) => request.insert_header(("Authorization", value.to_owned())),
            None => request,
        }
    }

    /// Sends a request and checks the response against the OpenAPI document.
    pub(crate) async fn send(&self, request: TestRequest) -> InProcessAnswer {
        self.server.send(&API, request.to_request(), self.data()).await
    }

    /// Sends a request and returns the response with its body unread.
    pub(crate) async fn respond(&self, request: TestRequest) -> ServiceResponse {
        self.server.respond(&API, request.to_request(), self.data()).await
    }

    fn data(&self) -> Extensions {
        let mut data = Extensions::new();
        data.insert(web::Data::new(self.settings.clone()));
        data
    }
}
