//! Two SIGTERM signals while the receiver of a webhook does not answer.

use std::time::Duration;

use branchyard_testkit::{Receiver, ServerProcess};
use reqwest::blocking::Client;
use rusqlite::Connection;
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
