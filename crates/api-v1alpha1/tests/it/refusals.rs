//! Tests of requests that are refused before or by a use case.

use branchyard_domain::access::{Admin, Caller, Participate};
use branchyard_domain::entities::Visibility;
use branchyard_domain::ports::PullFilter;
use branchyard_domain::usecases::EditDatabase;
use branchyard_http_common::RateLimits;
use serde_json::json;

use crate::harness::{LegacyHarness, message};

#[actix_web::test]
async fn bodies_are_read_under_many_types_and_unknown_fields_are_ignored() {
    let world = LegacyHarness::new(Visibility::Public);
    let token = format!("token {}", world.token("olga"));
    let body = r#"{"comment":"Fine.","extra":{"a":[1]}}"#;
    let path = "/api/v1alpha1/olga/rivers/pulls/1/comments";
    for content_type in ["", "application/json", "text/plain", "application/x-www-form-urlencoded", "text/json"] {
        let mut request = LegacyHarness::request(Some(&token), "POST", path).set_payload(body);
        if !content_type.is_empty() {
            request = request.insert_header(("Content-Type", content_type));
        }
        assert_eq!(world.send(request).await.status, 200, "{content_type}");
    }
    let request = LegacyHarness::request(Some(&token), "POST", path).set_payload(body);
    let answer = world.send(request.insert_header(("Content-Type", "application/xml"))).await;
    assert_eq!(answer.status, 415);
    let large = LegacyHarness::request(Some(&token), "POST", path).set_payload(vec![b' '; (2 << 20) + 1]);
    let answer = world.send(large).await;
    assert_eq!((answer.status, answer.json()["comment"].clone()), (413, json!("")));
}

#[actix_web::test]
async fn a_wrong_body_names_its_field_and_what_is_known_is_repeated() {
    let world = LegacyHarness::new(Visibility::Public);
    let token = world.token("olga");
    let ask = async |body: serde_json::Value| {
        let request = LegacyHarness::request(Some(&token), "POST", "/api/v1alpha1/OLGA/Rivers/branches").set_json(body);
        world.send(request).await.json()
    };
    let answer = ask(json!({"revisionType": "twig", "revisionName": "main", "newBranchName": 7})).await;
    let expected = json!({
        "status": "Error", "message": "Invalid request body: revisionType: must be one of branch, ref, commit",
        "database_owner": "olga", "database_name": "rivers", "new_branch_name": "", "revision_type": "twig",
        "revision_name": "main",
    });
    assert_eq!(answer, expected);
    for (body, message) in [
        (json!({"revisionType": "branch", "revisionName": "gone", "newBranchName": "x"}), "branch not found: gone"),
        (json!({"revisionType": "ref", "revisionName": "gone~1", "newBranchName": "x"}), "branch not found: gone~1"),
        (json!({"revisionType": "COMMIT", "revisionName": "a".repeat(40), "newBranchName": "x"}), "commit not found: "),
        (
            json!({"revisionType": "branch", "revisionName": "main", "newBranchName": "work"}),
            "branch work already exists",
        ),
    ] {
        let said = ask(body).await["message"].as_str().unwrap().to_owned();
        assert!(said.starts_with(message), "{said}");
    }
    let request = LegacyHarness::request(Some(&token), "DELETE", "/api/v1alpha1/olga/rivers/branches/main");
    assert_eq!(message(&world.send(request).await), "cannot delete the default branch");
}

#[actix_web::test]
async fn the_revision_type_is_repeated_in_the_case_of_the_contract() {
    let world = LegacyHarness::new(Visibility::Public);
    let token = world.token("olga");
    for (path, name) in [("branches", "newBranchName"), ("tags", "tagName"), ("releases", "tagName")] {
        let mut body = json!({"revisionType": "BRANCH", "revisionName": "main", "tagMessage": ""});
        body[name] = format!("from-{path}").into();
        let request = LegacyHarness::request(Some(&token), "POST", &format!("/api/v1alpha1/olga/rivers/{path}"));
        let answer = world.send(request.set_json(body)).await.json();
        assert_eq!((answer["status"].clone(), answer["revision_type"].clone()), (json!("Success"), json!("branch")));
    }
}

