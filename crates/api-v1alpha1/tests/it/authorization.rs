//! Checks every route with every kind of caller, on a public and on a private database, against the table in `authorization.txt`. A
//! mounted route without a line fails the test, and so does a line without a route. Each request gets a harness of its own.

use std::collections::BTreeSet;

use branchyard_api_testing::InProcessAnswer;
use branchyard_domain::entities::Visibility;

use crate::good::good;
use crate::harness::{LegacyHarness, message};

const TABLE: &str = include_str!("authorization.txt");

/// The columns of the table.
const CALLERS: [&str; 8] =
    ["anonymous", "bad-token", "stranger", "reader", "writer", "owner", "read-scope", "write-scope"];

struct LegacyAuthorizationLine {
    method: &'static str,
    path: &'static str,
    on: &'static str,
    expected: [&'static str; CALLERS.len()],
}

fn table() -> Vec<LegacyAuthorizationLine> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = |line: &'static str| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("too short: {line}"));
        let (method, path, on) = (word(), word(), word());
        let expected = CALLERS.map(|_| word());
        assert_eq!(words.next(), None, "too long: {line}");
        LegacyAuthorizationLine { method, path, on, expected }
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
        for (caller, expected) in CALLERS.into_iter().zip(line.expected) {
            let visibility = if line.on == "private" { Visibility::Private } else { Visibility::Public };
            let world = LegacyHarness::new(visibility);
            let answer = world.send(good(&world, caller, line.method, line.path).into_request()).await;
            let said = verdict(&answer);
            if said != expected {
                let (method, path, on) = (line.method, line.path, line.on);
                wrong.push(format!("{method} {path} ({on}) by {caller}: {said}, not {expected}: {}", answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are not as the table says:\n{}", wrong.len(), wrong.join("\n"));
}

fn verdict(answer: &InProcessAnswer) -> String {
    if answer.status == 200 {
        return "ok".to_owned();
    }
    match message(answer).as_str() {
        "Not authenticated" => "anon",
        "no token found for given API token" => "token",
        "no such repository" => "none",
        "operation not found" => "gone",
        text if answer.status == 403 && text.contains("the scope api_read_write") => "scope",
        text if text.starts_with("permission denied: ") => "denied",
        other => other,
    }
    .to_owned()
}
