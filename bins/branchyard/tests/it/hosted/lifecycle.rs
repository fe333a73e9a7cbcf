//! The life cycle of a deployment: created, serving SQL on its own port and through the gateway, restarted with the server, shut
//! down, and restored from its backup.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, ServerProcess, wait_for};
use serde_json::{Value, json};

use super::harness::{GatewayHarness, serve, size};
use crate::process::program;

#[test]
fn a_deployment_from_its_creation_to_its_return_from_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let mut harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let direct = started["direct_url"].as_str().unwrap().to_owned();
    let gateway = started["url"].as_str().unwrap().to_owned();
    assert_eq!(gateway, format!("{}/api/v1/deployments/ada/gauges/sql/", harness.server.origin));
    harness.sql(&direct, "create table t(a)");
    harness.sql(&gateway, "insert into t values (41), (1)");
    assert_eq!(harness.sql(&direct, "select sum(a) from t"), "42");
    assert_eq!(harness.sql(&gateway, "select sum(a) from t"), "42");

    // Requests without a credential are rejected on both paths.
    for url in [&direct, &gateway] {
        let body = json!({"requests": []});
        let answer = harness.http.post(format!("{url}v2/pipeline")).json(&body).send().unwrap();
        assert_eq!(answer.status().as_u16(), 401, "{url}");
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.json::<Value>().unwrap()["code"], "UNAUTHENTICATED");
    }
    let (status, cost) = harness.api("GET", "/deployments/ada/gauges/cost", None);
    assert_eq!((status, cost["data"]["items"].as_array().unwrap().len()), (200, 2), "{cost}");

    // After a restart of the server, the deployment is available again with its data.
    let origin = harness.server.origin.clone();
    harness.server.terminate();
    harness.server = serve(dir.path());
    assert_ne!(harness.server.origin, origin);
    let again = harness.until("started");
    assert_eq!(harness.sql(again["direct_url"].as_str().unwrap(), "select sum(a) from t"), "42");

    let (status, stopping) = harness.api("POST", "/deployments/ada/gauges/disable", None);
    assert_eq!((status, stopping["data"]["state"].as_str()), (202, Some("stopping")), "{stopping}");
    let stopped = harness.until("stopped");
    assert_eq!(stopped["hourly_cost_usd"], 0.0);
    let (_, backups) = harness.api("GET", "/deployments/ada/gauges/backups", None);
    assert_eq!(backups["data"][0]["kind"], "final", "{backups}");
    let mut instance = size();
    instance["backup_id"] = backups["data"][0]["id"].clone();
    let (status, accepted) = harness.api("POST", "/deployments/ada/gauges/instances", Some(&instance));
    assert_eq!(status, 202, "{accepted}");
    let back = harness.until("started");
    assert_eq!(harness.sql(back["url"].as_str().unwrap(), "select sum(a) from t"), "42");
    harness.server.terminate();
}

#[test]
fn a_port_that_somebody_else_took_meanwhile_is_left_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut harness = GatewayHarness::start(dir.path());
    let before = harness.create(&json!({}))["port"].as_u64().unwrap();
    harness.server.terminate();
    let taken = std::net::TcpListener::bind(("127.0.0.1", u16::try_from(before).unwrap())).unwrap();
    harness.server = serve(dir.path());
    let again = harness.until("started");
    assert_ne!(again["port"].as_u64().unwrap(), before, "{again}");
    assert_eq!(harness.sql(again["direct_url"].as_str().unwrap(), "select 42"), "42");
    assert_eq!(harness.sql(again["url"].as_str().unwrap(), "select 42"), "42");
    drop(taken);
    harness.server.terminate();
}

#[test]
fn data_that_is_mounted_late_is_waited_for_and_lost_data_is_given_up_by_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let mut harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    harness.sql(started["url"].as_str().unwrap(), "create table t(a)");
    harness.sql(started["url"].as_str().unwrap(), "insert into t values (42)");
    harness.server.terminate();
    let mounted = dir.path().join("deployments");
    let away = dir.path().join("away");
    fs::rename(&mounted, &away).unwrap();
    let log = dir.path().join("server.log");
    let serve = || {
        let log = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = program().serve(dir.path());
        let command = command.env("BRANCHYARD_HOSTED__PORT_RANGE", "21400-21999").stderr(log);
        ServerProcess::try_start(command).unwrap()
    };
    harness.server = serve();
    let waiting = |harness: &GatewayHarness| {
        wait_for("the error", AMPLE, || {
            let (_, seen) = harness.api("GET", "/deployments/ada/gauges", None);
            let text = seen["data"]["last_error"].as_str().unwrap_or_default();
            if text.contains("missing") { Ok(seen["data"].clone()) } else { Err(seen) }
        })
    };
    let seen = waiting(&harness);
    assert_eq!((&seen["state"], &seen["health"]), (&json!("starting"), &json!("starting")));
    // The empty folder that the server made stands for a mount point.
    fs::remove_dir_all(&mounted).unwrap();
    let began = Instant::now();
    fs::rename(&away, &mounted).unwrap();
    let back = harness.until("started");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(back.get("last_error").is_none(), "{back}");
    assert_eq!(harness.sql(back["url"].as_str().unwrap(), "select a from t"), "42");

    harness.server.terminate();
    fs::remove_dir_all(&mounted).unwrap();
    harness.server = serve();
    waiting(&harness);
    let disable = "/deployments/ada/gauges/disable";
    assert_eq!(harness.api("POST", disable, None).0, 202);
    wait_for("the failed backup", AMPLE, || {
        let (_, seen) = harness.api("GET", "/deployments/ada/gauges", None);
        let text = seen["data"]["last_error"].as_str().unwrap_or_default();
        if text.starts_with("the final backup failed") { Ok(()) } else { Err(seen) }
    });
    let (status, refused) = harness.api("POST", disable, Some(&json!({"discard_data": true, "confirm": "pumps"})));
    assert_eq!((status, &refused["errors"][0]["pointer"]), (400, &json!("/confirm")), "{refused}");
    let discard = json!({"discard_data": true, "confirm": "gauges"});
    assert_eq!(harness.api("POST", disable, Some(&discard)).0, 202);
    let stopped = harness.until("stopped");
    assert_eq!((&stopped["hourly_cost_usd"], &stopped["disabled_by"]), (&json!(0.0), &json!("ada")));
    let log = fs::read_to_string(&log).unwrap();
    let audit: Vec<&str> = log.lines().filter(|line| line.contains("discard-data")).collect();
    assert_eq!(audit.len(), 1, "{log}");
    for part in ["audit", "ada", "ada/gauges"] {
        assert!(audit[0].contains(part), "{part}: {}", audit[0]);
    }
    assert_eq!(harness.api("POST", "/deployments/ada/gauges/instances", Some(&size())).0, 202);
    harness.until("started");
    harness.server.terminate();
}
