//! Provokes the responses that operations have in common by changing their valid requests.

use branchyard_api_snapshots::{Content, Declared, DeclaredOperation, SentRequest, ShapeSnapshot};
use branchyard_domain::entities::Visibility;
use branchyard_domain::usecases::Limits;
use branchyard_domain_testing::fakes::{self, BrokenMetadata};
use branchyard_http_common::RateLimits;
use serde_json::json;

use super::{ID, shape};
use crate::good;
use crate::harness::LegacyHarness;

const NOBODYS_ID: &str = "0199c3a2-0000-7000-8000-000000000000";

pub(super) async fn provoke(operation: &DeclaredOperation, declared: &Declared) -> ShapeSnapshot {
    let what = declared.code.as_deref().unwrap_or("success");
    let limits = match what {
        // Two writes are queued while the harness is built. One is still queued afterwards.
        "queue_full" => Limits { queued_per_database: 2, ..Limits::default() },
        _ => Limits::default(),
    };
    let mut world = LegacyHarness::over(fakes::hub_with(limits), Visibility::Public, None);
    if what == "queue_full" {
        world.write("busy", "INSERT INTO t VALUES (4)");
    }
    let caller = match what {
        "malformed_credential" | "not_authenticated" => "anonymous",
        "unknown_token" => "bad-token",
        "permission_denied" => "stranger",
        "insufficient_scope" => "read-scope",
        _ => "owner",
    };
    let good = good::good(&world, caller, &operation.method, &operation.path);
    let asked = match what {
        "success" | "pending" | "not_authenticated" | "unknown_token" | "permission_denied" | "queue_full"
        | "insufficient_scope" => good,
        "malformed_credential" => good.with("Authorization", "Basic b2xnYTpyaXZlcnM="),
        "no_such_repository" => elsewhere(good),
        "operation_not_found" => {
            let address = good.address.replace(&world.waiting, NOBODYS_ID);
            good.at(&address)
        }
        "no_such_pull" => {
            let address = good.address.replace("/pulls/1", "/pulls/99");
            good.at(&address)
        }
        "invalid_parameter" => invalid(operation, good),
        "invalid_body" => SentRequest { content: Content::Json(json!({"query": 7})), ..good },
        "too_large" => SentRequest { content: Content::Text("application/json", "x".repeat((2 << 20) + 1)), ..good },
        "media_type" => SentRequest { content: Content::Text("application/xml", "<x/>".to_owned()), ..good },
        "timed_out" => {
            world.settings.export_timeout = std::time::Duration::ZERO;
            good
        }
        "rate_limited" => {
            use_up_the_quota(&mut world, &good).await;
            good
        }
        "internal" => {
            world.break_metadata(BrokenMetadata::Faulty);
            good
        }
        "unavailable" => {
            world.break_metadata(BrokenMetadata::Unreachable);
            good
        }
        _ => panic!("no rule for {} {}: tell it in steps.txt", operation.id, declared.name()),
    };
    let answer = world.send(asked.clone().into_request().insert_header(ID)).await;
    shape(&operation.id, declared.name(), asked, answer)
}

/// Redirects a request to a database that does not exist.
fn elsewhere(good: SentRequest) -> SentRequest {
    let address = good.address.replace("/olga/rivers", "/olga/nothing");
    match good.content.clone() {
        Content::Json(mut body) if body.get("parentDatabaseName").is_some() => {
            body["parentDatabaseName"] = json!("nothing");
            good.sending(body)
        }
        _ => good.at(&address),
    }
}

fn invalid(operation: &DeclaredOperation, good: SentRequest) -> SentRequest {
    let has = |name: &str| operation.parameters.iter().any(|known| known == name);
    let bare = good.address.split('?').next().unwrap_or_default().to_owned();
    let query = if has("operationName") {
        "operationName=users/olga/userOperations/7".to_owned()
    } else if has("pageToken") {
        "pageToken=x".to_owned()
    } else if has("q") {
        format!("q={}", "x".repeat(32_769))
    } else {
        panic!("no rule makes a parameter of {} invalid: tell it in steps.txt", operation.id)
    };
    good.at(&format!("{bare}?{query}"))
}

/// Sets a quota of one request, and uses it up.
async fn use_up_the_quota(world: &mut LegacyHarness, good: &SentRequest) {
    let limits = RateLimits { user_per_hour: 1, anonymous_per_minute: 1, is_shared: false };
    world.reconfigure(|config| config.rate_limits = Some(limits));
    let first = good.clone().at("/api/v1alpha1/user");
    let first = SentRequest { method: "GET".to_owned(), content: Content::None, ..first };
    assert_eq!(world.send(first.into_request()).await.status, 200);
}
