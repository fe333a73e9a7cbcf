//! A server with the user `ada`, and helpers for requests.

use std::path::Path;

use branchyard_testkit::{AMPLE, ServerProcess, wait_for};
use reqwest::blocking::{Client, Response};
use serde_json::{Value, json};

use crate::process::program;

/// A server with the user `ada`.
pub(crate) struct GatewayHarness {
    pub(crate) server: ServerProcess,
    pub(crate) http: Client,
    pub(crate) token: String,
}

pub(crate) fn serve(dir: &Path) -> ServerProcess {
    ServerProcess::start(program().serve(dir).env("BRANCHYARD_HOSTED__PORT_RANGE", "21400-21999"))
}

impl GatewayHarness {
    pub(crate) fn start(dir: &Path) -> Self {
        let server = serve(dir);
        Self { server, http: Client::new(), token: program().user(dir, "ada") }
    }

    pub(crate) fn send(&self, method: &str, url: &str, body: Option<&Value>) -> Response {
        let request = self.http.request(method.parse().unwrap(), url).bearer_auth(&self.token);
        match body {
            Some(body) => request.json(body),
            None => request,
        }
        .send()
        .unwrap()
    }

    pub(crate) fn api(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let answer = self.send(method, &format!("{}/api/v1{path}", self.server.origin), body);
        (answer.status().as_u16(), answer.json().unwrap())
    }

    /// Waits until the deployment has a state and returns the deployment.
    pub(crate) fn until(&self, state: &str) -> Value {
        wait_for(state, AMPLE, || {
            let (_, seen) = self.api("GET", "/deployments/ada/gauges", None);
            if seen["data"]["state"] == state { Ok(seen["data"].clone()) } else { Err(seen) }
        })
    }

    /// Runs a statement at a client URL and returns the first cell.
    pub(crate) fn sql(&self, url: &str, sql: &str) -> Value {
        let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]});
        let answer = self.send("POST", &format!("{url}v2/pipeline"), Some(&body));
        assert_eq!(answer.status().as_u16(), 200, "{url}");
        let answer: Value = answer.json().unwrap();
        assert_eq!(answer["results"][0]["type"], "ok", "{sql}: {answer}");
        answer["results"][0]["response"]["result"]["rows"][0][0]["value"].clone()
    }
}

pub(crate) fn size() -> Value {
    json!({"instance_type_id": "local.small", "volume_type_id": "local.standard", "volume_size_gb": 2})
}

impl GatewayHarness {
    /// Creates `ada/gauges` with additional body fields, and waits until it has started.
    pub(crate) fn create(&self, more: &Value) -> Value {
        let mut wanted = json!({"owner": "ada", "name": "gauges", "cloud": "local", "zone": "local"});
        for part in [&size(), more] {
            wanted.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        }
        let (status, made) = self.api("POST", "/deployments", Some(&wanted));
        assert_eq!((status, made["data"]["state"].as_str()), (202, Some("starting")), "{made}");
        self.until("started")
    }

    /// Waits until an operation has succeeded and returns it.
    pub(crate) fn done(&self, accepted: &Value) -> Value {
        let id = accepted["data"]["id"].as_str().unwrap();
        wait_for("the end of the operation", AMPLE, || {
            let (_, seen) = self.api("GET", &format!("/operations/{id}"), None);
            match seen["data"]["status"].as_str().unwrap() {
                "succeeded" => Ok(seen["data"].clone()),
                "failed" => panic!("{seen}"),
                _ => Err(seen),
            }
        })
    }
}
