//! Snapshots of the responses of each endpoint, with a fixed clock and seeded ids: its success, its response for an absent
//! resource, and its own errors.

use branchyard_api_testing::InProcessAnswer;
use serde_json::{Value, json};

use crate::harness::{HostedApiHarness, OWNER, body};

/// Returns status, significant headers and body for a snapshot.
fn shown(answer: &InProcessAnswer) -> Value {
    let mut headers = serde_json::Map::new();
    for name in ["location", "retry-after", "www-authenticate", "content-type"] {
        if !answer.header(name).is_empty() {
            headers.insert(name.to_owned(), answer.header(name).into());
        }
    }
    let body = serde_json::from_str(&answer.text).unwrap_or_else(|_| Value::from(answer.text.clone()));
    json!({"status": answer.status, "headers": headers, "body": body})
}

fn name(method: &str, path: &str) -> String {
    let path = path.replace("/deployments/{owner}/{deployment}", "/d").replace(['{', '}'], "").replace('/', "_");
    format!("{}{path}", method.to_lowercase())
}

#[actix_web::test]
async fn each_endpoint_as_its_owner_sees_it() {
    for (method, path) in branchyard_api_hosted_v1::routes() {
        if path == "/openapi.json" {
            continue;
        }
        let scene = HostedApiHarness::new();
        let answer = scene.by(OWNER, method, &scene.filled(&path), body(method, &path).as_ref()).await;
        insta::assert_json_snapshot!(name(method, &path), shown(&answer));
    }
}

#[actix_web::test]
async fn refusals() {
    let started = HostedApiHarness::new();
    let stopped = HostedApiHarness::stopped();
    let small = body("POST", "/deployments/{owner}/{deployment}/instances").unwrap();
    let from = |backup: &str| {
        let mut wanted = small.clone();
        wanted["backup_id"] = backup.into();
        wanted
    };
    let requests: Vec<(&str, &HostedApiHarness, &str, &str, Option<Value>)> = vec![
        ("options_unknown_cloud", &started, "GET", "/deployment-options?cloud=mars", None),
        ("options_type_without_zone", &started, "GET", "/deployment-options?cloud=local&instance_type_id=x", None),
        ("list_bad_state", &started, "GET", "/deployments/hydro?state=gone", None),
        ("usage_bad_month", &started, "GET", "/user/usage?month=2026-13", None),
        (
            "cost_upside_down",
            &started,
            "GET",
            "/deployments/hydro/gauges/cost?start_time=2026-02-01T00:00:00Z&end_time=2026-01-01T00:00:00Z",
            None,
        ),
        (
            "backup_id_where_started",
            &started,
            "POST",
            "/deployments/hydro/gauges/instances",
            Some(from("20261120T020000.000")),
        ),
        (
            "backup_id_unknown",
            &stopped,
            "POST",
            "/deployments/hydro/gauges/instances",
            Some(from("20261120T020000.000")),
        ),
        ("backup_of_stopped", &stopped, "POST", "/deployments/hydro/gauges/backups", None),
        ("disable_twice", &stopped, "POST", "/deployments/hydro/gauges/disable", None),
        (
            "database_of_stopped",
            &stopped,
            "POST",
            "/deployments/hydro/gauges/databases",
            Some(json!({"name": "ponds"})),
        ),
        ("database_taken", &started, "POST", "/deployments/hydro/gauges/databases", Some(json!({"name": "LAKES"}))),
        ("database_default_dropped", &started, "DELETE", "/deployments/hydro/gauges/databases/gauges", None),
        ("database_unknown", &started, "DELETE", "/deployments/hydro/gauges/databases/none", None),
        (
            "config_unknown_and_bad",
            &started,
            "PATCH",
            "/deployments/hydro/gauges/config",
            Some(json!({"overrides": {"nope": "1", "query_threads": "65"}})),
        ),
        (
            "config_ill_typed",
            &started,
            "PATCH",
            "/deployments/hydro/gauges/config",
            Some(json!({"overrides": {"Nope": "1", "query_threads": 4}})),
        ),
        ("expose_mcp", &started, "PATCH", "/deployments/hydro/gauges/expose", Some(json!({"mcp": true}))),
        (
            "expose_both",
            &started,
            "PATCH",
            "/deployments/hydro/gauges/expose",
            Some(json!({"mcp": true, "remotesapi": true})),
        ),
        ("expose_remotesapi", &started, "PATCH", "/deployments/hydro/gauges/expose", Some(json!({"remotesapi": true}))),
        (
            "version_unknown",
            &started,
            "POST",
            "/deployments/hydro/gauges/database-version",
            Some(json!({"version": "9.9.9"})),
        ),
        ("logs_both_tokens", &started, "GET", "/deployments/hydro/gauges/logs?page_token=a&prev_page_token=b", None),
        ("logs_too_many", &started, "GET", "/deployments/hydro/gauges/logs?lines=1001", None),
        ("metric_unknown", &started, "GET", "/deployments/hydro/gauges/metrics/luck", None),
        ("metric_of_stopped", &stopped, "GET", "/deployments/hydro/gauges/metrics/cpu", None),
        (
            "instance_unknown",
            &started,
            "POST",
            "/deployments/hydro/gauges/instances/0199c3b0-0000-7000-8000-0000000000ff/reboot",
            None,
        ),
        (
            "collaborator_unknown",
            &started,
            "PUT",
            "/deployments/hydro/gauges/collaborators/nobody",
            Some(json!({"role": "reader"})),
        ),
        (
            "collaborator_bad_role",
            &started,
            "PUT",
            "/deployments/hydro/gauges/collaborators/bob",
            Some(json!({"role": "god"})),
        ),
        ("pulls_of_unknown_database", &started, "GET", "/deployments/hydro/gauges/pulls?database=none", None),
        ("operation_unknown", &started, "GET", "/operations/0199c3b0-0000-7000-8000-0000000000ff", None),
        ("deployment_unknown", &started, "GET", "/deployments/hydro/nothing", None),
        ("route_unknown", &started, "GET", "/nothing", None),
        ("stopped", &stopped, "GET", "/deployments/hydro/gauges", None),
        ("stopped_listed", &stopped, "GET", "/deployments/hydro?state=stopped", None),
        ("backups_of_stopped", &stopped, "GET", "/deployments/hydro/gauges/backups", None),
        ("delete_stopped", &stopped, "DELETE", "/deployments/hydro/gauges", None),
    ];
    for (name, scene, method, path, body) in requests {
        let authorization = format!("Bearer {}", scene.token(OWNER));
        let answer = if name == "route_unknown" {
            scene.undocumented(&authorization, method, path).await
        } else {
            scene.send(Some(&authorization), method, path, body.as_ref()).await
        };
        insta::assert_json_snapshot!(format!("refused_{name}"), shown(&answer));
    }
}

