use crate::harness::ApiHarness;
use branchyard_domain::usecases::Limits;
use serde_json::json;

#[actix_web::test]
async fn a_database_lives_and_dies() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    let body = json!({"owner": "ADA", "name": "Rivers", "visibility": "private", "description": "River gauges"});
    let created = world.post(Some(&ada), "/databases", body).await.expect(201);
    assert_eq!(created.header("location"), "https://yard.test/api/v2/databases/ada/Rivers");
    let expected = json!({
        "owner": "ada", "name": "Rivers", "description": "River gauges", "visibility": "private", "fork_network_count": 0,
        "star_count": 0, "size_bytes": created.data()["size_bytes"], "garbage_bytes": 0, "anonymous_sql": true, "last_write_at": "2026-01-02T03:04:05.678Z",
        "default_branch": "main", "created_at": "2026-01-02T03:04:05.678Z", "viewer_role": "admin",
    });
    assert_eq!(created.data(), expected);
    let got = world.get(Some(&ada), "/databases/Ada/rivers").await.expect(200);
    assert_eq!(got.data(), expected);
    assert_eq!(got.header("etag"), created.header("etag"));
    let changed =
        ApiHarness::request(Some(&ada), "DELETE", "/databases/ada/rivers").insert_header(("If-Match", "\"x\""));
    world.send(changed).await.refused(412, "PRECONDITION_FAILED");
    let same = ApiHarness::request(Some(&ada), "DELETE", "/databases/ada/rivers")
        .insert_header(("If-Match", got.header("etag").to_owned()));
    assert_eq!(world.send(same).await.expect(200).data(), expected);
    world.get(Some(&ada), "/databases/ada/rivers").await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn what_is_hidden_looks_absent() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "secret", "private").await;
    world.database(&ada, "ada", "open", "public").await;
    for who in [None, Some(bob.as_str())] {
        let hidden = world.get(who, "/databases/ada/secret").await;
        let absent = world.get(who, "/databases/ada/nothing").await;
        hidden.refused(404, "NOT_FOUND");
        assert_eq!(hidden.json()["detail"], "no such repository");
        assert_eq!(hidden.json()["detail"], absent.json()["detail"]);
        world.get(who, "/databases/a!/x").await.refused(404, "NOT_FOUND");
    }
    world.delete(None, "/databases/ada/secret").await.refused(401, "UNAUTHENTICATED");
    world.delete(Some(&bob), "/databases/ada/secret").await.refused(404, "NOT_FOUND");
    world.delete(Some(&bob), "/databases/ada/open").await.refused(403, "PERMISSION_DENIED");
    let listed = world.get(Some(&bob), "/databases").await.expect(200).data();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["viewer_role"], "read");
}

#[actix_web::test]
async fn creating_is_refused_for_the_right_reason() {
    let world = ApiHarness::new();
    let (ada, _bob) = (world.user("ada"), world.user("bob"));
    let body = |owner: &str, name: &str| json!({"owner": owner, "name": name, "visibility": "public"});
    world.post(None, "/databases", body("ada", "x")).await.refused(401, "UNAUTHENTICATED");
    for owner in ["bob", "nobody", "a b"] {
        world.post(Some(&ada), "/databases", body(owner, "x")).await.refused(403, "PERMISSION_DENIED");
    }
    world.post(Some(&ada), "/databases", body("ada", "x")).await.expect(201);
    world.post(Some(&ada), "/databases", body("ada", "X")).await.refused(409, "CONFLICT");
    world.post(Some(&ada), "/databases", body("ada", "-x")).await.refused_at(400, "/name");
}

