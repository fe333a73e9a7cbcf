//! A provisioner with one instance, callers with different roles, and helpers for requests.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use branchyard::compose::Environment;
use branchyard::config::Isolation;
use branchyard::sql_engine::SqlEngine;
use branchyard_auth::{HashedToken, PlainToken};
use branchyard_deployments::ports::{
    Authorized, Authorizer, DatabaseSeed, InstanceEvent, InstanceHandle, InstanceSpec, ProvisionError, Provisioner,
    SqlCaller,
};
use branchyard_deployments::values::{DeploymentId, InstanceId, ServedName, Setting, Settings};
use branchyard_domain::entities::Signature;
use branchyard_domain::ports::SqlPower;
use branchyard_domain::values::{AccountId, Timestamp};
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use branchyard_provisioner_local::{LocalProcess, LocalSettings};
use branchyard_storage::FolderBlobs;
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;

/// The known callers by token hash.
#[derive(Default)]
pub(crate) struct People {
    known: Mutex<HashMap<[u8; 32], Authorized>>,
}

impl Authorizer for People {
    fn authorize(
        &self,
        token: &HashedToken,
        _: InstanceId,
        address: Option<IpAddr>,
    ) -> Result<Authorized, ProvisionError> {
        assert_eq!(address, Some(IpAddr::from(Ipv4Addr::LOCALHOST)));
        Ok(self.known.lock().get(token.as_bytes()).cloned().unwrap_or(Authorized::BadToken))
    }
}

impl People {
    /// Sets the role of a token's user. `None` means no role.
    pub(crate) fn set(&self, token: &str, name: &str, power: Option<SqlPower>) {
        let hash = *PlainToken::parse(token).unwrap().hash().as_bytes();
        let id = name.bytes().fold(7_u128, |id, byte| id * 256 + u128::from(byte));
        let authorized = match power {
            None => Authorized::NoRole,
            Some(power) => Authorized::Caller(SqlCaller {
                user: AccountId::from_uuid(Uuid::from_u128(id)),
                name: name.to_owned(),
                email: format!("{name}@example.test"),
                power,
                expires_at: None,
            }),
        };
        self.known.lock().insert(hash, authorized);
    }

    /// Removes a token.
    pub(crate) fn revoke(&self, token: &str) {
        self.known.lock().remove(PlainToken::parse(token).unwrap().hash().as_bytes());
    }
}

pub(crate) fn mint() -> String {
    PlainToken::mint(&mut rand::rng()).expose().to_owned()
}

pub(crate) struct InstanceAnswer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl InstanceAnswer {
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        assert_eq!(self.headers["content-type"], "application/json");
        assert!(self.body["message"].is_string() && self.headers.contains_key("x-request-id"));
        self
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> &Value {
        assert_eq!(self.status, 200, "{}", self.body);
        &self.body
    }
}

pub(crate) struct InstanceHarness {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) people: Arc<People>,
    pub(crate) engine: Arc<DoltliteEngine>,
    pub(crate) local: LocalProcess,
    pub(crate) spec: InstanceSpec,
    pub(crate) handle: InstanceHandle,
    pub(crate) writer: String,
    http: reqwest::blocking::Client,
    /// Whether dropping the harness stops the process.
    pub(crate) ends: bool,
    /// Revision of the settings that were applied last.
    revision: AtomicI64,
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

pub(crate) fn author() -> Signature {
    Signature { name: "ada".into(), email: "ada@example.test".into(), at: Timestamp::from_seconds(1_788_523_200) }
}

pub(crate) fn empty() -> DatabaseSeed {
    DatabaseSeed::Empty { author: author() }
}