#[actix_web::test]
async fn logs_are_followed_both_ways_without_a_line_twice() {
    let scene = HostedApiHarness::new();
    let get = |query: String| {
        let scene = &scene;
        async move { scene.by(OWNER, "GET", &format!("/deployments/hydro/gauges/logs{query}"), None).await.json() }
    };
    scene.fakes.deployments.reboot(&scene.access(), &scene.instance().to_string(), None).unwrap();
    scene.settle();
    let newest = get("?lines=1".to_owned()).await;
    let text = |page: &Value| page["data"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert_eq!(text(&newest), "INFO ready");
    let older = get(format!("?lines=1&page_token={}", newest["meta"]["next_page_token"].as_str().unwrap())).await;
    assert_eq!(text(&older), "INFO drained");
    let back = get(format!("?lines=1&prev_page_token={}", older["meta"]["prev_page_token"].as_str().unwrap())).await;
    assert_eq!(back["data"], newest["data"]);
    let end = get(format!("?lines=1&prev_page_token={}", back["meta"]["prev_page_token"].as_str().unwrap())).await;
    assert_eq!((end["data"].as_array().unwrap().len(), &end["meta"]), (0, &json!({})));
}

#[actix_web::test]
async fn a_change_may_depend_on_what_was_seen() {
    use actix_web::test::TestRequest;
    let scene = HostedApiHarness::new();
    let token = format!("Bearer {}", scene.token(OWNER));
    let seen = scene.send(Some(&token), "GET", "/deployments/hydro/gauges/config", None).await;
    let patch = |etag: &str| {
        TestRequest::patch()
            .uri("/api/v1/deployments/hydro/gauges/config")
            .insert_header(("Authorization", token.clone()))
            .insert_header(("If-Match", etag.to_owned()))
            .set_json(json!({"overrides": {"query_threads": "4"}}))
    };
    assert_eq!(scene.complete(patch("\"other\"")).await.status, 412);
    assert_eq!(scene.complete(patch(seen.header("etag"))).await.status, 200);
    assert_eq!(scene.complete(patch(seen.header("etag"))).await.status, 412);
}
