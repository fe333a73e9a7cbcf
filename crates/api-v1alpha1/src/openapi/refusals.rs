//! The table of refusals by name. Existing clients match the beginnings of their texts (v1alpha1 §3). Tests compare the table with
//! the responses.

use super::operations::{Auth, BodyDocs, Docs, Sends};

/// A refusal: its name, its text with the variable parts in `<>`, and an example of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusalDocs {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) message: &'static str,
}

const KNOWN: &[RefusalDocs] = &[
    of("malformed_credential", "invalid authorization header", "invalid authorization header"),
    of("unknown_token", "no token found for given API token", "no token found for given API token"),
    of("not_authenticated", "Not authenticated", "Not authenticated"),
    of("no_such_repository", "no such repository", "no such repository"),
    of(
        "permission_denied",
        "permission denied: <what is missing>",
        "permission denied: writing needs write on ana/trees",
    ),
    of(
        "insufficient_scope",
        "permission denied: the access token may not do this; it needs a token with the scope <scope>",
        "permission denied: the access token may not do this; it needs a token with the scope api_read_write",
    ),
    of("invalid_body", "Invalid request body: <field>: <reason>", "Invalid request body: title: is required"),
    of("invalid_parameter", "invalid <parameter>: <reason>", "invalid pageToken: is not a token of this list"),
    of("branch_not_found", "branch not found: <name>", "branch not found: fix-8"),
    of("commit_not_found", "commit not found: <hash>", "commit not found: 0000000000000000000000000000000000000000"),
    of("table_not_found", "table not found: <name>", "table not found: treez"),
    of("operation_not_found", "operation not found", "operation not found"),
    of("no_such_pull", "no such pull", "no such pull"),
    of("database_exists", "database <owner>/<database> already exists", "database ana/trees already exists"),
    of("branch_exists", "branch <name> already exists", "branch fix-7 already exists"),
    of("tag_exists", "tag <name> already exists", "tag v2 already exists"),
    of("release_exists", "release <tag> already exists", "release v2 already exists"),
    of(
        "pull_exists",
        "pull request <number> of these branches already exists",
        "pull request 4 of these branches already exists",
    ),
    of(
        "too_many_databases",
        "the owner has reached the limit of <n> databases",
        "the owner has reached the limit of 1000 databases",
    ),
    of("fork_failed", "<why it failed>", "database bo/trees already exists"),
    of("default_branch", "cannot delete the default branch", "cannot delete the default branch"),
    of(
        "branch_in_use",
        "operation <id> writes to this branch; <what to do>",
        "operation 019b7caa-76e8-7d02-9a5b-1f2e3d4c5b6a writes to this branch; wait for it to finish",
    ),
    of("tag_elsewhere", "tag '<tag>' points to another commit", "tag 'v2' points to another commit"),
    of("already_merged", "pull request is already merged", "pull request is already merged"),
    of("pull_closed", "the pull request is closed; <what to do>", "the pull request is closed; reopen it first"),
    of(
        "merge_waits",
        "operation <id> is merging this pull request",
        "operation 019b7caa-76e8-7d02-9a5b-1f2e3d4c5b6a is merging this pull request",
    ),
    of("timed_out", "query error: query timed out after <n> ms", "query error: query timed out after 600000 ms"),
    of("too_large", "<the limit>", "the body has more than 2097152 bytes"),
    of("media_type", "Invalid request body: <reason>", "Invalid request body: the body must be application/json"),
    of("rate_limited", "<the limit>", "too many requests; try again in 12 seconds"),
    of(
        "queue_full",
        "<n> operations are waiting on this database; <what to do>",
        "100 operations are waiting on this database; try again when some have finished",
    ),
    of(
        "internal",
        "internal error (request <id>)",
        "internal error (request req_019b7ca9-8c88-7a10-8d11-3e5f7a9b1c2d)",
    ),
    of("unavailable", "<what to do>", "the server cannot do this just now; try again"),
];

const fn of(name: &'static str, text: &'static str, message: &'static str) -> RefusalDocs {
    RefusalDocs { name, text, message }
}

