//! Two servers over one Postgres, each with its own data folder. Skipped unless `BRANCHYARD_TEST_POSTGRES_URL` is set.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use branchyard::config::Config;
use branchyard_testkit::{Actor, Receiver, Server, TestAnswer};
use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, PgConnection, RunQueryDsl as _};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use reqwest::Method;
use serde_json::json;

const HOOKS: usize = 10;
const EVENTS: usize = 60;

/// A new database in Postgres, dropped afterwards.
pub(crate) struct Shared {
    admin: String,
    name: String,
}

impl Shared {
    pub(crate) fn new(purpose: &str) -> Option<Self> {
        let Ok(admin) = std::env::var("BRANCHYARD_TEST_POSTGRES_URL") else {
            let required = std::env::var("BRANCHYARD_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
            assert!(!required, "BRANCHYARD_TEST_POSTGRES_URL is not set, and BRANCHYARD_TEST_REQUIRE_POSTGRES=1");
            eprintln!("skipped: BRANCHYARD_TEST_POSTGRES_URL is not set");
            return None;
        };
        let name = format!("branchyard_{purpose}_{}", std::process::id());
        PgConnection::establish(&admin).unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        Some(Self { admin, name })
    }

    pub(crate) fn url(&self) -> String {
        let (before, parameters) = self.admin.split_once('?').unwrap_or((&self.admin, ""));
        let (server, _) = before.rsplit_once('/').unwrap();
        format!("{server}/{}?{parameters}", self.name)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let dropped = PgConnection::establish(&self.admin).map_err(|error| error.to_string()).and_then(|mut admin| {
            let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
            admin.batch_execute(&drop).map_err(|error| error.to_string())
        });
        if let Err(error) = dropped {
            eprintln!("{} stays: {error}", self.name);
        }
    }
}

fn delivered(server: &Server) -> f64 {
    server.metric("branchyard_hook_attempts_total{outcome=\"delivered\"}")
}

#[test]
fn two_servers_share_the_attempts_and_make_none_twice() {
    let Some(shared) = Shared::new("shared") else { return };
    let change = |config: &mut Config| {
        config.metadata_url = Some(shared.url());
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
        config.hooks.concurrency = 3;
    };
    let here = Server::start_with(change);
    let mut there = Server::start_with(|config| {
        change(config);
        std::fs::create_dir_all(&config.data_dir).unwrap();
        // The key seals the secrets of hooks.
        std::fs::copy(here.dir.path().join("data/server.key"), config.data_dir.join("server.key")).unwrap();
    });
    let ada = here.user("ada");
    ada.database("rivers");
    let receivers: Vec<Receiver> = (0..HOOKS).map(|_| Receiver::with(slow)).collect();
    for receiver in &receivers {
        let hook = json!({"url": receiver.url(), "events": ["on_branch"]});
        ada.post("/databases/ada/rivers/hooks", &hook).expect(201);
    }
    for number in 0..EVENTS {
        let body = json!({"name": format!("b{number}"), "from": {"branch": "main"}});
        ada.post("/databases/ada/rivers/branches", &body).expect(201);
        if number == EVENTS / 2 {
            // A server that starts ends its own leases, but not those of the other server.
            there.restart();
        }
    }
    for receiver in &receivers {
        receiver.wait_for(EVENTS);
    }
    // Leaves time for a duplicate attempt.
    std::thread::sleep(Duration::from_secs(1));
    let mut attempts = BTreeSet::new();
    for receiver in &receivers {
        let received = receiver.received();
        let ids: Vec<&str> = received.iter().map(|request| request.header("webhook-id")).collect();
        assert_eq!(ids.len(), EVENTS, "no attempt is made twice");
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "each hook hears of the events in order");
        attempts.extend(received.iter().map(|request| request.header("x-branchyard-delivery").to_owned()));
    }
    assert_eq!(attempts.len(), HOOKS * EVENTS);
    let (by_here, by_there) = (delivered(&here), delivered(&there));
    assert!(by_here > 0.0 && by_there > 0.0, "both take part: {by_here} and, since its restart, {by_there}");
}

fn slow(_: usize) -> Option<u16> {
    std::thread::sleep(Duration::from_millis(10));
    Some(204)
}

const CALLERS: u64 = 8;
const CALLS: usize = 150;
const TOKENS: u64 = 5;
const DATABASES: u64 = 4;
const HOOKS_OF_DATABASE: u64 = 3;