pub(crate) fn settings(pairs: &[(Setting, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (setting, value) in pairs {
        settings.set(*setting, Some((*value).to_owned())).unwrap();
    }
    settings
}

/// Creates a provisioner over a folder.
pub(crate) fn provisioner(dir: &std::path::Path, engine: &Arc<DoltliteEngine>, grace: Duration) -> LocalProcess {
    let settings = LocalSettings {
        root: dir.join("deployments"),
        program: PathBuf::from(env!("CARGO_BIN_EXE_branchyard")),
        bind: Ipv4Addr::LOCALHOST.into(),
        advertise_host: "127.0.0.1".into(),
        orphan_grace: grace,
        allow_unconfined: cfg!(not(target_os = "linux")),
    };
    let blobs = Arc::new(FolderBlobs::open(dir.join("uploads"), dir.join("backups")).unwrap());
    branchyard::deployments::provisioner(
        settings,
        SqlEngine::Thread(Arc::clone(engine)),
        if cfg!(target_os = "linux") { Isolation::Process } else { Isolation::Thread },
        blobs,
        &Environment::default(),
    )
    .unwrap()
}

impl InstanceHarness {
    /// Starts an instance that serves an empty database.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(pairs: &[(Setting, &str)]) -> Self {
        Self::start_as(pairs, Duration::from_secs(60), 1)
    }

    pub(crate) fn start_as(pairs: &[(Setting, &str)], grace: Duration, memory_gb: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = EngineOptions { process_memory: None, ..EngineOptions::default() };
        let engine = Arc::new(DoltliteEngine::open(dir.path().join("databases"), options).unwrap());
        let local = provisioner(dir.path(), &engine, grace);
        let people = Arc::new(People::default());
        local.connect(Arc::clone(&people) as Arc<dyn Authorizer>);
        let writer = mint();
        people.set(&writer, "wes", Some(SqlPower::Write));
        let spec = InstanceSpec {
            deployment: DeploymentId::from_uuid(Uuid::from_u128(1)),
            instance: InstanceId::from_uuid(Uuid::from_u128(2)),
            label: "ada/gauges".into(),
            zone: "local".into(),
            port: free_port(),
            cpus: 2,
            memory_gb,
            volume_gb: 1,
            databases: vec![ServedName::parse("gauges").unwrap()],
            settings: settings(pairs),
            settings_revision: 1,
            expose_stats: true,
        };
        local.prepare(&spec, &[empty()]).unwrap();
        let handle = local.start(&spec).unwrap();
        let http = reqwest::blocking::Client::builder().no_proxy().timeout(Duration::from_secs(300)).build().unwrap();
        let harness =
            Self { dir, people, engine, local, spec, handle, writer, http, ends: true, revision: AtomicI64::new(1) };
        harness.wait_until_ready();
        harness
    }

    pub(crate) fn wait_until_ready(&self) {
        match self.next_event() {
            InstanceEvent::Ready { host, version } => {
                assert_eq!(host, "127.0.0.1");
                assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{version}");
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn next_event(&self) -> InstanceEvent {
        self.local.watch(&self.handle, Duration::from_secs(300)).unwrap().unwrap()
    }

    /// Applies settings to the running process.
    pub(crate) fn apply(&self, pairs: &[(Setting, &str)]) {
        let revision = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
        self.local.apply(&self.handle, &settings(pairs), revision).unwrap();
    }

    /// Sends a signal to the process, without the provisioner.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.handle.process.to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Kills the process with SIGKILL, without the provisioner.
    pub(crate) fn kill(&self) {
        self.signal("-9");
    }

    /// Starts the instance again and waits until it is ready.
    pub(crate) fn start_again(&mut self) {
        self.handle = self.local.start(&self.spec).unwrap();
        self.wait_until_ready();
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.spec.port)
    }

    pub(crate) fn person(&self, name: &str, power: SqlPower) -> String {
        let token = mint();
        self.people.set(&token, name, Some(power));
        token
    }

    pub(crate) fn send(&self, method: &str, path: &str, token: Option<&str>, body: Option<String>) -> InstanceAnswer {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.http.request(method, format!("{}{path}", self.origin()));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        InstanceAnswer { status, headers, body }
    }

    pub(crate) fn pipeline_as(&self, token: &str, baton: Option<&str>, requests: Value) -> InstanceAnswer {
        self.pipeline_at("/v3/pipeline", token, baton, requests)
    }

    pub(crate) fn pipeline_at(&self, path: &str, token: &str, baton: Option<&str>, requests: Value) -> InstanceAnswer {
        self.send("POST", path, Some(token), Some(json!({"baton": baton, "requests": requests}).to_string()))
    }

    /// Runs statements as the writer on a new stream, asserts that all succeed, and returns the rows of the last one.
    #[track_caller]
    pub(crate) fn sql(&self, statements: &[&str]) -> Vec<Vec<Value>> {
        self.sql_as(&self.writer, statements)
    }

    #[track_caller]
    pub(crate) fn sql_as(&self, token: &str, statements: &[&str]) -> Vec<Vec<Value>> {
        let mut requests: Vec<Value> = statements.iter().map(|sql| execute(sql)).collect();
        requests.push(json!({"type": "close"}));
        let answer = self.pipeline_as(token, None, Value::Array(requests));
        let results = answer.ok()["results"].as_array().unwrap().clone();
        for (result, sql) in results.iter().zip(statements) {
            assert_eq!(result["type"], "ok", "{sql}: {result}");
        }
        rows(&results[statements.len() - 1]["response"]["result"])
    }

    /// Runs a statement, asserts that it fails, and returns the error code.
    #[track_caller]
    pub(crate) fn failure(&self, token: &str, sql: &str) -> String {
        let answer = self.pipeline_as(token, None, json!([execute(sql), {"type": "close"}]));
        let result = &answer.ok()["results"][0];
        assert_eq!(result["type"], "error", "{sql}: {result}");
        result["error"]["code"].as_str().unwrap().to_owned()
    }
}

impl Drop for InstanceHarness {
    fn drop(&mut self) {
        if self.ends {
            let _ = self.local.stop(&self.handle, Duration::from_secs(5));
        }
    }
}

pub(crate) fn execute(sql: &str) -> Value {
    json!({"type": "execute", "stmt": {"sql": sql}})
}

/// Returns the rows of a result as plain values without their types.
pub(crate) fn rows(result: &Value) -> Vec<Vec<Value>> {
    let plain = |value: &Value| value.get("value").or_else(|| value.get("base64")).cloned().unwrap_or(Value::Null);
    let rows = result["rows"].as_array().unwrap();
    rows.iter().map(|row| row.as_array().unwrap().iter().map(plain).collect()).collect()
}
