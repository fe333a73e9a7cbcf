use crate::harness::ApiHarness;
use branchyard_domain::usecases::Limits;
use serde_json::{Value, json};

const HYDRO: &str = "/organizations/hydro";
const MEMBERS: &str = "/organizations/hydro/members";

/// Creates `hydro`: Ada is its owner, Bob a member, and Cleo neither.
async fn hydro() -> (ApiHarness, String, String, String) {
    let world = ApiHarness::new();
    let [ada, bob, cleo] = ["ada", "bob", "cleo"].map(|name| world.user(name));
    world.post(Some(&ada), "/organizations", json!({"name": "hydro"})).await.expect(201);
    world.put(Some(&ada), &format!("{MEMBERS}/bob"), json!({"role": "member"})).await.expect(201);
    (world, ada, bob, cleo)
}

#[actix_web::test]
async fn an_organization_lives_and_dies() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    let body = json!({"name": "Hydro", "display_name": "Hydro Lab", "description": "Rivers", "base_role": "read"});
    let created = world.post(Some(&ada), "/organizations", body).await.expect(201);
    assert_eq!(created.header("location"), "https://yard.test/api/v2/organizations/Hydro");
    let expected = json!({
        "name": "Hydro", "display_name": "Hydro Lab", "description": "Rivers", "base_role": "read",
        "created_at": "2026-01-02T03:04:05.678Z", "viewer_role": "owner",
    });
    assert_eq!(created.data(), expected);
    let got = world.get(Some(&ada), HYDRO).await.expect(200);
    assert_eq!((got.data(), got.header("etag")), (expected.clone(), created.header("etag")));
    assert_eq!(world.get(Some(&ada), "/user/organizations").await.expect(200).data(), json!([expected]));
    let seen = world.get(None, "/organizations/HYDRO").await.expect(200);
    assert_eq!(seen.data().get("viewer_role"), None);
    assert_ne!(seen.header("etag"), got.header("etag"), "the tag is of what the caller sees");

    let edit = json!({"display_name": null, "description": "", "base_role": "admin"});
    world.if_match(&ada, "PATCH", HYDRO, "\"x\"", Some(edit.clone())).await.refused(412, "PRECONDITION_FAILED");
    let changed = world.if_match(&ada, "PATCH", HYDRO, got.header("etag"), Some(edit)).await.expect(200);
    let mut expected = expected;
    expected.as_object_mut().unwrap().retain(|name, _| name != "display_name" && name != "description");
    expected["base_role"] = json!("admin");
    assert_eq!(changed.data(), expected);
    world.if_match(&ada, "DELETE", HYDRO, got.header("etag"), None).await.refused(412, "PRECONDITION_FAILED");

    world.database(&ada, "hydro", "rivers", "private").await;
    world.if_match(&ada, "DELETE", HYDRO, "\"x\"", None).await.refused(409, "CONFLICT");
    world.delete(Some(&ada), "/databases/hydro/rivers").await.expect(200);
    let gone = world.if_match(&ada, "DELETE", HYDRO, changed.header("etag"), None).await.expect(200);
    assert_eq!((gone.data(), gone.header("etag")), (expected, ""));
    world.get(Some(&ada), HYDRO).await.refused(404, "NOT_FOUND");
    assert_eq!(world.get(Some(&ada), "/user/organizations").await.data(), json!([]));
    let again = json!({"name": "HYDRO"});
    world.post(Some(&world.user("bob")), "/organizations", again.clone()).await.refused(409, "CONFLICT");
    world.post(Some(&ada), "/organizations", again).await.expect(201);
}

#[actix_web::test]
async fn names_are_shared_with_users() {
    let world = ApiHarness::limited(Limits { reserved_names: vec!["staff".to_owned()], ..Limits::default() });
    let ada = world.user("ada");
    let create = |name: &str| {
        let body = json!({"name": name});
        let (world, ada) = (&world, &ada);
        async move { world.post(Some(ada), "/organizations", body).await }
    };
    create("hydro").await.expect(201);
    for taken in ["Hydro", "ADA", "api", "Settings", "STAFF"] {
        create(taken).await.refused(409, "CONFLICT");
    }
    for bad in ["ab", "-abc", "abc-", "a b", "", &"x".repeat(33)] {
        create(bad).await.refused_at(400, "/name");
    }
    create(&"x".repeat(32)).await.expect(201);
    for (body, place) in [
        (json!({"name": "abc", "display_name": "x".repeat(101)}), "/display_name"),
        (json!({"name": "abc", "description": "x".repeat(4_097)}), "/description"),
        (json!({"name": "abc", "base_role": "owner"}), "/base_role"),
        (json!({"name": "abc", "x": 1}), "/x"),
    ] {
        world.post(Some(&ada), "/organizations", body).await.refused_at(400, place);
    }
    let whole = json!({"name": "abc", "display_name": "ü".repeat(100), "description": "x".repeat(4_096)});
    world.post(Some(&ada), "/organizations", whole).await.expect(201);
    world.post(None, "/organizations", json!({"name": "abd"})).await.refused(401, "UNAUTHENTICATED");
    for (edit, place) in [
        (json!({}), ""),
        (json!({"base_role": null}), "/base_role"),
        (json!({"name": "other"}), "/name"),
        (json!({"display_name": "x".repeat(101)}), "/display_name"),
    ] {
        world.patch(Some(&ada), HYDRO, edit).await.refused_at(400, place);
    }
    world.get(None, "/organizations/ada").await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn a_repeated_request_makes_one_organization() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    let post = || {
        let body = json!({"name": "hydro"});
        ApiHarness::request(Some(&ada), "POST", "/organizations").insert_header(("Idempotency-Key", "k")).set_json(body)
    };
    let first = world.send(post()).await.expect(201);
    let again = world.send(post()).await.expect(201);
    assert_eq!((again.text, again.headers.get("etag")), (first.text.clone(), first.headers.get("etag")));
}

