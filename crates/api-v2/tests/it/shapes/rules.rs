//! Provokes the responses that operations have in common, by changes to a request that succeeds.

use std::pin::pin;

use branchyard_api_snapshots::{Content, Declared, DeclaredOperation, SentRequest, ShapeSnapshot};
use branchyard_domain::entities::Visibility;
use branchyard_domain::ports::{Metadata as _, WriteKeys};
use branchyard_domain_testing::fakes::BrokenMetadata;
use branchyard_http_common::RateLimits;
use futures_util::future::{Either, select};
use serde_json::json;

use super::{KEY_IN_FLIGHT, shape};
use crate::authorization::{AuthorizationHarness, OWNER};

/// The id of every request, so that no snapshot depends on the number of earlier requests.
pub(super) const ID: (&str, &str) = ("X-Request-Id", "snapshot");

const NOBODYS_ID: &str = "0199c3a2-0000-7000-8000-000000000000";

/// Operations with an effect that any user may do.
const ANY_USER: [&str; 6] =
    ["createUserToken", "deleteUserToken", "createUserKey", "deleteUserKey", "createOrganization", "createPullComment"];

pub(super) async fn provoke(operation: &DeclaredOperation, declared: &Declared) -> ShapeSnapshot {
    let mut scene = AuthorizationHarness::new(Visibility::Public);
    let caller = match declared.code.as_deref() {
        Some("UNAUTHENTICATED") => "bad-token",
        // What any user may do, an access token may not do whose scope is to read.
        Some("PERMISSION_DENIED") if ANY_USER.contains(&operation.id.as_str()) => "read-scope",
        Some("PERMISSION_DENIED") => "stranger",
        _ => "owner",
    };
    let good = scene.good(caller, &operation.method, &operation.path).await;
    let asked = match declared.code.as_deref() {
        None if declared.status == 304 => good.with("If-None-Match", "*"),
        None if declared.status == 200 && operation.declared.iter().any(|other| other.status == 202) => {
            // The repetition of the request waits, because the number of ids that are drawn while one waits is not fixed.
            let keyed = good.with("Idempotency-Key", "k");
            scene.world.send(keyed.clone().into_request()).await.expect(202);
            scene.world.work();
            let waiting = keyed.with("Prefer", "wait=20");
            let answer = scene.world.send(waiting.clone().into_request().insert_header(ID)).await;
            return shape(&operation.id, declared.name(), waiting, answer);
        }
        None if operation.id == "listUserTokens" => {
            note_use(&scene, &good).await;
            good
        }
        None | Some("UNAUTHENTICATED" | "PERMISSION_DENIED") => good,
        Some("VALIDATION_FAILED") => invalid(operation, good),
        Some("NOT_FOUND") => elsewhere(&scene, good),
        Some("METHOD_NOT_ALLOWED") => other_method(operation, good),
        Some("PRECONDITION_FAILED") => good.with("If-Match", "\"of long ago\""),
        Some("PAYLOAD_TOO_LARGE") => SentRequest { content: text("application/json", (2 << 20) + 1), ..good },
        Some("UNSUPPORTED_MEDIA_TYPE") => SentRequest { content: text("text/plain", 1), ..good },
        Some("IDEMPOTENCY_KEY_REUSED") => {
            let keyed = good.with("Idempotency-Key", "k");
            let first = scene.world.send(keyed.clone().into_request()).await;
            assert!(first.status < 300, "{}: {}", operation.id, first.text);
            keyed.sending(json!({"other": "body"}))
        }
        Some("RATE_LIMITED") => {
            use_up_the_quota(&mut scene, &good).await;
            good
        }
        Some("INTERNAL") => {
            scene.world.break_metadata(BrokenMetadata::Faulty);
            good
        }
        Some("SERVICE_UNAVAILABLE") => {
            scene.world.break_metadata(BrokenMetadata::Unreachable);
            good
        }
        Some(_) => panic!("no rule for {} {}: tell it in steps.txt", operation.id, declared.name()),
    };
    let answer = scene.world.send(asked.clone().into_request().insert_header(ID)).await;
    shape(&operation.id, declared.name(), asked, answer)
}