#[actix_web::test]
async fn a_quota_that_is_used_up_is_told_in_the_shape_of_the_endpoint() {
    let limits = RateLimits { user_per_hour: 0, anonymous_per_minute: 1, is_shared: false };
    let world = LegacyHarness::with(Visibility::Public, Some(limits));
    let read = || LegacyHarness::request(None, "GET", "/api/v1alpha1/olga/rivers?q=SELECT%20*%20FROM%20t");
    assert_eq!(world.send(read()).await.status, 200);
    let answer = world.send(read()).await;
    assert_eq!((answer.status, answer.json()["query_execution_status"].clone()), (429, json!("Error")));
    assert!(!answer.header("retry-after").is_empty() && !answer.header("ratelimit").is_empty());
    let answer = world.send(LegacyHarness::request(None, "GET", "/csv/olga/rivers/main/t")).await;
    assert_eq!((answer.status, answer.json()["status"].clone()), (429, json!("Error")));
}

#[actix_web::test]
async fn the_first_of_several_parameters_counts() {
    let world = LegacyHarness::new(Visibility::Public);
    let path = "/api/v1alpha1/olga/rivers/work?q=SELECT%20*%20FROM%20t&q=nonsense&unknown=1";
    let json = world.send(LegacyHarness::request(None, "GET", path)).await.json();
    assert_eq!((&json["rows"], &json["sql_query"]), (&json!([{"id": "1"}]), &json!("SELECT * FROM t")));
}

#[actix_web::test]
async fn head_answers_wherever_get_does() {
    let world = LegacyHarness::new(Visibility::Public);
    for path in ["/api/v1alpha1/olga/rivers", "/api/v1alpha1/olga/rivers/branches", "/csv/olga/rivers/work/t"] {
        let answer = world.send(LegacyHarness::request(None, "HEAD", path)).await;
        assert_eq!((answer.status, answer.text.as_str()), (200, ""), "{path}");
    }
}

#[actix_web::test]
async fn a_text_too_long_to_search_for_is_refused_not_missed() {
    let world = LegacyHarness::new(Visibility::Public);
    let search = async |length: usize| {
        let path = format!("/api/v1alpha1/olga/rivers/pulls?query={}", "x".repeat(length));
        world.send(LegacyHarness::request(None, "GET", &path)).await
    };
    let answer = search(20_000).await;
    assert_eq!((answer.status, &answer.json()["pulls"]), (200, &json!([])));
    let answer = search(20_001).await;
    let expected = "invalid query: has more than 20000 bytes; search for a part of it";
    assert_eq!((answer.status, message(&answer).as_str()), (400, expected));
}