#[actix_web::test]
async fn members_come_change_and_go() {
    let (world, ada, bob, cleo) = hydro().await;
    let at = "2026-01-02T03:04:05.678Z";
    let member = |name: &str, role: &str| json!({"username": name, "role": role, "added_at": at});
    let listed = world.get(Some(&bob), MEMBERS).await.expect(200).json();
    assert_eq!(listed, json!({"data": [member("ada", "owner"), member("bob", "member")], "meta": {}}));
    let page = world.get(Some(&bob), &format!("{MEMBERS}?page_size=1")).await.expect(200).json();
    let next = format!("{MEMBERS}?page_token={}", page["meta"]["next_page_token"].as_str().unwrap());
    assert_eq!(world.get(Some(&bob), &next).await.expect(200).data(), json!([member("bob", "member")]));
    world.get(Some(&cleo), &next).await.refused(403, "PERMISSION_DENIED");

    let changed = world.put(Some(&ada), &format!("{MEMBERS}/BOB"), json!({"role": "owner"})).await.expect(200);
    assert_eq!((changed.data(), changed.header("etag")), (member("bob", "owner"), ""));
    let added = world.put(Some(&bob), &format!("{MEMBERS}/cleo"), json!({"role": "member"})).await.expect(201);
    assert_eq!(added.data(), member("cleo", "member"));
    assert_eq!(world.get(Some(&cleo), HYDRO).await.data()["viewer_role"], "member");
    let left = world.delete(Some(&cleo), &format!("{MEMBERS}/Cleo")).await.expect(200);
    assert_eq!(left.data(), member("cleo", "member"));
    world.delete(Some(&bob), &format!("{MEMBERS}/ada")).await.expect(200);
    for (method, body) in [("DELETE", None), ("PUT", Some(json!({"role": "member"})))] {
        let request = ApiHarness::request(Some(&bob), method, &format!("{MEMBERS}/bob"));
        let request = match body {
            Some(body) => request.set_json(body),
            None => request,
        };
        world.send(request).await.refused(422, "UNPROCESSABLE");
    }
}

#[actix_web::test]
async fn members_are_nobody_elses_business() {
    let (world, ada, bob, cleo) = hydro().await;
    let path = |name: &str| format!("{MEMBERS}/{name}");
    let role = || json!({"role": "member"});
    // For callers that are not members, the response is the same for a member, for another user, and for an unused name.
    for name in ["bob", "cleo", "nobody", "!"] {
        world.delete(Some(&cleo), &path(name)).await.refused(403, "PERMISSION_DENIED");
        world.put(Some(&cleo), &path(name), role()).await.refused(403, "PERMISSION_DENIED");
        world.delete(None, &path(name)).await.refused(401, "UNAUTHENTICATED");
    }
    // A member can see the list, so an absent member (404) precedes a role that is too low (403).
    world.delete(Some(&bob), &path("cleo")).await.refused(404, "NOT_FOUND");
    world.delete(Some(&bob), &path("ada")).await.refused(403, "PERMISSION_DENIED");
    world.put(Some(&bob), &path("nobody"), role()).await.refused(404, "NOT_FOUND");
    world.put(Some(&bob), &path("cleo"), role()).await.refused(403, "PERMISSION_DENIED");
    // An absent user (404) precedes an invalid body (400).
    world.put(Some(&ada), &path("nobody"), json!({"x": 1})).await.refused(404, "NOT_FOUND");
    world.put(Some(&ada), &path("hydro"), role()).await.refused(404, "NOT_FOUND");
    world.put(Some(&ada), &path("cleo"), json!({"role": "admin"})).await.refused_at(400, "/role");
    world.send(ApiHarness::request(Some(&ada), "PUT", &path("cleo"))).await.refused_at(400, "/role");
    let plain = ApiHarness::request(Some(&ada), "PUT", &path("cleo")).set_payload("{}");
    world.send(plain).await.refused(415, "UNSUPPORTED_MEDIA_TYPE");
    world.delete(Some(&ada), &path("cleo")).await.refused(404, "NOT_FOUND");
    world.put(Some(&ada), "/organizations/nothing/members/bob", role()).await.refused(404, "NOT_FOUND");
    world.get(Some(&ada), "/organizations/bob/members").await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn what_members_may_follows_the_base_role() {
    let (world, ada, bob, _) = hydro().await;
    world.database(&ada, "hydro", "rivers", "private").await;
    let role = || async { world.get(Some(&bob), "/databases/hydro/rivers").await.data()["viewer_role"].clone() };
    let create = |name: &str| {
        let (world, bob) = (&world, &bob);
        let body = json!({"owner": "hydro", "name": name, "visibility": "private"});
        async move { world.post(Some(bob), "/databases", body).await }
    };
    for (base, may_create) in [("read", false), ("write", true), ("admin", true)] {
        world.patch(Some(&ada), HYDRO, json!({"base_role": base})).await.expect(200);
        assert_eq!(role().await, Value::from(base));
        let made = create(base).await;
        if may_create {
            assert_eq!(made.expect(201).data()["viewer_role"], "admin", "who creates it administers it");
        } else {
            made.refused(403, "PERMISSION_DENIED");
        }
    }
    world.delete(Some(&ada), &format!("{MEMBERS}/bob")).await.expect(200);
    world.get(Some(&bob), "/databases/hydro/rivers").await.refused(404, "NOT_FOUND");
    assert_eq!(world.get(Some(&bob), "/databases").await.data().as_array().unwrap().len(), 1, "a collaborator there");
}
