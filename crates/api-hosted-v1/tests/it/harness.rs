//! An in-process server with the deployment `hydro/gauges` of an organization, and users with every role.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actix_web::dev::Extensions;
use actix_web::test::TestRequest;
use actix_web::web;
use branchyard_api_hosted_v1::Settings;
use branchyard_api_testing::{ApiUnderTest, InProcessAnswer, InProcessServer, create_user};
use branchyard_deployments::NewDeployment;
use branchyard_deployments::access::{DeploymentAccess, Manage};
use branchyard_deployments::entities::{DeploymentRole, RunState};
use branchyard_deployments::ports::{Sample, Series};
use branchyard_deployments::values::{DeploymentId, DeploymentName};
use branchyard_domain::access::{Caller, Own};
use branchyard_domain::entities::{MemberRole, User, Visibility};
use branchyard_domain::usecases::{NewDatabase, NewOrganization};
use branchyard_domain::values::{DatabaseName, OwnerName, Scope};
use branchyard_domain_testing::fakes;
use parking_lot::Mutex;
use serde_json::Value;

pub(crate) const OWNER: &str = "olga";

static API: LazyLock<ApiUnderTest> =
    LazyLock::new(|| ApiUnderTest::new(branchyard_api_hosted_v1::configure, &branchyard_api_hosted_v1::openapi()));

pub(crate) struct HostedApiHarness {
    server: InProcessServer,
    pub(crate) deployment: DeploymentId,
    /// The id of the operation that created the backup.
    pub(crate) operation: String,
    tokens: Mutex<BTreeMap<String, String>>,
}

impl Deref for HostedApiHarness {
    type Target = InProcessServer;

    fn deref(&self) -> &InProcessServer {
        &self.server
    }
}

fn wanted(owner: &str, name: &str) -> NewDeployment {
    NewDeployment {
        owner: owner.to_owned(),
        name: DeploymentName::parse(name).unwrap(),
        cloud: "local".to_owned(),
        zone: "local".to_owned(),
        instance_type: "local.small".to_owned(),
        volume_type: "local.standard".to_owned(),
        volume_gb: 10,
        other_cluster: None,
        replicas: 0,
        public_tls: false,
        remotesapi: false,
        mcp: false,
        stats: false,
        source: None,
        database: None,
    }
}

impl HostedApiHarness {
    /// Creates a server with a running deployment that has a backup and a second database.
    pub(crate) fn new() -> Self {
        let fakes = fakes::hub();
        let hub = fakes.hub.clone();
        let person = |name: &str| Arc::new(create_user(&hub, name));
        let olga = person(OWNER);
        let owner = Caller::User(Arc::clone(&olga));
        let [_, rita, ruth, walt, adam, mia, _] =
            ["sam", "rita", "ruth", "walt", "adam", "mia", "bob"].map(|name| (name, person(name)));
        hub.organizations().create(&olga, NewOrganization::named(OwnerName::parse("hydro").unwrap()), None).unwrap();
        let own = hub.organizations().access::<Own>(&owner, "hydro").unwrap();
        hub.members().put(&own, &mia.1, MemberRole::Member).unwrap();
        let database = NewDatabase {
            owner: OWNER.to_owned(),
            name: DatabaseName::parse("rivers").unwrap(),
            visibility: Visibility::Private,
            description: None,
            default_branch: None,
        };
        hub.databases().create(&olga, database, None).unwrap();
        let view = fakes.deployments.create(&olga, wanted("hydro", "gauges"), None).unwrap();
        let server = InProcessServer::new(fakes, |_| {});
        let mut scene =
            Self { server, deployment: view.deployment.id, operation: String::new(), tokens: Mutex::default() };
        scene.settle();
        for (collaborator, role) in [
            (&rita, DeploymentRole::Reader),
            (&ruth, DeploymentRole::ReaderAndPulls),
            (&walt, DeploymentRole::Writer),
            (&adam, DeploymentRole::Admin),
        ] {
            scene.fakes.deployments.put_collaborator(&scene.access(), &collaborator.1, role).unwrap();
        }
        let lakes = branchyard_deployments::values::ServedName::parse("lakes").unwrap();
        scene.fakes.deployments.add_database(&scene.access(), &lakes, None, None).unwrap();
        let mut sample = Sample::default();
        sample.set(Series::CpuUsed, 3.25);
        scene.fakes.provisioner.measure(scene.instance(), sample);
        scene.operation = scene.fakes.deployments.back_up(&scene.access(), None).unwrap().id.to_string();
        scene.settle();
        scene.fakes.clock.advance_seconds(5_400);
        scene.settle();
        scene
    }

    /// Creates the same server with a stopped deployment.
    pub(crate) fn stopped() -> Self {
        let scene = Self::new();
        scene.fakes.deployments.disable(&scene.access(), None).unwrap();
        scene.settle();
        assert_eq!(scene.access().deployment().state, RunState::Stopped);
        scene
    }

    fn caller(&self) -> Caller {
        Caller::User(self.user(OWNER))
    }

    pub(crate) fn user(&self, name: &str) -> Arc<User> {
        Arc::new(self.fakes.hub.people().user_named(name).unwrap())
    }

    pub(crate) fn access(&self) -> DeploymentAccess<Manage> {
        self.fakes.deployments.access(&self.caller(), "hydro", "gauges").unwrap()
    }

