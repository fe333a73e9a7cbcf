//! Statements on a deployment over Hrana, compared with a bare handler that runs the same statements on a session of this process.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use actix_web::{HttpResponse, web};
use branchyard::compose::Environment;
use branchyard::config::Isolation;
use branchyard::sql_engine::SqlEngine;
use branchyard_auth::{HashedToken, PlainToken};
use branchyard_deployments::ports::{
    Authorized, Authorizer, DatabaseSeed, InstanceEvent, InstanceSpec, ProvisionError, Provisioner as _, SqlCaller,
};
use branchyard_deployments::values::{DeploymentId, InstanceId, ServedName, Settings};
use branchyard_domain::entities::{Cell, Signature};
use branchyard_domain::ports::{
    Arguments, CancellationToken, Column, RowSink, SessionCaller, SessionEngine as _, SessionRequest, SqlPower,
    StatementBounds, ValueRef,
};
use branchyard_domain::values::{AccountId, DatabaseId, Timestamp};
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use branchyard_provisioner_local::LocalSettings;
use branchyard_storage::FolderBlobs;
use serde_json::json;
use uuid::Uuid;

use crate::flags::Flags;
use crate::raw::Bare;
use crate::report::{Aim, Row};
use crate::slices::{alternate, millis};

const TABLE: &str = "create table t(id integer primary key, v text)";
const FILL: &str =
    "insert into t with recursive c(n) as (select 1 union all select n + 1 from c limit 10000) select n, hex(n) from c";
const READ: &str = "select v from t where id = ?";
const WRITE: &str = "update t set v = 'x' where id = ?";

/// Authorizes every caller.
struct Everybody;

impl Authorizer for Everybody {
    fn authorize(&self, _: &HashedToken, _: InstanceId, _: Option<IpAddr>) -> Result<Authorized, ProvisionError> {
        let user = AccountId::from_uuid(Uuid::from_u128(1));
        let (name, email) = ("ada".to_owned(), "ada@example.test".to_owned());
        Ok(Authorized::Caller(SqlCaller { user, name, email, power: SqlPower::Write, expires_at: None }))
    }
}

struct Nowhere;

impl RowSink for Nowhere {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Runs a statement with a row id as its argument.
type Run<'a> = dyn Fn(&str, i64) + 'a;
/// Runs a statement on a session of this process.
type Session = Box<dyn Fn(&str, i64) + Send + Sync>;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (statements, slices) = (flags.count("--statements"), flags.count("--slices"));
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(DoltliteEngine::open(dir.path().join("databases"), EngineOptions::default()).unwrap());
    let author =
        Signature { name: "ada".into(), email: "ada@example.test".into(), at: Timestamp::from_seconds(1_788_523_200) };
    let session = in_process(Arc::clone(&engine), &author);
    let bare = Bare::start({
        let session = Data::new(session);
        move |routes| {
            routes.app_data(session.clone()).route("/v3/pipeline", web::post().to(pipeline));
        }
    });
    let http = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let here = |sql: &str, id: i64| {
        let body = json!({"sql": sql, "id": id}).to_string();
        let answer = http.post(format!("http://{}/v3/pipeline", bare.address)).body(body).send().unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer.text().unwrap()).unwrap();
        assert_eq!(answer["type"], "ok", "{answer}");
    };
    over_hrana(dir.path(), engine, author, |there| {
        let row = |name, what: &str, sql: &str| {
            let done = alternate(slices, || time(statements, sql, there), || time(statements, sql, &here));
            let what = format!("{what} over Hrana, one connection: time above the baseline's");
            done.difference_row(name, what, "a bare handler, the same on a session", "ms", Aim::AtMost(0.15))
        };
        vec![row("deployment, read", "read by primary key", READ), row("deployment, write", "one-row update", WRITE)]
    })
}

/// Returns the mean time of a statement in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "a count of statements is far below 2^53")]
fn time(statements: u64, sql: &str, run: &Run<'_>) -> f64 {
    let whole = millis(|| (0..statements).for_each(|n| run(sql, (n % 10_000).cast_signed() + 1)));
    whole / statements as f64
}