#[test]
fn callers_of_two_servers_keep_all_limits() {
    let Some(shared) = Shared::new("limits") else { return };
    let change = |config: &mut Config| {
        config.metadata_url = Some(shared.url());
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
        config.hooks.max_per_database = HOOKS_OF_DATABASE;
        // One is the caller's.
        config.tokens.max_per_user = TOKENS;
        config.limits.databases_per_owner = DATABASES;
    };
    let here = Server::start_with(change);
    let there = Server::start_with(|config| {
        change(config);
        std::fs::create_dir_all(&config.data_dir).unwrap();
        std::fs::copy(here.dir.path().join("data/server.key"), config.data_dir.join("server.key")).unwrap();
    });
    let (ada, bob) = (here.user("ada"), here.user("bob"));
    ada.database("rivers");
    ada.post("/organizations", &json!({"name": "hydro"})).expect(201);
    put(&ada, "/organizations/hydro/members/bob", &json!({"role": "owner"})).expect(201);
    let seed = std::env::var("LIMITS_SEED").map_or(1, |seed| seed.parse().unwrap());
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let server = if caller % 2 == 0 { &here } else { &there };
            let (ada, bob) = (server.again(&ada), server.again(&bob));
            scope.spawn(move || {
                let mut numbers = StdRng::seed_from_u64(seed * 1_000 + caller);
                for _ in 0..CALLS {
                    let status = call(&mut numbers, &ada, &bob);
                    assert!(status < 500, "{status}");
                }
            });
        }
    });
    let count = |path: &str| ada.get(path).expect(200).json()["data"].as_array().unwrap().len() as u64;
    assert!(count("/user/tokens") <= TOKENS, "{}", count("/user/tokens"));
    assert!(count("/databases?owner=hydro") <= DATABASES);
    assert!(count("/databases/ada/rivers/hooks") <= HOOKS_OF_DATABASE);
    let mut reader = PgConnection::establish(&shared.url()).unwrap();
    for (what, sql) in INVARIANTS {
        let broken: Vec<Count> = diesel::sql_query(*sql).load(&mut reader).unwrap();
        assert_eq!(broken[0].count, 0, "{what}");
    }
}

#[derive(diesel::QueryableByName)]
struct Count {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    count: i64,
}

/// What must not be, and how often it is.
const INVARIANTS: &[(&str, &str)] = &[
    (
        "an organization without an owner",
        "SELECT count(*) FROM organizations AS o JOIN accounts AS a ON a.id = o.id AND a.deleted_at IS NULL
         WHERE NOT EXISTS (SELECT 1 FROM members AS m WHERE m.organization_id = o.id AND m.role = 'owner')",
    ),
    (
        "two databases of a name",
        "SELECT count(*) FROM (SELECT 1 FROM databases WHERE deleted_at IS NULL
         GROUP BY owner_id, name_key HAVING count(*) > 1) AS twice",
    ),
];

fn put(actor: &Actor, path: &str, body: &serde_json::Value) -> TestAnswer {
    actor.send(actor.request(Method::PUT, path).json(body))
}

/// Makes a random call that a limit or an invariant concerns. Returns the status of the answer.
fn call(numbers: &mut StdRng, ada: &Actor, bob: &Actor) -> u16 {
    let role = if numbers.random_range(0..2) == 0 { "owner" } else { "member" };
    let answer = match numbers.random_range(0..8) {
        0 | 1 => ada.post("/user/tokens", &json!({"name": "t", "expires_in": "30d"})),
        2 => {
            let listed = ada.get("/user/tokens").json();
            let tokens = listed["data"].as_array().unwrap();
            // The first one that was made is that of the caller.
            let id = tokens[numbers.random_range(0..tokens.len())]["id"].as_str().unwrap().to_owned();
            if tokens.last().unwrap()["id"] == id.as_str() {
                return 200;
            }
            ada.delete(&format!("/user/tokens/{id}"))
        }
        3 => put(ada, "/organizations/hydro/members/bob", &json!({"role": role})),
        4 => put(bob, "/organizations/hydro/members/ada", &json!({"role": role})),
        5 => ada.post(
            "/databases",
            &json!({"owner": "hydro", "name": format!("d{}", numbers.random_range(0..12)), "visibility": "private"}),
        ),
        6 => ada.delete(&format!("/databases/hydro/d{}", numbers.random_range(0..12))),
        _ => ada.post("/databases/ada/rivers/hooks", &json!({"url": "http://127.0.0.1:9/", "events": ["on_push"]})),
    };
    answer.status
}

