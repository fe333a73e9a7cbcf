//! A valid request for every operation, which succeeds if the caller is authorized.

use branchyard_api_snapshots::{Content, SentRequest};
use branchyard_api_testing::never_issued_token;
use branchyard_domain::values::Scope;
use serde_json::{Value, json};

use crate::harness::LegacyHarness;

/// Returns the user that represents a kind of caller, if that kind has a user.
pub(crate) fn person(caller: &str) -> Option<&'static str> {
    match caller {
        "stranger" => Some("sam"),
        "reader" => Some("rita"),
        "writer" => Some("walt"),
        "owner" | "read-scope" | "write-scope" => Some("olga"),
        _ => None,
    }
}

/// Returns the token of a kind of caller.
pub(crate) fn token(world: &LegacyHarness, caller: &str) -> Option<String> {
    match (caller, person(caller)) {
        ("read-scope", Some(name)) => Some(world.access_token(name, Scope::Read)),
        ("write-scope", Some(name)) => Some(world.access_token(name, Scope::ReadWrite)),
        (_, Some(name)) => Some(world.token(name)),
        ("bad-token", None) => Some(never_issued_token()),
        ("anonymous", None) => None,
        (other, None) => panic!("{other} is no caller"),
    }
}

/// Returns the request of `caller` to a route, which is identified by its method and template.
pub(crate) fn good(world: &LegacyHarness, caller: &str, method: &str, path: &str) -> SentRequest {
    let filled = [
        ("{owner}/{database}", "olga/rivers"),
        ("{username}", "olga"),
        ("{from_branch}/{to_branch}", "main/main"),
        ("{branch}", "spare"),
        ("{pull_id}", "1"),
        ("{ref}", "work"),
        ("{table}", "t"),
    ];
    let mut address = filled.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    assert!(!address.contains('{'), "{address}: say what stands there");
    let polls = method == "GET" && ["/fork", "/write", "/upload", "/merge"].iter().any(|end| address.ends_with(end));
    if polls {
        address = format!("{address}?operationName=users/olga/userOperations/{}", world.waiting);
    }
    let content = content(method, path, person(caller).unwrap_or("olga"));
    SentRequest::new(token(world, caller), method, "", address, content)
}

fn content(method: &str, path: &str, name: &str) -> Content {
    let start = |more: Value| {
        let mut whole = json!({"revisionType": "branch", "revisionName": "main"});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole
    };
    // A user forks into their own account. The owner already has the database and forks into an organization.
    let new_owner = if name == "olga" { "delta" } else { name };
    let short = path.strip_prefix("/api/v1alpha1").unwrap_or(path);
    let body = match (method, short.strip_prefix("/{owner}/{database}").unwrap_or(short)) {
        ("GET" | "DELETE", _) => return Content::None,
        ("POST", "/upload") => return Content::Text(FORM, upload("t.csv", "main", "id\n9\n")),
        ("POST", "/database") => json!({"ownerName": "olga", "repoName": "lakes", "visibility": "public"}),
        ("POST", "/fork") => {
            json!({"parentOwnerName": "olga", "parentDatabaseName": "rivers", "ownerName": new_owner})
        }
        ("POST", "/forks") => json!({"ownerName": new_owner}),
        ("POST", "/write/{from_branch}/{to_branch}") => json!({"query": "INSERT INTO t VALUES (3)"}),
        ("POST", "/branches") => start(json!({"newBranchName": "fresh"})),
        ("POST", "/tags" | "/releases") => start(json!({"tagName": "v1", "tagMessage": ""})),
        ("POST", "/pulls") => json!({"title": "Other", "fromBranchName": "work", "toBranchName": "spare"}),
        ("PATCH", "/pulls/{pull_id}") => json!({"state": "closed"}),
        ("POST", "/pulls/{pull_id}/comments") => json!({"comment": "Fine."}),
        ("POST", "/pulls/{pull_id}/merge") => json!({}),
        other => panic!("{other:?} needs a body"),
    };
    Content::Json(body)
}

pub(crate) const FORM: &str = "multipart/form-data; boundary=xx";

/// Returns the form that uploads a file to the table `t`.
pub(crate) fn upload(name: &str, branch: &str, file: &str) -> String {
    let params = json!({
        "fileName": name, "branchName": branch, "fileType": "Csv", "importOp": "Update", "tableName": "t",
    });
    format!(
        "--xx\r\nContent-Disposition: form-data; name=\"params\"\r\n\r\n{params}\r\n\
         --xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{file}\r\n--xx--\r\n"
    )
}
