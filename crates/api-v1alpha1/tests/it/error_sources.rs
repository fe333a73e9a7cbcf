//! Checks the events of each action of this API, and their order, against the table of the hooks contract (§2.5). The domain's own
//! test covers its use cases. This test shows that the adapter calls the right use cases, each once.

use branchyard_domain::access::{Caller, Read};
use branchyard_domain::entities::{Event, EventKind, Visibility};
use branchyard_domain::ports::Metadata as _;
use serde_json::Value;

use crate::good::{FORM, upload};
use crate::harness::LegacyHarness;

/// A case: its name, the requests before it, its own requests, and the expected events. A request is `METHOD ADDRESS BODY`, where
/// `…` stands for the database; `UPLOAD BRANCH ROW` sends a file. The database has `main`, `work` with one more row and an open
/// pull request into `main`, and `spare` at `main`.
type Cause = (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

const INSERT: &str = "POST …/write/main/main?q=INSERT%20INTO%20t%20VALUES%20(7)";
const MERGE_WORK: &str = "POST …/write/work/main";

const CAUSES: &[Cause] = &[
    ("a write that commits, on a branch that exists", &[], &[INSERT], &["P main"]),
    (
        "a write that commits, on a new branch",
        &[],
        &["POST …/write/main/new?q=INSERT%20INTO%20t%20VALUES%20(7)"],
        &["B Created branch new", "P new"],
    ),
    ("a write, then a merge", &[INSERT], &["POST …/write/main/work?q=INSERT%20INTO%20t%20VALUES%20(8)"], &["P work"]),
    (
        "a merge, since the statements change nothing",
        &[INSERT],
        &["POST …/write/main/work?q=DELETE%20FROM%20t%20WHERE%20id%20=%2099"],
        &["P work"],
    ),
    ("a write that changes nothing", &[], &["POST …/write/main/main?q=DELETE%20FROM%20t%20WHERE%20id%20=%2099"], &[]),
    (
        "a write that changes nothing, on a new branch",
        &[],
        &["POST …/write/main/new?q=DELETE%20FROM%20t%20WHERE%20id%20=%2099"],
        &["B Created branch new"],
    ),
    ("a merge alone, fast forward, between the branches of an open pull", &[], &[MERGE_WORK], &["P main"]),
    ("a merge alone", &[INSERT], &[MERGE_WORK], &["P main"]),
    ("a merge alone of what is there already", &[MERGE_WORK], &[MERGE_WORK], &[]),
    ("a merge alone into a new branch", &[], &["POST …/write/work/new"], &["B Created branch new"]),
    ("an import onto the default branch", &[], &["UPLOAD  9"], &["P main"]),
    ("an import with a pull", &[], &["UPLOAD main 9"], &["B Created branch import", "P import", "R Opened by olga"]),
    ("an import that changes nothing", &["UPLOAD  9"], &["UPLOAD  9", "UPLOAD main 9"], &[]),
    (
        "a branch is created",
        &[],
        &[r#"POST …/branches {"revisionType": "branch", "revisionName": "main", "newBranchName": "new"}"#],
        &["B Created branch new"],
    ),
    ("a branch with an open pull is deleted", &[], &["DELETE …/branches/work"], &["B Deleted branch work"]),
    (
        "a pull is opened",
        &[],
        &[r#"POST …/pulls {"title": "Other", "fromBranchName": "work", "toBranchName": "spare"}"#],
        &["R Opened by olga"],
    ),
    ("a pull is closed", &[], &[r#"PATCH …/pulls/1 {"state": "closed"}"#], &["R Closed by olga"]),
    (
        "a pull is reopened",
        &[r#"PATCH …/pulls/1 {"state": "closed"}"#],
        &[r#"PATCH …/pulls/1 {"state": "Open"}"#],
        &["R Reopened by olga"],
    ),
    (
        "a pull is set to what it is, renamed, and talked about",
        &[],
        &[
            r#"PATCH …/pulls/1 {"state": "open"}"#,
            r#"PATCH …/pulls/1 {"title": "Other", "description": "Why"}"#,
            r#"POST …/pulls/1/comments {"comment": "Fine."}"#,
        ],
        &[],
    ),
    ("a pull is merged", &[], &["POST …/pulls/1/merge"], &["P main", "R Merged by olga"]),
    (
        "a pull is merged whose source the base holds already",
        &[MERGE_WORK],
        &["POST …/pulls/1/merge"],
        &["R Merged by olga"],
    ),
    (
        "a push to the source of an open pull",
        &[],
        &["POST …/write/work/work?q=INSERT%20INTO%20t%20VALUES%20(8)"],
        &["P work"],
    ),
    (
        "tags and releases",
        &[],
        &[
            r#"POST …/tags {"revisionType": "branch", "revisionName": "main", "tagName": "v1", "tagMessage": ""}"#,
            r#"POST …/releases {"revisionType": "branch", "revisionName": "main", "tagName": "v2", "tagMessage": ""}"#,
        ],
        &[],
    ),
    (
        "forks, and databases that are created",
        &[],
        &[
            r#"POST …/forks {"ownerName": "delta"}"#,
            r#"POST /api/v1alpha1/database {"ownerName": "olga", "repoName": "lakes", "visibility": "public"}"#,
        ],
        &[],
    ),
    (
        "operations that fail, one by a conflict",
        &[
            "POST …/write/main/main?q=CREATE%20TABLE%20g%20(id%20INTEGER%20PRIMARY%20KEY,%20level%20REAL);%20INSERT%20INTO%20g%20VALUES%20(4,%201.5)",
            "POST …/write/main/low?q=UPDATE%20g%20SET%20level%20=%201.6%20WHERE%20id%20=%204",
            "POST …/write/main/main?q=UPDATE%20g%20SET%20level%20=%201.7%20WHERE%20id%20=%204",
        ],
        &["POST …/write/main/main?q=nonsense", "POST …/write/low/main", "UPLOAD  nine"],
        &[],
    ),
];

#[actix_web::test]
async fn every_cause_has_its_events_in_order() {
    for (cause, before, act, expected) in CAUSES {
        let world = LegacyHarness::new(Visibility::Public);
        world.work();
        let token = world.token("olga");
        for request in *before {
            take(&world, &token, request).await;
        }
        let known = events(&world).len();
        for request in *act {
            take(&world, &token, request).await;
        }
        let told: Vec<String> = events(&world).split_off(known).iter().map(|event| tell(&world, event)).collect();
        assert_eq!(told, *expected, "{cause}");
    }
}

/// Sends a request that must succeed, and runs the operations it started.
async fn take(world: &LegacyHarness, token: &str, request: &str) {
    let (method, rest) = request.split_once(' ').unwrap();
    let (address, body) = rest.split_once(' ').unwrap_or((rest, ""));
    let there = "/api/v1alpha1/olga/rivers";
    let request = match (method, body) {
        ("UPLOAD", row) => LegacyHarness::request(Some(token), "POST", &format!("{there}/upload"))
            .insert_header(("Content-Type", FORM))
            .set_payload(upload("t.csv", address, &format!("id\n{row}\n"))),
        (method, "") => LegacyHarness::request(Some(token), method, &address.replace('…', there)),
        (method, body) => LegacyHarness::request(Some(token), method, &address.replace('…', there))
            .set_json(serde_json::from_str::<Value>(body).unwrap()),
    };
    let answer = world.send(request).await;
    assert_eq!(answer.status, 200, "{address}: {}", answer.text);
    world.work();
}

fn events(world: &LegacyHarness) -> Vec<Event> {
    let database = world.fakes.hub.databases().access::<Read>(&Caller::Anonymous, "olga", "rivers").unwrap();
    let mut tx = world.fakes.metadata.read().unwrap();
    tx.events().list(database.database().id, None, 1_000).unwrap()
}

fn tell(world: &LegacyHarness, event: &Event) -> String {
    let database = world.fakes.hub.databases().access::<Read>(&Caller::Anonymous, "olga", "rivers").unwrap();
    // Branches of imports are named after their operation.
    let plain = |branch: &str| if branch.starts_with("olga/import-") { "import".to_owned() } else { branch.to_owned() };
    match &event.kind {
        EventKind::Push { branch, head, previous } => {
            assert_ne!(head, previous);
            assert_eq!(world.fakes.hub.branches().get(&database, branch.as_str()).unwrap().head, *head);
            format!("P {}", plain(branch.as_str()))
        }
        EventKind::BranchCreated { branch } => format!("B Created branch {}", plain(branch.as_str())),
        EventKind::BranchDeleted { branch } => format!("B Deleted branch {}", plain(branch.as_str())),
        EventKind::Pull { action, sender, .. } => format!("R {action:?} by {sender}"),
        EventKind::Ping { hook } => format!("ping {hook}"),
    }
}
