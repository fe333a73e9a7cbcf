use branchyard_api_testing::never_issued_token;
use branchyard_http_common::RateLimits;
use serde_json::json;

use crate::harness::ApiHarness;

fn limited(user_per_hour: u32, anonymous_per_minute: u32) -> ApiHarness {
    ApiHarness::with(|config| {
        config.rate_limits = Some(RateLimits { user_per_hour, anonymous_per_minute, is_shared: false })
    })
}

#[actix_web::test]
async fn an_anonymous_caller_has_a_quota_per_minute() {
    let world = limited(0, 2);
    let first = world.get(None, "/databases").await.expect(200);
    assert_eq!(first.header("ratelimit-policy"), "\"anonymous\";q=2;w=60");
    assert_eq!(first.header("ratelimit"), "\"anonymous\";r=1;t=60");
    world.fakes.clock.advance_seconds(20);
    // Requests to unknown routes or with unsupported methods count, too.
    assert_eq!(world.get(None, "/nothing").await.header("ratelimit"), "\"anonymous\";r=0;t=40");
    let over = world.get(None, "/databases").await;
    over.refused(429, "RATE_LIMITED");
    assert_eq!((over.header("retry-after"), over.header("ratelimit")), ("40", "\"anonymous\";r=0;t=40"));
    // Errors of the route and the method precede the quota.
    world.get(None, "/nothing").await.refused(404, "NOT_FOUND");
    world.delete(None, "/user").await.refused(405, "METHOD_NOT_ALLOWED");
    world.fakes.clock.advance_seconds(40);
    world.get(None, "/databases").await.expect(200);
}

#[actix_web::test]
async fn a_user_has_a_quota_per_hour_over_all_tokens() {
    let world = limited(3, 600);
    let ada = world.user("ada");
    let second = world.token("ada", 2);
    let first = world.get(Some(&ada), "/user").await.expect(200);
    assert_eq!(first.header("ratelimit-policy"), "\"user\";q=3;w=3600");
    assert_eq!(first.header("ratelimit"), "\"user\";r=2;t=3600");
    let tag = first.header("etag").to_owned();
    let unmodified = ApiHarness::request(Some(&second), "GET", "/user").insert_header(("If-None-Match", tag));
    let unmodified = world.send(unmodified).await;
    assert_eq!((unmodified.status, unmodified.header("ratelimit")), (304, "\"user\";r=1;t=3600"));
    world.get(Some(&ada), "/user").await.expect(200);
    let over = world.get(Some(&second), "/user").await;
    over.refused(429, "RATE_LIMITED");
    assert_eq!(over.header("retry-after"), "3600");
    // The quota precedes errors of the body.
    let large = ApiHarness::request(Some(&ada), "POST", "/databases").set_payload("x".repeat(3 << 20));
    world.send(large).await.refused(429, "RATE_LIMITED");
    world.get(None, "/databases").await.expect(200);
    world.fakes.clock.advance_seconds(3_600);
    world.get(Some(&ada), "/user").await.expect(200);
}

#[actix_web::test]
async fn rejected_credentials_count_against_the_address() {
    let world = limited(100, 3);
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.get(Some(&ada), "/user").await.expect(200);
    let bad = never_issued_token();
    for left in [2, 1, 0] {
        let answer = world.get(Some(&bad), "/databases").await;
        answer.refused(401, "UNAUTHENTICATED");
        assert_eq!(answer.header("ratelimit"), format!("\"anonymous\";r={left};t=60"));
    }
    world.get(Some(&bad), "/databases").await.refused(429, "RATE_LIMITED");
    world.get(Some("x"), "/databases").await.refused(429, "RATE_LIMITED");
    // The limit applies before the lookup: a token that is not cached is refused as well, while a recently verified token is
    // still accepted.
    world.get(Some(&bob), "/user").await.refused(429, "RATE_LIMITED");
    world.get(Some(&ada), "/user").await.expect(200);
    world.fakes.clock.advance_seconds(60);
    world.get(Some(&bob), "/user").await.expect(200);
}

#[actix_web::test]
async fn preflights_and_parts_are_free() {
    let world = limited(100, 1);
    for _ in 0..3 {
        let preflight = ApiHarness::request(None, "OPTIONS", "/databases")
            .insert_header(("Origin", "https://a.test"))
            .insert_header(("Access-Control-Request-Method", "GET"));
        let answer = world.send(preflight).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (204, "\"anonymous\";r=1;t=60"));
        let part = ApiHarness::request(None, "PUT", "/uploads/x/1?expires=1&signature=x").set_payload("a");
        world.send(part).await.refused(403, "PERMISSION_DENIED");
    }
    world.send(ApiHarness::request(None, "OPTIONS", "/databases")).await.expect(204);
    world.get(None, "/databases").await.refused(429, "RATE_LIMITED");
}

#[actix_web::test]
async fn a_limit_that_is_off_shows_nothing() {
    let world = limited(0, 0);
    let ada = world.user("ada");
    for who in [None, Some(ada.as_str())] {
        let answer = world.get(who, "/databases").await.expect(200);
        assert_eq!((answer.header("ratelimit"), answer.header("ratelimit-policy")), ("", ""));
    }
    assert_eq!(world.post(Some(&ada), "/databases", json!({})).await.header("ratelimit"), "");
}
