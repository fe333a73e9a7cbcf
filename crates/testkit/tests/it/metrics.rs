//! Metrics, scraped after traffic.

use std::collections::BTreeSet;

use branchyard_testkit::{AMPLE, Receiver, Server, wait_for};
use serde_json::json;

fn start(change: impl FnOnce(&mut branchyard::config::Config)) -> Server {
    Server::start_with(|config| {
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
        change(config);
    })
}

/// Returns the value of a series, which is named with its labels.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

#[test]
fn what_happened_is_counted() {
    let server = start(|config| {
        config.sql.max_concurrent_reads = 7;
        config.rate_limit.enabled = true;
        config.rate_limit.anonymous_per_minute = 2;
        config.hooks.retry_delays_ms = vec![0, 3_600_000];
    });
    let ada = server.user("ada");
    ada.database("rivers");
    let receiver = Receiver::with(|number| Some(if number == 0 { 204 } else { 500 }));
    let hook = json!({"url": receiver.url(), "events": ["on_branch"]});
    ada.post("/databases/ada/rivers/hooks", &hook).expect(201);
    for name in ["a", "b"] {
        let body = json!({"name": name, "from": {"branch": "main"}});
        ada.post("/databases/ada/rivers/branches", &body).expect(201);
    }
    receiver.wait_for(2);
    ada.write("ada/rivers", "main", "create table t (n)");
    for status in [401, 401, 429] {
        server.anonymous().get("/user").expect(status);
    }
    for number in 0..20 {
        ada.request(reqwest::Method::GET, &format!("/no-such-thing-{number}")).send().unwrap();
        ada.get(&format!("/databases/ada/missing-{number}")).expect(404);
    }
    // The last attempt is recorded a moment after its response.
    let text = wait_for("the record of the last attempt", AMPLE, || {
        let text = server.metrics();
        if value(&text, r#"branchyard_hook_attempts_total{outcome="status_5xx"}"#) > 0.0 { Ok(text) } else { Err(text) }
    });
    assert!(text.ends_with("# EOF\n"));
    for (series, expected) in [
        (r#"branchyard_http_rate_limited_total{api="v2"}"#, 1.0),
        (r#"branchyard_http_rate_limited_total{api="v1alpha1"}"#, 0.0),
        (r#"branchyard_http_rate_limited_total{api="hosted-v1"}"#, 0.0),
        (r#"branchyard_http_auth_failures_total{api="v2"}"#, 2.0),
        (r#"branchyard_hook_events_total{event="branch"}"#, 2.0),
        (r#"branchyard_hook_events_total{event="push"}"#, 1.0),
        (r#"branchyard_hook_attempts_total{outcome="delivered"}"#, 1.0),
        (r#"branchyard_hook_attempts_total{outcome="status_5xx"}"#, 1.0),
        (r#"branchyard_hook_deliveries_total{status="delivered"}"#, 1.0),
        (r#"branchyard_hook_deliveries_total{status="failed"}"#, 0.0),
        ("branchyard_hook_attempt_duration_seconds_count", 2.0),
        ("branchyard_hook_delivery_lag_seconds_count", 2.0),
        ("branchyard_hook_attempts_in_flight", 0.0),
        ("branchyard_hook_outbox_rows", 0.0),
        ("branchyard_hook_deliveries_due", 0.0),
        ("branchyard_hook_oldest_due_seconds", 0.0),
        (r#"branchyard_operation_runs_total{kind="sql_write",outcome="succeeded"}"#, 1.0),
        (r#"branchyard_operation_run_duration_seconds_count{kind="sql_write"}"#, 1.0),
        (r#"branchyard_operations{state="queued"}"#, 0.0),
        (r#"branchyard_pool_refused_total{pool="sql"}"#, 0.0),
        (r#"branchyard_pool_places{pool="sql",state="free"}"#, 7.0),
    ] {
        assert_eq!(value(&text, series), expected, "{series}\n{text}");
    }
    assert!(value(&text, "branchyard_uptime_seconds") > 0.0);
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    let lag = value(&text, "branchyard_hook_delivery_lag_seconds_sum");
    assert!((0.0..3_600.0).contains(&lag), "{lag} s");
    let requests = |wanted: &[&str]| -> Vec<&str> {
        let of = |line: &&str| {
            line.starts_with("branchyard_http_requests_total{") && wanted.iter().all(|w| line.contains(w))
        };
        text.lines().filter(of).collect()
    };
    let missing = requests(&[r#"route="none""#, r#"status="404""#, r#"method="GET""#]);
    assert!(missing.len() == 1 && missing[0].ends_with(" 20"), "{missing:?}");
    let hidden = requests(&[r#"status="404""#, r#"route="/api/v2/databases/{"#]);
    assert!(hidden.len() == 1 && hidden[0].ends_with(" 20"), "{hidden:?}");
    let made = requests(&[r#"method="POST""#, r#"/branches""#, r#"status="201""#]);
    assert!(made.len() == 1 && made[0].ends_with(" 2"), "{made:?}");
    for secret in ["rivers", "missing-", "no-such", "127.0.0.1"] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
}

#[test]
fn each_metric_is_documented_and_served() {
    let server = start(|_| {});
    server.anonymous().get("/user").expect(401);
    let text = server.metrics();
    let served: BTreeSet<(String, String)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| {
            let end = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            (format!("{name}{end}"), kind.to_owned())
        })
        .collect();
    let documented: BTreeSet<(String, String)> = include_str!("../../../../docs/metrics.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(name, _)| !name.contains([' ', '(', '{']))
        .map(|(name, rest)| (name.to_owned(), rest.split(" | ").next().unwrap().to_owned()))
        .collect();
    assert_eq!(served, documented);
}

#[test]
fn without_the_key_nothing_is_served() {
    let server = Server::start();
    assert_eq!(server.metrics_address(), None);
    assert_eq!(server.anonymous().plain(reqwest::Method::GET, "/metrics").send().unwrap().status(), 404);
}