/// Runs statements in this process, with a new session for each statement as in a request.
fn in_process(engine: Arc<DoltliteEngine>, author: &Signature) -> Session {
    let database = DatabaseId::from_uuid(Uuid::from_u128(7));
    engine.create_served(database, author, "Create database").unwrap();
    let request = SessionRequest {
        database,
        branch: None,
        power: SqlPower::Write,
        caller: SessionCaller { name: "ada".into(), email: "ada@example.test".into() },
        foreign_keys: true,
    };
    let bounds = StatementBounds {
        timeout: Duration::from_secs(30),
        canceled: CancellationToken::default(),
        has_turn: true,
        commits_transactions: false,
    };
    let run = move |sql: &str, arguments: &Arguments| {
        let mut session = engine.session(&request).unwrap();
        session.run(sql, arguments, &bounds, &mut Nowhere).unwrap();
    };
    run(TABLE, &Arguments::None);
    run(FILL, &Arguments::None);
    Box::new(move |sql, id| run(sql, &Arguments::Positional(vec![Cell::Integer(id)])))
}

/// Runs a statement of the bare handler.
async fn pipeline(session: Data<Session>, body: web::Bytes) -> HttpResponse {
    let asked: serde_json::Value = serde_json::from_slice(&body).unwrap();
    web::block(move || session(asked["sql"].as_str().unwrap(), asked["id"].as_i64().unwrap())).await.unwrap();
    HttpResponse::Ok().json(json!({"type": "ok"}))
}

/// Runs `measure` with a deployment that is reached over a single connection, one request at a time.
fn over_hrana(
    dir: &std::path::Path,
    engine: Arc<DoltliteEngine>,
    author: Signature,
    measure: impl FnOnce(&Run<'_>) -> Vec<Row>,
) -> Vec<Row> {
    let settings = LocalSettings {
        root: dir.join("deployments"),
        program: PathBuf::from(env!("CARGO_BIN_EXE_branchyard")),
        bind: Ipv4Addr::LOCALHOST.into(),
        advertise_host: "127.0.0.1".into(),
        orphan_grace: Duration::from_secs(5),
        allow_unconfined: cfg!(not(target_os = "linux")),
    };
    let blobs = Arc::new(FolderBlobs::open(dir.join("uploads"), dir.join("backups")).unwrap());
    let (engine, isolation) = (SqlEngine::Thread(engine), Isolation::Thread);
    let local =
        branchyard::deployments::provisioner(settings, engine, isolation, blobs, &Environment::default()).unwrap();
    local.connect(Arc::new(Everybody));
    let spec = InstanceSpec {
        deployment: DeploymentId::from_uuid(Uuid::from_u128(1)),
        instance: InstanceId::from_uuid(Uuid::from_u128(2)),
        label: "ada/bench".into(),
        zone: "local".into(),
        port: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port(),
        cpus: 1,
        memory_gb: 1,
        volume_gb: 1,
        databases: vec![ServedName::parse("bench").unwrap()],
        settings: Settings::default(),
        settings_revision: 1,
        expose_stats: false,
    };
    local.prepare(&spec, &[DatabaseSeed::Empty { author }]).unwrap();
    let handle = local.start(&spec).unwrap();
    let ready = local.watch(&handle, Duration::from_secs(30)).unwrap();
    assert!(matches!(ready, Some(InstanceEvent::Ready { .. })), "{ready:?}");
    let token = PlainToken::mint(&mut rand::rng());
    let http = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let run = |sql: &str, arguments: serde_json::Value| {
        let requests = json!([{"type": "execute", "stmt": {"sql": sql, "args": arguments}}, {"type": "close"}]);
        let body = json!({"baton": null, "requests": requests}).to_string();
        let url = format!("http://127.0.0.1:{}/v3/pipeline", spec.port);
        let answer = http.post(url).bearer_auth(token.expose()).body(body).send().unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer.text().unwrap()).unwrap();
        assert_eq!(answer["results"][0]["type"], "ok", "{answer}");
    };
    run(TABLE, json!([]));
    run(FILL, json!([]));
    let rows = measure(&|sql, id| run(sql, json!([{"type": "integer", "value": id.to_string()}])));
    local.stop(&handle, Duration::from_secs(10)).unwrap();
    rows
}
