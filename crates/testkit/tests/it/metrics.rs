//! Metrics, scraped after traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, Receiver, Server, wait_for, wait_until};
use reqwest::Method;
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
        ("branchyard_writes_saturation", 0.0),
        (r#"branchyard_collections_total{outcome="collected"}"#, 0.0),
        (r#"branchyard_collections_total{outcome="failed"}"#, 0.0),
        ("branchyard_collection_freed_bytes_total", 0.0),
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
    let documented = documented().into_iter().map(|(name, metric)| (name, metric.kind)).collect();
    assert_eq!(served, documented);
}

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// A row of the tables of `docs/metrics.md`.
struct DocumentedMetric {
    kind: String,
    /// The labels, each with its values as far as the page lists them.
    labels: BTreeMap<String, BTreeSet<String>>,
}

fn documented() -> BTreeMap<String, DocumentedMetric> {
    PAGE.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(name, _)| !name.contains([' ', '(', '{']))
        .map(|(name, rest)| {
            let mut cells = rest.split(" | ");
            let kind = cells.next().unwrap().to_owned();
            (name.to_owned(), DocumentedMetric { kind, labels: labels(cells.next().unwrap_or_default()) })
        })
        .collect()
}

/// Reads a cell such as `` `state` (`busy`, `free`), `pool` ``.
fn labels(cell: &str) -> BTreeMap<String, BTreeSet<String>> {
    let (mut labels, mut last, mut is_value) = (BTreeMap::<String, BTreeSet<String>>::new(), String::new(), false);
    for (number, piece) in cell.split('`').enumerate() {
        if number % 2 == 0 {
            is_value = (is_value || piece.contains('(')) && !piece.contains(')');
        } else if is_value {
            labels.entry(last.clone()).or_default().insert(piece.to_owned());
        } else {
            last = piece.to_owned();
            labels.entry(last.clone()).or_default();
        }
    }
    labels
}

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 3] = ["instance", "job", "le"];

/// Returns what is wrong with the metrics and labels of an expression.
fn faults(expression: &str, known: &BTreeMap<String, DocumentedMetric>) -> Vec<String> {
    let (mut faults, mut used, mut grouped) = (Vec::new(), Vec::new(), Vec::new());
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = expression;
    while let Some(at) = rest.find(is_word) {
        let word: &str = rest[at..].split(|c| !is_word(c)).next().unwrap();
        rest = &rest[at + word.len()..];
        if word == "by" {
            let list = rest.trim_start().trim_start_matches('(').split(')').next().unwrap();
            grouped.extend(list.split(", ").map(str::to_owned));
        }
        if !word.starts_with("branchyard_") && !word.starts_with("process_") {
            continue;
        }
        let base = ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end));
        let histogram = base.filter(|base| known.get(*base).is_some_and(|metric| metric.kind == "histogram"));
        let Some(metric) = known.get(histogram.unwrap_or(word)) else {
            faults.push(format!("no metric {word}"));
            continue;
        };
        if metric.kind == "histogram" && histogram.is_none() {
            faults.push(format!("{word} is a histogram"));
        }
        used.push(metric);
        let matchers = rest.strip_prefix('{').and_then(|inside| inside.split('}').next()).unwrap_or_default();
        for matcher in matchers.split(", ").filter(|matcher| !matcher.is_empty()) {
            let (label, value) = matcher.split_once('=').unwrap();
            match metric.labels.get(label) {
                None if OF_PROMETHEUS.contains(&label) => {}
                None => faults.push(format!("{word} has no label {label}")),
                Some(values) => {
                    let value = value.trim_matches('"');
                    if !values.is_empty() && !value.starts_with('~') && !values.contains(value) {
                        faults.push(format!("{label} of {word} is never {value}"));
                    }
                }
            }
        }
    }
    for label in grouped.iter().filter(|label| !OF_PROMETHEUS.contains(&label.as_str())) {
        if !used.iter().all(|metric| metric.labels.contains_key(label)) {
            faults.push(format!("no label {label} to group by"));
        }
    }
    if used.is_empty() && faults.is_empty() {
        faults.push("no metric at all".to_owned());
    }
    faults
}