#[actix_web::test]
async fn a_pull_that_would_publish_its_source_is_refused_and_names_where_to_agree() {
    let world = LegacyHarness::new(Visibility::Public);
    let hub = &world.fakes.hub;
    let sam = Caller::User(hub.people().user_named("sam").unwrap().into());
    let base = hub.databases().access::<Participate>(&sam, "olga", "rivers").unwrap();
    hub.operations().fork(&base, "sam", None).unwrap();
    world.work();
    let see = |visibility| {
        let fork = hub.databases().access::<Admin>(&sam, "sam", "rivers").unwrap();
        let edit = EditDatabase { visibility: Some(visibility), ..EditDatabase::default() };
        hub.databases().edit(&fork, edit, None).unwrap();
    };
    see(Visibility::Private);
    let token = world.token("sam");
    let path = "/api/v1alpha1/olga/rivers/pulls";
    let ask = async |more: serde_json::Value| {
        let mut body = json!({
            "title": "Ours", "fromBranchOwnerName": "sam", "fromBranchRepoName": "rivers", "fromBranchName": "work",
            "toBranchOwnerName": "olga", "toBranchRepoName": "rivers", "toBranchName": "main",
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.send(LegacyHarness::request(Some(&token), "POST", path).set_json(body)).await
    };
    let text = "the source database is not public, but the base is: open or reopen this pull request with API v2 (POST \
        /api/v2/databases/{owner}/{database}/pulls with publish: true) or on the page /{owner}/{database}/pulls/new, which asks for \
        consent to make the branch visible to everyone";
    for more in [json!({}), json!({"publish": true})] {
        let answer = ask(more).await;
        assert!((400..500).contains(&answer.status), "{}", answer.status);
        assert_eq!(answer.json()["status"], "Error");
        assert_eq!(message(&answer), text);
    }
    assert_eq!(hub.pulls().list(&base, &PullFilter::default(), None, 10).unwrap().len(), 1, "none was opened");

    // Reopening a pull request is subject to the same rule.
    see(Visibility::Public);
    let opened = ask(json!({})).await;
    assert_eq!(opened.json()["pull_id"], "2", "{}", opened.text);
    let patch = async |state: &str| {
        let request = LegacyHarness::request(Some(&token), "PATCH", &format!("{path}/2"));
        world.send(request.set_json(json!({"state": state}))).await
    };
    assert_eq!(patch("closed").await.status, 200);
    assert_eq!(patch("open").await.status, 200, "public, it needs no consent");
}

#[actix_web::test]
async fn sql_can_require_a_credential() {
    let world = LegacyHarness::new(Visibility::Public);
    let token = format!("token {}", world.token("olga"));
    let read = async |token: Option<&str>, path: &str| {
        world.send(LegacyHarness::request(token, "GET", &format!("/api/v1alpha1/{path}?q=select+1"))).await
    };
    assert_eq!(read(None, "olga/rivers/main").await.status, 200);
    let hub = &world.fakes.hub;
    let olga = Caller::User(hub.people().user_named("olga").unwrap().into());
    let admin = hub.databases().access::<Admin>(&olga, "olga", "rivers").unwrap();
    let edit = EditDatabase { anonymous_sql: Some(false), ..EditDatabase::default() };
    hub.databases().edit(&admin, edit, None).unwrap();
    let refused = read(None, "olga/rivers/main").await;
    assert_eq!((refused.status, &refused.json()["query_execution_message"]), (400, &json!("Not authenticated")));
    assert_eq!(read(None, "olga/nothing/main").await.json()["query_execution_message"], json!("no such repository"));
    assert_eq!(read(Some(&token), "olga/rivers/main").await.status, 200);
}

#[actix_web::test]
async fn suspended_users_are_refused_and_quarantined_databases_are_absent() {
    let world = LegacyHarness::new(Visibility::Public);
    let token = format!("token {}", world.token("olga"));
    let administration = world.fakes.hub.administration();
    let operator = administration.operator();
    let ask = async |path: &str| {
        let answer = world.send(LegacyHarness::request(Some(&token), "GET", path)).await;
        (answer.status, if answer.status == 200 { String::new() } else { message(&answer) })
    };
    let branches = "/api/v1alpha1/olga/rivers/branches";
    assert_eq!(ask(branches).await.0, 200);
    administration.quarantine(&operator, "olga", "rivers").unwrap();
    assert_eq!(ask(branches).await, (400, "no such repository".to_owned()));
    assert_eq!(ask(branches).await, ask("/api/v1alpha1/olga/nothing/branches").await);
    administration.release(&operator, "olga", "rivers").unwrap();
    assert_eq!(ask(branches).await.0, 200);
    administration.suspend(&operator, "olga").unwrap();
    let refused = "no token found for given API token";
    assert_eq!(ask(branches).await, (400, refused.to_owned()));
    assert_eq!(ask("/api/v1alpha1/user").await, (401, refused.to_owned()));
    administration.resume(&operator, "olga").unwrap();
    assert_eq!(ask(branches).await.0, 200);
}
