//! Unmodified libSQL clients that use the gateway.

use std::process::Command;

use serde_json::json;

use super::harness::GatewayHarness;
use crate::deployments::clients::{CLIENTS, javascript, python, succeed};

#[test]
fn clients_of_two_languages_use_the_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let url = harness.create(&json!({}))["url"].as_str().unwrap().to_owned();
    let file = |name: &str| std::path::Path::new(CLIENTS).join("deployments").join(name);
    // Node resolves modules relative to the script.
    let script = javascript().join("gateway.mjs");
    std::fs::copy(file("gateway.mjs"), &script).unwrap();
    let mut javascript = Command::new("node");
    let mut with_python = Command::new("python3");
    for program in [javascript.arg(script), with_python.arg(file("gateway.py")).env("PYTHONPATH", python())] {
        program.env("DEPLOYMENT_URL", &url).env("DEPLOYMENT_TOKEN", &harness.token);
        succeed(program.env("NO_PROXY", "*").env("no_proxy", "*"));
    }
    harness.server.terminate();
}
