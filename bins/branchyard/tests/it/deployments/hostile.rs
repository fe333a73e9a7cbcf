//! Bodies that no libSQL client sends. Each must be answered in time and without an internal error, and the next valid request
//! must succeed.
//!
//! A default run takes seconds; `cargo xtask fuzz --target hrana-bodies --minutes 60` runs for an hour (docs/testing.md).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, Mutator, Stopwatch, process_status};
use serde_json::{Value, json};

use super::harness::{InstanceHarness, execute};

/// Paths that accept a body.
const PATHS: [&str; 4] = ["/v2/pipeline", "/v3/pipeline", "/v3/cursor", "/db/gauges/branch/main/v2/pipeline"];
/// Number of bodies in a default run.
const ROUNDS: usize = 300;
/// Maximum processor time of an answer.
const LIMIT: Duration = Duration::from_secs(20);
/// Limit on the peak memory of the process, in KiB.
const MEMORY_KB: u64 = 1 << 20;

fn seeds() -> Vec<Vec<u8>> {
    let pipeline = |requests| json!({"baton": null, "requests": requests}).to_string().into_bytes();
    let step = json!({"stmt": {"sql": "insert into t values (1)"}, "condition": {"type": "not", "cond": {"type": "ok", "step": 0}}});
    let arguments = json!({"sql": "select ?, :a", "args": [{"type": "integer", "value": "9223372036854775807"}],
        "named_args": [{"name": "a", "value": {"type": "blob", "base64": "AP8="}}], "want_rows": true});
    vec![
        pipeline(json!([execute("select 1"), {"type": "close"}])),
        pipeline(json!([{"type": "execute", "stmt": arguments}])),
        pipeline(json!([{"type": "batch", "batch": {"steps": [{"stmt": {"sql": "begin"}}, step]}}])),
        pipeline(json!([{"type": "sequence", "sql": "create table if not exists t(a); insert into t values (1);"}])),
        pipeline(
            json!([{"type": "store_sql", "sql_id": 1, "sql": "select 1"}, {"type": "describe", "sql_id": 1}, {"type": "close_sql", "sql_id": 1}]),
        ),
        pipeline(json!([{"type": "get_autocommit"}, {"type": "batch", "batch": {"steps": []}}])),
        json!({"baton": "x", "batch": {"steps": [{"stmt": {"sql": "select 1.5, null, x'00'"}}]}})
            .to_string()
            .into_bytes(),
        "[".repeat(100_000).into_bytes(),
        b"{\"requests\":".repeat(5_000),
    ]
}

/// Returns the baton of an answer, with which its stream continues.
fn baton(text: &str) -> Option<String> {
    let first: Value = serde_json::from_str(text.lines().next()?).ok()?;
    first["baton"].as_str().map(str::to_owned)
}

#[test]
fn fuzz() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let until = number("FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let harness = InstanceHarness::start();
    let http = reqwest::blocking::Client::builder().no_proxy().timeout(AMPLE).build().unwrap();
    let (mut mutator, mut corpus, mut outcomes) = (Mutator::new(seed), seeds(), BTreeMap::<String, usize>::new());
    let (good, mut round) = (corpus.len(), 0);
    while until.map_or(round < ROUNDS, |until| Instant::now() < until) {
        let body = if round < good { corpus[round].clone() } else { mutator.mutant(&corpus) };
        let address = format!("{}{}", harness.origin(), PATHS[round % PATHS.len()]);
        let request = http.post(&address).bearer_auth(&harness.writer);
        let shown = || String::from_utf8_lossy(&body[..body.len().min(2_000)]).into_owned();
        let watch = Stopwatch::of(vec![harness.handle.process]);
        let answer = request.body(body.clone()).send();
        let answer = answer.unwrap_or_else(|error| panic!("seed {seed}, body {round}: {error}: {}", shown()));
        let status = answer.status().as_u16();
        let text = answer.text().unwrap_or_else(|error| panic!("seed {seed}, body {round}: {error}: {}", shown()));
        let took = watch.elapsed();
        assert!(took < LIMIT, "seed {seed}, body {round}: took {took:?}: {}", shown());
        assert!(status < 500, "seed {seed}, body {round}: {status} {text}: {}", shown());
        if let Some(baton) = baton(&text) {
            // Closes the stream. Open streams would soon reach their limit, and no further body would be processed.
            let close = json!({"baton": baton, "requests": [{"type": "close"}]});
            let closed =
                http.post(address.replace("cursor", "pipeline")).bearer_auth(&harness.writer).body(close.to_string());
            assert!(closed.send().unwrap().status().as_u16() < 500, "seed {seed}, body {round}: closing");
        }
        let brief = text.chars().filter(char::is_ascii_alphabetic).take(60).collect::<String>();
        let times = outcomes.entry(format!("{status} {brief}")).or_default();
        *times += 1;
        if *times == 1 && corpus.len() < 300 {
            corpus.push(body);
        }
        round += 1;
        if round % 50 == 0 {
            assert_eq!(harness.sql(&["select 6 * 7"])[0][0], "42");
            let kb = process_status(harness.handle.process, "VmHWM");
            assert!(kb < MEMORY_KB, "seed {seed}, by body {round}: the process took {kb} KiB");
        }
    }
    println!("hrana-bodies: {round} inputs, {} outcomes", outcomes.len());
    assert!(outcomes.len() > 5, "every body had the same outcome, so nothing was tried");
}