/// Collects the expressions of a dashboard.
fn expressions(json: &serde_json::Value, found: &mut Vec<String>) {
    match json {
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(text) if name == "expr" => found.push(text.to_owned()),
                    _ => expressions(value, found),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_and_labels_that_exist() {
    let known = documented();
    let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../../../contrib/grafana.json")).unwrap();
    let mut shown = Vec::new();
    expressions(&dashboard, &mut shown);
    assert!(shown.len() > 30, "{}", shown.len());
    let rules = include_str!("../../../../contrib/alerts.yaml");
    let alerts: Vec<String> =
        rules.lines().filter_map(|line| line.trim_start().strip_prefix("expr: ")).map(str::to_owned).collect();
    assert_eq!(alerts.len(), rules.matches("- alert: ").count(), "each rule has an expression on one line");
    for expression in shown.iter().chain(&alerts) {
        assert_eq!(faults(expression, &known), [""; 0], "{expression}");
    }
    for alert in &alerts {
        assert!(PAGE.contains(&format!("| `{alert}` |")), "docs/metrics.md does not explain {alert}");
    }
    for (wrong, fault) in [
        ("rate(branchyard_no_such_total[5m])", "no metric branchyard_no_such_total"),
        ("branchyard_pool_queued{state=\"busy\"}", "branchyard_pool_queued has no label state"),
        ("branchyard_pool_places{state=\"bust\"}", "state of branchyard_pool_places is never bust"),
        ("sum by (api) (branchyard_pool_queued)", "no label api to group by"),
        ("rate(branchyard_hook_delivery_lag_seconds[5m])", "branchyard_hook_delivery_lag_seconds is a histogram"),
        ("up == 0", "no metric at all"),
    ] {
        assert_eq!(faults(wrong, &known), [fault]);
    }
}

#[test]
fn collections_of_garbage_are_counted() {
    let server = start(|config| {
        config.remotes.grace = branchyard::config::Span::seconds(0);
        config.store.history = branchyard::config::Span::seconds(0);
    });
    let ada = server.user("ada");
    ada.database("d");
    ada.write("ada/d", "main", "create table t (id integer primary key, a blob)");
    ada.post("/databases/ada/d/branches", &json!({"name": "planted", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/d", "planted", "insert into t values (2, randomblob(4194304))");
    ada.delete("/databases/ada/d/branches/planted").expect(200);
    server.hub().collections().request(None).unwrap();
    let collected = r#"branchyard_collections_total{outcome="collected"}"#;
    wait_until("the collection", AMPLE, || server.metric(collected) >= 1.0);
    let text = server.metrics();
    assert!(value(&text, "branchyard_collection_freed_bytes_total") >= f64::from(4 << 20), "{text}");
    assert!(value(&text, "branchyard_collection_duration_seconds_count") >= 1.0);
    assert!(value(&text, "branchyard_collection_duration_seconds_sum") > 0.0);
}

/// Another program holds the write lock of the metadata store.
#[test]
fn held_writes_show_as_saturation_and_leave_the_server_ready() {
    const SATURATION: &str = "branchyard_writes_saturation";
    let server = start(|config| config.pools.writes = 4);
    let ada = server.user("ada");
    ada.database("rivers");
    assert_eq!(server.metric(SATURATION), 0.0);
    let store = rusqlite::Connection::open(server.dir.path().join("data/metadata.sqlite")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let branch = |name: &'static str| {
            let body = json!({"name": name, "from": {"branch": "main"}});
            let ada = &ada;
            scope.spawn(move || ada.post("/databases/ada/rivers/branches", &body).status)
        };
        let first = branch("a");
        wait_until("the first write waits", AMPLE, || server.metric(SATURATION) == 0.25);
        let more = ["b", "c", "d", "e", "f"].map(branch);
        wait_until("more writes wait than can run at once", AMPLE, || server.metric(SATURATION) == 1.0);
        for _ in 0..3 {
            let began = Instant::now();
            let ready = ada.plain(Method::GET, "/readyz").send().unwrap();
            assert_eq!(ready.status().as_u16(), 200);
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        }
        store.execute_batch("ROLLBACK").unwrap();
        // On a slow machine, a write may have waited for longer than it may.
        for write in more.into_iter().chain([first]) {
            assert!(matches!(write.join().unwrap(), 201 | 503));
        }
    });
    assert_eq!(server.metric(SATURATION), 0.0);
}

#[test]
fn without_the_key_nothing_is_served() {
    let server = Server::start();
    assert_eq!(server.metrics_address(), None);
    assert_eq!(server.anonymous().plain(reqwest::Method::GET, "/metrics").send().unwrap().status(), 404);
}
