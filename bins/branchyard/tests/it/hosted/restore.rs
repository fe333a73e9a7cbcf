//! `backup` and `restore` of a server with deployments. The deployments' own backups are included; their volumes are not.

use serde_json::json;

use super::harness::{GatewayHarness, serve, size};
use crate::process::program;

#[test]
fn after_a_restore_deployments_are_stopped_and_start_again_from_their_backups() {
    let home = tempfile::tempdir().unwrap();
    let (dir, to, back) = (home.path().join("data"), home.path().join("backup"), home.path().join("back"));
    let mut harness = GatewayHarness::start(&dir);
    let started = harness.create(&json!({}));
    let direct = started["direct_url"].as_str().unwrap();
    harness.sql(direct, "create table t(a)");
    harness.sql(direct, "insert into t values (41)");
    let (status, accepted) = harness.api("POST", "/deployments/ada/gauges/backups", None);
    assert_eq!(status, 202, "{accepted}");
    let backup = harness.done(&accepted)["result"]["backup_id"].as_str().unwrap().to_owned();
    harness.sql(direct, "insert into t values (1)");
    program().succeed(&dir, &["backup", "--to", to.to_str().unwrap()]);
    harness.server.terminate();

    let said = program().succeed(&back, &["restore", "--from", to.to_str().unwrap()]);
    assert!(said.starts_with("stopped 1 deployments that were running"), "{said}");
    assert!(said.ends_with("restored 0 databases; everything is in order"), "{said}");
    harness.server = serve(&back);
    let stopped = harness.until("stopped");
    assert!(stopped["last_error"].as_str().unwrap().contains("restored from a backup"), "{stopped}");
    assert_eq!(stopped["hourly_cost_usd"], 0.0);
    let (_, cost) = harness.api("GET", "/deployments/ada/gauges/cost", None);
    assert!(cost["data"]["items"].as_array().unwrap().iter().all(|item| item["open"] == false), "{cost}");
    let mut instance = size();
    instance["backup_id"] = json!(backup);
    let (status, accepted) = harness.api("POST", "/deployments/ada/gauges/instances", Some(&instance));
    assert_eq!(status, 202, "{accepted}");
    let again = harness.until("started");
    assert!(again.get("last_error").is_none(), "{again}");
    assert_eq!(harness.sql(again["url"].as_str().unwrap(), "select sum(a) from t"), "41", "as of the backup");
    harness.server.terminate();
}
