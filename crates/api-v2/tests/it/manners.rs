use serde_json::json;

use crate::harness::ApiHarness;

const S: &str = "/databases/ada/rivers/sql";

async fn rivers() -> (ApiHarness, String) {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let rows: Vec<String> = (0..400).map(|n| format!("({n},'the same text in every row')")).collect();
    let statements = format!("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES {}", rows.join(","));
    world.write(&ada, "ada/rivers", "main", &statements).await;
    (world, ada)
}

fn ask(method: &str, path: &str, headers: &[(&'static str, &str)]) -> actix_web::test::TestRequest {
    headers
        .iter()
        .fold(ApiHarness::request(None, method, path), |request, (name, value)| request.insert_header((*name, *value)))
}

#[actix_web::test]
async fn only_what_has_no_tag_or_a_tag_for_its_coding_is_coded() {
    let (world, _) = rivers().await;
    let gzip = ("Accept-Encoding", "gzip");
    let one = world.send(ask("GET", "/databases/ada/rivers", &[gzip])).await.expect(200);
    assert_eq!((one.header("content-encoding"), one.header("vary")), ("", "Authorization, Accept, Origin"));
    let q = format!("{S}?q=select%20*%20from%20t%20order%20by%20id");
    let mut tags = Vec::new();
    for (wanted, got) in [("gzip", "gzip"), ("br", "br"), ("zstd", "zstd"), ("deflate", "")] {
        let answer = world.send(ask("GET", &q, &[("Accept-Encoding", wanted)])).await.expect(200);
        assert_eq!(answer.header("content-encoding"), got);
        let vary: Vec<&str> = answer.headers.get_all("vary").map(|value| value.to_str().unwrap()).collect();
        assert_eq!(vary, ["Authorization, Accept, Origin", "Accept-Encoding"]);
        let tag = answer.header("etag").to_owned();
        let again = ask("GET", &q, &[("Accept-Encoding", wanted), ("If-None-Match", &tag)]);
        assert_eq!(world.send(again).await.status, 304);
        tags.push(tag);
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4);
    let other = ask("GET", &q, &[("Accept-Encoding", "gzip, zstd;q=0, br;q=0"), ("If-None-Match", &tags[0])]);
    let other = world.send(other).await;
    assert!(other.status == 304 || other.header("etag") != tags[0]);
    let csv = world.send(ask("GET", &q, &[gzip, ("Accept", "text/csv")])).await.expect(200);
    assert_eq!(csv.header("content-encoding"), "gzip");
    let short = world.send(ask("GET", &format!("{S}?q=select%201"), &[gzip])).await.expect(200);
    assert_eq!(short.header("content-encoding"), "");
    let list = world.send(ask("GET", "/databases/ada/rivers/diff?from=main~1&to=main&page_size=100", &[gzip])).await;
    assert_eq!((list.status, list.header("content-encoding")), (200, "gzip"), "{}", list.text);
}

#[actix_web::test]
async fn head_is_get_without_the_body() {
    let (world, _) = rivers().await;
    let d = "/databases/ada/rivers";
    for (path, accept) in [
        ("/databases", "*/*"),
        ("/openapi.json", "*/*"),
        (d, "*/*"),
        (&format!("{d}/branches/main"), "*/*"),
        (&format!("{d}/branches/nope"), "*/*"),
        (&format!("{d}/schema"), "*/*"),
        (&format!("{S}?q=select%20*%20from%20t"), "*/*"),
        (&format!("{S}?q=select%20*%20from%20t"), "text/csv"),
        ("/nothing", "*/*"),
    ] {
        let headers = [("Accept", accept), ("X-Request-Id", "same")];
        let got = world.send(ask("GET", path, &headers)).await;
        let head = world.send(ask("HEAD", path, &headers)).await;
        assert_eq!((head.status, head.text.as_str()), (got.status, ""), "{path}");
        for name in ["content-type", "etag", "cache-control", "vary", "x-request-id"] {
            assert_eq!(head.header(name), got.header(name), "{path} {name}");
        }
    }
    let user = world.send(ask("HEAD", "/user", &[])).await;
    assert_eq!((user.status, user.text.as_str()), (401, ""));
    assert_eq!(user.header("www-authenticate"), "Bearer realm=\"branchyard\"");
}

#[actix_web::test]
async fn queries_ignore_what_they_do_not_know_and_refuse_what_is_there_twice() {
    let (world, _) = rivers().await;
    let d = "/databases/ada/rivers";
    world.get(None, &format!("{d}/branches?nothing=1&nothing=2&page%5Fsize=1")).await.expect(200);
    for (path, place) in [
        ("/databases?owner=ada&owner=bob".to_owned(), "owner"),
        (format!("{d}/branches?page_size=1&page_size=1"), "page_size"),
        (format!("{d}/branches?page_token=&page_token="), "page_token"),
        (format!("{d}/pulls?state=open&state=open"), "state"),
        (format!("{d}/commits?ref=main&ref=main"), "ref"),
        (format!("{d}/diff?from=main&to=main&to=main"), "to"),
        (format!("{d}/operations?status=failed&type=fork&type=fork"), "type"),
        (format!("{S}?q=select%201&q=select%201"), "q"),
        (format!("{S}?q=select%201&%6Cimit=1&limit=1"), "limit"),
    ] {
        world.get(None, &path).await.refused_at(400, place);
    }
}

#[actix_web::test]
async fn a_body_is_refused_by_the_length_it_declares() {
    let world = ApiHarness::with(|config| config.max_json_body_bytes = 1_000);
    let ada = world.user("ada");
    let declared = ApiHarness::request(Some(&ada), "POST", "/databases").set_payload("{}");
    world.send(declared.insert_header(("Content-Length", "1001"))).await.refused(413, "PAYLOAD_TOO_LARGE");
    let body = json!({"owner": "ada", "name": "a".repeat(900), "visibility": "public"});
    world.post(Some(&ada), "/databases", body).await.refused_at(400, "/name");
}

#[actix_web::test]
async fn the_document_is_served_and_kept() {
    let world = ApiHarness::new();
    let answer = world.get(None, "/openapi.json").await.expect(200);
    assert_eq!(answer.json()["servers"][0]["variables"]["base_url"]["default"], "https://yard.test");
    let committed: serde_json::Value = serde_json::from_str(&branchyard_api_v2::openapi()).unwrap();
    assert_eq!(answer.json()["paths"], committed["paths"]);
    let again = ask("GET", "/openapi.json", &[("If-None-Match", answer.header("etag"))]);
    assert_eq!(world.send(again).await.status, 304);
}

#[actix_web::test]
async fn secrets_are_not_stored_and_not_coded() {
    let (world, ada) = rivers().await;
    let body = json!({"content_length": 1_000, "num_parts": 100, "file_type": "csv"});
    let path = "/databases/ada/rivers/imports/uploads";
    let ask = ApiHarness::request(Some(&ada), "POST", path).insert_header(("Accept-Encoding", "gzip")).set_json(body);
    let answer = world.send(ask).await.expect(201);
    assert_eq!((answer.header("cache-control"), answer.header("content-encoding")), ("no-store", ""));
}

#[actix_web::test]
async fn a_preflight_names_everything_and_no_credentials() {
    let world = ApiHarness::with(|config| config.allowed_origins = vec!["https://a.test".to_owned()]);
    let asked = [("Origin", "https://a.test"), ("Access-Control-Request-Method", "PATCH")];
    let answer = world.send(ask("OPTIONS", "/databases/ada/rivers", &asked)).await.expect(204);
    for (name, value) in [
        ("access-control-allow-origin", "https://a.test"),
        ("access-control-allow-methods", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        (
            "access-control-allow-headers",
            "Authorization, Content-Type, Accept, Idempotency-Key, If-Match, If-None-Match, Prefer, X-Request-Id, traceparent",
        ),
        ("access-control-max-age", "86400"),
        ("access-control-allow-credentials", ""),
        ("access-control-expose-headers", ""),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let plain = world.send(ask("GET", "/databases", &[("Origin", "https://a.test")])).await;
    assert_eq!(
        plain.header("access-control-expose-headers"),
        "ETag, Location, Retry-After, RateLimit, RateLimit-Policy, Idempotent-Replayed, Preference-Applied, X-Request-Id"
    );
}

#[actix_web::test]
async fn a_key_is_looked_up_after_the_role_and_before_the_body() {
    let (world, ada) = rivers().await;
    let bob = world.user("bob");
    let path = "/databases/ada/rivers/branches";
    let post = |who: &str, key: &str, body: serde_json::Value| {
        ApiHarness::request(Some(who), "POST", path).insert_header(("Idempotency-Key", key)).set_json(body)
    };
    let body = json!({"name": "x", "from": {"branch": "main"}});
    world.send(post(&bob, "", body.clone())).await.refused(403, "PERMISSION_DENIED");
    world.send(post(&ada, "", json!({"bad": 1}))).await.refused_at(400, "Idempotency-Key");
    world.send(post(&ada, "k", body.clone())).await.expect(201);
    world.send(post(&ada, "k", json!({"bad": 1}))).await.refused(422, "IDEMPOTENCY_KEY_REUSED");
    // The key is ignored for reads by POST, which have no effect to repeat, and for methods without idempotency keys.
    let read =
        ApiHarness::request(None, "POST", S).insert_header(("Idempotency-Key", "")).set_json(json!({"q": "select 1"}));
    world.send(read).await.expect(200);
    let delete = ApiHarness::request(Some(&ada), "DELETE", &format!("{path}/x")).insert_header(("Idempotency-Key", ""));
    world.send(delete).await.expect(200);
}