#[actix_web::test]
async fn lists_filter() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    for (name, visibility) in [("Rivers", "public"), ("lakes", "private"), ("river-two", "public")] {
        world.database(&ada, "ada", name, visibility).await;
    }
    let names = |path: &'static str| {
        let (world, ada) = (&world, &ada);
        async move {
            let data = world.get(Some(ada), path).await.expect(200).data();
            data.as_array()
                .unwrap()
                .iter()
                .map(|d| d["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
                .join(" ")
        }
    };
    assert_eq!(names("/databases").await, "lakes river-two Rivers");
    assert_eq!(names("/databases?q=RIVER").await, "river-two Rivers");
    assert_eq!(names("/databases?visibility=private").await, "lakes");
    assert_eq!(names("/databases?owner=Ada&x=1&x=2").await, "lakes river-two Rivers");
    assert_eq!(names("/databases?owner=nobody").await, "");
    assert_eq!(names("/databases?owner=%21").await, "");
    world.get(None, "/databases?visibility=x").await.refused_at(400, "visibility");
    world.get(None, "/databases?q=").await.refused_at(400, "q");
    world.get(None, "/databases?owner=a&owner=a").await.refused_at(400, "owner");
}

#[actix_web::test]
async fn what_a_database_says_of_itself_changes() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "private").await;
    world.branch(&ada, "ada/rivers", "work", "main").await;
    let path = "/databases/ada/rivers";
    let before = world.get(Some(&ada), path).await.expect(200);
    let edit = json!({"description": "River gauges", "visibility": "public", "default_branch": "work"});
    world.if_match(&ada, "PATCH", path, "\"x\"", Some(edit.clone())).await.refused(412, "PRECONDITION_FAILED");
    world.get(Some(&bob), path).await.refused(404, "NOT_FOUND");
    let changed = world.if_match(&ada, "PATCH", path, before.header("etag"), Some(edit)).await.expect(200);
    let mut expected = before.data();
    expected["description"] = json!("River gauges");
    expected["visibility"] = json!("public");
    expected["default_branch"] = json!("work");
    assert_eq!(changed.data(), expected);
    let got = world.get(Some(&ada), path).await.expect(200);
    assert_eq!((got.data(), got.header("etag")), (expected, changed.header("etag")));
    assert_eq!(world.get(Some(&bob), path).await.expect(200).data()["viewer_role"], "read", "at once");
    world.delete(Some(&ada), &format!("{path}/branches/work")).await.refused(422, "UNPROCESSABLE");
    world.delete(Some(&ada), &format!("{path}/branches/main")).await.expect(200);
    for cleared in [json!(null), json!("")] {
        world.patch(Some(&ada), path, json!({"description": "x"})).await.expect(200);
        let data = world.patch(Some(&ada), path, json!({"description": cleared})).await.expect(200).data();
        assert_eq!(data.get("description"), None);
    }
    assert_eq!(world.get(None, "/databases?q=gauges").await.data(), json!([]), "what was cleared is not found");
}

#[actix_web::test]
async fn a_change_is_refused_for_the_right_reason() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    let path = "/databases/ada/rivers";
    for (edit, place) in [
        (json!({}), ""),
        (json!({"visibility": null}), "/visibility"),
        (json!({"visibility": "hidden"}), "/visibility"),
        (json!({"default_branch": null}), "/default_branch"),
        (json!({"description": "x".repeat(4_097)}), "/description"),
        (json!({"name": "-lakes"}), "/name"),
        (json!({"name": null}), "/name"),
        (json!({"owner": null}), "/owner"),
    ] {
        world.patch(Some(&ada), path, edit).await.refused_at(400, place);
    }
    world.patch(Some(&ada), path, json!({"description": "x".repeat(4_096)})).await.expect(200);
    for branch in ["nope", "", "a..b"] {
        world.patch(Some(&ada), path, json!({"default_branch": branch})).await.refused(404, "NOT_FOUND");
    }
    world.if_match(&ada, "PATCH", path, "\"x\"", Some(json!({"default_branch": "x"}))).await.refused(404, "NOT_FOUND");
    world.patch(Some(&bob), path, json!({"x": 1})).await.refused(403, "PERMISSION_DENIED");
}

