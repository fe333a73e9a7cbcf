//! Hooks and their deliveries.

use branchyard_api_testing::InProcessAnswer;
use branchyard_domain::entities::AttemptError;
use branchyard_domain::ports::{CancellationToken, Sent};
use branchyard_domain::usecases::{Limits, Room};
use branchyard_domain_testing::fakes::ScriptedSender;
use serde_json::{Value, json};

use crate::harness::ApiHarness;

const H: &str = "/databases/ada/rivers/hooks";
const ROOM: Room<'_> = Room { hooks: 9, held_back: 9, slow: &[] };
const URL: &str = "https://ci.example.test/yard";

impl ApiHarness {
    /// Creates the deliveries of all events and makes all attempts that are due.
    fn deliver(&self) {
        let dispatch = self.fakes.hub.dispatch();
        while !dispatch.fan_out().unwrap().is_empty() {}
        let mut leases = dispatch.turn("test", &[], ROOM).unwrap().leases;
        while !leases.is_empty() {
            let done: Vec<_> = leases
                .into_iter()
                .map(|lease| dispatch.attempt(lease, &CancellationToken::default(), || true).unwrap())
                .collect();
            leases = dispatch.turn("test", &done, ROOM).unwrap().leases;
        }
    }

    async fn hook(&self, who: &str, body: Value) -> String {
        self.post(Some(who), H, body).await.expect(201).data()["id"].as_str().unwrap().to_owned()
    }
}

async fn rivers(limits: Limits) -> (ApiHarness, String) {
    let world = ApiHarness::limited(limits);
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "private").await;
    world.deliver();
    (world, ada)
}

fn keyed(who: &str, path: &str) -> actix_web::test::TestRequest {
    ApiHarness::request(Some(who), "POST", path).insert_header(("Idempotency-Key", "k"))
}

