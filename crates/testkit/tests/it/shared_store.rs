//! Two servers over one Postgres, each with its own data folder. Skipped unless `BRANCHYARD_TEST_POSTGRES_URL` is set.

use std::collections::BTreeSet;
use std::time::Duration;

use branchyard::config::Config;
use branchyard_testkit::{Receiver, Server};
use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, PgConnection};
use serde_json::json;

const HOOKS: usize = 10;
const EVENTS: usize = 60;

/// A new database in Postgres, dropped afterwards.
struct Shared {
    admin: String,
    name: String,
}

impl Shared {
    fn new() -> Option<Self> {
        let Ok(admin) = std::env::var("BRANCHYARD_TEST_POSTGRES_URL") else {
            let required = std::env::var("BRANCHYARD_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
            assert!(!required, "BRANCHYARD_TEST_POSTGRES_URL is not set, and BRANCHYARD_TEST_REQUIRE_POSTGRES=1");
            eprintln!("skipped: BRANCHYARD_TEST_POSTGRES_URL is not set");
            return None;
        };
        let name = format!("branchyard_shared_{}", std::process::id());
        PgConnection::establish(&admin).unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        Some(Self { admin, name })
    }

    fn url(&self) -> String {
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
    let Some(shared) = Shared::new() else { return };
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