/// Returns the refusals with status 400 that do not follow from the operation's declaration.
fn own(id: &str) -> &'static [&'static str] {
    match id {
        "listUserOperations" => &["permission_denied", "invalid_parameter"],
        "createDatabase" => &["permission_denied", "invalid_body", "database_exists", "too_many_databases"],
        "forkDatabase" | "createFork" => &["permission_denied", "invalid_body", "database_exists"],
        "pollFork" => &["invalid_parameter", "operation_not_found", "fork_failed"],
        "readDefault" | "read" | "listPulls" | "listJobs" => &["invalid_parameter"],
        "write" => &["permission_denied", "invalid_parameter", "invalid_body", "branch_not_found"],
        "pollWrite" | "pollMerge" | "pollUpload" => &["invalid_parameter", "operation_not_found"],
        "createBranch" => {
            &["permission_denied", "invalid_body", "branch_not_found", "commit_not_found", "branch_exists"]
        }
        "deleteBranch" => &["permission_denied", "branch_not_found", "default_branch", "branch_in_use"],
        "createTag" => &["permission_denied", "invalid_body", "branch_not_found", "commit_not_found", "tag_exists"],
        "createRelease" => &[
            "permission_denied",
            "invalid_body",
            "branch_not_found",
            "commit_not_found",
            "release_exists",
            "tag_elsewhere",
        ],
        "createPull" => &["invalid_body", "branch_not_found", "pull_exists"],
        "getPull" => &["no_such_pull"],
        "updatePull" => &["permission_denied", "no_such_pull", "invalid_body", "merge_waits"],
        "createComment" => &["no_such_pull", "invalid_body"],
        "mergePull" => {
            &["permission_denied", "no_such_pull", "branch_not_found", "already_merged", "pull_closed", "merge_waits"]
        }
        "upload" => &["permission_denied", "invalid_body", "branch_not_found"],
        "downloadArchive" | "downloadTable" => &["timed_out"],
        _ => &[],
    }
}

/// Returns the refusals of an operation, each with its status.
pub(super) fn of_operation(docs: &Docs) -> Vec<(u16, RefusalDocs)> {
    let credential = if docs.id == "getUser" { 401 } else { 400 };
    let mut all = vec![(credential, "malformed_credential"), (credential, "unknown_token")];
    if matches!(docs.auth, Auth::Required) {
        all.push((credential, "not_authenticated"));
    }
    if docs.method != "get" {
        all.push((403, "insufficient_scope"));
    }
    let absent = if matches!(docs.sends, Sends::Archive | Sends::Table) { 404 } else { 400 };
    if docs.path.contains("{database}") || docs.id == "forkDatabase" {
        all.push((absent, "no_such_repository"));
    }
    all.extend(own(docs.id).iter().map(|name| (400, *name)));
    match docs.sends {
        Sends::Archive => all.push((404, "branch_not_found")),
        Sends::Table => all.extend([(404, "branch_not_found"), (404, "table_not_found")]),
        Sends::Document | Sends::One(_) | Sends::Either(..) => {}
    }
    // A merge ignores its body.
    if !matches!(docs.body, BodyDocs::None) && docs.id != "mergePull" {
        all.extend([(413, "too_large"), (415, "media_type")]);
    }
    all.push((429, "rate_limited"));
    if matches!(docs.id, "write" | "forkDatabase" | "createFork" | "mergePull" | "upload") {
        all.push((429, "queue_full"));
    }
    all.push((500, "internal"));
    all.push((503, "unavailable"));
    let named = |name: &str| KNOWN.iter().find(|refusal| refusal.name == name).copied();
    all.into_iter().filter_map(|(status, name)| Some((status, named(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, of_operation};
    use crate::openapi::operations::OPERATIONS;

    #[test]
    fn every_refusal_is_some_operations() {
        let used: Vec<&str> = OPERATIONS.iter().flat_map(of_operation).map(|(_, refusal)| refusal.name).collect();
        for refusal in KNOWN {
            assert!(used.contains(&refusal.name), "{}", refusal.name);
            let begins = refusal.text.split('<').next().unwrap_or_default();
            assert!(refusal.message.starts_with(begins), "{}", refusal.name);
        }
    }

    #[test]
    fn every_name_is_known() {
        for docs in OPERATIONS {
            let known = of_operation(docs).into_iter().filter(|(status, _)| *status == 400).count();
            let own = super::own(docs.id);
            assert!(own.iter().all(|name| KNOWN.iter().any(|refusal| refusal.name == *name)), "{}", docs.id);
            assert!(known >= own.len(), "{}", docs.id);
        }
    }
}
