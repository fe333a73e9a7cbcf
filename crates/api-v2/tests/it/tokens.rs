use std::time::{Duration, Instant};

use crate::harness::ApiHarness;
use branchyard_domain::usecases::Limits;
use serde_json::{Value, json};

const T: &str = "/user/tokens";

fn named(name: &str) -> Value {
    json!({"name": name, "expires_in": "90d"})
}

#[actix_web::test]
async fn a_token_is_shown_once_used_and_deleted() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    let made = world.post(Some(&ada), T, named("ci")).await.expect(201);
    assert_eq!((made.header("cache-control"), made.header("etag"), made.header("location")), ("no-store", "", ""));
    let mut token = made.data();
    let secret = token.as_object_mut().unwrap().remove("token").unwrap();
    let secret = secret.as_str().unwrap();
    assert_eq!((secret.len(), &secret[..8]), (57, "hsat.v1."));
    let expected = json!({
        "id": token["id"], "name": "ci", "created_at": "2026-01-02T03:04:05.678Z", "expires_at": "2026-04-02T03:04:05.678Z",
        "expired": false,
    });
    assert_eq!(token, expected);
    assert_eq!(world.get(Some(secret), "/user").await.expect(200).data()["username"], "ada");

    // The last use is recorded asynchronously.
    let began = Instant::now();
    let listed = loop {
        let listed = world.get(Some(&ada), T).await.expect(200).data();
        if listed[1]["last_used_at"].is_string() {
            break listed;
        }
        assert!(began.elapsed() < Duration::from_secs(100), "{listed}");
        actix_web::rt::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(listed[0]["name"], "ci", "the newest comes first");
    assert_eq!(listed[1]["name"], "test");
    assert!(listed[1]["last_used_from"]["address"].is_string());
    assert!(listed.as_array().unwrap().iter().all(|token| token.get("token").is_none()));

    let path = format!("{T}/{}", token["id"].as_str().unwrap());
    let gone = world.delete(Some(secret), &path).await.expect(200).data();
    assert_eq!((&gone["id"], gone.get("token")), (&token["id"], None), "it may delete itself");
    world.get(Some(secret), "/user").await.refused(401, "UNAUTHENTICATED");
    world.delete(Some(&ada), &path).await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn what_is_repeated_does_not_show_the_secret_again() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    let post =
        || ApiHarness::request(Some(&ada), "POST", T).insert_header(("Idempotency-Key", "k")).set_json(named("ci"));
    let first = world.send(post()).await.expect(201);
    let again = world.send(post()).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    let mut expected = first.data();
    assert!(expected.as_object_mut().unwrap().remove("token").is_some());
    assert_eq!(again.data(), expected);
    assert_eq!(world.get(Some(&ada), T).await.data().as_array().unwrap().len(), 2, "one was made");
}

#[actix_web::test]
async fn only_so_many_live_tokens() {
    let world = ApiHarness::limited(Limits { tokens_per_user: 3, ..Limits::default() });
    let ada = world.user("ada");
    for name in ["a", "b"] {
        world.post(Some(&ada), T, json!({"name": name, "expires_in": "1y"})).await.expect(201);
    }
    world.post(Some(&ada), T, named("c")).await.refused(422, "UNPROCESSABLE");
    world.fakes.clock.advance_seconds(30 * 86_400);
    // The expired token is still listed, but does not count against the limit.
    let bob = world.user("bob");
    world.post(Some(&bob), T, named("his")).await.expect(201);
    let minted = world.fakes.hub.people().user_named("ada").unwrap();
    let tokens = world.fakes.hub.tokens();
    let expiry = branchyard_auth::TokenExpiry::Days30;
    let fresh = tokens.create(&minted, "d", expiry, tokens.mint(), None).unwrap();
    let listed = world.get(Some(fresh.secret.expose()), T).await.expect(200).data();
    let rows: Vec<_> =
        listed.as_array().unwrap().iter().map(|t| (t["name"].as_str().unwrap(), &t["expired"])).collect();
    assert_eq!(rows, [("d", &json!(false)), ("b", &json!(false)), ("a", &json!(false)), ("test", &json!(true))]);
}

#[actix_web::test]
async fn requests_off_the_rules() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    for (body, place) in [
        (json!({"name": "", "expires_in": "30d"}), "/name"),
        (json!({"name": " ", "expires_in": "30d"}), "/name"),
        (json!({"name": "ü".repeat(101), "expires_in": "30d"}), "/name"),
        (json!({"name": "a", "expires_in": "2y"}), "/expires_in"),
        (json!({"name": "a", "expires_in": null}), "/expires_in"),
        (json!({"name": "a", "expires_in": "30d", "scope": "all"}), "/scope"),
    ] {
        world.post(Some(&ada), T, body).await.refused_at(400, place);
    }
    world.post(Some(&ada), T, json!({"name": "ü".repeat(100), "expires_in": "30d"})).await.expect(201);
    world.post(None, T, json!({})).await.refused(401, "UNAUTHENTICATED");
    let mine = world.get(Some(&ada), T).await.data()[0]["id"].as_str().unwrap().to_owned();
    world.delete(Some(&bob), &format!("{T}/{mine}")).await.refused(404, "NOT_FOUND");
    world.delete(Some(&ada), &format!("{T}/x")).await.refused(404, "NOT_FOUND");
    world.get(Some(&ada), &format!("{T}/{mine}")).await.refused(405, "METHOD_NOT_ALLOWED");
    let page = world.get(Some(&ada), &format!("{T}?page_size=1")).await.expect(200).json();
    let next = format!("{T}?page_size=1&page_token={}", page["meta"]["next_page_token"].as_str().unwrap());
    assert_eq!(world.get(Some(&ada), &next).await.expect(200).data()[0]["name"], "test");
    world.get(Some(&bob), &next).await.refused_at(400, "page_token");
}