const ROUNDS: usize = 40;

#[test]
fn without_notifications_a_server_serves_no_older_state() {
    let Some(shared) = Shared::new("cut") else { return };
    let change = |config: &mut Config| config.metadata_url = Some(shared.url());
    let here = Server::start_with(change);
    let there = Server::start_with(|config| {
        change(config);
        std::fs::create_dir_all(&config.data_dir).unwrap();
        std::fs::copy(here.dir.path().join("data/server.key"), config.data_dir.join("server.key")).unwrap();
    });
    let ada = here.user("ada");
    let ada_there = there.again(&ada);
    ada.database("rivers");
    write_here(&ada, "CREATE TABLE t (a INTEGER PRIMARY KEY)");
    let cutter = Cutter::start(&shared);
    for round in 0..ROUNDS {
        let minted = ada.post("/user/tokens", &json!({"name": format!("t{round}"), "expires_in": "30d"}));
        let minted = minted.expect(201).data();
        let short_lived = Actor::new(there.address(), minted["token"].as_str().map(str::to_owned), "ada");
        short_lived.get("/databases/ada/rivers").expect(200);
        let id = minted["id"].as_str().unwrap();
        ada.delete(&format!("/user/tokens/{id}")).expect(200);
        short_lived.get("/databases/ada/rivers").expect(401);
        let head = write_here(&ada, &format!("INSERT INTO t VALUES ({round})"));
        let shown = ada_there.get("/databases/ada/rivers/branches/main").expect(200).json();
        assert_eq!(shown["data"]["head_commit_sha"], head.as_str(), "round {round}");
    }
    assert!(cutter.cuts() > 0);
}

/// A rename on one server is seen by the other at once, also by what it has cached.
#[test]
fn a_renamed_database_is_found_by_the_other_server_at_both_addresses() {
    let Some(shared) = Shared::new("renamed") else { return };
    let change = |config: &mut Config| config.metadata_url = Some(shared.url());
    let here = Server::start_with(change);
    let there = Server::start_with(|config| {
        change(config);
        std::fs::create_dir_all(&config.data_dir).unwrap();
        std::fs::copy(here.dir.path().join("data/server.key"), config.data_dir.join("server.key")).unwrap();
    });
    let ada = here.user("ada");
    let ada_there = there.again(&ada);
    ada.database("rivers");
    let path = |name: &str| format!("/databases/ada/{name}");
    for (old, new) in [("rivers", "streams"), ("streams", "lakes"), ("lakes", "rivers"), ("rivers", "streams")] {
        ada_there.get(&path(old)).expect(200);
        ada.patch(&path(old), &json!({"name": new})).expect(200);
        for name in [old, new] {
            assert_eq!(ada_there.get(&path(name)).expect(200).data()["name"], new);
        }
    }
    ada.database("rivers");
    assert_eq!(ada_there.get(&path("rivers")).expect(200).data()["name"], "rivers");
    ada.delete(&path("streams")).expect(200);
    ada_there.get(&path("lakes")).expect(404);
}

/// Writes while the caller waits, on the server that it asks.
fn write_here(actor: &Actor, statement: &str) -> String {
    let body = json!({"from_branch": "main", "to_branch": "main", "q": statement});
    let path = "/databases/ada/rivers/sql-writes";
    let answer = actor.send(actor.request(Method::POST, path).header("prefer", "wait=10").json(&body)).expect(200);
    answer.data()["result"]["commit_sha"].as_str().unwrap().to_owned()
}

/// Cuts the connections for notifications again and again, until it is dropped.
struct Cutter {
    stop: Arc<AtomicBool>,
    cuts: Arc<AtomicI64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Cutter {
    fn start(shared: &Shared) -> Self {
        let (stop, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&cuts));
        let (admin, name) = (shared.admin.clone(), shared.name.clone());
        let thread = std::thread::spawn(move || {
            let mut admin = PgConnection::establish(&admin).unwrap();
            let cut = format!(
                "SELECT count(pg_terminate_backend(pid)) AS count FROM pg_stat_activity
                 WHERE application_name = 'branchyard exchange' AND datname = '{name}'"
            );
            while !stopped.load(Ordering::Relaxed) {
                let cut: Vec<Count> = diesel::sql_query(&cut).load(&mut admin).unwrap();
                counted.fetch_add(cut[0].count, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self { stop, cuts, thread: Some(thread) }
    }

    fn cuts(&self) -> i64 {
        self.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}
