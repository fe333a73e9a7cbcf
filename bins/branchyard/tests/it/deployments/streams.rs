//! The data endpoint: credentials, streams, batons, and statements.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_deployments::ports::{Provisioner, Series};
use branchyard_deployments::values::Setting;
use branchyard_domain::ports::SqlPower;
use branchyard_testkit::{AMPLE, wait_until};
use serde_json::{Value, json};

use super::harness::{InstanceHarness, execute, mint, rows, settings};

#[test]
fn credentials_paths_and_methods_are_checked() {
    let harness = InstanceHarness::start();
    let body = || Some(json!({"requests": []}).to_string());
    let anonymous = harness.send("POST", "/v2/pipeline", None, body());
    assert_eq!(anonymous.refused(401, "UNAUTHENTICATED").headers["www-authenticate"], r#"Bearer realm="branchyard""#);
    for bad in [mint(), "hsat.v1.x".to_owned()] {
        let answer = harness.send("POST", "/v2/pipeline", Some(&bad), body());
        let told = answer.refused(401, "UNAUTHENTICATED").headers["www-authenticate"].to_str().unwrap();
        assert_eq!(told, r#"Bearer realm="branchyard", error="invalid_token""#);
    }
    let stranger = mint();
    harness.people.set(&stranger, "sam", None);
    harness.send("POST", "/v2/pipeline", Some(&stranger), body()).refused(404, "NOT_FOUND");

    let w = Some(harness.writer.as_str());
    assert_eq!(harness.send("GET", "/health", None, None).ok(), &json!({"status": "ok"}));
    for path in ["/v2", "/v3", "/db/gauges/v2"] {
        let answer = harness.send("GET", path, None, None);
        assert_eq!((answer.status, &answer.headers["content-type"]), (200, &"text/plain".parse().unwrap()), "{path}");
    }
    harness.send("GET", "/v3-protobuf", None, None).refused(404, "NOT_FOUND");
    harness.send("POST", "/v1/pipeline", w, body()).refused(404, "NOT_FOUND");
    assert_eq!(
        harness.send("GET", "/v2/pipeline", w, None).refused(405, "METHOD_NOT_ALLOWED").headers["allow"],
        "POST"
    );
    harness.send("POST", "/db/absent/v2/pipeline", w, body()).refused(404, "NOT_FOUND");
    harness.send("POST", "/branch/absent/v2/pipeline", w, body()).refused(404, "NOT_FOUND");
    harness.send("POST", "/v2/pipeline", w, Some("{".into())).refused(400, "PROTOCOL_ERROR");
    let unknown = json!({"requests": [{"type": "explode"}]}).to_string();
    harness.send("POST", "/v2/pipeline", w, Some(unknown)).refused(400, "PROTOCOL_ERROR");
    let long = format!(r#"{{"requests":[],"x":"{}"}}"#, "x".repeat(9 << 20));
    harness.send("POST", "/v2/pipeline", w, Some(long)).refused(413, "PAYLOAD_TOO_LARGE");
    for path in ["/v2/pipeline", "//v3/pipeline", "/db/GAUGES/v3/pipeline", "/db/gauges/branch/main/v3/pipeline"] {
        let answer = harness.pipeline_at(path, &harness.writer, None, json!([execute("select 1"), {"type": "close"}]));
        assert_eq!(answer.ok()["baton"], Value::Null, "{path}");
    }
    let metrics = harness.send("GET", "/metrics", w, None);
    assert!(metrics.body.as_str().unwrap().contains("branchyard_reads_total 4\n"), "{}", metrics.body);
    harness.send("GET", "/metrics", None, None).refused(401, "UNAUTHENTICATED");
}

#[test]
fn results_have_the_shape_of_the_contract() {
    let harness = InstanceHarness::start();
    harness.sql(&["create table t(id INTEGER primary key, name TEXT)", "insert into t values (1, 'x')"]);
    let answer = harness.pipeline_as(
        &harness.writer,
        None,
        json!([
            {"type": "execute", "stmt": {"sql": "select id, name, 1.5, null, x'ff' from t where id = ?;", "args": [{"type": "integer", "value": "1"}]}},
            {"type": "execute", "stmt": {"sql": "insert into t(name) values (:n)", "named_args": [{"name": "n", "value": {"type": "text", "value": "y"}}]}},
            {"type": "execute", "stmt": {"sql": "select * from t", "want_rows": false}},
            {"type": "execute", "stmt": {"sql": "select ?", "args": [{"type": "null"}], "named_args": [{"name": "a", "value": {"type": "null"}}]}},
            {"type": "execute", "stmt": {"sql": "select 1; select 2"}},
            {"type": "execute", "stmt": {"sql": "-- nothing"}},
            {"type": "execute", "stmt": {"sql": "select ?"}},
            {"type": "execute", "stmt": {"sql": "insert into t values (1, 'again')"}},
            {"type": "describe", "sql": "select id from t where name = :n"},
            {"type": "sequence", "sql": "create table u(a); insert into u values (1); insert into u values (2);"},
            {"type": "store_sql", "sql_id": 7, "sql": "select count(*) from u"},
            {"type": "execute", "stmt": {"sql_id": 7}},
            {"type": "get_autocommit"},
            {"type": "close"},
            {"type": "get_autocommit"},
        ]),
    );
    let mut body = answer.ok().clone();
    assert_eq!((&body["baton"], &body["base_url"]), (&Value::Null, &Value::Null));
    let results = body["results"].as_array_mut().unwrap();
    let took = results[0]["response"]["result"].as_object_mut().unwrap().remove("query_duration_ms").unwrap();
    assert!(took.as_f64().unwrap() > 0.0);
    let expected = json!({"type": "ok", "response": {"type": "execute", "result": {
        "cols": [
            {"name": "id", "decltype": "INTEGER"}, {"name": "name", "decltype": "TEXT"}, {"name": "1.5", "decltype": null},
            {"name": "null", "decltype": null}, {"name": "x'ff'", "decltype": null},
        ],
        "rows": [[
            {"type": "integer", "value": "1"}, {"type": "text", "value": "x"}, {"type": "float", "value": 1.5}, {"type": "null"},
            {"type": "blob", "base64": "/w"},
        ]],
        "affected_row_count": 0, "last_insert_rowid": null, "rows_read": 1, "rows_written": 0,
    }}});
    assert_eq!(results[0], expected);
    let inserted = &results[1]["response"]["result"];
    assert_eq!((&inserted["affected_row_count"], &inserted["last_insert_rowid"]), (&json!(1), &json!("2")));
    let unwanted = &results[2]["response"]["result"];
    assert_eq!((&unwanted["rows"], &unwanted["rows_read"]), (&json!([]), &json!(2)));
    for (at, code) in [
        (3, "ARGS_BOTH_POSITIONAL_AND_NAMED"),
        (4, "SQL_MANY_STATEMENTS"),
        (5, "SQL_NO_STATEMENT"),
        (6, "ARGS_INVALID"),
        (7, "SQLITE_CONSTRAINT"),
    ] {
        assert_eq!(results[at]["error"]["code"], code, "{}", results[at]);
    }
    let told = &results[8]["response"]["result"];
    assert_eq!(told["params"], json!([{"name": ":n"}]));
    assert_eq!((&told["is_explain"], &told["is_readonly"]), (&json!(false), &json!(true)));
    assert_eq!(results[9], json!({"type": "ok", "response": {"type": "sequence"}}));
    assert_eq!(rows(&results[11]["response"]["result"]), [["2"]]);
    assert_eq!(results[12]["response"], json!({"type": "get_autocommit", "is_autocommit": true}));
    assert_eq!((&results[13]["type"], &results[14]["type"]), (&json!("ok"), &json!("error")));
}

#[test]
fn steps_of_a_batch_run_on_conditions() {
    let harness = InstanceHarness::start();
    let step = |sql: &str, condition: Value| json!({"stmt": {"sql": sql}, "condition": condition});
    let transaction = |bad: &str| {
        json!([{"type": "batch", "batch": {"steps": [
            {"stmt": {"sql": "begin"}},
            step("create table if not exists t(id integer primary key)", json!({"type": "ok", "step": 0})),
            step(bad, json!({"type": "ok", "step": 1})),
            step("commit", json!({"type": "ok", "step": 2})),
            step("rollback", json!({"type": "not", "cond": {"type": "or", "conds": [{"type": "ok", "step": 3}, {"type": "is_autocommit"}]}})),
        ]}}, {"type": "close"}])
    };
    let failed = harness.pipeline_as(&harness.writer, None, transaction("insert into nowhere values (1)"));
    let result = &failed.ok()["results"][0]["response"]["result"];
    let nulls = |list: &Value| list.as_array().unwrap().iter().map(Value::is_null).collect::<Vec<_>>();
    assert_eq!(nulls(&result["step_results"]), [false, false, true, true, false]);
    assert_eq!(nulls(&result["step_errors"]), [true, true, false, true, true]);
    assert_eq!(harness.failure(&harness.writer, "select * from t"), "SQLITE_ERROR");
    let fine = harness.pipeline_as(&harness.writer, None, transaction("insert into t values (1)"));
    assert_eq!(
        nulls(&fine.ok()["results"][0]["response"]["result"]["step_results"]),
        [false, false, false, false, true]
    );
    assert_eq!(harness.sql(&["select count(*) from t"]), [["1"]]);
    let forward = json!([{"type": "batch", "batch": {"steps": [step("select 1", json!({"type": "ok", "step": 0}))]}}]);
    harness.pipeline_as(&harness.writer, None, forward).refused(400, "PROTOCOL_ERROR");
}

#[test]
fn batons_lead_back_to_their_stream_once_and_to_nobody_elses() {
    let harness = InstanceHarness::start_with(&[(Setting::StreamIdleTimeoutMillis, "5000")]);
    harness.sql(&["create table t(id integer primary key)"]);
    let go = |baton: Option<&str>, sql: &str| harness.pipeline_as(&harness.writer, baton, json!([execute(sql)]));
    let baton = |answer: &super::harness::InstanceAnswer| answer.ok()["baton"].as_str().unwrap().to_owned();

    let first = baton(&go(None, "begin"));
    let second = baton(&go(Some(&first), "insert into t values (1)"));
    go(Some(&first), "select 1").refused(400, "BATON_REUSED");
    let mut forged = second.clone();
    forged.replace_range(5..6, if &second[5..6] == "A" { "B" } else { "A" });
    go(Some(&forged), "select 1").refused(400, "BATON_INVALID");
    let other = harness.person("bob", SqlPower::Write);
    harness.pipeline_as(&other, Some(&second), json!([])).refused(400, "BATON_INVALID");
    // None of these requests ended the stream.
    let third = baton(&go(Some(&second), "commit"));
    assert_eq!(harness.sql(&["select count(*) from t"]), [["1"]]);

    // The baton of a clean stream remains valid after the stream has expired. The baton of a stream with state does not.
    let open = baton(&go(None, "begin"));
    go(Some(&open), "insert into t values (2)").ok();
    let pinned = baton(&go(None, "pragma foreign_keys = off"));
    thread::sleep(Duration::from_millis(6000));
    let renewed = go(Some(&third), "select count(*) from t");
    assert_eq!(
        rows(&renewed.ok()["results"][0]["response"]["result"]),
        [["1"]],
        "the open transaction was rolled back"
    );
    go(Some(&pinned), "select 1").refused(400, "STREAM_EXPIRED");
    harness.sql(&["insert into t values (2)"]);

    // A protocol error ends the stream.
    let open = baton(&go(None, "begin"));
    let bad = json!({"baton": open, "requests": [{"type": "explode"}]}).to_string();
    harness.send("POST", "/v3/pipeline", Some(&harness.writer), Some(bad)).refused(400, "PROTOCOL_ERROR");
    go(Some(&open), "commit").refused(400, "STREAM_EXPIRED");
}

#[test]
fn a_crash_ends_transactions_and_spares_clean_batons() {
    let mut harness = InstanceHarness::start();
    let clean = harness.pipeline_as(&harness.writer, None, json!([execute("create table t(id integer primary key)")]));
    let clean = clean.ok()["baton"].as_str().unwrap().to_owned();
    let open =
        harness.pipeline_as(&harness.writer, None, json!([execute("begin"), execute("insert into t values (1)")]));
    let open = open.ok()["baton"].as_str().unwrap().to_owned();
    harness.kill();
    assert!(
        matches!(harness.next_event(), branchyard_deployments::ports::InstanceEvent::Ended { cause, .. } if cause == "signal 9")
    );
    harness.start_again();
    harness.pipeline_as(&harness.writer, Some(&open), json!([execute("commit")])).refused(400, "STREAM_EXPIRED");
    let again = harness.pipeline_as(&harness.writer, Some(&clean), json!([execute("select count(*) from t")]));
    assert_eq!(rows(&again.ok()["results"][0]["response"]["result"]), [["0"]]);
}

#[test]
fn what_the_server_takes_away_is_gone_with_the_next_request() {
    let harness = InstanceHarness::start();
    harness.sql(&["create table t(id integer primary key)"]);
    let begun =
        harness.pipeline_as(&harness.writer, None, json!([execute("begin"), execute("insert into t values (1)")]));
    let baton = begun.ok()["baton"].as_str().unwrap().to_owned();
    harness.people.set(&harness.writer, "wes", Some(SqlPower::Read));
    harness.pipeline_as(&harness.writer, Some(&baton), json!([execute("commit")])).refused(400, "STREAM_EXPIRED");
    assert_eq!(harness.failure(&harness.writer, "insert into t values (1)"), "SQLITE_READONLY");
    assert_eq!(harness.failure(&harness.writer, "select dolt_commit('-A', '-m', 'x')"), "SQLITE_AUTH");
    assert_eq!(harness.sql(&["select count(*) from t"]), [["0"]]);
    harness.people.set(&harness.writer, "wes", None);
    harness.pipeline_as(&harness.writer, None, json!([])).refused(404, "NOT_FOUND");
    harness.people.revoke(&harness.writer);
    harness.pipeline_as(&harness.writer, None, json!([])).refused(401, "UNAUTHENTICATED");
}

#[test]
fn writers_take_turns_and_long_transactions_end() {
    let harness = InstanceHarness::start_with(&[
        (Setting::QueryBusyTimeoutMillis, "300"),
        (Setting::TransactionTimeoutMillis, "60000"),
        (Setting::QueryThreads, "1"),
    ]);
    harness.sql(&["create table t(id integer primary key)"]);
    let begun = harness.pipeline_as(
        &harness.writer,
        None,
        json!([execute("begin immediate"), execute("insert into t values (1)")]),
    );
    let baton = begun.ok()["baton"].as_str().unwrap().to_owned();
    let began = Instant::now();
    assert_eq!(harness.failure(&harness.writer, "insert into t values (2)"), "SQLITE_BUSY");
    // No load on the machine makes this shorter.
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    // A waiting writer holds no thread, so the current writer can continue.
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            harness.apply(&[(Setting::QueryBusyTimeoutMillis, "60000"), (Setting::TransactionTimeoutMillis, "60000")]);
            harness.sql(&["insert into t values (2)"])
        });
        thread::sleep(Duration::from_millis(200));
        harness.pipeline_as(&harness.writer, Some(&baton), json!([execute("commit"), {"type": "close"}])).ok();
        waits.join().unwrap();
    });
    assert_eq!(harness.sql(&["select count(*) from t"]), [["2"]]);

    let short = [(Setting::QueryBusyTimeoutMillis, "60000"), (Setting::TransactionTimeoutMillis, "1500")];
    harness.apply(&short);
    let begun =
        harness.pipeline_as(&harness.writer, None, json!([execute("begin"), execute("insert into t values (3)")]));
    let baton = begun.ok()["baton"].as_str().unwrap().to_owned();
    thread::sleep(Duration::from_millis(2000));
    harness.sql(&["insert into t values (4)"]);
    let late = harness.pipeline_as(
        &harness.writer,
        Some(&baton),
        json!([execute("insert into t values (5)"), execute("commit"), execute("select count(*) from t")]),
    );
    let results = &late.ok()["results"];
    assert_eq!(results[0]["error"]["code"], "TRANSACTION_TIMEOUT");
    assert_eq!(results[1]["error"]["code"], "TRANSACTION_TIMEOUT");
    assert_eq!(rows(&results[2]["response"]["result"]), [["3"]]);
}

