use crate::harness::ApiHarness;
use branchyard_api_testing::never_issued_token;
use branchyard_http_common::RateLimits;
use futures_util::StreamExt as _;
use serde_json::json;

#[actix_web::test]
async fn unknown_routes_are_problems() {
    let world = ApiHarness::new();
    for path in [
        "",
        "/",
        "/user/",
        "/nothing",
        "/databases/",
        "/databases/a",
        "/databases/a/b/c/d",
        "/operations/",
        "/databases/a/b/branches/",
    ] {
        let answer = world.get(None, path).await;
        answer.refused(404, "NOT_FOUND");
        assert_eq!(answer.json()["instance"], format!("/api/v2{path}"));
        assert_eq!(answer.json()["type"], "https://yard.test/docs/errors/not-found");
    }
}

#[actix_web::test]
async fn other_methods_are_told_what_is_allowed() {
    let world = ApiHarness::new();
    let answer = world.delete(None, "/user").await;
    answer.refused(405, "METHOD_NOT_ALLOWED");
    assert_eq!(answer.header("allow"), "GET, HEAD, OPTIONS");
    let answer = world.send(ApiHarness::request(None, "PUT", "/databases/ada/x/branches/a%2Fb")).await;
    assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD, DELETE, OPTIONS"));
    let answer = world.get(None, "/operations/databases/ada/rivers/operations/x/cancel").await;
    assert_eq!((answer.status, answer.header("allow")), (405, "POST, OPTIONS"));
}

#[actix_web::test]
async fn options_and_preflights_need_no_credential() {
    let world = ApiHarness::with(|config| config.allowed_origins = vec!["*".to_owned()]);
    let answer = world.send(ApiHarness::request(None, "OPTIONS", "/databases")).await;
    assert_eq!((answer.status, answer.header("allow")), (204, "GET, HEAD, POST, OPTIONS"));
    let preflight = ApiHarness::request(None, "OPTIONS", "/databases")
        .insert_header(("Origin", "https://elsewhere.test"))
        .insert_header(("Access-Control-Request-Method", "POST"));
    let answer = world.send(preflight).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(answer.header("access-control-allow-methods"), "GET, HEAD, POST, PUT, PATCH, DELETE");
    assert!(answer.header("access-control-allow-headers").contains("Idempotency-Key"));
    assert_eq!(answer.header("access-control-max-age"), "86400");
}

#[actix_web::test]
async fn browsers_keep_answers_to_their_type_their_site_and_their_scheme() {
    let sent = |world: ApiHarness| async move {
        let answer = world.get(None, "/databases").await.expect(200);
        let names = ["x-content-type-options", "cross-origin-resource-policy", "strict-transport-security"];
        names.map(|name| answer.header(name).to_owned())
    };
    let secure = "max-age=31536000";
    assert_eq!(sent(ApiHarness::new()).await, ["nosniff", "same-origin", secure]);
    let plain = ApiHarness::with(|config| config.public_url = "http://yard.test".to_owned());
    assert_eq!(sent(plain).await, ["nosniff", "same-origin", ""]);
    let open = ApiHarness::with(|config| config.allowed_origins = vec!["*".to_owned()]);
    assert_eq!(sent(open).await, ["nosniff", "cross-origin", secure]);
    let missing = ApiHarness::new().get(None, "/nothing-here").await.expect(404);
    assert_eq!(missing.header("x-content-type-options"), "nosniff", "errors have it, too");
}

#[actix_web::test]
async fn no_origin_may_call_by_default() {
    let world = ApiHarness::new();
    for method in ["OPTIONS", "GET"] {
        let request = ApiHarness::request(None, method, "/databases")
            .insert_header(("Origin", "https://elsewhere.test"))
            .insert_header(("Access-Control-Request-Method", "POST"));
        let answer = world.send(request).await.expect(if method == "GET" { 200 } else { 204 });
        let names = answer.headers.keys().map(|name| name.as_str());
        let cors: Vec<&str> = names.filter(|name| name.starts_with("access-control")).collect();
        assert_eq!(cors, [""; 0], "{method}");
    }
}

