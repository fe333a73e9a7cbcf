//! SIGTERM while something goes on: a second signal, or the end of the grace, cuts it short.

use std::time::Duration;

use branchyard_testkit::{AMPLE, Receiver, ServerProcess, command_line, descendants, wait_until};
use reqwest::blocking::Client;
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::process::program;

#[test]
fn a_second_signal_cuts_attempts_short_and_hands_them_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let token = program().user(dir, "ada");
    // The timeout of attempts is far above the timeouts of this test.
    let start = || {
        let mut command = program().serve(dir);
        command.env("BRANCHYARD_HOOKS__ALLOWED_CIDRS", "127.0.0.0/8").env("BRANCHYARD_HOOKS__TIMEOUT_MS", "120000");
        ServerProcess::start(&mut command)
    };
    let mut server = start();
    let client = Client::builder().no_proxy().build().unwrap();
    let post = |path: &str, body: &Value| {
        let request = client.post(format!("{}/api/v2{path}", server.origin)).bearer_auth(&token).json(body);
        assert!(request.send().unwrap().status().is_success(), "{path}");
    };
    let receiver = Receiver::with(|_| None);
    post("/databases", &json!({"owner": "ada", "name": "d", "visibility": "public"}));
    post("/databases/ada/d/hooks", &json!({"url": receiver.url(), "events": ["on_branch"]}));
    post("/databases/ada/d/branches", &json!({"name": "b", "from": {"branch": "main"}}));
    receiver.wait_for(1);

    server.signal();
    assert_eq!(server.ended_within(Duration::from_secs(2)), None, "the first signal lets the attempt go on");
    server.signal();
    let ended = server.ended_within(Duration::from_secs(60)).expect("the second one does not");
    assert!(ended.success(), "{ended}");

    let store = Connection::open(dir.join("metadata.sqlite")).unwrap();
    let leases: i64 =
        store.query_row("SELECT count(*) FROM hooks WHERE lease_holder IS NOT NULL", [], |row| row.get(0)).unwrap();
    assert_eq!(leases, 0, "anybody may go on");
    let attempts: i64 = store.query_row("SELECT count(*) FROM attempts", [], |row| row.get(0)).unwrap();
    assert_eq!(attempts, 0, "what was cut short is no attempt");
    drop(store);

    let again = start();
    let received = receiver.wait_for(2);
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    again.kill();
}

/// A new server makes the link of the first sign-up after it has announced its address, so that the signal comes in between.
#[test]
fn a_signal_right_after_the_address_is_announced_is_a_clean_stop() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let mut server = ServerProcess::start(&mut program().serve(dir.path()));
        let id = Pid::from_raw(server.id().try_into().unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        let ended = server.ended_within(AMPLE).unwrap();
        assert!(ended.success(), "{ended}");
    }
}

/// The time limit of the statements is far above the grace.
#[test]
fn what_outlives_the_grace_is_ended_with_all_processes() {
    const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let token = program().user(dir, "ada");
    let mut command = program().serve(dir);
    command.env("BRANCHYARD_SERVER__SHUTDOWN_GRACE", "1s").env("BRANCHYARD_SQL__ISOLATION", "process");
    let mut server = ServerProcess::start(&mut command);
    let origin = server.origin.clone();
    let client = Client::builder().no_proxy().build().unwrap();
    let post =
        |path: &str, body: &Value| client.post(format!("{origin}/api/v2{path}")).bearer_auth(&token).json(body).send();
    let made = json!({"owner": "ada", "name": "d", "visibility": "public"});
    assert!(post("/databases", &made).unwrap().status().is_success());
    let write = json!({"from_branch": "main", "to_branch": "main", "q": format!("create table t as {ENDLESS}")});
    assert!(post("/databases/ada/d/sql-writes", &write).unwrap().status().is_success());
    let processes = descendants(server.id());
    let of_sql = processes.iter().filter(|process| command_line(**process).contains("sql-worker")).count();
    assert!(of_sql > 1, "a launcher and workers");
    std::thread::scope(|scope| {
        let endless = json!({"q": ENDLESS, "timeout_ms": 60_000});
        scope.spawn(move || drop(post("/databases/ada/d/sql", &endless)));
        std::thread::sleep(Duration::from_millis(300));
        server.signal();
        let ended = server.ended_within(Duration::from_secs(4)).expect("the grace is one second");
        assert!(ended.success(), "{ended}");
    });
    wait_until("the end of all processes", AMPLE, || {
        processes.iter().all(|id| !command_line(*id).contains("sql-worker"))
    });
}
