//! Snapshots of the responses of each endpoint, with a fixed clock and seeded ids: its success, its response for an absent
//! resource, and its own errors. Every snapshot is a test of its own.

use branchyard_api_testing::InProcessAnswer;
use serde_json::{Value, json};

use crate::harness::{HostedApiHarness, OWNER, body};

/// Returns status, significant headers and body for a snapshot.
fn shown(answer: &InProcessAnswer) -> Value {
    let mut headers = serde_json::Map::new();
    for name in ["location", "retry-after", "etag", "www-authenticate", "content-type"] {
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

async fn endpoint_as_its_owner_sees_it(method: &str, path: &str) {
    let scene = HostedApiHarness::new();
    let answer = scene.by(OWNER, method, &scene.filled(path), body(method, path).as_ref()).await;
    insta::assert_json_snapshot!(name(method, path), shown(&answer));
}

/// Makes a test of the answer of each endpoint to the owner of a deployment.
macro_rules! endpoints {
    ($($test:ident: $method:literal, $path:literal;)+) => {
        const ENDPOINTS: &[(&str, &str)] = &[$(($method, $path)),+];
        $(
            #[actix_web::test]
            async fn $test() {
                endpoint_as_its_owner_sees_it($method, $path).await;
            }
        )+
    };
}

endpoints! {
    delete_d: "DELETE", "/deployments/{owner}/{deployment}";
    delete_d_backups_backup_id: "DELETE", "/deployments/{owner}/{deployment}/backups/{backup_id}";
    delete_d_collaborators_username: "DELETE", "/deployments/{owner}/{deployment}/collaborators/{username}";
    delete_d_databases_database: "DELETE", "/deployments/{owner}/{deployment}/databases/{database}";
    delete_d_dolt_credentials: "DELETE", "/deployments/{owner}/{deployment}/dolt-credentials";
    delete_d_instances_instance_id: "DELETE", "/deployments/{owner}/{deployment}/instances/{instance_id}";
    get_d: "GET", "/deployments/{owner}/{deployment}";
    get_d_backups: "GET", "/deployments/{owner}/{deployment}/backups";
    get_d_backups_backup_id_databases_database: "GET", "/deployments/{owner}/{deployment}/backups/{backup_id}/databases/{database}";
    get_d_collaborators: "GET", "/deployments/{owner}/{deployment}/collaborators";
    get_d_config: "GET", "/deployments/{owner}/{deployment}/config";
    get_d_cost: "GET", "/deployments/{owner}/{deployment}/cost";
    get_d_database_version: "GET", "/deployments/{owner}/{deployment}/database-version";
    get_d_databases: "GET", "/deployments/{owner}/{deployment}/databases";
    get_d_dolt_credentials: "GET", "/deployments/{owner}/{deployment}/dolt-credentials";
    get_d_instances: "GET", "/deployments/{owner}/{deployment}/instances";
    get_d_logs: "GET", "/deployments/{owner}/{deployment}/logs";
    get_d_metrics: "GET", "/deployments/{owner}/{deployment}/metrics";
    get_d_metrics_metric: "GET", "/deployments/{owner}/{deployment}/metrics/{metric}";
    get_d_operations: "GET", "/deployments/{owner}/{deployment}/operations";
    get_d_pulls: "GET", "/deployments/{owner}/{deployment}/pulls";
    get_d_pulls_pull_id: "GET", "/deployments/{owner}/{deployment}/pulls/{pull_id}";
    get_d_pulls_pull_id_comments: "GET", "/deployments/{owner}/{deployment}/pulls/{pull_id}/comments";
    get_d_pulls_pull_id_logs: "GET", "/deployments/{owner}/{deployment}/pulls/{pull_id}/logs";
    get_d_service_windows: "GET", "/deployments/{owner}/{deployment}/service-windows";
    get_deployment_options: "GET", "/deployment-options";
    get_deployments_owner: "GET", "/deployments/{owner}";
    get_operations_operation_id: "GET", "/operations/{operation_id}";
    get_user: "GET", "/user";
    get_user_usage: "GET", "/user/usage";
    patch_d: "PATCH", "/deployments/{owner}/{deployment}";
    patch_d_config: "PATCH", "/deployments/{owner}/{deployment}/config";
    patch_d_expose: "PATCH", "/deployments/{owner}/{deployment}/expose";
    patch_d_pulls_pull_id: "PATCH", "/deployments/{owner}/{deployment}/pulls/{pull_id}";
    post_d_backups: "POST", "/deployments/{owner}/{deployment}/backups";
    post_d_change_primary: "POST", "/deployments/{owner}/{deployment}/change-primary";
    post_d_database_version: "POST", "/deployments/{owner}/{deployment}/database-version";
    post_d_databases: "POST", "/deployments/{owner}/{deployment}/databases";
    post_d_disable: "POST", "/deployments/{owner}/{deployment}/disable";
    post_d_dolt_credentials: "POST", "/deployments/{owner}/{deployment}/dolt-credentials";
    post_d_dolt_credentials_reroll: "POST", "/deployments/{owner}/{deployment}/dolt-credentials/reroll";
    post_d_instances: "POST", "/deployments/{owner}/{deployment}/instances";
    post_d_instances_instance_id_reboot: "POST", "/deployments/{owner}/{deployment}/instances/{instance_id}/reboot";
    post_d_pulls: "POST", "/deployments/{owner}/{deployment}/pulls";
    post_d_pulls_pull_id_comments: "POST", "/deployments/{owner}/{deployment}/pulls/{pull_id}/comments";
    post_d_pulls_pull_id_merge: "POST", "/deployments/{owner}/{deployment}/pulls/{pull_id}/merge";
    post_deployments: "POST", "/deployments";
    put_d_collaborators_username: "PUT", "/deployments/{owner}/{deployment}/collaborators/{username}";
    put_d_service_windows: "PUT", "/deployments/{owner}/{deployment}/service-windows";
}

#[test]
fn every_endpoint_has_a_test() {
    let mounted = branchyard_api_hosted_v1::routes().into_iter().filter(|(_, path)| path != "/openapi.json");
    let lacking: Vec<String> = mounted
        .filter(|(method, path)| !ENDPOINTS.contains(&(*method, path.as_str())))
        .map(|(method, path)| format!("{}: {method:?}, {path:?};", name(method, &path).replace('-', "_")))
        .collect();
    assert!(lacking.is_empty(), "add to `endpoints!` in shapes.rs:\n{}", lacking.join("\n"));
}

async fn refusal(name: &str, scene: &HostedApiHarness, method: &str, path: &str, body: Option<Value>) {
    let authorization = format!("Bearer {}", scene.token(OWNER));
    let answer = if name == "route_unknown" {
        scene.undocumented(&authorization, method, path).await
    } else {
        scene.send(Some(&authorization), method, path, body.as_ref()).await
    };
    insta::assert_json_snapshot!(format!("refused_{name}"), shown(&answer));
}

fn instance_from(backup: &str) -> Value {
    let mut wanted = body("POST", "/deployments/{owner}/{deployment}/instances").unwrap();
    wanted["backup_id"] = backup.into();
    wanted
}

/// Makes a test of each request to a running (`new`) or a stopped deployment.
macro_rules! refusals {
    ($($test:ident: $scene:ident, $method:literal, $path:literal, $body:expr;)+) => {
        $(
            #[actix_web::test]
            async fn $test() {
                refusal(stringify!($test), &HostedApiHarness::$scene(), $method, $path, $body).await;
            }
        )+
    };
}

refusals! {
    options_unknown_cloud: new, "GET", "/deployment-options?cloud=mars", None;
    options_type_without_zone: new, "GET", "/deployment-options?cloud=local&instance_type_id=x", None;
    list_bad_state: new, "GET", "/deployments/hydro?state=gone", None;
    usage_bad_month: new, "GET", "/user/usage?month=2026-13", None;
    cost_upside_down: new, "GET", "/deployments/hydro/gauges/cost?start_time=2026-02-01T00:00:00Z&end_time=2026-01-01T00:00:00Z", None;
    backup_id_where_started: new, "POST", "/deployments/hydro/gauges/instances", Some(instance_from("20261120T020000.000"));
    backup_id_unknown: stopped, "POST", "/deployments/hydro/gauges/instances", Some(instance_from("20261120T020000.000"));
    backup_of_stopped: stopped, "POST", "/deployments/hydro/gauges/backups", None;
    disable_twice: stopped, "POST", "/deployments/hydro/gauges/disable", None;
    discard_of_stopped: stopped, "POST", "/deployments/hydro/gauges/disable", Some(json!({"discard_data": true, "confirm": "gauges"}));
    discard_unconfirmed: new, "POST", "/deployments/hydro/gauges/disable", Some(json!({"discard_data": true}));
    discard_confirmed_wrongly: new, "POST", "/deployments/hydro/gauges/disable", Some(json!({"discard_data": true, "confirm": "Gauges"}));
    confirm_without_discard: new, "POST", "/deployments/hydro/gauges/disable", Some(json!({"confirm": "gauges"}));
    database_of_stopped: stopped, "POST", "/deployments/hydro/gauges/databases", Some(json!({"name": "ponds"}));
    database_taken: new, "POST", "/deployments/hydro/gauges/databases", Some(json!({"name": "LAKES"}));
    database_default_dropped: new, "DELETE", "/deployments/hydro/gauges/databases/gauges", None;
    database_unknown: new, "DELETE", "/deployments/hydro/gauges/databases/none", None;
    config_unknown_and_bad: new, "PATCH", "/deployments/hydro/gauges/config", Some(json!({"overrides": {"nope": "1", "query_threads": "65"}}));
    config_ill_typed: new, "PATCH", "/deployments/hydro/gauges/config", Some(json!({"overrides": {"Nope": "1", "query_threads": 4}}));
    expose_mcp: new, "PATCH", "/deployments/hydro/gauges/expose", Some(json!({"mcp": true}));
    expose_both: new, "PATCH", "/deployments/hydro/gauges/expose", Some(json!({"mcp": true, "remotesapi": true}));
    expose_remotesapi: new, "PATCH", "/deployments/hydro/gauges/expose", Some(json!({"remotesapi": true}));
    version_unknown_field: new, "POST", "/deployments/hydro/gauges/database-version", Some(json!({"version": "1.0.0", "when": "now"}));
    pull_invalid: new, "POST", "/deployments/hydro/gauges/pulls", Some(json!({"title": "", "from_branch": "main", "to_branch": "main", "draft": true}));
    version_unknown: new, "POST", "/deployments/hydro/gauges/database-version", Some(json!({"version": "9.9.9"}));
    logs_both_tokens: new, "GET", "/deployments/hydro/gauges/logs?page_token=a&prev_page_token=b", None;
    logs_too_many: new, "GET", "/deployments/hydro/gauges/logs?lines=1001", None;
    metric_unknown: new, "GET", "/deployments/hydro/gauges/metrics/luck", None;
    metric_of_stopped: stopped, "GET", "/deployments/hydro/gauges/metrics/cpu", None;
    instance_unknown: new, "POST", "/deployments/hydro/gauges/instances/0199c3b0-0000-7000-8000-0000000000ff/reboot", None;
    collaborator_unknown: new, "PUT", "/deployments/hydro/gauges/collaborators/nobody", Some(json!({"role": "reader"}));
    collaborator_bad_role: new, "PUT", "/deployments/hydro/gauges/collaborators/bob", Some(json!({"role": "god"}));
    pulls_of_unknown_database: new, "GET", "/deployments/hydro/gauges/pulls?database=none", None;
    operation_unknown: new, "GET", "/operations/0199c3b0-0000-7000-8000-0000000000ff", None;
    deployment_unknown: new, "GET", "/deployments/hydro/nothing", None;
    route_unknown: new, "GET", "/nothing", None;
    stopped: stopped, "GET", "/deployments/hydro/gauges", None;
    stopped_listed: stopped, "GET", "/deployments/hydro?state=stopped", None;
    backups_of_stopped: stopped, "GET", "/deployments/hydro/gauges/backups", None;
    delete_stopped: stopped, "DELETE", "/deployments/hydro/gauges", None;
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
    assert_eq!(text(&newest), "INFO ready event=started");
    let older = get(format!("?lines=1&page_token={}", newest["meta"]["next_page_token"].as_str().unwrap())).await;
    assert_eq!(text(&older), "INFO drained event=stopped");
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

#[actix_web::test]
async fn an_operation_has_a_tag_and_says_when_to_ask_again() {
    use actix_web::test::TestRequest;
    let scene = HostedApiHarness::new();
    let token = format!("Bearer {}", scene.token(OWNER));
    let queued = scene.by(OWNER, "POST", "/deployments/hydro/gauges/backups", None).await.expect(202);
    let path = format!("/operations/{}", queued.json()["data"]["id"].as_str().unwrap());
    let unsettled = scene.by(OWNER, "GET", &path, None).await.expect(200);
    assert_eq!((&unsettled.json()["data"]["status"], unsettled.header("retry-after")), (&json!("queued"), "1"));
    let again = |etag: &str| {
        let request = TestRequest::get().uri(&format!("/api/v1{path}"));
        request.insert_header(("Authorization", token.clone())).insert_header(("If-None-Match", etag.to_owned()))
    };
    let unchanged = scene.complete(again(unsettled.header("etag"))).await.expect(304);
    assert_eq!((unchanged.header("etag"), unchanged.header("retry-after")), (unsettled.header("etag"), "1"));
    scene.settle();
    let settled = scene.complete(again(unsettled.header("etag"))).await.expect(200);
    assert_eq!((&settled.json()["data"]["status"], settled.header("retry-after")), (&json!("succeeded"), ""));
    let unchanged = scene.complete(again(settled.header("etag"))).await.expect(304);
    assert_eq!(unchanged.header("retry-after"), "");
}

#[actix_web::test]
async fn a_reader_is_refused_before_the_body_is_read() {
    let scene = HostedApiHarness::new();
    for body in [json!({}), json!({"surplus": true}), json!([])] {
        let path = "/deployments/hydro/gauges/pulls";
        let refused = scene.by("rita", "POST", path, Some(&body)).await;
        assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("PERMISSION_DENIED")), "{body}");
        let judged = scene.by("ruth", "POST", path, Some(&body)).await;
        assert_eq!((judged.status, judged.json()["code"].as_str()), (400, Some("VALIDATION_FAILED")), "{body}");
    }
}

/// Every resource that is not a list has an entity tag (v2 §1.9).
#[actix_web::test]
async fn every_single_resource_has_an_entity_tag() {
    let scene = HostedApiHarness::new();
    for (_, path) in ENDPOINTS.iter().filter(|(method, _)| *method == "GET") {
        let answer = scene.by(OWNER, "GET", &scene.filled(path), None).await;
        if answer.status == 200 && !answer.text.contains("\"meta\"") {
            assert!(answer.header("etag").starts_with('"'), "{path}");
        }
    }
}
