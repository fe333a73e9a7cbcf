//! Hosted API v1 on the real binary: a deployment is created, serves SQL at its own port and through the gateway, is shut down,
//! and comes back from its backup; it outlives the server.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use reqwest::blocking::{Client, Response};
use serde_json::{Value, json};

use crate::process::{Server, branchyard, succeed};

/// A server with the user ada.
struct Yard {
    server: Server,
    http: Client,
    token: String,
}

fn serve(dir: &Path) -> Server {
    let mut command = branchyard();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir);
    Server::start_as(command.env("BRANCHYARD_HOSTED__PORT_RANGE", "21400-21999"))
}

impl Yard {
    fn start(dir: &Path) -> Self {
        let server = serve(dir);
        succeed(dir, &["user", "create", "ada", "--email", "ada@example.test"]);
        let token = succeed(dir, &["token", "create", "--user", "ada", "--name", "t", "--expires", "30d"]);
        Self { server, http: Client::new(), token }
    }

    fn send(&self, method: &str, url: &str, body: Option<&Value>) -> Response {
        let request = self.http.request(method.parse().unwrap(), url).bearer_auth(&self.token);
        match body {
            Some(body) => request.json(body),
            None => request,
        }
        .send()
        .unwrap()
    }

    fn api(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let answer = self.send(method, &format!("{}/api/v1{path}", self.server.origin), body);
        (answer.status().as_u16(), answer.json().unwrap())
    }

    /// Waits until the deployment is in a state.
    fn until(&self, state: &str) -> Value {
        let begun = Instant::now();
        loop {
            let (_, seen) = self.api("GET", "/deployments/ada/gauges", None);
            if seen["data"]["state"] == state {
                return seen["data"].clone();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "not {state}: {seen}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a statement at an address clients are given; the first cell.
    fn sql(&self, url: &str, sql: &str) -> Value {
        let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]});
        let answer = self.send("POST", &format!("{url}v2/pipeline"), Some(&body));
        assert_eq!(answer.status().as_u16(), 200, "{url}");
        let answer: Value = answer.json().unwrap();
        assert_eq!(answer["results"][0]["type"], "ok", "{sql}: {answer}");
        answer["results"][0]["response"]["result"]["rows"][0][0]["value"].clone()
    }
}

fn size() -> Value {
    json!({"instance_type_id": "local.small", "volume_type_id": "local.standard", "volume_size_gb": 2})
}

#[test]
fn a_deployment_from_its_creation_to_its_return_from_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let mut yard = Yard::start(dir.path());
    let mut wanted = json!({"owner": "ada", "name": "gauges", "cloud": "local", "zone": "local"});
    wanted.as_object_mut().unwrap().extend(size().as_object().unwrap().clone());
    let (status, made) = yard.api("POST", "/deployments", Some(&wanted));
    assert_eq!((status, made["data"]["state"].as_str()), (202, Some("starting")), "{made}");
    let started = yard.until("started");
    let direct = started["direct_url"].as_str().unwrap().to_owned();
    let gateway = started["url"].as_str().unwrap().to_owned();
    assert_eq!(gateway, format!("{}/api/v1/deployments/ada/gauges/sql/", yard.server.origin));
    yard.sql(&direct, "create table t(a)");
    yard.sql(&gateway, "insert into t values (41), (1)");
    assert_eq!(yard.sql(&direct, "select sum(a) from t"), "42");
    assert_eq!(yard.sql(&gateway, "select sum(a) from t"), "42");

    // Nobody else gets in, by either way.
    for url in [&direct, &gateway] {
        let body = json!({"requests": []});
        let answer = yard.http.post(format!("{url}v2/pipeline")).json(&body).send().unwrap();
        assert_eq!(answer.status().as_u16(), 401, "{url}");
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.json::<Value>().unwrap()["code"], "UNAUTHENTICATED");
    }
    let (status, cost) = yard.api("GET", "/deployments/ada/gauges/cost", None);
    assert_eq!((status, cost["data"]["items"].as_array().unwrap().len()), (200, 2), "{cost}");

    // The server goes and comes back; the deployment is there again with what it held.
    let origin = yard.server.origin.clone();
    yard.server.terminate();
    yard.server = serve(dir.path());
    assert_ne!(yard.server.origin, origin);
    let again = yard.until("started");
    assert_eq!(yard.sql(again["direct_url"].as_str().unwrap(), "select sum(a) from t"), "42");

    let (status, stopping) = yard.api("POST", "/deployments/ada/gauges/disable", None);
    assert_eq!((status, stopping["data"]["state"].as_str()), (202, Some("stopping")), "{stopping}");
    let stopped = yard.until("stopped");
    assert_eq!(stopped["hourly_cost_usd"], 0.0);
    let (_, backups) = yard.api("GET", "/deployments/ada/gauges/backups", None);
    assert_eq!(backups["data"][0]["kind"], "final", "{backups}");
    let mut instance = size();
    instance["backup_id"] = backups["data"][0]["id"].clone();
    let (status, accepted) = yard.api("POST", "/deployments/ada/gauges/instances", Some(&instance));
    assert_eq!(status, 202, "{accepted}");
    let back = yard.until("started");
    assert_eq!(yard.sql(back["url"].as_str().unwrap(), "select sum(a) from t"), "42");
    yard.server.terminate();
}
