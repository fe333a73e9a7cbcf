use crate::harness::ApiHarness;
use branchyard_domain::usecases::Limits;
use branchyard_domain::values::PublicKey;
use serde_json::{Value, json};

const K: &str = "/user/keys";
const EXAMPLE: &str = "0eggffvjpo8bs7bgrkceeiu0j5ju9lhgjeigqnotri3684il66s0";

fn key(number: u8) -> Value {
    json!({"name": format!("key {number}"), "public_key": PublicKey::from_bytes([number; 32]).to_string()})
}

#[actix_web::test]
async fn a_key_is_added_listed_and_removed() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    let added = world.post(Some(&ada), K, json!({"name": "laptop", "public_key": EXAMPLE})).await.expect(201).data();
    let expected = json!({
        "id": added["id"], "name": "laptop", "kid": "7ku1cgd7ujkcri5u4smmrsrpcp3ejsmgc9t7o3dkdbars",
        "public_key": EXAMPLE, "created_at": "2026-01-02T03:04:05.678Z",
    });
    assert_eq!(added, expected);
    for taken in [&ada, &bob] {
        world.post(Some(taken), K, json!({"name": "x", "public_key": EXAMPLE})).await.refused(409, "CONFLICT");
    }
    world.post(Some(&ada), K, key(1)).await.expect(201);
    let listed = world.get(Some(&ada), &format!("{K}?page_size=1")).await.expect(200);
    assert_eq!(listed.data()[0]["name"], "key 1", "the newest comes first");
    assert_eq!(world.get(Some(&bob), K).await.expect(200).data(), json!([]));
    let path = format!("{K}/{}", added["id"].as_str().unwrap());
    world.delete(Some(&bob), &path).await.refused(404, "NOT_FOUND");
    assert_eq!(world.delete(Some(&ada), &path).await.expect(200).data(), expected);
    world.delete(Some(&ada), &path).await.refused(404, "NOT_FOUND");
    // It may belong to another user now.
    world.post(Some(&bob), K, json!({"name": "laptop", "public_key": EXAMPLE})).await.expect(201);
}

#[actix_web::test]
async fn only_public_keys_are_keys_and_there_are_only_so_many() {
    let world = ApiHarness::limited(Limits { keys_per_user: 2, ..Limits::default() });
    let ada = world.user("ada");
    for public_key in [
        "",
        "x",
        &EXAMPLE.to_uppercase(),
        &EXAMPLE[1..],
        &format!("{EXAMPLE}0"),
        "7ku1cgd7ujkcri5u4smmrsrpcp3ejsmgc9t7o3dkdbars",
    ] {
        let refused = world.post(Some(&ada), K, json!({"name": "laptop", "public_key": public_key})).await;
        refused.refused(400, "VALIDATION_FAILED");
    }
    world.post(Some(&ada), K, json!({"name": " ", "public_key": EXAMPLE})).await.refused(400, "VALIDATION_FAILED");
    world.post(Some(&ada), K, key(1)).await.expect(201);
    world.post(Some(&ada), K, key(2)).await.expect(201);
    world.post(Some(&ada), K, key(3)).await.refused(422, "UNPROCESSABLE");
}

/// The credentials of clients are for the endpoints of remotes alone.
#[actix_web::test]
async fn this_api_takes_no_credential_of_a_client() {
    let world = ApiHarness::new();
    world.get(Some("eyJhbGciOiJFZERTQSJ9.e30.AA"), "/user").await.refused(401, "UNAUTHENTICATED");
}
