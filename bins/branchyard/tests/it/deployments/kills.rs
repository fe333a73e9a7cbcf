//! `kill -9` during writes. No acknowledged row is lost, and the instance serves again after seconds of work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use branchyard_deployments::ports::InstanceEvent;
use branchyard_testkit::{AMPLE, processor_time, wait_until};
use parking_lot::Mutex;
use serde_json::json;

use super::harness::{InstanceHarness, execute};

const KILLS: u64 = 50;

#[test]
fn fifty_kills_lose_nothing_that_was_acknowledged() {
    let mut harness = InstanceHarness::start();
    harness.sql(&["create table t(id integer primary key)", "select dolt_commit('-A', '-m', 'table')"]);
    let acknowledged = Mutex::new(Vec::new());
    let next = AtomicU64::new(1);
    let mut times = Vec::new();
    for kill in 0..KILLS {
        let done = AtomicBool::new(false);
        let before = acknowledged.lock().len();
        thread::scope(|scope| {
            for writer in 0..2 {
                let (harness, acknowledged, next, done) = (&harness, &acknowledged, &next, &done);
                scope.spawn(move || {
                    let http = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
                    while !done.load(Ordering::Relaxed) {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        let mut requests = vec![execute(&format!("insert into t values ({id})"))];
                        if writer == 0 {
                            requests.push(execute("select dolt_commit('-A', '-m', 'row')"));
                        }
                        requests.push(json!({"type": "close"}));
                        let body = json!({"baton": null, "requests": requests}).to_string();
                        let sent = http
                            .post(format!("{}/v2/pipeline", harness.origin()))
                            .bearer_auth(&harness.writer)
                            .body(body)
                            .send()
                            .and_then(reqwest::blocking::Response::text);
                        let answer = sent.ok().and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
                        if answer.is_some_and(|answer| answer["results"][0]["type"] == "ok") {
                            acknowledged.lock().push(id);
                        }
                    }
                });
            }
            // Waits for an acknowledged row, so that there is something to lose even on a busy machine.
            wait_until("an acknowledgment", AMPLE, || acknowledged.lock().len() > before);
            thread::sleep(Duration::from_millis(kill * 37 % 120));
            harness.kill();
            let ended = harness.next_event();
            done.store(true, Ordering::Relaxed);
            assert!(matches!(ended, InstanceEvent::Ended { .. }), "{ended:?}");
        });
        harness.start_again();
        times.push(processor_time(harness.handle.process));
    }
    times.sort_unstable();
    let median = times[times.len() / 2];
    assert!(median < Duration::from_secs(5), "{times:?} of processor time");
    let acknowledged = acknowledged.into_inner();
    assert!(acknowledged.len() >= 50, "{}", acknowledged.len());
    let there: std::collections::HashSet<u64> =
        harness.sql(&["select id from t"]).into_iter().map(|row| row[0].as_str().unwrap().parse().unwrap()).collect();
    let lost: Vec<&u64> = acknowledged.iter().filter(|id| !there.contains(id)).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", acknowledged.len());
    assert_eq!(harness.sql(&["pragma integrity_check"]), [["ok"]]);
}
