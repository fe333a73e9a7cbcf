//! Users without a role, or whose role was revoked, learn nothing about a deployment, not even by timing. A revocation takes
//! effect with the next request.

use std::time::{Duration, Instant};

use reqwest::blocking::Response;
use serde_json::{Value, json};

use super::harness::GatewayHarness;
use crate::process::program;

const REQUESTS: usize = 1_000;
/// Maximum number of measurements. Measurements are repeated because other load on the machine disturbs them.
const RUNS: usize = 20;

impl GatewayHarness {
    /// Creates another user and returns a token.
    fn user(&self, dir: &std::path::Path, name: &str) -> String {
        program().user(dir, name)
    }

    fn run_as(&self, token: &str, url: &str, sql: &str) -> Response {
        let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]});
        self.http.post(format!("{url}v2/pipeline")).bearer_auth(token).json(&body).send().unwrap()
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

#[test]
fn neither_text_nor_time_tells_a_hidden_deployment_from_none() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    harness.create(&json!({}));
    let stranger = harness.user(dir.path(), "sam");
    for suffix in ["", "/sql/v2"] {
        let ask = |name: &str| {
            let url = format!("{}/api/v1/deployments/ada/{name}{suffix}", harness.server.origin);
            let began = Instant::now();
            let answer = harness.http.get(url).bearer_auth(&stranger).header("X-Request-Id", "same").send().unwrap();
            let (status, text) = (answer.status().as_u16(), answer.text().unwrap());
            (began.elapsed(), status, text.replace(name, "-"))
        };
        let mut differences = Vec::new();
        for _ in 0..RUNS {
            let (mut hidden, mut absent) = (Vec::new(), Vec::new());
            for _ in 0..REQUESTS {
                let (one, other) = (ask("gauges"), ask("nowhere"));
                assert_eq!((one.1, &one.2), (other.1, &other.2));
                assert_eq!(one.1, 404);
                hidden.push(one.0);
                absent.push(other.0);
            }
            let (hidden, absent) = (median(hidden), median(absent));
            differences.push((hidden - absent).abs() / absent.min(hidden));
            if differences.last().is_some_and(|difference| *difference <= 0.1) {
                break;
            }
        }
        assert!(differences.last().unwrap() <= &0.1, "{suffix}: {differences:?}");
    }
    harness.server.terminate();
}

#[test]
fn what_is_taken_away_is_gone_with_the_next_request() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let urls = ["direct_url", "url"].map(|key| started[key].as_str().unwrap().to_owned());
    harness.sql(&urls[0], "create table t(a)");
    let bob = harness.user(dir.path(), "bob");
    let role = |role: &str| {
        let path = "/deployments/ada/gauges/collaborators/bob";
        assert!(matches!(harness.api("PUT", path, Some(&json!({"role": role}))).0, 200 | 201));
    };
    let first = |answer: Response| -> Value {
        assert_eq!(answer.status().as_u16(), 200);
        answer.json::<Value>().unwrap()["results"][0].clone()
    };
    for url in &urls {
        assert_eq!(harness.run_as(&bob, url, "select 1").status().as_u16(), 404);
        role("writer");
        assert_eq!(first(harness.run_as(&bob, url, "insert into t values (1)"))["type"], "ok");
        role("reader");
        let refused = first(harness.run_as(&bob, url, "insert into t values (1)"));
        assert_eq!(refused["error"]["code"], "SQLITE_READONLY", "{refused}");
        let (status, _) = harness.api("DELETE", "/deployments/ada/gauges/collaborators/bob", None);
        assert_eq!(status, 200);
        assert_eq!(harness.run_as(&bob, url, "select 1").status().as_u16(), 404);
    }
    // Repeats the check with a revoked token of the owner.
    let second =
        program().succeed(dir.path(), &["token", "create", "--user", "ada", "--name", "other", "--expires", "30d"]);
    for url in &urls {
        assert_eq!(harness.run_as(&second, url, "select 1").status().as_u16(), 200);
    }
    let listed: Value =
        harness.send("GET", &format!("{}/api/v2/user/tokens", harness.server.origin), None).json().unwrap();
    let id = listed["data"].as_array().unwrap().iter().find(|token| token["name"] == "other").unwrap()["id"].clone();
    let url = format!("{}/api/v2/user/tokens/{}", harness.server.origin, id.as_str().unwrap());
    assert!(harness.send("DELETE", &url, None).status().is_success());
    for url in &urls {
        assert_eq!(harness.run_as(&second, url, "select 1").status().as_u16(), 401);
    }
    harness.server.terminate();
}
