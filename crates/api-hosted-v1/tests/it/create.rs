//! Creation of a deployment: each check of the contract (6.1) with its status, code and field, in the order of the contract.

use actix_web::test::TestRequest;
use branchyard_api_testing::InProcessAnswer;
use serde_json::{Value, json};

use crate::harness::{HostedApiHarness, OWNER, body};

fn good() -> Value {
    body("POST", "/deployments").unwrap()
}

fn with(changes: Value) -> Value {
    let mut all = good();
    all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    all
}

async fn create(scene: &HostedApiHarness, wanted: &Value) -> InProcessAnswer {
    scene.by(OWNER, "POST", "/deployments", Some(wanted)).await
}

#[actix_web::test]
async fn each_check_has_its_status_code_and_place() {
    let scene = HostedApiHarness::new();
    for (changes, status, code, pointer) in [
        (json!({"name": "no"}), 400, "VALIDATION_FAILED", "/name"),
        (json!({"name": "with space"}), 400, "VALIDATION_FAILED", "/name"),
        (json!({"volume_size_gb": 0}), 400, "VALIDATION_FAILED", "/volume_size_gb"),
        (json!({"volume_size_gb": 2_147_483_648_u64}), 400, "VALIDATION_FAILED", "/volume_size_gb"),
        (json!({"cluster_type": "other"}), 400, "VALIDATION_FAILED", "/cluster_type"),
        (json!({"expose_remotesapi_endpoint": true}), 400, "VALIDATION_FAILED", "/expose_remotesapi_endpoint"),
        (json!({"owner": "sam"}), 403, "PERMISSION_DENIED", ""),
        (json!({"owner": "nobody"}), 403, "PERMISSION_DENIED", ""),
        (json!({"from_database": {"owner": "sam", "name": "none"}}), 404, "NOT_FOUND", "/from_database"),
        (
            json!({"from_database": {"owner": "olga", "name": "rivers", "ref": "nope"}}),
            404,
            "NOT_FOUND",
            "/from_database",
        ),
        (json!({"name": "GAUGES"}), 409, "CONFLICT", ""),
        (json!({"cloud": "aws"}), 422, "UNPROCESSABLE", "/cloud"),
        (json!({"zone": "moon"}), 422, "UNPROCESSABLE", "/zone"),
        (json!({"instance_type_id": "local.huge"}), 422, "UNPROCESSABLE", "/instance_type_id"),
        (json!({"volume_type_id": "tape"}), 422, "UNPROCESSABLE", "/volume_type_id"),
        (json!({"volume_size_gb": 1_025}), 422, "UNPROCESSABLE", "/volume_size_gb"),
        (json!({"cluster_type": "doltgres"}), 422, "UNSUPPORTED", ""),
        (json!({"replicas": 1}), 422, "UNSUPPORTED", ""),
        (json!({"webpki_cert": true}), 422, "UNSUPPORTED", ""),
        (json!({"expose_mcp": true}), 422, "UNSUPPORTED", ""),
        (json!({"instance_type_id": "local.large", "volume_size_gb": 100}), 422, "SPENDING_LIMIT_EXCEEDED", ""),
    ] {
        let answer = create(&scene, &with(changes.clone())).await;
        let said = answer.json();
        assert_eq!((answer.status, said["code"].as_str()), (status, Some(code)), "{changes}: {}", answer.text);
        assert_eq!(said["errors"][0]["pointer"].as_str().unwrap_or_default(), pointer, "{changes}");
    }
}

#[actix_web::test]
async fn the_spending_limit_names_its_three_amounts() {
    let scene = HostedApiHarness::new();
    let answer = create(&scene, &with(json!({"instance_type_id": "local.large", "volume_size_gb": 100}))).await;
    let said = answer.json();
    assert_eq!(said["limit_usd"], "100.000000000");
    assert_eq!(said["committed_usd"], "6.000003590");
    assert_eq!(said["requested_usd"], "209.999997900");
}

#[actix_web::test]
async fn checks_come_in_the_order_of_the_contract() {
    let scene = HostedApiHarness::new();
    // Initially every check would fail. Each correction moves the failure to the next check.
    let mut wanted = with(json!({
        "owner": "sam", "name": "g", "from_database": {"owner": "x", "name": "y"}, "cloud": "aws", "replicas": 1,
    }));
    let steps = [
        (json!({"name": "gauges"}), 400),
        (json!({"owner": "hydro"}), 403),
        (json!({"from_database": {"owner": "olga", "name": "rivers"}}), 404),
        (json!({"name": "pumps"}), 409),
        (json!({"cloud": "local"}), 422),
        (json!({"replicas": 0}), 422),
    ];
    for (correction, status) in steps {
        let answer = create(&scene, &wanted).await;
        assert_eq!(answer.status, status, "{wanted}: {}", answer.text);
        wanted.as_object_mut().unwrap().extend(correction.as_object().unwrap().clone());
    }
    let answer = create(&scene, &wanted).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    assert_eq!(answer.header("location"), "https://yard.test/api/v1/deployments/hydro/pumps");
    let made = answer.json();
    assert_eq!(made["data"]["origin"]["ref"], "main");
    assert_eq!(made["data"]["databases"], json!(["rivers"]));
}

#[actix_web::test]
async fn all_faults_of_a_body_are_named_at_once_and_unknown_fields_are_ignored() {
    let scene = HostedApiHarness::new();
    let answer = create(&scene, &json!({"name": "x", "volume_size_gb": "ten", "unheard": 1})).await;
    let said = answer.json();
    let places: Vec<&str> =
        said["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    for place in ["/owner", "/name", "/cloud", "/zone", "/instance_type_id", "/volume_type_id", "/volume_size_gb"] {
        assert!(places.contains(&place), "{place} in {places:?}");
    }
    assert_eq!(create(&scene, &with(json!({"unheard": 1}))).await.status, 202);
}

#[actix_web::test]
async fn a_key_makes_a_repeat_a_replay() {
    let scene = HostedApiHarness::new();
    let token = format!("Bearer {}", scene.token(OWNER));
    let send = |body: Value| {
        TestRequest::post()
            .uri("/api/v1/deployments")
            .insert_header(("Authorization", token.clone()))
            .insert_header(("Idempotency-Key", "one"))
            .set_json(body)
    };
    let first = scene.complete(send(good())).await;
    let again = scene.complete(send(good())).await;
    assert_eq!((first.status, again.status, &first.text), (202, 202, &again.text));
    assert_eq!(again.header("idempotent-replayed"), "true");
    let other = scene.complete(send(with(json!({"name": "others"})))).await;
    assert_eq!(other.json()["code"], "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(create(&scene, &good()).await.status, 409, "without the key it is a second one");
}
