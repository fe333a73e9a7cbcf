//! Quotas of owners, as clients see them.

use crate::harness::ApiHarness;
use branchyard_domain::usecases::Limits;
use serde_json::json;

const WRITES: &str = "/databases/ada/rivers/sql-writes";

async fn limited(limits: Limits) -> (ApiHarness, String) {
    let mut world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "private").await;
    world.fakes.hub = world.fakes.beside(limits.clone());
    (ApiHarness::over(world.fakes.clone(), |_| {}), ada)
}

#[actix_web::test]
async fn operations_past_those_of_a_day_are_429_with_the_exact_wait() {
    let (world, ada) = limited(Limits { operations_per_day: 2, ..Limits::default() }).await;
    let body = json!({"from_branch": "main", "to_branch": "main", "q": "CREATE TABLE IF NOT EXISTS t(a INTEGER)"});
    for _ in 0..2 {
        world.post(Some(&ada), WRITES, body.clone()).await.expect(202);
    }
    let refused = world.post(Some(&ada), WRITES, body.clone()).await;
    refused.refused(429, "RATE_LIMITED");
    let wait: i64 = refused.header("retry-after").parse().unwrap();
    assert!((86_390..=86_400).contains(&wait), "{wait}");
    assert_eq!(refused.json()["detail"], format!("the owner has used its 2 operations a day; try again in {wait} s"));
    world.fakes.clock.advance_seconds(wait);
    world.post(Some(&ada), WRITES, body).await.expect(202);
}

#[actix_web::test]
async fn bytes_past_the_limit_are_422() {
    let (world, ada) = limited(Limits::default()).await;
    let used = world.fakes.hub.people().user_named("ada").unwrap().id;
    let used = {
        use branchyard_domain::ports::Metadata as _;
        world.fakes.metadata.read().unwrap().databases().bytes_of(used).unwrap()
    };
    let hub = world.fakes.beside(Limits { bytes_per_owner: used + 100, ..Limits::default() });
    let world = ApiHarness::over(branchyard_domain_testing::fakes::FakeHub { hub, ..world.fakes.clone() }, |_| {});
    let upload = |size: u64| json!({"content_length": size, "num_parts": 1, "file_type": "csv"});
    let uploads = "/databases/ada/rivers/imports/uploads";
    let refused = world.post(Some(&ada), uploads, upload(101)).await;
    refused.refused(422, "UNPROCESSABLE");
    assert!(refused.json()["detail"].as_str().unwrap().contains("delete databases"), "{}", refused.text);
    world.post(Some(&ada), uploads, upload(100)).await.expect(201);
    let body = json!({"from_branch": "main", "to_branch": "main", "q": "SELECT 1"});
    world.post(Some(&ada), WRITES, body).await.refused(422, "UNPROCESSABLE");
    let new = json!({"owner": "ada", "name": "lakes", "visibility": "public"});
    world.post(Some(&ada), "/databases", new).await.refused(422, "UNPROCESSABLE");
    world.delete(Some(&ada), "/databases/ada/rivers").await.expect(200);
}

#[actix_web::test]
async fn organizations_past_the_limit_are_422() {
    let (world, ada) = limited(Limits { organizations_per_user: 1, ..Limits::default() }).await;
    world.post(Some(&ada), "/organizations", json!({"name": "one"})).await.expect(201);
    let refused = world.post(Some(&ada), "/organizations", json!({"name": "two"})).await;
    refused.refused(422, "UNPROCESSABLE");
    assert!(refused.json()["detail"].as_str().unwrap().contains("you own 1 organizations already"), "{}", refused.text);
    world.delete(Some(&ada), "/organizations/one").await.expect(200);
    world.post(Some(&ada), "/organizations", json!({"name": "two"})).await.expect(201);
}
