//! Requests every route as every kind of caller. `authorization.txt` lists the expected statuses. The test fails for a route
//! that is missing from the table and for a line without a route. Each response comes from a server of its own.

use std::collections::BTreeSet;

use branchyard_api_testing::{InProcessAnswer, never_issued_token};
use branchyard_domain::values::Scope;

use crate::harness::{HostedApiHarness, OWNER, body};

const TABLE: &str = include_str!("authorization.txt");

/// The columns of the table, each with the user that represents the kind of caller.
const CALLERS: [(&str, Option<&str>); 11] = [
    ("anonymous", None),
    ("bad-token", None),
    ("stranger", Some("sam")),
    ("reader", Some("rita")),
    ("pulls", Some("ruth")),
    ("writer", Some("walt")),
    ("admin", Some("adam")),
    ("owner", Some(OWNER)),
    ("member", Some("mia")),
    ("read-scope", Some(OWNER)),
    ("write-scope", Some(OWNER)),
];

struct HostedAuthorizationLine {
    method: &'static str,
    path: &'static str,
    expected: [u16; CALLERS.len()],
}

fn table() -> Vec<HostedAuthorizationLine> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = |line: &'static str| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("too short: {line}"));
        let (method, path) = (word(), word());
        let expected = CALLERS.map(|_| word().parse().unwrap());
        assert_eq!(words.next(), None, "too long: {line}");
        HostedAuthorizationLine { method, path, expected }
    };
    lines.map(line).collect()
}

#[test]
fn every_route_is_in_the_table_and_nothing_else() {
    let mounted: BTreeSet<String> =
        branchyard_api_hosted_v1::routes().into_iter().map(|(method, path)| format!("{method} {path}")).collect();
    let listed: BTreeSet<String> = table().iter().map(|line| format!("{} {}", line.method, line.path)).collect();
    assert_eq!(listed, mounted);
    assert_eq!(listed.len(), table().len(), "a line is there twice");
}

#[actix_web::test]
async fn every_caller_is_answered_as_the_table_says() {
    let mut wrong = Vec::new();
    for line in table() {
        let mut answered = Vec::new();
        for (caller, name) in CALLERS {
            let scene = HostedApiHarness::new();
            let authorization = match (caller, name) {
                ("read-scope", Some(name)) => Some(format!("Bearer {}", scene.access_token(name, Scope::Read))),
                ("write-scope", Some(name)) => Some(format!("Bearer {}", scene.access_token(name, Scope::ReadWrite))),
                (_, Some(name)) => Some(format!("Bearer {}", scene.token(name))),
                ("bad-token", None) => Some(format!("Bearer {}", never_issued_token())),
                (_, None) => None,
            };
            let (path, body) = (scene.filled(line.path), body(line.method, line.path));
            answered.push(scene.send(authorization.as_deref(), line.method, &path, body.as_ref()).await.status);
        }
        if answered != line.expected {
            wrong.push(format!("{} {} {answered:?}, not {:?}", line.method, line.path, line.expected));
        }
    }
    assert!(wrong.is_empty(), "{} lines are not as the table says:\n{}", wrong.len(), wrong.join("\n"));
}

/// A caller without a role receives the same response for a hidden deployment as for one that never existed.
#[actix_web::test]
async fn a_stranger_cannot_tell_a_hidden_deployment_from_none() {
    let scene = HostedApiHarness::new();
    for line in table().iter().filter(|line| line.path.contains("{deployment}")) {
        let (path, body) = (scene.filled(line.path), body(line.method, line.path));
        let hidden = scene.by("sam", line.method, &path, body.as_ref()).await;
        let absent = scene.by("bob", line.method, &path.replace("gauges", "nothing"), body.as_ref()).await;
        assert_eq!((hidden.status, absent.status), (404, 404), "{} {}", line.method, line.path);
        assert_eq!(hidden.text.replace("gauges", "nothing"), absent.text, "{} {}", line.method, line.path);
        let names = |answer: &InProcessAnswer| {
            let mut names: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&hidden), names(&absent));
    }
}