#[test]
fn settings_act_at_once_and_limits_hold() {
    let harness = InstanceHarness::start();
    let apply = |pairs: &[(Setting, &str)]| harness.apply(pairs);
    let endless = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c";
    apply(&[(Setting::QueryTimeoutMillis, "100")]);
    assert_eq!(harness.failure(&harness.writer, endless), "QUERY_TIMEOUT");
    apply(&[(Setting::QueryMaxResultBytes, "65536")]);
    assert_eq!(harness.failure(&harness.writer, "select hex(zeroblob(40000))"), "RESPONSE_TOO_LARGE");
    harness.sql(&["select hex(zeroblob(20000))"]);
    apply(&[(Setting::QueryMaxSqlBytes, "1024")]);
    assert_eq!(harness.failure(&harness.writer, &format!("select '{}'", "x".repeat(1100))), "SQLITE_TOOBIG");
    apply(&[(Setting::QueryMaxBatchSteps, "1")]);
    harness
        .pipeline_as(&harness.writer, None, json!([execute("select 1"), execute("select 1")]))
        .refused(400, "PROTOCOL_ERROR");
    apply(&[(Setting::BehaviorReadOnly, "true")]);
    assert_eq!(harness.failure(&harness.writer, "create table t(a)"), "SQLITE_READONLY");
    apply(&[(Setting::BehaviorDoltTransactionCommit, "true")]);
    harness.sql(&["create table t(a)", "insert into t values (1)"]);
    let committers = harness.sql(&["select committer, email from dolt_log limit 1"]);
    assert_eq!(committers, [["wes", "wes@example.test"]]);
    apply(&[(Setting::ListenerMaxConnections, "1")]);
    let held = harness.pipeline_as(&harness.writer, None, json!([execute("begin")]));
    let full = harness.pipeline_as(&harness.writer, None, json!([execute("select 1")]));
    assert!(full.refused(429, "TOO_MANY_STREAMS").headers.contains_key("retry-after"));
    let baton = held.ok()["baton"].as_str().unwrap().to_owned();
    harness.pipeline_as(&harness.writer, Some(&baton), json!([{"type": "close"}])).ok();
    // The statement needs more memory than the engine may use of 1 GB.
    apply(&[]);
    let greedy = "with recursive c(n) as (select 1 union all select n + 1 from c limit 1000) select randomblob(1000000) x from c order by x";
    assert_eq!(harness.failure(&harness.writer, greedy), "SQLITE_NOMEM");
    assert_eq!(harness.sql(&["select count(*) from t"]), [["1"]]);
}

