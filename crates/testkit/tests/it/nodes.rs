//! Two nodes over one Postgres and one store of databases. Skipped unless `BRANCHYARD_TEST_POSTGRES_URL` is set.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard::config::{Config, Span};
use branchyard_testkit::{Actor, Server};
use serde_json::json;

use crate::shared_store::Shared;

/// What nodes share.
pub(crate) struct Cluster {
    shared: Shared,
    dir: tempfile::TempDir,
}

impl Cluster {
    pub(crate) fn new(purpose: &str) -> Option<Self> {
        Some(Self { shared: Shared::new(purpose)?, dir: tempfile::tempdir().unwrap() })
    }

    fn node(&self, id: &str) -> Server {
        self.node_with(id, |_| {})
    }

    /// Starts a node with a changed configuration.
    pub(crate) fn node_with(&self, id: &str, change: impl FnOnce(&mut Config)) -> Server {
        Server::start_with(|config: &mut Config| {
            config.metadata_url = Some(self.shared.url());
            config.store_url = Some(format!("file://{}", self.dir.path().join("store").display()));
            config.node_id = Some(id.to_owned());
            config.cluster.lease = Span::seconds(2);
            let key = self.dir.path().join("server.key");
            std::fs::create_dir_all(&config.data_dir).unwrap();
            // All nodes have one key ring.
            if key.exists() {
                std::fs::copy(&key, config.data_dir.join("server.key")).unwrap();
            }
            change(config);
        })
    }

    pub(crate) fn two(&self) -> (Server, Server) {
        let one = self.node("one");
        std::fs::copy(one.dir.path().join("data/server.key"), self.dir.path().join("server.key")).unwrap();
        (one, self.node("two"))
    }
}

fn count(ada: &Actor, database: &str) -> u64 {
    ada.read(database, "main", "select count(*) from t")[0][0].as_str().unwrap().parse().unwrap()
}

#[test]
fn each_node_reads_what_the_other_has_just_written() {
    let Some(cluster) = Cluster::new("nodes_read") else { return };
    let (one, two) = cluster.two();
    let ada = one.user("ada");
    let there = two.again(&ada);
    ada.database("d");
    ada.write("ada/d", "main", "create table t (n integer primary key)");
    for round in 0..20 {
        let (writer, reader) = if round % 2 == 0 { (&ada, &there) } else { (&there, &ada) };
        writer.write("ada/d", "main", &format!("insert into t values ({round})"));
        assert_eq!(count(reader, "ada/d"), round + 1);
        assert_eq!(count(writer, "ada/d"), round + 1);
    }
    // Forks, branches and merges begin on the node that was asked, and run where the database is written.
    let branch = json!({"name": "b", "from": {"branch": "main"}});
    there.post("/databases/ada/d/branches", &branch).expect(201);
    there.write("ada/d", "b", "insert into t values (100)");
    let place = |branch| json!({"database": {"owner": "ada", "name": "d"}, "branch_name": branch});
    let pull = json!({"title": "p", "from_branch": place("b"), "to_branch": place("main")});
    there.post("/databases/ada/d/pulls", &pull).expect(201);
    there.finish(&ada.post("/databases/ada/d/pulls/1/merge", &json!({})));
    assert_eq!((count(&ada, "ada/d"), count(&there, "ada/d")), (21, 21));
}

#[test]
fn the_databases_of_a_node_that_stops_are_written_elsewhere_at_once() {
    let Some(cluster) = Cluster::new("nodes_stop") else { return };
    let (one, two) = cluster.two();
    let ada = one.user("ada");
    let there = two.again(&ada);
    ada.database("d");
    ada.write("ada/d", "main", "create table t (n integer primary key)");
    drop(one);
    let began = Instant::now();
    there.write("ada/d", "main", "insert into t values (1)");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(count(&there, "ada/d"), 1);
}

#[test]
fn writers_on_both_nodes_lose_nothing_and_repeat_nothing() {
    let Some(cluster) = Cluster::new("nodes_write") else { return };
    let (one, two) = cluster.two();
    let ada = one.user("ada");
    let there = two.again(&ada);
    for name in ["d", "e"] {
        ada.database(name);
        ada.write(&format!("ada/{name}"), "main", "create table t (n integer primary key)");
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for (at, actor) in [&ada, &there, &ada, &there].into_iter().enumerate() {
            let name = ["ada/d", "ada/e"][at / 2];
            writers.push(scope.spawn(move || {
                for n in 0..15 {
                    actor.write(name, "main", &format!("insert into t values ({})", at * 100 + n));
                }
            }));
        }
        let reader = scope.spawn(|| {
            let mut last = [0; 2];
            while !stop.load(Ordering::Relaxed) {
                for (at, actor) in [&ada, &there].into_iter().enumerate() {
                    let seen = count(actor, "ada/d");
                    assert!(seen >= last[at], "reads of a node go back: {seen} after {}", last[at]);
                    last[at] = seen;
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    for name in ["ada/d", "ada/e"] {
        assert_eq!((count(&ada, name), count(&there, name)), (30, 30));
    }
}