fn text(kind: &'static str, length: usize) -> Content {
    Content::Text(kind, "x".repeat(length))
}

fn invalid(operation: &DeclaredOperation, good: SentRequest) -> SentRequest {
    let has = |name: &str| operation.parameters.iter().any(|known| known == name);
    if operation.has_json_body {
        good.sending(json!({"surplus": true}))
    } else if has("page_token") {
        let sign = if good.address.contains('?') { '&' } else { '?' };
        let address = format!("{}{sign}page_token=x&page_size=0", good.address);
        good.at(&address)
    } else if has("Idempotency-Key") {
        good.with("Idempotency-Key", "")
    } else if has("pull_number") {
        let address = good.address.replace("/pulls/1", "/pulls/01");
        good.at(&address)
    } else {
        panic!("no rule makes {} invalid: tell it in steps.txt", operation.id)
    }
}

/// Changes the address of a request to that of an absent resource.
fn elsewhere(scene: &AuthorizationHarness, good: SentRequest) -> SentRequest {
    let mut address = good.address.replace("/hydro/rivers", "/hydro/nothing").replace("s/delta", "s/nothing");
    if let Some((tokens, _)) = address.split_once("/tokens/") {
        address = format!("{tokens}/tokens/{NOBODYS_ID}");
    }
    if let Some((keys, _)) = address.split_once("/keys/") {
        address = format!("{keys}/keys/{NOBODYS_ID}");
    }
    let address = address.replace(&scene.operation, NOBODYS_ID);
    good.at(&address)
}

fn other_method(operation: &DeclaredOperation, good: SentRequest) -> SentRequest {
    let free = |method: &&str| !operation.methods.iter().any(|known| known == method);
    let method = ["PUT", "PATCH", "DELETE", "POST", "GET"].into_iter().find(free).unwrap();
    SentRequest { method: method.to_owned(), content: Content::None, ..good }
}

/// Limits the quota to one request and uses it up.
async fn use_up_the_quota(scene: &mut AuthorizationHarness, good: &SentRequest) {
    let limits = RateLimits { user_per_hour: 1, anonymous_per_minute: 1, is_shared: false };
    scene.world.reconfigure(|config| config.rate_limits = Some(limits));
    scene.world.get(good.token.as_deref(), "/user").await.expect(200);
}

/// Uses the token and waits until its last use is recorded.
async fn note_use(scene: &AuthorizationHarness, good: &SentRequest) {
    let used = good.clone().at("/user").with("User-Agent", "curl/8.5.0");
    scene.world.send(used.into_request()).await.expect(200);
    let user = scene.world.fakes.hub.people().user_named(OWNER).unwrap();
    let noted = || {
        let tokens = scene.world.fakes.hub.tokens().list(&user, None, 10).unwrap();
        tokens.iter().any(|token| token.last_use.is_some())
    };
    while !noted() {
        actix_web::rt::task::yield_now().await;
    }
}

/// Sends two concurrent requests with the same idempotency key. A held write transaction blocks one of them, and the other
/// receives a 409.
pub(super) async fn key_in_flight(operation: &DeclaredOperation) -> ShapeSnapshot {
    let scene = AuthorizationHarness::new(Visibility::Public);
    let asked = scene.good("owner", &operation.method, &operation.path).await.with("Idempotency-Key", "k");
    let send = || scene.world.send(asked.clone().into_request().insert_header(ID));
    let held = scene.world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    let (one, other) = (pin!(send()), pin!(send()));
    let (answer, waiting) = match select(one, other).await {
        Either::Left((answer, waiting)) => (answer, Either::Left(waiting)),
        Either::Right((answer, waiting)) => (answer, Either::Right(waiting)),
    };
    drop(held);
    let answered = match waiting {
        Either::Left(waiting) => waiting.await,
        Either::Right(waiting) => waiting.await,
    };
    assert!(answered.status < 300, "{}", answered.text);
    shape(&operation.id, KEY_IN_FLIGHT.to_owned(), asked, answer)
}