#[actix_web::test]
async fn a_hook_from_its_registration_to_its_end() {
    let (world, ada) = rivers(Limits::default()).await;
    let body = json!({"url": URL, "events": ["on_branch", "on_push"]});
    let made = world.post(Some(&ada), H, body).await.expect(201);
    assert_eq!(made.header("cache-control"), "no-store");
    let mut hook = made.data();
    let secret = hook.as_object_mut().unwrap().remove("secret").unwrap();
    assert!(secret.as_str().unwrap().starts_with("whsec_"));
    let path = format!("{H}/{}", hook["id"].as_str().unwrap());
    assert_eq!(made.header("location"), format!("https://yard.test/api/v2{path}"));
    assert_eq!(
        hook,
        json!({
            "id": hook["id"], "url": URL, "events": ["on_push", "on_branch"], "active": true,
            "created_at": "2026-01-02T03:04:05.678Z", "updated_at": "2026-01-02T03:04:05.678Z",
        })
    );
    let read = world.get(Some(&ada), &path).await.expect(200);
    assert_eq!((read.data(), read.header("etag")), (hook.clone(), made.header("etag")));
    assert_eq!(world.get(Some(&ada), H).await.expect(200).data(), json!([hook]));

    let etag = read.header("etag").to_owned();
    let off = json!({"active": false});
    let changed = world.if_match(&ada, "PATCH", &path, &etag, Some(off.clone())).await.expect(200);
    assert_eq!(changed.data()["active"], false);
    world.if_match(&ada, "PATCH", &path, &etag, Some(off)).await.refused(412, "PRECONDITION_FAILED");
    world.if_match(&ada, "DELETE", &path, &etag, None).await.refused(412, "PRECONDITION_FAILED");
    let gone = world.delete(Some(&ada), &path).await.expect(200).data();
    assert_eq!(gone["active"], false);
    world.get(Some(&ada), &path).await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn secrets_are_shown_once() {
    let (world, ada) = rivers(Limits::default()).await;
    let made = world.send(keyed(&ada, H).set_json(json!({"url": URL}))).await.expect(201);
    assert_eq!(made.data()["events"], json!(["on_push"]), "when it does not say");
    let again = world.send(keyed(&ada, H).set_json(json!({"url": URL}))).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!((again.data()["id"].clone(), again.data()["secret"].clone()), (made.data()["id"].clone(), Value::Null));
    let path = format!("{H}/{}", made.data()["id"].as_str().unwrap());
    let rotate = format!("{path}/rotate-secret");
    let rotated = world.send(keyed(&ada, &rotate)).await.expect(200);
    assert_eq!(rotated.header("cache-control"), "no-store");
    assert_ne!(rotated.data()["secret"], made.data()["secret"]);
    let again = world.send(keyed(&ada, &rotate)).await.expect(200);
    assert_eq!(again.data()["secret"], Value::Null);
    for path in [H, path.as_str()] {
        let text = world.get(Some(&ada), path).await.expect(200).text;
        assert!(!text.contains("whsec_"), "{text}");
    }
}

#[actix_web::test]
async fn requests_off_the_rules() {
    let (world, ada) = rivers(Limits { hooks_per_database: 1, ..Limits::default() }).await;
    for (body, place) in [
        (json!({}), "/url"),
        (json!({"url": 5}), "/url"),
        (json!({"url": "http://plain.test/"}), "/url"),
        (json!({"url": URL, "events": []}), "/events"),
        (json!({"url": URL, "events": "on_push"}), "/events"),
        (json!({"url": URL, "events": ["on_push", "on_tag"]}), "/events/1"),
        (json!({"url": URL, "events": ["on_push", "on_push"]}), "/events/1"),
        (json!({"url": URL, "events": ["on_push", null]}), "/events/1"),
        (json!({"url": URL, "active": "yes"}), "/active"),
        (json!({"url": URL, "secret": "mine"}), "/secret"),
        (json!({"url": URL, "content_type": "form"}), "/content_type"),
    ] {
        world.post(Some(&ada), H, body).await.refused_at(400, place);
    }
    world.post(Some(&ada), H, json!({"url": "https://127.0.0.1/"})).await.refused(422, "UNPROCESSABLE");
    let id = world.hook(&ada, json!({"url": URL, "events": null})).await;
    let full = world.post(Some(&ada), H, json!({"url": URL})).await;
    full.refused(422, "UNPROCESSABLE");
    assert!(full.json()["detail"].as_str().unwrap().contains("delete one"), "{}", full.text);
    let path = format!("{H}/{id}");
    for (body, place) in [
        (json!({}), ""),
        (json!({"url": null}), "/url"),
        (json!({"url": "ftp://x/"}), "/url"),
        (json!({"events": []}), "/events"),
        (json!({"active": null}), "/active"),
        (json!({"disabled_reason": "gone"}), "/disabled_reason"),
    ] {
        world.patch(Some(&ada), &path, body).await.refused_at(400, place);
    }
    world.patch(Some(&ada), &path, json!({"url": "https://127.0.0.1/"})).await.refused(422, "UNPROCESSABLE");
    for below in ["/x", "/0199c3a8-0000-7000-8000-000000000001"] {
        let path = format!("{H}{below}");
        world.get(Some(&ada), &path).await.refused(404, "NOT_FOUND");
        world.patch(Some(&ada), &path, json!({"active": true})).await.refused(404, "NOT_FOUND");
        world.delete(Some(&ada), &path).await.refused(404, "NOT_FOUND");
        world.post(Some(&ada), &format!("{path}/ping"), json!({})).await.refused(404, "NOT_FOUND");
        world.get(Some(&ada), &format!("{path}/deliveries")).await.refused(404, "NOT_FOUND");
    }
    world.post(Some(&ada), &format!("{path}/ping"), json!({"loud": true})).await.refused_at(400, "/loud");
    world.get(Some(&ada), &format!("{path}/deliveries/x")).await.refused(404, "NOT_FOUND");
    world.get(Some(&ada), &format!("{path}/deliveries?status=lost")).await.refused_at(400, "status");
}

#[actix_web::test]
async fn a_ping_and_what_the_log_says_of_it() {
    let (world, ada) = rivers(Limits::default()).await;
    let id = world.hook(&ada, json!({"url": URL, "active": false})).await;
    let queued = world.send(ApiHarness::request(Some(&ada), "POST", &format!("{H}/{id}/ping"))).await.expect(201);
    let ping = queued.data();
    let path = format!("{H}/{id}/deliveries/{}", ping["id"].as_str().unwrap());
    assert_eq!(queued.header("location"), format!("https://yard.test/api/v2{path}"));
    assert_eq!(
        ping,
        json!({
            "id": ping["id"], "event_name": "ping", "status": "pending", "created_at": "2026-01-02T03:04:05.678Z",
            "attempt_count": 0, "next_attempt_at": "2026-01-02T03:04:05.678Z",
            "request": {"url": URL, "headers": {}, "body": ping["request"]["body"]}, "attempts": [],
        })
    );
    let redeliver = format!("{path}/redeliver");
    world.send(ApiHarness::request(Some(&ada), "POST", &redeliver)).await.refused(409, "CONFLICT");
    let mut answer = ScriptedSender::answer(302);
    answer.error = Some(AttemptError::Redirect);
    world.fakes.sender.plan(URL, answer);
    world.deliver();
    let done = world.get(Some(&ada), &path).await.expect(200).data();
    assert_eq!((&done["status"], &done["finished_at"]), (&json!("failed"), &json!("2026-01-02T03:04:05.678Z")));
    assert_eq!(done.get("next_attempt_at"), None);
    assert_eq!(done["request"]["headers"], json!({"webhook-id": "fake"}));
    let attempt = &done["attempts"][0];
    assert_eq!((&attempt["response_status"], &attempt["error"]), (&json!(302), &json!("redirect")));
    let hook = world.get(Some(&ada), &format!("{H}/{id}")).await.expect(200).data();
    assert_eq!(
        hook["last_delivery"],
        json!({"id": ping["id"], "status": "failed", "finished_at": done["finished_at"]})
    );

    world.send(ApiHarness::request(Some(&ada), "POST", &redeliver)).await.expect(200);
    world.fakes.sender.plan(URL, Sent { headers: Vec::new(), reply: None, error: Some(AttemptError::BlockedAddress) });
    world.deliver();
    let done = world.get(Some(&ada), &path).await.expect(200).data();
    assert_eq!(done["attempt_count"], 2);
    let silent = done["attempts"][1].as_object().unwrap();
    assert_eq!(silent["error"], "blocked_address");
    assert!(!silent.contains_key("response_status") && !silent.contains_key("response_body"));
}

#[actix_web::test]
async fn what_happens_to_the_database_is_told_and_listed() {
    let (world, ada) = rivers(Limits::default()).await;
    let id = world.hook(&ada, json!({"url": URL, "events": ["on_branch"]})).await;
    for name in ["a", "b", "c"] {
        world.branch(&ada, "ada/rivers", name, "main").await;
    }
    world.fakes.sender.plan(URL, ScriptedSender::answer(500));
    world.deliver();
    let list = format!("{H}/{id}/deliveries");
    let page = world.get(Some(&ada), &format!("{list}?page_size=2")).await.expect(200).json();
    let token = page["meta"]["next_page_token"].as_str().unwrap();
    let next = world.get(Some(&ada), &format!("{list}?page_size=2&page_token={token}")).await.expect(200).data();
    let all: Vec<Value> = page["data"].as_array().unwrap().iter().chain(next.as_array().unwrap()).cloned().collect();
    let ids: Vec<&str> = all.iter().map(|delivery| delivery["id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted_by(|a, b| a > b), "newest first: {ids:?}");
    let states: Vec<&str> = all.iter().map(|delivery| delivery["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["delivered", "delivered", "pending"]);
    assert!(all.iter().all(|delivery| delivery.get("request").is_none() && delivery.get("attempts").is_none()));
    let pending = world.get(Some(&ada), &format!("{list}?status=pending")).await.expect(200).data();
    assert_eq!(pending, json!([all[2]]));
    let foreign = format!("{list}?status=failed&page_token={token}");
    world.get(Some(&ada), &foreign).await.refused_at(400, "page_token");
    // After a 410, the hook is inactive and states the reason.
    world.fakes.sender.plan(URL, ScriptedSender::answer(410));
    world.branch(&ada, "ada/rivers", "d", "main").await;
    world.deliver();
    let hook: InProcessAnswer = world.get(Some(&ada), &format!("{H}/{id}")).await.expect(200);
    assert_eq!((&hook.data()["active"], &hook.data()["disabled_reason"]), (&json!(false), &json!("gone")));
    let on = world.patch(Some(&ada), &format!("{H}/{id}"), json!({"active": true})).await.expect(200).data();
    assert_eq!(on.get("disabled_reason"), None);
}