    pub(crate) fn instance(&self) -> branchyard_deployments::values::InstanceId {
        self.fakes.deployments.get(&self.access()).unwrap().primary.id
    }

    pub(crate) fn backup(&self) -> String {
        self.fakes.deployments.backups(&self.access()).unwrap()[0].id.to_string()
    }

    /// Runs enough supervisor steps to finish all pending work.
    pub(crate) fn settle(&self) {
        for _ in 0..12 {
            self.fakes.deployments.supervisor().operate(self.deployment).unwrap();
            self.fakes.deployments.supervisor().step(self.deployment, Duration::ZERO).unwrap();
        }
    }

    /// Returns an access token that an application gets from a user.
    pub(crate) fn access_token(&self, name: &str, scope: Scope) -> String {
        self.server.access_token(name, scope)
    }

    /// Returns the token of a user, which is minted on first use.
    pub(crate) fn token(&self, name: &str) -> String {
        let mut tokens = self.tokens.lock();
        if let Some(token) = tokens.get(name) {
            return token.clone();
        }
        let token = self.server.token(name, 1);
        tokens.insert(name.to_owned(), token.clone());
        token
    }

    /// Sends a request to a path below `/api/v1`, with an `Authorization` header if present.
    pub(crate) async fn send(
        &self,
        authorization: Option<&str>,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> InProcessAnswer {
        let request = TestRequest::default().method(method.parse().unwrap()).uri(&format!("/api/v1{path}"));
        let request = request.insert_header(("X-Request-Id", "test"));
        let request = match authorization {
            Some(value) => request.insert_header(("Authorization", value.to_owned())),
            None => request,
        };
        let request = match body {
            Some(body) => request.set_json(body),
            None => request,
        };
        self.complete(request).await
    }

    /// Sends a complete request and validates the response against the OpenAPI document.
    pub(crate) async fn complete(&self, request: TestRequest) -> InProcessAnswer {
        self.server.send(&API, request.to_request(), Self::data()).await
    }

    /// Sends a request to a path that is missing from the OpenAPI document.
    pub(crate) async fn undocumented(&self, authorization: &str, method: &str, path: &str) -> InProcessAnswer {
        let request = TestRequest::default().method(method.parse().unwrap()).uri(&format!("/api/v1{path}"));
        let request = request.insert_header(("X-Request-Id", "test"));
        let request = request.insert_header(("Authorization", authorization.to_owned()));
        self.server.send_undocumented(&API, request.to_request(), Self::data()).await
    }

    fn data() -> Extensions {
        let mut data = Extensions::new();
        data.insert(web::Data::new(Settings::new("https://yard.test")));
        data
    }

    /// Sends a request as the user `name`.
    pub(crate) async fn by(&self, name: &str, method: &str, path: &str, body: Option<&Value>) -> InProcessAnswer {
        let authorization = format!("Bearer {}", self.token(name));
        self.send(Some(&authorization), method, path, body).await
    }
}

/// Returns a body that succeeds if the caller has permission; `None` if the route has no body.
pub(crate) fn body(method: &str, path: &str) -> Option<Value> {
    use serde_json::json;
    let rest = path.strip_prefix("/deployments/{owner}/{deployment}").unwrap_or(path);
    Some(match (method, rest) {
        ("POST", "/deployments") => json!({
            "owner": "hydro", "name": "pumps", "cloud": "local", "zone": "local", "instance_type_id": "local.small",
            "volume_type_id": "local.standard", "volume_size_gb": 10,
        }),
        ("PATCH", "") => json!({"disable_automatic_dolt_updates": true}),
        ("PATCH", "/expose") => json!({"mcp": false}),
        ("PATCH", "/config") => json!({"overrides": {"listener_max_connections": "500"}}),
        ("POST", "/database-version") => json!({"version": "1.0.0"}),
        ("POST", "/instances") => json!({
            "instance_type_id": "local.small", "volume_type_id": "local.standard", "volume_size_gb": 10,
        }),
        ("POST", "/change-primary") => json!({"current_primary_id": "0199c3b0-0000-7000-8000-0000000000a1"}),
        ("PUT", "/service-windows") => json!({"windows": []}),
        ("PUT", "/collaborators/{username}") => json!({"role": "writer"}),
        ("POST", "/databases") => json!({"name": "ponds"}),
        ("POST", "/pulls") => json!({
            "database": "gauges", "title": "Fix gauges", "from_branch": "work", "to_branch": "main",
        }),
        _ => return None,
    })
}

impl HostedApiHarness {
    /// Returns the path with all parameters filled in.
    pub(crate) fn filled(&self, path: &str) -> String {
        let filled = [
            ("{owner}", "hydro".to_owned()),
            ("{deployment}", "gauges".to_owned()),
            ("{instance_id}", self.instance().to_string()),
            ("{backup_id}", self.backup()),
            ("{database}", "lakes".to_owned()),
            ("{metric}", "cpu".to_owned()),
            ("{username}", "rita".to_owned()),
            ("{pull_id}", "1".to_owned()),
            ("{operation_id}", self.operation.clone()),
        ];
        let path = filled.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
        assert!(!path.contains('{'), "{path}: say what stands there");
        match path.as_str() {
            "/deployment-options" => format!("{path}?cloud=local&zone=local&instance_type_id=local.small"),
            "/deployments/hydro/gauges/pulls" => format!("{path}?database=gauges"),
            _ => path,
        }
    }
}
