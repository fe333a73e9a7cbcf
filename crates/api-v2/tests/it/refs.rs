use crate::world::World;
use serde_json::json;

#[actix_web::test]
async fn a_branch_with_slashes() {
    let world = World::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let body = json!({"name": "feature/x", "from": {"branch": "main"}});
    let created = world.post(Some(&ada), "/databases/ada/rivers/branches", body.clone()).await.expect(201);
    assert_eq!(created.header("location"), "https://yard.test/api/v2/databases/ada/rivers/branches/feature%2Fx");
    assert_eq!(created.data()["is_default"], false);
    for path in ["feature%2Fx", "feature/x", "feature%2fx"] {
        let got = world.get(None, &format!("/databases/ada/rivers/branches/{path}")).await.expect(200);
        assert_eq!(got.data(), created.data());
        assert_eq!(got.header("etag"), created.header("etag"));
    }
    world.get(None, "/databases/ada/rivers/branches/feature%252Fx").await.refused(404, "NOT_FOUND");
    world.post(Some(&ada), "/databases/ada/rivers/branches", body).await.refused(409, "CONFLICT");
    world.delete(Some(&ada), "/databases/ada/rivers/branches/feature/x").await.expect(200);
    world.delete(Some(&ada), "/databases/ada/rivers/branches/feature/x").await.refused(404, "NOT_FOUND");
    world.delete(Some(&ada), "/databases/ada/rivers/branches/main").await.refused(422, "UNPROCESSABLE");
}

#[actix_web::test]
async fn absence_comes_before_a_role_that_is_too_low() {
    let world = World::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    world.delete(Some(&bob), "/databases/ada/rivers/branches/nope").await.refused(404, "NOT_FOUND");
    world.delete(Some(&bob), "/databases/ada/rivers/branches/main").await.refused(403, "PERMISSION_DENIED");
    world.delete(None, "/databases/ada/rivers/branches/nope").await.refused(401, "UNAUTHENTICATED");
    let body = json!({"bad": 1});
    world.post(Some(&bob), "/databases/ada/rivers/branches", body).await.refused(403, "PERMISSION_DENIED");
}

#[actix_web::test]
async fn a_revision_is_a_branch_or_a_commit() {
    let world = World::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let head = world.get(None, "/databases/ada/rivers/branches/main").await.data()["head_commit_sha"].clone();
    let path = "/databases/ada/rivers/branches";
    let body = |from: serde_json::Value| json!({"name": "x", "from": from});
    world.post(Some(&ada), path, body(json!({}))).await.refused_at(400, "/from");
    world.post(Some(&ada), path, body(json!({"branch": "main", "commit": head}))).await.refused_at(400, "/from");
    world.post(Some(&ada), path, body(json!({"commit": "abc"}))).await.refused_at(400, "/from/commit");
    world.post(Some(&ada), path, body(json!({"branch": "nope"}))).await.refused(404, "NOT_FOUND");
    world.post(Some(&ada), path, body(json!({"commit": "0".repeat(40)}))).await.refused(404, "NOT_FOUND");
    let upper = head.as_str().unwrap().to_uppercase();
    world.post(Some(&ada), path, body(json!({"commit": upper, "branch": null}))).await.expect(201);
}

#[actix_web::test]
async fn tags_and_releases() {
    let world = World::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let tag = json!({"name": "v1", "from": {"branch": "main"}, "message": "First cut"});
    let tag = world.post(Some(&ada), "/databases/ada/rivers/tags", tag).await.expect(201).data();
    assert_eq!(tag["message"], "First cut");
    assert_eq!(world.get(None, "/databases/ada/rivers/tags/v1").await.expect(200).data(), tag);
    let release = json!({"tag": "v2", "title": "Two", "commit_sha": tag["commit_sha"]});
    world.post(Some(&ada), "/databases/ada/rivers/releases", release.clone()).await.refused(404, "NOT_FOUND");
    let mut release = release;
    release["create_tag_if_not_exists"] = json!(true);
    let created = world.post(Some(&ada), "/databases/ada/rivers/releases", release.clone()).await.expect(201);
    assert_eq!(created.header("location"), "https://yard.test/api/v2/databases/ada/rivers/releases/v2");
    assert_eq!(created.data()["created_at"], created.data()["updated_at"]);
    assert_eq!(world.get(None, "/databases/ada/rivers/releases/v2").await.expect(200).data(), created.data());
    assert_eq!(world.get(None, "/databases/ada/rivers/releases").await.expect(200).data(), json!([created.data()]));
    world.post(Some(&ada), "/databases/ada/rivers/releases", release).await.refused(409, "CONFLICT");
    world.delete(Some(&ada), "/databases/ada/rivers/tags/v2").await.refused(409, "CONFLICT");
    let stale =
        World::request(Some(&ada), "DELETE", "/databases/ada/rivers/tags/v1").insert_header(("If-Match", "\"x\""));
    world.send(stale).await.refused(412, "PRECONDITION_FAILED");
    assert_eq!(world.delete(Some(&ada), "/databases/ada/rivers/tags/v1").await.expect(200).data(), tag);
}
