//! Collections of garbage in the background, and the `gc` command.

use std::process::Command;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, ServerProcess, run_with_input, succeed};
use serde_json::{Value, json};

use crate::process::program;

/// Returns a command on a data folder, for which what is deleted is garbage at once.
fn without_grace(dir: &std::path::Path, args: &[&str]) -> Command {
    let mut command = program().on(dir, args);
    command.env("BRANCHYARD_REMOTES__GRACE", "0s").env("BRANCHYARD_STORE__HISTORY", "0s");
    command
}

fn start(dir: &std::path::Path) -> ServerProcess {
    ServerProcess::start(&mut without_grace(dir, &["serve", "--listen", "127.0.0.1:0"]))
}

fn gc(dir: &std::path::Path, args: &[&str]) -> String {
    succeed(&mut without_grace(dir, &[&["gc"], args].concat()))
}

/// Creates `ada/d` with a branch of 4 MiB that is deleted, and returns Ada and the size of the file.
fn with_garbage(origin: &str, dir: &std::path::Path) -> (Actor, u64) {
    program().succeed(dir, &["user", "create", "ada", "--email", "ada@example.test"]);
    let token = program().succeed(dir, &["token", "create", "--user", "ada", "--name", "ci", "--expires", "90d"]);
    let ada = Actor::new(origin.to_owned(), Some(token), "ada");
    ada.database("d");
    ada.write("ada/d", "main", "CREATE TABLE t(id INTEGER PRIMARY KEY, a BLOB); INSERT INTO t VALUES (1, x'01')");
    ada.post("/databases/ada/d/branches", &json!({"name": "planted", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/d", "planted", "INSERT INTO t VALUES (2, randomblob(4194304))");
    ada.delete("/databases/ada/d/branches/planted").expect(200);
    let size = size_of(&ada);
    (ada, size)
}

fn size_of(ada: &Actor) -> u64 {
    ada.get("/databases/ada/d").expect(200).data()["size_bytes"].as_u64().unwrap()
}

#[test]
fn gc_collects_without_a_server_and_reports_what_it_freed() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let (_, size) = with_garbage(&server.origin, dir.path());
    server.terminate();
    let told: Value = serde_json::from_str(&gc(dir.path(), &["ada/d", "--json"])).unwrap();
    let freed = told["collected"][0]["freed_bytes"].as_u64().unwrap();
    assert_eq!(told["collected"][0]["database"], "ada/d");
    assert!(freed > 4 << 20 && freed < size, "{told} {size}");
    assert_eq!(gc(dir.path(), &[]), "ada/d: 0 bytes freed");
    for (name, expected) in [("ada/none", "there is no database ada/none"), ("d", "OWNER/DATABASE")] {
        let output = run_with_input(&mut program().on(dir.path(), &["gc", name]), "");
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
    let server = start(dir.path());
    let ada = program().succeed(dir.path(), &["token", "create", "--user", "ada", "--name", "x", "--expires", "90d"]);
    let ada = Actor::new(server.origin.clone(), Some(ada), "ada");
    assert_eq!(size_of(&ada), size - freed);
    assert_eq!(ada.read("ada/d", "main", "SELECT id FROM t"), json!([["1"]]));
}

#[test]
fn gc_beside_a_server_has_the_server_collect_within_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let (ada, size) = with_garbage(&server.origin, dir.path());
    let line = gc(dir.path(), &[]);
    assert_eq!(line, "ada/d: the running server collects it next");
    let until = Instant::now() + Duration::from_secs(30);
    while size_of(&ada) + (4 << 20) > size {
        assert!(Instant::now() < until, "the server did not collect");
        std::thread::sleep(Duration::from_millis(100));
    }
    let found = ada.get("/databases/ada/d").expect(200).data();
    assert_eq!(found["garbage_bytes"], 0);
    let told: Value = serde_json::from_str(&gc(dir.path(), &["ada/d", "--json"])).unwrap();
    assert_eq!(told, json!({"due": ["ada/d"]}));
    server.terminate();
}
