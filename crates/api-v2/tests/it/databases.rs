use crate::world::World;
use serde_json::json;

#[actix_web::test]
async fn a_database_lives_and_dies() {
    let world = World::new();
    let ada = world.user("ada");
    let body = json!({"owner": "ADA", "name": "Rivers", "visibility": "private", "description": "River gauges"});
    let created = world.post(Some(&ada), "/databases", body).await.expect(201);
    assert_eq!(created.header("location"), "https://yard.test/api/v2/databases/ada/Rivers");
    let expected = json!({
        "owner": "ada", "name": "Rivers", "description": "River gauges", "visibility": "private", "fork_network_count": 0,
        "star_count": 0, "size_bytes": created.data()["size_bytes"], "last_write_at": "2026-01-02T03:04:05.678Z",
        "default_branch": "main", "created_at": "2026-01-02T03:04:05.678Z", "viewer_role": "admin",
    });
    assert_eq!(created.data(), expected);
    let got = world.get(Some(&ada), "/databases/Ada/rivers").await.expect(200);
    assert_eq!(got.data(), expected);
    assert_eq!(got.header("etag"), created.header("etag"));
    let changed = World::request(Some(&ada), "DELETE", "/databases/ada/rivers").insert_header(("If-Match", "\"x\""));
    world.send(changed).await.refused(412, "PRECONDITION_FAILED");
    let same = World::request(Some(&ada), "DELETE", "/databases/ada/rivers")
        .insert_header(("If-Match", got.header("etag").to_owned()));
    assert_eq!(world.send(same).await.expect(200).data(), expected);
    world.get(Some(&ada), "/databases/ada/rivers").await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn what_is_hidden_looks_absent() {
    let world = World::new();
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
    let world = World::new();
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
    let world = World::new();
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