#[test]
fn origins_are_allowed_by_a_setting() {
    let harness =
        InstanceHarness::start_with(&[(Setting::ListenerAllowedOrigins, "https://a.example, https://b.example")]);
    let http = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let preflight = |origin: &str| {
        let url = format!("{}/v2/pipeline", harness.origin());
        let request = http.request(reqwest::Method::OPTIONS, url).header("origin", origin);
        request.header("access-control-request-method", "POST").send().unwrap()
    };
    let allowed = preflight("https://b.example");
    assert_eq!(
        (allowed.status().as_u16(), &allowed.headers()["access-control-allow-origin"]),
        (204, &"https://b.example".parse().unwrap())
    );
    let refused = preflight("https://c.example");
    assert_eq!(refused.status().as_u16(), 405);
    assert!(!refused.headers().contains_key("access-control-allow-origin"));
}

#[test]
fn a_cursor_sends_every_row_and_a_clean_baton() {
    let harness = InstanceHarness::start();
    harness.sql(&[
        "create table t(id integer primary key, v text)",
        "insert into t(v) with recursive c(n) as (select 1 union all select n + 1 from c limit 100000) select hex(n) from c",
    ]);
    let batch = json!({"batch": {"steps": [
        {"stmt": {"sql": "select * from t"}},
        {"stmt": {"sql": "select nonsense"}},
        {"stmt": {"sql": "select 1"}, "condition": {"type": "ok", "step": 1}},
        {"stmt": {"sql": "insert into t(v) values ('last')"}},
    ]}});
    let answer = harness.send("POST", "/v3/cursor", Some(&harness.writer), Some(batch.to_string()));
    assert_eq!((answer.status, &answer.headers["content-type"]), (200, &"application/x-ndjson".parse().unwrap()));
    let text = answer.body.as_str().unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let head = lines.next().unwrap();
    let baton = head["baton"].as_str().unwrap().to_owned();
    assert!(head["base_url"].is_null());
    let entries: Vec<Value> = lines.collect();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "row").count(), 100_000);
    assert_eq!(entries[0]["cols"][0], json!({"name": "id", "decltype": "INTEGER"}));
    assert_eq!(entries[100_001], json!({"type": "step_end", "affected_row_count": 0, "last_insert_rowid": null}));
    assert_eq!((&entries[100_002]["type"], &entries[100_002]["step"]), (&json!("step_error"), &json!(1)));
    assert_eq!(
        entries.last().unwrap(),
        &json!({"type": "step_end", "affected_row_count": 1, "last_insert_rowid": "100001"})
    );
    let next = harness.pipeline_as(
        &harness.writer,
        Some(&baton),
        json!([execute("select count(*) from t"), {"type": "close"}]),
    );
    assert_eq!(rows(&next.ok()["results"][0]["response"]["result"]), [["100001"]]);
    harness.send("POST", "/v3/cursor", Some(&harness.writer), Some("{}".into())).refused(400, "PROTOCOL_ERROR");
}

