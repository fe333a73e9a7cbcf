//! An in-process server with the deployment `hydro/gauges` of an organization, and users with every role.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use actix_web::{App, test, web};
use branchyard_api_hosted_v1::Settings;
use branchyard_auth::{PlainToken, TokenExpiry};
use branchyard_deployments::NewDeployment;
use branchyard_deployments::access::{DeploymentAccess, Manage};
use branchyard_deployments::entities::{DeploymentRole, RunState};
use branchyard_deployments::ports::{Sample, Series};
use branchyard_deployments::values::{DeploymentId, DeploymentName};
use branchyard_domain::access::{Caller, Own};
use branchyard_domain::entities::{MemberRole, User, Visibility};
use branchyard_domain::usecases::{NewDatabase, NewOrganization, NewUser};
use branchyard_domain::values::{DatabaseName, OwnerName};
use branchyard_domain_testing::fakes::{self, FakeHub};
use branchyard_http_common::{AppState, HttpConfig, ServerKeys, Services};
use branchyard_openapi_check::{CheckedAnswer, Checker};
use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;

pub(crate) const OWNER: &str = "olga";

/// Returns a well-formed token that was never issued.
pub(crate) fn bad_token() -> String {
    format!("hsat.v1.{}3mhf8X", "A".repeat(43))
}

pub(crate) struct HostedApiHarness {
    pub(crate) fakes: FakeHub,
    pub(crate) deployment: DeploymentId,
    /// The id of the operation that created the backup.
    pub(crate) operation: String,
    state: AppState,
    tokens: Mutex<BTreeMap<String, String>>,
}

pub(crate) struct HostedAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl HostedAnswer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON in {}: {}", self.status, self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

fn check(method: &str, path: &str, status: u16, headers: &HeaderMap, body: &[u8]) {
    static DOCUMENT: LazyLock<Checker> = LazyLock::new(|| Checker::new(&branchyard_api_hosted_v1::openapi()));
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    DOCUMENT.check(&CheckedAnswer { method, path, status, headers, body }).unwrap();
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
        let person = |name: &str| {
            let wanted = NewUser {
                name: OwnerName::parse(name).unwrap(),
                email: format!("{name}@example.test"),
                display_name: None,
                password: None,
                is_admin: false,
            };
            Arc::new(hub.people().create_user(wanted).unwrap())
        };
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
        let state = AppState::new(
            Services::new(hub.clone(), fakes.deployments.clone()),
            HttpConfig::new("https://yard.test".to_owned()),
            ServerKeys::from_secret([7; 32]),
        );
        let mut scene =
            Self { fakes, deployment: view.deployment.id, operation: String::new(), state, tokens: Mutex::default() };
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

    /// Returns the token of a user, which is minted on first use.
    pub(crate) fn token(&self, name: &str) -> String {
        let mut tokens = self.tokens.lock();
        if let Some(token) = tokens.get(name) {
            return token.clone();
        }
        let hub = &self.fakes.hub;
        let secret = PlainToken::mint(&mut StdRng::seed_from_u64(name.bytes().map(u64::from).sum()));
        let minted = hub.tokens().create(&self.user(name), "test", TokenExpiry::Days30, secret, None).unwrap();
        tokens.insert(name.to_owned(), minted.secret.expose().to_owned());
        minted.secret.expose().to_owned()
    }

    /// Sends a request to a path below `/api/v1`, with an `Authorization` header if present.
    pub(crate) async fn send(
        &self,
        authorization: Option<&str>,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> HostedAnswer {
        let request = test::TestRequest::default().method(method.parse().unwrap()).uri(&format!("/api/v1{path}"));
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
    pub(crate) async fn complete(&self, request: test::TestRequest) -> HostedAnswer {
        let (method, path, answer) = self.answer(request).await;
        check(&method, &path, answer.status, &answer.headers, answer.text.as_bytes());
        answer
    }

    /// Sends a request to a path that is missing from the OpenAPI document.
    pub(crate) async fn undocumented(&self, authorization: &str, method: &str, path: &str) -> HostedAnswer {
        let request = test::TestRequest::default().method(method.parse().unwrap()).uri(&format!("/api/v1{path}"));
        let request = request.insert_header(("X-Request-Id", "test"));
        self.answer(request.insert_header(("Authorization", authorization.to_owned()))).await.2
    }

    async fn answer(&self, request: test::TestRequest) -> (String, String, HostedAnswer) {
        let app = App::new()
            .app_data(web::Data::new(self.state.clone()))
            .app_data(web::Data::new(Settings::new("https://yard.test")))
            .configure(branchyard_api_hosted_v1::configure);
        let app = test::init_service(app).await;
        let request = request.to_request();
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let response = test::call_service(&app, request).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = test::read_body(response).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        (method, path, HostedAnswer { status, headers, text })
    }

    /// Sends a request as the user `name`.
    pub(crate) async fn by(&self, name: &str, method: &str, path: &str, body: Option<&Value>) -> HostedAnswer {
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