#[actix_web::test]
async fn only_one_bearer_token_is_a_credential() {
    let scene = HostedApiHarness::new();
    let token = scene.token("rita");
    for (value, challenge) in [
        (None, r#"Bearer realm="branchyard""#),
        (Some(format!("token {token}")), "invalid_token"),
        (Some(token.clone()), "invalid_token"),
        (Some(format!("Basic {token}")), "invalid_token"),
        (Some(format!("Bearer {}", never_issued_token())), "invalid_token"),
        (Some("Bearer hsat.v1.nonsense".to_owned()), "invalid_token"),
    ] {
        let answer = scene.send(value.as_deref(), "GET", "/user", None).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (401, Some("UNAUTHENTICATED")), "{value:?}");
        assert!(
            answer.header("www-authenticate").contains(challenge),
            "{value:?}: {}",
            answer.header("www-authenticate")
        );
    }
}

#[actix_web::test]
async fn the_token_of_a_suspended_user_is_no_credential() {
    let scene = HostedApiHarness::new();
    let token = format!("Bearer {}", scene.token("rita"));
    let administration = scene.fakes.hub.administration();
    scene.send(Some(&token), "GET", "/user", None).await.expect(200);
    administration.suspend(&administration.operator(), "rita").unwrap();
    let answer = scene.send(Some(&token), "GET", "/user", None).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (401, Some("UNAUTHENTICATED")));
    assert!(answer.header("www-authenticate").contains("invalid_token"));
    administration.resume(&administration.operator(), "rita").unwrap();
    scene.send(Some(&token), "GET", "/user", None).await.expect(200);
}

#[actix_web::test]
async fn a_quarantined_database_cannot_be_cloned() {
    let scene = HostedApiHarness::new();
    let administration = scene.fakes.hub.administration();
    administration.quarantine(&administration.operator(), "olga", "rivers").unwrap();
    let mut wanted = body("POST", "/deployments").unwrap();
    wanted["from_database"] = serde_json::json!({"owner": "olga", "name": "rivers"});
    let answer = scene.by(OWNER, "POST", "/deployments", Some(&wanted)).await;
    assert_eq!((answer.status, answer.json()["errors"][0]["pointer"].as_str()), (404, Some("/from_database")));
}

/// An administrator may shut the deployment down; its data goes only at the word of its owner.
#[actix_web::test]
async fn only_an_owner_discards_the_data_also_of_a_deployment_that_is_stopping() {
    use branchyard_deployments::entities::RunState;
    let scene = HostedApiHarness::new();
    let disable = "/deployments/hydro/gauges/disable";
    let discard = serde_json::json!({"discard_data": true, "confirm": "gauges"});
    scene.fakes.provisioner.refuse_snapshot(Some("the copy is damaged"));
    let answer = scene.by("adam", "POST", disable, Some(&discard)).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (403, Some("PERMISSION_DENIED")));
    scene.by("adam", "POST", disable, None).await.expect(202);
    scene.settle();
    assert_eq!(scene.access().deployment().state, RunState::Stopping);
    let twice = scene.by(OWNER, "POST", disable, None).await;
    assert_eq!((twice.status, twice.json()["code"].as_str()), (422, Some("UNPROCESSABLE")));
    scene.by("adam", "POST", disable, Some(&discard)).await.expect(403);
    let answer = scene.by(OWNER, "POST", disable, Some(&discard)).await;
    assert_eq!((answer.status, answer.json()["data"]["state"].as_str()), (202, Some("stopping")));
    scene.settle();
    assert_eq!(scene.access().deployment().state, RunState::Stopped);
    assert!(
        scene
            .fakes
            .deployments
            .backups(&scene.access())
            .unwrap()
            .iter()
            .all(|backup| { backup.kind != branchyard_deployments::entities::BackupKind::Final })
    );
}