const ENDLESS: &str = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c";

#[test]
fn older_settings_that_arrive_later_change_nothing() {
    let harness = InstanceHarness::start();
    harness.sql(&["create table t(a)"]);
    let read_only = settings(&[(Setting::BehaviorReadOnly, "true")]);
    harness.local.apply(&harness.handle, &read_only, 7).unwrap();
    harness.local.apply(&harness.handle, &settings(&[]), 6).unwrap();
    assert_eq!(harness.failure(&harness.writer, "insert into t values (1)"), "SQLITE_READONLY");
    let run = harness.dir.path().join("deployments").join(harness.spec.deployment.to_string());
    let spec = std::fs::read_to_string(run.join(harness.spec.instance.to_string()).join("run/spec.json")).unwrap();
    let spec: Value = serde_json::from_str(&spec).unwrap();
    assert_eq!(
        (&spec["settings_revision"], &spec["settings"]["behavior_read_only"]),
        (&json!(7), &json!("true")),
        "for the next start"
    );
    harness.local.apply(&harness.handle, &settings(&[]), 8).unwrap();
    harness.sql(&["insert into t values (1)"]);
}

#[test]
fn long_statements_of_one_thread_let_others_pass() {
    let harness = InstanceHarness::start_with(&[(Setting::QueryThreads, "1"), (Setting::QueryTimeoutMillis, "300000")]);
    harness.sql(&["create table t(a)"]);
    let streams = || harness.local.sample(&harness.handle).unwrap().get(Series::Streams).unwrap_or_default();
    thread::scope(|scope| {
        let long: Vec<_> = (0..3).map(|_| scope.spawn(|| harness.failure(&harness.writer, ENDLESS))).collect();
        wait_until("the long statements", AMPLE, || streams() >= 3.0);
        for number in 0..20 {
            harness.sql(&[&format!("insert into t values ({number})")]);
        }
        assert_eq!(harness.sql(&["select count(*) from t"]), [["20"]]);
        assert!(long.iter().all(|statement| !statement.is_finished()), "they still run");
        harness.local.stop(&harness.handle, Duration::ZERO).unwrap();
        for statement in long {
            assert!(statement.join().is_err(), "the connection broke");
        }
    });
}

