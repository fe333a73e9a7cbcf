//! Calls every endpoint of the hosted API on a running deployment, including the features that are answered as unsupported.

use branchyard_testkit::{AMPLE, wait_until};
use serde_json::{Value, json};

use super::harness::{GatewayHarness, size};

const HERE: &str = "/deployments/ada/gauges";

#[test]
fn every_endpoint_answers_as_the_contract_says() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let get = |path: &str| {
        let (status, answer) = harness.api("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer["data"].clone()
    };
    let at = |path: &str| format!("{HERE}{path}");
    let refused = |method: &str, path: &str, body: Option<&Value>, status: u16, code: &str, names: &str| {
        let (got, answer) = harness.api(method, path, body);
        assert_eq!((got, answer["code"].as_str()), (status, Some(code)), "{method} {path}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(names), "{method} {path}: {answer}");
    };
    assert_eq!(get("/user")["username"], "ada");
    let options = get("/deployment-options?cloud=local&zone=local&instance_type_id=local.small");
    assert_eq!(options["instance_types"][0]["max_replicas"], 0);
    assert_eq!(options["storage_options"][0]["id"], "local.standard");
    let started = harness.create(&json!({"expose_stats": true}));
    let primary = get(&at("/instances"))[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(get("/deployments/ada?state=started")[0]["name"], "gauges");
    assert_eq!(get(HERE)["caller_role"], "admin");
    let (status, patched) = harness.api("PATCH", HERE, Some(&json!({"disable_automatic_dolt_updates": true})));
    assert_eq!((status, &patched["data"]["disable_automatic_dolt_updates"]), (200, &json!(true)));

    // Features that are not supported yet.
    let mut replica = size();
    refused("POST", &at("/instances"), Some(&replica), 422, "UNSUPPORTED", "read replicas");
    replica["backup_id"] = json!("20260101T000000.000");
    refused("POST", &at("/instances"), Some(&replica), 400, "VALIDATION_FAILED", "");
    let change = json!({"current_primary_id": primary});
    refused("POST", &at("/change-primary"), Some(&change), 422, "UNSUPPORTED", "replica");
    let windows = json!({"windows": [{"day_of_week": "monday", "start_hour_utc": 1, "end_hour_utc": 2}]});
    refused("PUT", &at("/service-windows"), Some(&windows), 422, "UNSUPPORTED", "service windows");
    let versions = get(&at("/database-version"));
    assert_eq!(versions["available"][0], versions["current"]);
    let roll = json!({"version": versions["current"]});
    refused("POST", &at("/database-version"), Some(&roll), 422, "UNSUPPORTED", "version");
    refused("POST", &at("/database-version"), Some(&json!({"version": "0.0.1"})), 400, "VALIDATION_FAILED", "");
    let pull = json!({"database": "gauges", "title": "t", "from_branch": "a", "to_branch": "main"});
    refused("POST", &at("/pulls"), Some(&pull), 422, "UNSUPPORTED", "pulls");
    assert_eq!(get(&at("/pulls?database=gauges")), json!([]));
    refused("POST", &at("/dolt-credentials"), None, 422, "UNSUPPORTED", "dolt credentials");
    refused("GET", &at("/dolt-credentials"), None, 404, "NOT_FOUND", "");
    refused("PATCH", &at("/expose"), Some(&json!({"mcp": true})), 422, "UNSUPPORTED", "mcp");
    let (status, _) = harness.api("PATCH", &at("/expose"), Some(&json!({"remotesapi": false})));
    assert_eq!(status, 202);
    assert_eq!(get(&at("/service-windows"))[0]["is_default"], true);

    // Settings take effect at once, and a request with an invalid setting changes none.
    let set = |overrides: Value| harness.api("PATCH", &at("/config"), Some(&json!({"overrides": overrides})));
    let (status, wrong) = set(json!({"behavior_read_only": "true", "query_threads": "65"}));
    assert_eq!((status, wrong["errors"][0]["pointer"].as_str()), (422, Some("/overrides/query_threads")), "{wrong}");
    let direct = started["direct_url"].as_str().unwrap();
    harness.sql(direct, "create table t(a)");
    assert_eq!(set(json!({"behavior_read_only": "true"})).0, 200);
    let body =
        json!({"requests": [{"type": "execute", "stmt": {"sql": "insert into t values (1)"}}, {"type": "close"}]});
    let answer: Value = harness.send("POST", &format!("{direct}v2/pipeline"), Some(&body)).json().unwrap();
    assert_eq!(answer["results"][0]["error"]["code"], "SQLITE_READONLY", "{answer}");
    assert_eq!(set(json!({"behavior_read_only": null})).0, 200);
    assert_eq!(get(&at("/config"))["settings"].as_array().unwrap().len(), 21);

    // Logs in both directions, and metrics from the API and from the instance.
    let (_, logs) = harness.api("GET", &at("/logs?lines=1"), None);
    assert_eq!(logs["data"].as_array().unwrap().len(), 1);
    let older = logs["meta"]["next_page_token"].as_str().unwrap();
    assert!(!get(&at(&format!("/logs?lines=1&page_token={older}"))).as_array().unwrap().is_empty());
    let newer = logs["meta"]["prev_page_token"].as_str().unwrap();
    refused(
        "GET",
        &at(&format!("/logs?page_token={older}&prev_page_token={newer}")),
        None,
        400,
        "VALIDATION_FAILED",
        "",
    );
    let metrics = get(&at("/metrics"));
    let ids: Vec<&str> = metrics.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"cpu") && !ids.contains(&"replication_lag"), "{ids:?}");
    let measured = || get(&at("/metrics/mem"))["timestamps"].as_array().unwrap().len();
    wait_until("a measurement", AMPLE, || measured() > 0);
    refused("GET", &at("/metrics/nothing"), None, 404, "NOT_FOUND", "");
    assert!(harness.send("GET", &format!("{direct}metrics"), None).text().unwrap().contains("# TYPE"));

    // A reboot keeps the port. Backups include their file. Operations are listed.
    let (status, accepted) = harness.api("POST", &at(&format!("/instances/{primary}/reboot")), None);
    assert_eq!(status, 202, "{accepted}");
    assert_eq!(harness.done(&accepted)["type"], "reboot_instance");
    assert_eq!(harness.until("started")["port"], started["port"]);
    harness.sql(direct, "insert into t values (1)");
    let (_, accepted) = harness.api("POST", &at("/backups"), None);
    let backup = harness.done(&accepted)["result"]["backup_id"].as_str().unwrap().to_owned();
    let listed = get(&at("/backups"));
    assert_eq!((listed[0]["id"].as_str(), listed[0]["kind"].as_str()), (Some(&*backup), Some("manual")));
    let file =
        harness.send("GET", &format!("{}/api/v1{HERE}/backups/{backup}/databases/gauges", harness.server.origin), None);
    assert_eq!(file.headers()["content-type"], "application/octet-stream");
    assert_eq!(file.bytes().unwrap().len() as u64, listed[0]["size_bytes"].as_u64().unwrap());
    assert_eq!(get(&at("/operations?type=create_backup")).as_array().unwrap().len(), 1);

    // Usage and spending limits.
    assert_eq!(get("/user/usage")["owners"][0]["deployments"][0]["name"], "gauges");
    let mut large = json!({"owner": "ada", "name": "large", "cloud": "local", "zone": "local", "instance_type_id": "local.large",
        "volume_type_id": "local.standard", "volume_size_gb": 100});
    let (status, spent) = harness.api("POST", "/deployments", Some(&large));
    assert_eq!((status, spent["code"].as_str()), (422, Some("SPENDING_LIMIT_EXCEEDED")), "{spent}");
    assert_eq!(
        (spent["limit_usd"].as_str(), spent["requested_usd"].as_str()),
        (Some("100.000000000"), Some("209.999997900"))
    );
    large["name"] = json!("gauges");
    refused("POST", "/deployments", Some(&large), 409, "CONFLICT", "");

    // Removing the primary shuts the deployment down. A stopped deployment can be deleted, and its cost remains recorded.
    let (status, removed) = harness.api("DELETE", &at(&format!("/instances/{primary}")), None);
    assert_eq!((status, removed["data"]["state"].as_str()), (202, Some("stopping")), "{removed}");
    let stopped = harness.until("stopped");
    assert!(stopped.get("disabled_at").is_none(), "{stopped}");
    let (status, accepted) = harness.api("DELETE", HERE, None);
    assert_eq!(status, 202, "{accepted}");
    refused("GET", HERE, None, 404, "NOT_FOUND", "");
    assert_eq!(harness.done(&accepted)["type"], "delete_deployment");
    assert!(get("/user/usage")["owners"][0]["amount_usd"].as_str().unwrap() > "0.000000000");
    harness.server.terminate();
}
