use crate::harness::ApiHarness;

async fn rivers() -> (ApiHarness, String) {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    world.database(&ada, "ada", "lakes", "public").await;
    for name in ["b", "a", "c/d"] {
        world.branch(&ada, "ada/rivers", name, "main").await;
    }
    (world, ada)
}

#[actix_web::test]
async fn a_walk_sees_everything_once() {
    let (world, _) = rivers().await;
    let mut names = Vec::new();
    let mut path = "/databases/ada/rivers/branches?page_size=1".to_owned();
    for _ in 0..10 {
        let page = world.get(None, &path).await.expect(200).json();
        names.extend(page["data"].as_array().unwrap().iter().map(|branch| branch["name"].as_str().unwrap().to_owned()));
        let Some(token) = page["meta"]["next_page_token"].as_str() else { break };
        assert!(token.len() <= 1_024);
        path = format!("/databases/ada/rivers/branches?page_size=1&page_token={token}");
    }
    assert_eq!(names, ["a", "b", "c/d", "main"]);
    let whole = world.get(None, "/databases/ada/rivers/branches?page_token=").await.expect(200).json();
    assert_eq!(whole["data"].as_array().unwrap().len(), 4);
    assert_eq!(whole["meta"], serde_json::json!({}));
}

#[actix_web::test]
async fn a_token_is_good_for_its_list_only() {
    let (world, _) = rivers().await;
    let page = world.get(None, "/databases/ada/rivers/branches?page_size=1").await.expect(200).json();
    let token = page["meta"]["next_page_token"].as_str().unwrap();
    let again = world.get(None, "/databases/ada/rivers/branches?page_size=1").await.expect(200).json();
    assert_ne!(again["meta"]["next_page_token"], token);
    let tampered = format!("A{}", &token[1..]);
    for path in [
        format!("/databases/ada/lakes/branches?page_token={token}"),
        format!("/databases/ada/rivers/tags?page_token={token}"),
        format!("/databases/ada/rivers/branches?page_token={tampered}"),
        "/databases/ada/rivers/branches?page_token=x".to_owned(),
    ] {
        world.get(None, &path).await.refused_at(400, "page_token");
    }
    world.get(None, "/databases/ada/rivers/branches?page_size=0").await.refused_at(400, "page_size");
    world.get(None, &format!("/databases/ada/rivers/branches?page_size=50&page_token={token}")).await.expect(200);
}

#[actix_web::test]
async fn a_page_is_cut_by_its_bytes() {
    let world = ApiHarness::with(|config| config.max_page_bytes = 200);
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    for name in ["a", "b"] {
        world.branch(&ada, "ada/rivers", name, "main").await;
    }
    let page = world.get(None, "/databases/ada/rivers/branches").await.expect(200).json();
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    assert!(page["meta"]["next_page_token"].is_string());
}
