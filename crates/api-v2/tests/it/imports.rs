use crate::harness::ApiHarness;
use actix_web::test::TestRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

const I: &str = "/databases/ada/rivers/imports";
pub(crate) const FILE: &[u8] = b"id,name\n1,Alice\n";

async fn session() -> (ApiHarness, String, Value) {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "private").await;
    let body = json!({"content_length": FILE.len(), "num_parts": 1, "file_type": "csv"});
    let answer = world.post(Some(&ada), &format!("{I}/uploads"), body).await.expect(201);
    assert_eq!(
        (answer.header("cache-control"), answer.header("etag"), answer.header("location")),
        ("no-store", "", "")
    );
    let keys: Vec<String> = answer.data().as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["contents_key", "headers", "http_method", "parts", "token"]);
    (world, ada, answer.data())
}

pub(crate) fn put(url: &str, bytes: &[u8]) -> TestRequest {
    TestRequest::put().uri(url.strip_prefix("https://yard.test").unwrap()).set_payload(bytes.to_vec())
}

pub(crate) fn url(session: &Value) -> &str {
    session["parts"][0]["url"].as_str().unwrap()
}

pub(crate) fn request(session: &Value, etag: &str) -> Value {
    json!({
        "branch_name": "main", "table_name": "people", "file_name": "people.csv", "file_size": FILE.len(), "file_type": "csv",
        "import_operation": "create", "token": session["token"], "contents_key": session["contents_key"],
        "completed_parts": [{"part_number": 1, "etag": etag}], "file_parts_md5": "pIX9YH40aFyNTQB/HPa4iw==",
        "primary_keys": ["id"], "commit_message": "Import people", "column_map": {}, "pull_request_branch_name": null,
    })
}

#[actix_web::test]
async fn a_file_is_uploaded_and_imported() {
    let (world, ada, session) = session().await;
    let md5 = STANDARD.encode(Md5::digest(FILE));
    let put = put(url(&session), FILE).insert_header(("Content-MD5", md5)).insert_header(("Authorization", "nonsense"));
    let answer = world.send(put).await.expect(200);
    assert_eq!((answer.text.as_str(), answer.header("etag")), ("", "\"0b13d5cd7d263ccb7c6425a348112f13\""));
    let etag = answer.header("etag").to_owned();
    let accepted = world.post(Some(&ada), I, request(&session, &etag)).await;
    let operation = world.finish(&ada, &accepted).await;
    assert_eq!((&operation["type"], &operation["status"]), (&json!("import"), &json!("succeeded")), "{operation}");
    let read = world.post(Some(&ada), "/databases/ada/rivers/sql", json!({"q": "select * from people"})).await.data();
    assert_eq!(read["rows"], json!([["1", "Alice"]]));
    let again = world.post(Some(&ada), I, request(&session, &etag)).await;
    again.refused(409, "CONFLICT");
    assert!(again.json()["detail"].as_str().unwrap().contains(operation["id"].as_str().unwrap()));
}

#[actix_web::test]
async fn token_and_key_are_told_apart() {
    let (world, ada, session) = session().await;
    let etag = world.send(put(url(&session), FILE)).await.expect(200).header("etag").to_owned();
    let with = |name: &str, value: &str| {
        let mut body = request(&session, &etag);
        body[name] = json!(value);
        body
    };
    world.post(Some(&ada), I, with("token", "up_guess")).await.refused_at(400, "/token");
    let elsewhere = "imports/0199c3a9-0000-7000-8000-000000000001";
    for key in ["", "imports/x", elsewhere] {
        world.post(Some(&ada), I, with("contents_key", key)).await.refused_at(400, "/contents_key");
    }
    world.post(Some(&ada), I, with("token", session["token"].as_str().unwrap())).await.expect(202);
}

#[actix_web::test]
async fn parts_are_refused_for_the_right_reason() {
    let (world, _, session) = session().await;
    let good = url(&session);
    world.send(put(&good.replace("/1?", "/2?"), FILE)).await.refused(403, "PERMISSION_DENIED");
    for other in ["/01?", "/+1?", "/0001?"] {
        world.send(put(&good.replace("/1?", other), FILE)).await.refused(403, "PERMISSION_DENIED");
    }
    world.send(put(&format!("{good}x"), FILE)).await.refused(403, "PERMISSION_DENIED");
    world.send(put(good.split_once('?').unwrap().0, FILE)).await.refused(403, "PERMISSION_DENIED");
    world.send(put(good, b"")).await.refused(400, "VALIDATION_FAILED");
    world.send(put(good, &[b'x'; 17])).await.refused(413, "PAYLOAD_TOO_LARGE");
    world.send(put(good, FILE).insert_header(("Content-MD5", "x"))).await.refused_at(400, "Content-MD5");
    let other = STANDARD.encode(Md5::digest(b"other"));
    world.send(put(good, FILE).insert_header(("Content-MD5", other))).await.refused(400, "VALIDATION_FAILED");
    let get = TestRequest::get().uri(good.strip_prefix("https://yard.test").unwrap());
    world.send(get).await.refused(405, "METHOD_NOT_ALLOWED");
    world.fakes.clock.advance_seconds(600);
    world.send(put(good, FILE)).await.refused(403, "PERMISSION_DENIED");
}

#[actix_web::test]
async fn requests_off_the_rules() {
    let (world, ada, session) = session().await;
    for (field, value) in [("content_length", json!(0)), ("num_parts", json!(1_001)), ("file_type", json!("doc"))] {
        let mut body = json!({"content_length": 2_000, "num_parts": 1, "file_type": "csv"});
        body[field] = value;
        world.post(Some(&ada), &format!("{I}/uploads"), body).await.refused_at(400, &format!("/{field}"));
    }
    let body = json!({"content_length": (1_u64 << 30) + 1, "num_parts": 1, "file_type": "csv"});
    world.post(Some(&ada), &format!("{I}/uploads"), body).await.refused(413, "PAYLOAD_TOO_LARGE");
    let etag = world.send(put(url(&session), FILE)).await.header("etag").to_owned();
    for (field, value) in [
        ("file_size", json!(1)),
        ("file_type", json!("psv")),
        ("token", json!("up_x")),
        ("file_parts_md5", json!("x")),
        ("completed_parts", json!([])),
        ("completed_parts", json!([{"part_number": 1, "etag": "x"}])),
        ("table_name", json!("dolt_x")),
        ("pull_request_branch_name", json!("main")),
        ("primary_keys", json!(null)),
    ] {
        let mut body = request(&session, &etag);
        body[field] = value;
        world.post(Some(&ada), I, body).await.refused_at(400, &format!("/{field}"));
    }
    let mut body = request(&session, &etag);
    body["branch_name"] = json!("nope");
    world.post(Some(&ada), I, body).await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn a_deleted_database_takes_no_parts() {
    let (world, ada, session) = session().await;
    world.send(put(url(&session), FILE)).await.expect(200);
    world.delete(Some(&ada), "/databases/ada/rivers").await.expect(200);
    world.send(put(url(&session), FILE)).await.refused(403, "PERMISSION_DENIED");
}
