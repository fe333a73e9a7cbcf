//! Every route of the API by every kind of caller, on a public and on a private database: `authorisation.txt` says what each is
//! answered. A route that is mounted and not in the table fails, and so does a line of the table without a route. Each answer
//! comes from a world of its own.

use std::collections::BTreeSet;

use actix_web::test::TestRequest;
use branchyard_domain::entities::Visibility;
use serde_json::json;

use crate::world::{Answer, World};

const TABLE: &str = include_str!("authorisation.txt");

/// The columns of the table, and who stands for them.
const CALLERS: [(&str, Option<&str>); 6] = [
    ("anonymous", None),
    ("bad-token", None),
    ("stranger", Some("sam")),
    ("reader", Some("rita")),
    ("writer", Some("walt")),
    ("owner", Some("olga")),
];

struct Line {
    method: &'static str,
    path: &'static str,
    on: &'static str,
    expected: [&'static str; CALLERS.len()],
}

fn table() -> Vec<Line> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = |line: &'static str| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("too short: {line}"));
        let (method, path, on) = (word(), word(), word());
        let expected = CALLERS.map(|_| word());
        assert_eq!(words.next(), None, "too long: {line}");
        Line { method, path, on, expected }
    };
    lines.map(line).collect()
}

#[test]
fn every_route_is_in_the_table_and_nothing_else() {
    let mounted: BTreeSet<(String, &str)> = branchyard_api_v1alpha1::routes()
        .into_iter()
        .flat_map(|(method, path)| {
            let on_a_database = path.contains("{database}") || path.ends_with("/fork");
            let on: &[&str] = if on_a_database { &["public", "private"] } else { &["-"] };
            on.iter().map(|on| (format!("{method} {path}"), *on)).collect::<Vec<_>>()
        })
        .collect();
    let listed: BTreeSet<(String, &str)> =
        table().iter().map(|line| (format!("{} {}", line.method, line.path), line.on)).collect();
    assert_eq!(listed, mounted);
    assert_eq!(listed.len(), table().len(), "a line is there twice");
}

#[actix_web::test]
async fn every_caller_is_answered_as_the_table_says() {
    let mut wrong = Vec::new();
    for line in table() {
        for ((caller, name), expected) in CALLERS.into_iter().zip(line.expected) {
            let visibility = if line.on == "private" { Visibility::Private } else { Visibility::Public };
            let world = World::new(visibility);
            let token = match (caller, name) {
                (_, Some(name)) => Some(world.token(name)),
                // Well formed, and nobody's.
                ("bad-token", None) => Some(format!("hsat.v1.{}3mhf8X", "A".repeat(43))),
                (_, None) => None,
            };
            let answer = world.send(request(&world, token.as_deref(), name.unwrap_or("olga"), &line)).await;
            let said = verdict(&answer);
            if said != expected {
                let (method, path, on) = (line.method, line.path, line.on);
                wrong.push(format!("{method} {path} ({on}) by {caller}: {said}, not {expected}: {}", answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are not as the table says:\n{}", wrong.len(), wrong.join("\n"));
}

fn verdict(answer: &Answer) -> String {
    if answer.status == 200 {
        return "ok".to_owned();
    }
    match answer.message().as_str() {
        "Not authenticated" => "anon",
        "no token found for given API token" => "token",
        "no such repository" => "none",
        "operation not found" => "gone",
        text if text.starts_with("permission denied: ") => "denied",
        other => other,
    }
    .to_owned()
}

/// A request that is good for whoever may send it.
fn request(world: &World, token: Option<&str>, name: &str, line: &Line) -> TestRequest {
    let filled = [
        ("{owner}/{database}", "olga/rivers"),
        ("{username}", "olga"),
        ("{from_branch}/{to_branch}", "main/main"),
        ("{branch}", "spare"),
        ("{pull_id}", "1"),
        ("{ref}", "main"),
        ("{table}", "t"),
    ];
    let mut path = filled.iter().fold(line.path.to_owned(), |path, (name, value)| path.replace(name, value));
    assert!(!path.contains('{'), "{path}: say what stands there");
    let polls = line.method == "GET" && ["/fork", "/write", "/upload", "/merge"].iter().any(|end| path.ends_with(end));
    if polls {
        path = format!("{path}?operationName=users/olga/userOperations/{}", world.waiting);
    }
    let request = World::request(token, line.method, &path);
    let short = line.path.strip_prefix("/api/v1alpha1").unwrap_or(line.path);
    let start = json!({"revisionType": "branch", "revisionName": "main"});
    let with = |more: serde_json::Value| {
        let mut whole = start.clone();
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole
    };
    let body = match (line.method, short.strip_prefix("/{owner}/{database}").unwrap_or(short)) {
        ("GET" | "DELETE", _) => return request,
        ("POST", "/upload") => return request.insert_header(("Content-Type", FORM)).set_payload(UPLOAD),
        ("POST", "/database") => json!({"ownerName": "olga", "repoName": "lakes", "visibility": "public"}),
        ("POST", "/fork") => {
            json!({"parentOwnerName": "olga", "parentDatabaseName": "rivers", "ownerName": other(name)})
        }
        ("POST", "/forks") => json!({"ownerName": other(name)}),
        ("POST", "/write/{from_branch}/{to_branch}") => json!({"query": "INSERT INTO t VALUES (3)"}),
        ("POST", "/branches") => with(json!({"newBranchName": "fresh"})),
        ("POST", "/tags" | "/releases") => with(json!({"tagName": "v1", "tagMessage": ""})),
        ("POST", "/pulls") => json!({"title": "Other", "fromBranchName": "work", "toBranchName": "spare"}),
        ("PATCH", "/pulls/{pull_id}") => json!({"state": "closed"}),
        ("POST", "/pulls/{pull_id}/comments") => json!({"comment": "Fine."}),
        ("POST", "/pulls/{pull_id}/merge") => json!({}),
        other => panic!("{other:?} needs a body"),
    };
    request.set_json(body)
}

/// Whom somebody may fork for: themselves. The owner has the database already, and forks for an organization.
fn other(name: &str) -> &str {
    if name == "olga" { "delta" } else { name }
}

const FORM: &str = "multipart/form-data; boundary=xx";
const UPLOAD: &str = "--xx\r\nContent-Disposition: form-data; name=\"params\"\r\n\r\n\
    {\"fileName\":\"t.csv\",\"branchName\":\"main\",\"fileType\":\"Csv\",\"importOp\":\"Update\",\"tableName\":\"t\"}\r\n\
    --xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"t.csv\"\r\n\r\nid\n9\n\r\n--xx--\r\n";
