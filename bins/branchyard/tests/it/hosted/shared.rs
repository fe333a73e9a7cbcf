//! Two servers that share a metadata store, each with its own data folder. Each server runs the deployments that it accepted.

use std::path::Path;
use std::thread;
use std::time::Duration;

use branchyard_testkit::{AMPLE, ServerProcess, create_user, wait_until};
use reqwest::blocking::Client;
use serde_json::{Value, json};

use super::harness::{GatewayHarness, size};
use crate::process::program;

fn serve(store: &Path, dir: &Path) -> ServerProcess {
    let mut command = program().serve(dir);
    command.arg("--metadata-url").arg(store);
    ServerProcess::start(command.env("BRANCHYARD_HOSTED__PORT_RANGE", "22000-22099"))
}

#[test]
fn servers_that_share_a_store_leave_each_others_deployments_alone() {
    let home = tempfile::tempdir().unwrap();
    let (store, here, there) = (home.path().join("store.sqlite"), home.path().join("here"), home.path().join("there"));
    let first = serve(&store, &here);
    let command = |args: &[&str]| {
        let mut command = program().on(&here, args);
        command.arg("--metadata-url").arg(&store);
        command
    };
    let token = create_user(command, "ada");
    let mut one = GatewayHarness { server: first, http: Client::new(), token: token.clone() };
    let mut two = GatewayHarness { server: serve(&store, &there), http: Client::new(), token };
    let seen = |harness: &GatewayHarness, name: &str| -> Value {
        let (_, instances) = harness.api("GET", &format!("/deployments/ada/{name}/instances"), None);
        let instance = &instances["data"][0];
        json!([instance["state"], instance["restarts"], instance["started_at"], instance["port"]])
    };

    let until_started = |harness: &GatewayHarness| {
        wait_until("the start of pumps", AMPLE, || seen(harness, "pumps")[0] == "started");
    };

    let gauges = one.create(&json!({}));
    let before = seen(&one, "gauges");
    assert_eq!(before[1], 0);
    one.sql(gauges["direct_url"].as_str().unwrap(), "create table t(a)");
    let mut wanted = json!({"owner": "ada", "name": "pumps", "cloud": "local", "zone": "local"});
    wanted.as_object_mut().unwrap().extend(size().as_object().unwrap().clone());
    assert_eq!(two.api("POST", "/deployments", Some(&wanted)).0, 202);
    until_started(&one);
    // The other server lists the deployment and answers 503 where it would have to reach the instance.
    assert_eq!(two.until("started")["state"], "started");
    let gateway = format!("{}/api/v1/deployments/ada/gauges/sql/v2/pipeline", two.server.origin);
    let answer = two.send("POST", &gateway, Some(&json!({"requests": []})));
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    assert_eq!(two.api("GET", "/deployments/ada/gauges/logs", None).0, 503);
    assert_eq!(two.api("GET", "/deployments/ada/gauges/cost", None).0, 200);

    // Neither a restart nor a crash of the second server affects the first server's process.
    let (_, pumps) = two.api("GET", "/deployments/ada/pumps", None);
    two.server.terminate();
    two.server = serve(&store, &there);
    // Waits first: a server killed while a process starts would later find the port taken by an unknown process and choose
    // another one.
    until_started(&two);
    two.server.kill();
    two.server = serve(&store, &there);
    until_started(&two);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(seen(&one, "gauges"), before);
    one.sql(gauges["direct_url"].as_str().unwrap(), "insert into t values (1)");

    // After a crash, the first server adopts its own process and leaves the second server's process alone.
    let theirs = seen(&two, "pumps");
    one.server.kill();
    one.server = serve(&store, &here);
    one.until("started");
    assert_eq!(seen(&one, "gauges"), before);
    assert_eq!(seen(&two, "pumps"), theirs);
    assert_eq!(theirs[3], pumps["data"]["port"]);
    one.server.terminate();
    two.server.terminate();
}