#[actix_web::test]
async fn an_owner_has_so_many_databases() {
    let world = ApiHarness::limited(Limits { databases_per_owner: 2, ..Limits::default() });
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "a", "public").await;
    world.database(&ada, "ada", "b", "public").await;
    let body = |name: &str| json!({"owner": "ada", "name": name, "visibility": "public"});
    world.post(Some(&ada), "/databases", body("c")).await.refused(422, "UNPROCESSABLE");
    world.post(Some(&ada), "/databases", body("a")).await.refused(409, "CONFLICT");
    world.database(&bob, "bob", "x", "public").await;
    let fork = world.post(Some(&bob), "/databases/ada/a/forks", json!({"owner": "bob"})).await;
    assert_eq!(world.finish(&bob, &fork).await["status"], "succeeded");
    world.post(Some(&bob), "/databases/ada/b/forks", json!({"owner": "bob"})).await.refused(422, "UNPROCESSABLE");
    world.delete(Some(&ada), "/databases/ada/b").await.expect(200);
    world.post(Some(&ada), "/databases", body("c")).await.expect(201);
}

#[actix_web::test]
async fn a_filter_finds_only_what_is_seen() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    for (name, visibility) in [("open", "public"), ("secret", "private")] {
        world.database(&ada, "ada", name, visibility).await;
    }
    for query in ["q=secret", "visibility=private", "owner=ada&visibility=private", "owner=ada&q=s"] {
        assert_eq!(
            world.get(Some(&bob), &format!("/databases?{query}")).await.expect(200).data(),
            json!([]),
            "{query}"
        );
    }
    world.get(None, &format!("/databases?q={}", "x".repeat(201))).await.refused_at(400, "q");
    let page = world.get(Some(&ada), "/databases?owner=ada&page_size=1").await.expect(200).json();
    let token = page["meta"]["next_page_token"].as_str().unwrap();
    // A page token grants no access: the next page only shows what the caller may see.
    let next = world.get(Some(&bob), &format!("/databases?owner=ada&page_token={token}")).await.expect(200);
    assert_eq!(next.json(), json!({"data": [], "meta": {}}));
    world.get(Some(&ada), &format!("/databases?owner=bob&page_token={token}")).await.refused_at(400, "page_token");
    world.get(Some(&ada), &format!("/databases?q=s&owner=ada&page_token={token}")).await.refused_at(400, "page_token");
}

#[actix_web::test]
async fn little_free_storage_leaves_reads_and_deletions() {
    let world = ApiHarness::limited(Limits { min_free_bytes: 1_000, ..Limits::default() });
    let ada = world.user("ada");
    for name in ["a", "b"] {
        world.database(&ada, "ada", name, "public").await;
    }
    let hub = &world.fakes.hub;
    let body = |name: &str| json!({"owner": "ada", "name": name, "visibility": "public"});
    let statements = json!({"from_branch": "main", "to_branch": "main", "q": "CREATE TABLE t(id INTEGER PRIMARY KEY)"});
    hub.record_free_bytes(1_000);
    world.post(Some(&ada), "/databases", body("c")).await.expect(201);
    let queued = world.post(Some(&ada), "/databases/ada/a/sql-writes", statements.clone()).await.expect(202);
    hub.record_free_bytes(999);
    assert_eq!(hub.operations().run_next("test/1").unwrap(), None, "operations stay queued");
    for (path, body) in [("/databases", body("d")), ("/databases/ada/a/sql-writes", statements)] {
        let refused = world.post(Some(&ada), path, body).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, "60"), "{path}");
        let problem = refused.json();
        assert_eq!(problem["code"], json!("SERVICE_UNAVAILABLE"));
        assert!(problem["detail"].as_str().unwrap().contains("only deletions"), "{problem}");
    }
    world.patch(Some(&ada), "/databases/ada/a", json!({"description": "x"})).await.refused(503, "SERVICE_UNAVAILABLE");
    // Other errors come first, as ever.
    world.patch(None, "/databases/ada/a", json!({"description": "x"})).await.refused(401, "UNAUTHENTICATED");
    world.get(None, "/databases/ada/a").await.expect(200);
    world.post(None, "/databases/ada/a/sql", json!({"q": "SHOW TABLES"})).await.expect(200);
    world.delete(Some(&ada), "/databases/ada/b").await.expect(200);
    hub.record_free_bytes(1_249);
    world.post(Some(&ada), "/databases", body("d")).await.refused(503, "SERVICE_UNAVAILABLE");
    hub.record_free_bytes(1_250);
    world.post(Some(&ada), "/databases", body("d")).await.expect(201);
    assert_eq!(world.finish(&ada, &queued).await["status"], "succeeded");
}