#[actix_web::test]
async fn an_origin_list_names_the_origin_or_nothing() {
    let world = ApiHarness::with(|config| config.allowed_origins = vec!["https://a.test".to_owned()]);
    let ask = |origin: &'static str| ApiHarness::request(None, "GET", "/databases").insert_header(("Origin", origin));
    assert_eq!(world.send(ask("https://a.test")).await.header("access-control-allow-origin"), "https://a.test");
    assert_eq!(world.send(ask("https://b.test")).await.header("access-control-allow-origin"), "");
}

#[actix_web::test]
async fn every_answer_has_its_headers() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    let answer = world.get(None, "/databases").await.expect(200);
    assert!(answer.header("x-request-id").starts_with("req_"));
    assert_eq!(answer.header("vary"), "Authorization, Accept, Origin");
    assert_eq!(answer.header("cache-control"), "public, no-cache");
    let answer =
        world.send(ApiHarness::request(Some(&ada), "GET", "/user").insert_header(("X-Request-Id", "mine:1"))).await;
    assert_eq!(answer.header("x-request-id"), "mine:1");
    assert_eq!(answer.header("cache-control"), "private, no-cache");
    let answer =
        world.send(ApiHarness::request(None, "GET", "/nothing").insert_header(("X-Request-Id", "not mine"))).await;
    assert!(answer.header("x-request-id").starts_with("req_"));
}

