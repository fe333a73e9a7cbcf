//! Sends `kill -9` at all points of a push of more than 64 MiB. Nothing is published without its content, the same push succeeds
//! afterwards, and a clone then equals the source.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_remote_protocol::Hash;
use branchyard_testkit::{AMPLE, Actor, Server};
use rusqlite::Connection;
use serde_json::json;

use super::client::{Refused, Remote};
use super::mutations::Chunks;
use crate::process::program;

/// Number of kills, at places that divide the time of a push into equal parts.
const KILLS: u32 = 6;
const ROWS: usize = 2_000;
/// Above it the engine's own fetch is stuck after a kill.
const LEAST_BYTES: usize = 64 << 20;

/// Returns the head and the chunks of a database with many long values. They are not indexed: each commit would store a large part of the
/// index once more, and the time of a test that pushes, reads and verifies them all grows with that.
fn large() -> (Hash, Chunks) {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("large");
    ada.write("ada/large", "main", "create table large (id integer primary key, v text)");
    for part in 0..20 {
        let (from, to) = (part * ROWS / 20 + 1, (part + 1) * ROWS / 20);
        let rows = format!(
            "with recursive n(x) as (select {from} union all select x + 1 from n where x < {to})
            insert into large select x, hex(randomblob(18000)) from n"
        );
        ada.write("ada/large", "main", &rows);
    }
    let remote = Remote::new(&ada, "ada/large");
    let head = remote.head("main");
    (head, remote.history(head))
}

/// Pushes, and pushes again while the server is busy with the push, or a part of what it held before a kill turns out to be lost.
fn push(actor: &Actor, database: &str, head: Hash, chunks: &Chunks) -> Result<(), Refused> {
    let until = Instant::now() + AMPLE;
    loop {
        match Remote::new(actor, database).push("pushed", head, chunks, false) {
            Err(refused) if (refused.status == 503 || refused.code == "missing_chunks") && Instant::now() < until => {
                thread::sleep(Duration::from_millis(100));
            }
            ended => return ended,
        }
    }
}

fn create(actor: &Actor, name: &str) {
    actor.database(name);
    actor.write(&format!("ada/{name}"), "main", "create table small (x); insert into small values (7)");
}

/// Checks that all refs can be read, and that the pushed one is there or not as a whole.
fn check(actor: &Actor, database: &str, head: Hash) {
    let remote = Remote::new(actor, database);
    let refs = remote.refs();
    assert_eq!(actor.read(database, "main", "select x from small"), json!([["7"]]));
    if let Some(branch) = refs.branch("pushed") {
        assert_eq!(branch.head, head);
        assert_eq!(actor.read(database, "pushed", "select count(*) from large"), json!([[ROWS.to_string()]]));
        remote.history(head);
    }
}

fn clone_equals(actor: &Actor, database: &str, into: &Path) {
    let client = Connection::open(into).unwrap();
    let one = |statement: &str| client.query_row(statement, [], |_| Ok(())).unwrap();
    one(&format!("select dolt_clone('{}/{database}')", actor.origin()));
    one("select dolt_checkout('pushed')");
    let text = |statement: &str| client.query_row(statement, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(text("pragma integrity_check"), "ok");
    let sums = "select count(*) || ' ' || sum(length(v)) from large";
    assert_eq!(json!([[text(sums)]]), actor.read(database, "pushed", sums));
}

#[test]
fn a_push_that_is_killed_publishes_all_or_nothing_and_succeeds_when_it_is_repeated() {
    let (head, chunks) = large();
    assert!(chunks.values().map(Vec::len).sum::<usize>() > LEAST_BYTES);
    let dir = tempfile::tempdir().unwrap();
    program().succeed(dir.path(), &["user", "create", "ada", "--email", "ada@example.test"]);
    let token = program().succeed(dir.path(), &["token", "create", "--user", "ada", "--name", "t", "--expires", "30d"]);
    let start = || {
        let server = program().start(dir.path());
        let actor = Actor::new(server.origin.clone(), Some(token.trim().to_owned()), "ada");
        (server, actor)
    };
    let (server, ada) = start();
    create(&ada, "whole");
    let began = Instant::now();
    push(&ada, "ada/whole", head, &chunks).unwrap();
    let took = began.elapsed();
    server.terminate();
    let mut published = 0;
    for kill in 1..=KILLS {
        // Each kill has its own database: a file with what several killed pushes have brought takes long to open.
        let name = format!("killed-{kill}");
        let killed = format!("ada/{name}");
        let (server, ada) = start();
        create(&ada, &name);
        thread::scope(|scope| {
            // A request to a server that is gone panics.
            scope.spawn(|| drop(catch_unwind(AssertUnwindSafe(|| push(&ada, &killed, head, &chunks)))));
            thread::sleep(took * kill / KILLS + Duration::from_millis(20));
            server.kill();
        });
        let (server, ada) = start();
        check(&ada, &killed, head);
        if Remote::new(&ada, &killed).refs().branch("pushed").is_some() {
            published += 1;
        } else {
            push(&ada, &killed, head, &chunks).unwrap();
        }
        check(&ada, &killed, head);
        if kill == KILLS {
            clone_equals(&ada, &killed, &dir.path().join("clone.db"));
        }
        server.terminate();
    }
    println!("{KILLS} kills within {took:?}, {published} after the push was published");
    assert!(published < KILLS, "none of the kills came before the end");
    assert_eq!(program().succeed(dir.path(), &["doctor"]), "everything is in order");
}