#[test]
fn forty_inserts_at_once_wait_for_their_turn() {
    let harness = InstanceHarness::start_with(&[(Setting::QueryThreads, "1")]);
    harness.sql(&["create table t(id integer primary key)"]);
    thread::scope(|scope| {
        for number in 0..40 {
            let harness = &harness;
            scope.spawn(move || harness.sql(&[&format!("insert into t values ({number})")]));
        }
    });
    assert_eq!(harness.sql(&["select count(*) from t"]), [["40"]]);
}

/// Sends a request and closes the connection without waiting for the answer.
fn leave_behind(harness: &InstanceHarness, path: &str, body: &Value, until: impl Fn() -> bool) {
    let body = body.to_string();
    let mut socket = TcpStream::connect(("127.0.0.1", harness.spec.port)).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
        harness.writer,
        body.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    wait_until("the statement", AMPLE, until);
}

#[test]
fn a_statement_whose_client_is_gone_ends_and_its_transaction_is_rolled_back() {
    let harness = InstanceHarness::start_with(&[(Setting::QueryTimeoutMillis, "300000")]);
    harness.sql(&["create table t(a)"]);
    let streams = || harness.local.sample(&harness.handle).unwrap().get(Series::Streams).unwrap_or_default();
    let stays = json!({"requests": [
        execute("begin"), execute("insert into t values (1)"), execute(ENDLESS), execute("commit"), {"type": "close"},
    ]});
    leave_behind(&harness, "/v3/pipeline", &stays, || streams() >= 1.0);
    // Far below the time limit of the statement.
    wait_until("the end of the statement", AMPLE / 2, || streams() == 0.0);
    harness.sql(&["insert into t values (2)"]);
    assert_eq!(harness.sql(&["select a from t"]), [["2"]], "the commit after the statement did not run");
    // The same for a cursor, whose stream stays for as long as an idle one.
    harness.apply(&[(Setting::QueryTimeoutMillis, "300000"), (Setting::StreamIdleTimeoutMillis, "1000")]);
    let cursor = json!({"batch": {"steps": [{"stmt": {"sql": ENDLESS}}]}});
    leave_behind(&harness, "/v3/cursor", &cursor, || streams() >= 1.0);
    wait_until("the end of the cursor", AMPLE / 2, || streams() == 0.0);
}
