use crate::harness::ApiHarness;
use branchyard_domain_testing::fakes::SAME_DIGITS;
use serde_json::{Value, json};

#[actix_web::test]
async fn a_branch_with_slashes() {
    let world = ApiHarness::new();
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
    let world = ApiHarness::new();
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
    let world = ApiHarness::new();
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
async fn the_first_digits_of_a_commit_name_it() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let head = world.get(None, "/databases/ada/rivers/branches/main").await.data()["head_commit_sha"].clone();
    let head = head.as_str().unwrap();
    let commits = |name: &str| format!("/databases/ada/rivers/commits?ref={name}");
    for digits in [&head[..7], &head[..39], &head[..8].to_uppercase()] {
        assert_eq!(world.get(None, &commits(digits)).await.expect(200).data()[0]["sha"], head, "{digits}");
    }
    for unknown in [&head[..6], "0000000"] {
        world.get(None, &commits(unknown)).await.refused(404, "NOT_FOUND");
    }
    let branch = json!({"name": "x", "from": {"commit": &head[..7]}});
    let made = world.post(Some(&ada), "/databases/ada/rivers/branches", branch).await.expect(201).data();
    assert_eq!(made["head_commit_sha"], head);
    let release = json!({"tag": "v1", "title": "One", "commit_sha": &head[..8], "create_tag_if_not_exists": true});
    let made = world.post(Some(&ada), "/databases/ada/rivers/releases", release.clone()).await.expect(201).data();
    assert_eq!(made["commit_sha"], head);
    let mut short = release;
    short["commit_sha"] = json!(&head[..6]);
    world.post(Some(&ada), "/databases/ada/rivers/releases", short).await.refused_at(400, "/commit_sha");
}

#[actix_web::test]
async fn digits_that_several_commits_begin_with_are_refused_with_these() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let mut commits = Vec::new();
    for table in ["a", "b"] {
        let message = format!("{table} {SAME_DIGITS}");
        let q = format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY)");
        let write = json!({"from_branch": "main", "to_branch": "main", "q": q, "commit_message": message});
        world.post(Some(&ada), "/databases/ada/rivers/sql-writes", write).await.expect(202);
        world.work();
        let branch = world.get(None, "/databases/ada/rivers/branches/main").await.data();
        commits.push(branch["head_commit_sha"].as_str().unwrap().to_owned());
    }
    commits.sort();
    let digits = commits[0][..8].to_owned();
    assert!(commits[1].starts_with(&digits));
    let release = json!({"tag": "v1", "title": "One", "commit_sha": digits, "create_tag_if_not_exists": true});
    for answer in [
        world.get(None, &format!("/databases/ada/rivers/commits?ref={digits}")).await,
        world.post(Some(&ada), "/databases/ada/rivers/releases", release).await,
    ] {
        answer.refused(422, "UNPROCESSABLE");
        let problem: Value = serde_json::from_str(&answer.text).unwrap();
        let named: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|entry| entry["detail"].clone()).collect();
        assert_eq!(named, commits);
    }
}

#[actix_web::test]
async fn tags_and_releases() {
    let world = ApiHarness::new();
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
        ApiHarness::request(Some(&ada), "DELETE", "/databases/ada/rivers/tags/v1").insert_header(("If-Match", "\"x\""));
    world.send(stale).await.refused(412, "PRECONDITION_FAILED");
    assert_eq!(world.delete(Some(&ada), "/databases/ada/rivers/tags/v1").await.expect(200).data(), tag);
}

#[actix_web::test]
async fn a_release_is_edited_and_deleted() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    let head = world.get(None, "/databases/ada/rivers/branches/main").await.data()["head_commit_sha"].clone();
    let body = json!({
        "tag": "v/1", "title": "One", "description": "Notes", "commit_sha": head, "create_tag_if_not_exists": true,
    });
    let created = world.post(Some(&ada), "/databases/ada/rivers/releases", body).await.expect(201);
    let path = "/databases/ada/rivers/releases/v%2F1";
    let same = world.patch(Some(&ada), path, json!({"title": "One"})).await.expect(200);
    world.fakes.clock.advance_seconds(60);
    assert_eq!((same.data(), same.header("etag")), (created.data(), created.header("etag")), "nothing changed");
    let edit = json!({"title": "First", "description": null});
    world.if_match(&ada, "PATCH", path, "\"x\"", Some(edit.clone())).await.refused(412, "PRECONDITION_FAILED");
    let edited = world.if_match(&ada, "PATCH", path, created.header("etag"), Some(edit)).await.expect(200);
    let data = edited.data();
    assert_eq!((&data["title"], data.get("description")), (&json!("First"), None));
    assert_eq!(data["created_at"], "2026-01-02T03:04:05.678Z");
    assert_eq!(data["updated_at"], "2026-01-02T03:05:05.678Z");
    let got = world.get(None, "/databases/ada/rivers/releases/v/1").await.expect(200);
    assert_eq!((got.data(), got.header("etag")), (data.clone(), edited.header("etag")));
    for (edit, place) in [
        (json!({}), ""),
        (json!({"title": null}), "/title"),
        (json!({"title": " "}), "/title"),
        (json!({"title": "ü".repeat(257)}), "/title"),
        (json!({"description": "x".repeat(65_537)}), "/description"),
        (json!({"tag": "v2"}), "/tag"),
    ] {
        world.patch(Some(&ada), path, edit).await.refused_at(400, place);
    }
    for method in ["PATCH", "DELETE"] {
        let ask = |who: Option<&str>, tag: &str| {
            let request = ApiHarness::request(who, method, &format!("/databases/ada/rivers/releases/{tag}"));
            world.send(request.set_json(json!({"x": 1})))
        };
        ask(Some(&bob), "v%2F1").await.refused(403, "PERMISSION_DENIED");
        ask(Some(&bob), "v2").await.refused(404, "NOT_FOUND");
        ask(None, "v2").await.refused(401, "UNAUTHENTICATED");
    }
    world.if_match(&ada, "DELETE", path, created.header("etag"), None).await.refused(412, "PRECONDITION_FAILED");
    let deleted = world.if_match(&ada, "DELETE", path, edited.header("etag"), None).await.expect(200);
    assert_eq!(deleted.data(), data);
    world.get(None, path).await.refused(404, "NOT_FOUND");
    world.get(None, "/databases/ada/rivers/tags/v%2F1").await.expect(200);
    world.delete(Some(&ada), "/databases/ada/rivers/tags/v%2F1").await.expect(200);
}

#[actix_web::test]
async fn a_branch_that_is_written_to_stays() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    world.branch(&ada, "ada/rivers", "work", "main").await;
    let path = "/databases/ada/rivers/branches/work";
    let got = world.get(None, path).await.expect(200);
    let write = json!({"from_branch": "work", "to_branch": "work", "q": "CREATE TABLE t(a INTEGER)"});
    let accepted = world.post(Some(&ada), "/databases/ada/rivers/sql-writes", write).await.expect(202);
    world.if_match(&ada, "DELETE", path, "\"x\"", None).await.refused(409, "CONFLICT");
    world.finish(&ada, &accepted).await;
    world.if_match(&ada, "DELETE", path, got.header("etag"), None).await.refused(412, "PRECONDITION_FAILED");
    let now = world.get(None, path).await.expect(200);
    assert_eq!(world.if_match(&ada, "DELETE", path, now.header("etag"), None).await.expect(200).data(), now.data());
}