#[actix_web::test]
async fn bad_credentials_are_refused_everywhere() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "open", "public").await;
    let unknown = never_issued_token();
    for token in ["x", unknown.as_str()] {
        for path in ["/databases", "/user", "/databases/ada/open", "/databases/nobody/nothing"] {
            let answer = world.get(Some(token), path).await;
            answer.refused(401, "UNAUTHENTICATED");
            assert!(answer.header("www-authenticate").contains(r#"error="invalid_token""#));
        }
    }
    let answer = world.get(None, "/user").await;
    answer.refused(401, "UNAUTHENTICATED");
    assert_eq!(answer.header("www-authenticate"), r#"Bearer realm="branchyard""#);
    world.fakes.clock.advance_seconds(31 * 86_400);
    world.get(Some(&ada), "/databases").await.refused(401, "UNAUTHENTICATED");
}

#[actix_web::test]
async fn the_user_is_shown() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    let answer = world.get(Some(&ada), "/user").await.expect(200);
    let expected = json!({"username": "ada", "email_addresses": [{"address": "ada@example.test", "is_primary": true, "is_verified": false}]});
    assert_eq!(answer.json(), json!({"data": expected}));
    let etag = answer.header("etag").to_owned();
    let answer = world
        .send(ApiHarness::request(Some(&ada), "GET", "/user").insert_header(("If-None-Match", etag.clone())))
        .await;
    assert_eq!((answer.status, answer.text.as_str(), answer.header("etag")), (304, "", etag.as_str()));
    assert_eq!(world.send(ApiHarness::request(Some(&ada), "HEAD", "/user")).await.status, 200);
}

#[actix_web::test]
async fn bodies_are_checked_before_anything_they_say() {
    let world = ApiHarness::with(|config| config.max_json_body_bytes = 100);
    let ada = world.user("ada");
    let post = |text: &str| ApiHarness::request(Some(&ada), "POST", "/databases").set_payload(text.to_owned());
    world.send(post("{}")).await.refused(415, "UNSUPPORTED_MEDIA_TYPE");
    world.send(post("{}").insert_header(("Content-Type", "text/json"))).await.refused(415, "UNSUPPORTED_MEDIA_TYPE");
    world.send(post(&" ".repeat(101))).await.refused(413, "PAYLOAD_TOO_LARGE");
    let json = |text: &str| post(text).insert_header(("Content-Type", "Application/JSON; charset=utf-8"));
    world.send(json("{")).await.refused(400, "VALIDATION_FAILED");
    world.send(json("[]")).await.refused(400, "VALIDATION_FAILED");
    world.send(post("")).await.refused_at(400, "/owner");
    let answer = world.send(json(r#"{"owner":1,"name":"a b","x":1,"owner":"ada"}"#)).await;
    let errors = answer.json()["errors"].clone();
    let places: Vec<&str> = errors.as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    assert_eq!(places, ["/owner", "/owner", "/name", "/visibility", "/x"]);
}

/// Returns a request whose body never arrives. Only decisions that do not need the body lead to a response.
fn unsent(request: actix_web::test::TestRequest, length: &str) -> actix_http::Request {
    let request = request.insert_header(("Content-Type", "application/json")).insert_header(("Content-Length", length));
    let never = futures_util::stream::pending::<Result<actix_web::web::Bytes, actix_web::error::PayloadError>>();
    let payload: actix_web::dev::Payload = actix_web::dev::Payload::from(never.boxed_local());
    request.to_request().replace_payload(payload).0
}

#[actix_web::test]
async fn credential_quota_size_and_type_come_before_the_body() {
    let world = ApiHarness::with(|config| {
        config.rate_limits = Some(RateLimits { user_per_hour: 4, anonymous_per_minute: 5, is_shared: false });
    });
    let ada = world.user("ada");
    let of = |who| ApiHarness::request(who, "POST", "/databases");
    world.answer(unsent(of(Some("x")), "10")).await.refused(401, "UNAUTHENTICATED");
    world.answer(unsent(of(None), "65536")).await.refused(401, "UNAUTHENTICATED");
    world.answer(unsent(of(None), "65537")).await.refused(413, "PAYLOAD_TOO_LARGE");
    world.answer(unsent(of(Some(&ada)), "2097153")).await.refused(413, "PAYLOAD_TOO_LARGE");
    let other_type = of(None).insert_header(("Content-Type", "text/plain")).insert_header(("Content-Length", "1"));
    world.send(other_type.set_payload("x")).await.refused(415, "UNSUPPORTED_MEDIA_TYPE");
    for status in [401, 429] {
        assert_eq!(world.answer(unsent(of(Some("x")), "10")).await.status, status);
        world.get(None, "/databases").await;
    }
    for _ in 0..3 {
        world.get(Some(&ada), "/user").await.expect(200);
    }
    world.answer(unsent(of(Some(&ada)), "10")).await.refused(429, "RATE_LIMITED");
}

#[actix_web::test]
async fn a_read_without_a_credential_may_have_a_long_body_and_nothing_else() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let read = |length: usize| {
        let body = json!({"q": format!("select 1{}", " ".repeat(length))});
        ApiHarness::request(None, "POST", "/databases/ada/rivers/sql").set_json(body)
    };
    world.send(read(100_000)).await.expect(200);
    let other = ApiHarness::request(None, "POST", "/databases/ada/rivers/branches");
    world.answer(unsent(other, "100000")).await.refused(413, "PAYLOAD_TOO_LARGE");
}

#[actix_web::test]
async fn an_idempotency_key_has_one_effect() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    let body = json!({"owner": "ada", "name": "rivers", "visibility": "public"});
    let post = |who: &str, body: &serde_json::Value| {
        ApiHarness::request(Some(who), "POST", "/databases").insert_header(("Idempotency-Key", "\"k1\"")).set_json(body)
    };
    let first = world.send(post(&ada, &body)).await.expect(201);
    let again = world.send(post(&ada, &body)).await.expect(201);
    assert_eq!(again.text, first.text);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(first.header("idempotent-replayed"), "");
    assert_eq!((again.header("location"), again.header("etag")), (first.header("location"), first.header("etag")));
    assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
    let other = json!({"owner": "ada", "name": "lakes", "visibility": "public"});
    world.send(post(&ada, &other)).await.refused(422, "IDEMPOTENCY_KEY_REUSED");
    let bobs = json!({"owner": "bob", "name": "rivers", "visibility": "public"});
    world.send(post(&bob, &bobs)).await.expect(201);
    world.fakes.clock.advance_seconds(86_401);
    world.send(post(&ada, &body)).await.refused(409, "CONFLICT");
    let bad =
        ApiHarness::request(Some(&ada), "POST", "/databases").insert_header(("Idempotency-Key", "")).set_json(&body);
    world.send(bad).await.refused_at(400, "Idempotency-Key");
}

#[actix_web::test]
async fn an_error_frees_its_key() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    let post = |name: &str| {
        let body = json!({"owner": "ada", "name": name, "visibility": "public"});
        ApiHarness::request(Some(&ada), "POST", "/databases").insert_header(("Idempotency-Key", "k")).set_json(body)
    };
    world.send(post("a b")).await.refused(400, "VALIDATION_FAILED");
    world.send(post("ab")).await.expect(201);
}
