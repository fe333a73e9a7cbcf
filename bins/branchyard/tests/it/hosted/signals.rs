//! Two SIGTERM signals while an instance drains.

use std::thread;
use std::time::Duration;

use branchyard_testkit::{AMPLE, wait_for};
use serde_json::json;

use super::harness::{GatewayHarness, serve};

#[test]
fn a_second_signal_cuts_the_drain_short_and_nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({"expose_stats": true}));
    let direct = started["direct_url"].as_str().unwrap().to_owned();
    harness.sql(&direct, "create table t(a)");
    harness.sql(&direct, "insert into t values (7)");
    // The statement runs longer than a drain waits.
    let metrics = format!("{direct}metrics");
    let (http, token) = (harness.http.clone(), harness.token.clone());
    let slow = thread::spawn(move || {
        let sql = "with recursive c(n) as (select 1 union all select n + 1 from c) select max(n) from c";
        let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]});
        http.post(format!("{direct}v2/pipeline")).bearer_auth(token).json(&body).send()
    });
    wait_for("the statement", AMPLE, || {
        let text = harness.send("GET", &metrics, None).text().unwrap();
        if text.contains("branchyard_streams 1\n") { Ok(()) } else { Err(text) }
    });
    harness.server.signal();
    assert_eq!(harness.server.ended_within(Duration::from_secs(2)), None, "the first signal lets it go on");
    harness.server.signal();
    let ended = harness.server.ended_within(AMPLE).expect("the second one does not");
    assert!(ended.success(), "{ended}");
    assert!(slow.join().unwrap().is_err(), "cut off in the middle");

    harness.server = serve(dir.path());
    let again = harness.until("started");
    assert_eq!(harness.sql(again["direct_url"].as_str().unwrap(), "select a from t"), "7");
    harness.server.terminate();
}
