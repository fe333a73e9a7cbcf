use crate::harness::ApiHarness;
use serde_json::json;

const C: &str = "/databases/ada/rivers/collaborators";

async fn rivers(visibility: &str) -> (ApiHarness, String, String, String) {
    let world = ApiHarness::new();
    let [ada, bob, cleo] = ["ada", "bob", "cleo"].map(|name| world.user(name));
    world.database(&ada, "ada", "rivers", visibility).await;
    (world, ada, bob, cleo)
}

#[actix_web::test]
async fn a_collaborator_comes_changes_and_goes() {
    let (world, ada, bob, cleo) = rivers("private").await;
    let shown = |role: &str| json!({"username": "bob", "role": role, "added_at": "2026-01-02T03:04:05.678Z"});
    let added = world.put(Some(&ada), &format!("{C}/Bob"), json!({"role": "write"})).await.expect(201);
    assert_eq!((added.data(), added.header("location"), added.header("etag")), (shown("write"), "", ""));
    assert_eq!(world.get(Some(&bob), "/databases/ada/rivers").await.data()["viewer_role"], "write");
    world.get(Some(&bob), C).await.refused(403, "PERMISSION_DENIED");
    world.put(Some(&ada), &format!("{C}/bob"), json!({"role": "admin"})).await.expect(200);
    let listed = world.get(Some(&bob), C).await.expect(200).json();
    assert_eq!(listed, json!({"data": [shown("admin")], "meta": {}}));
    world.put(Some(&bob), &format!("{C}/cleo"), json!({"role": "read"})).await.expect(201);
    let page = world.get(Some(&ada), &format!("{C}?page_size=1")).await.expect(200).json();
    let next = format!("{C}?page_token={}", page["meta"]["next_page_token"].as_str().unwrap());
    assert_eq!(world.get(Some(&ada), &next).await.expect(200).data()[0]["username"], "cleo");

    world.delete(Some(&cleo), &format!("{C}/cleo")).await.expect(200);
    world.get(Some(&cleo), "/databases/ada/rivers").await.refused(404, "NOT_FOUND");
    assert_eq!(world.delete(Some(&ada), &format!("{C}/BOB")).await.expect(200).data(), shown("admin"));
    world.delete(Some(&ada), &format!("{C}/bob")).await.refused(404, "NOT_FOUND");
    world.delete(Some(&bob), &format!("{C}/bob")).await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn refusals_come_in_order() {
    let (world, ada, _, cleo) = rivers("public").await;
    world.put(Some(&ada), &format!("{C}/bob"), json!({"role": "write"})).await.expect(201);
    let role = || json!({"role": "read"});
    // Without the admin role, the response is the same for all names.
    for name in ["ada", "bob", "nobody", "!"] {
        world.put(Some(&cleo), &format!("{C}/{name}"), role()).await.refused(403, "PERMISSION_DENIED");
        world.delete(Some(&cleo), &format!("{C}/{name}")).await.refused(403, "PERMISSION_DENIED");
        world.delete(None, &format!("{C}/{name}")).await.refused(401, "UNAUTHENTICATED");
    }
    world.delete(Some(&cleo), &format!("{C}/cleo")).await.refused(404, "NOT_FOUND");
    world.put(Some(&ada), &format!("{C}/nobody"), json!({"x": 1})).await.refused(404, "NOT_FOUND");
    world.put(Some(&ada), &format!("{C}/cleo"), json!({"role": "owner"})).await.refused_at(400, "/role");
    world.put(Some(&ada), &format!("{C}/cleo"), json!({"role": "read", "x": 1})).await.refused_at(400, "/x");
    world.put(Some(&ada), &format!("{C}/ada"), role()).await.refused(422, "UNPROCESSABLE");
    world.get(Some(&ada), &format!("{C}?page_size=0")).await.refused_at(400, "page_size");
}
