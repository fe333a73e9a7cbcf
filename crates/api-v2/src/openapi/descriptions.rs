//! What a summary cannot say. Operations that explain themselves have no entry.

/// The description of an operation, in Markdown.
pub(super) fn of(id: &str) -> Option<&'static str> {
    Some(match id {
        "createDatabase" => "The database starts with one branch that holds one empty commit by the caller.",
        "deleteDatabase" => {
            "From then on the database and everything below it answer 404, and the name is free. Forks stay. Its queued and running operations end as `CANCELED`."
        }
        "createUserToken" => {
            "`token` is in this answer and nowhere else; a repeat under the same `Idempotency-Key` omits it."
        }
        "deleteUserToken" => "A token may delete itself.",
        "updateDatabase" => {
            "`description` is cleared by `null` or an empty text. A new visibility holds at once; forks keep theirs."
        }
        "deleteOrganization" => "Refused with 409 while it owns databases.",
        "putOrganizationMember" | "removeOrganizationMember" => {
            "The last owner of an organization can be neither demoted nor removed (422)."
        }
        "putCollaborator" => "The owner of the database cannot be a collaborator (422).",
        "deleteBranch" => "Open pull requests from or to it stay open, and cannot be merged until it exists again.",
        "createHook" => {
            "`secret` is in this answer and nowhere else; deliveries are signed with it (Standard Webhooks). A repeat under the same `Idempotency-Key` omits it. \
             Addresses in private networks are refused unless the operator opened them."
        }
        "updateHook" => {
            "`active: false` gives up what is on its way; `active: true` also forgets why the server had switched it off."
        }
        "pingHook" => "One attempt, also to a hook that is off. It has no consequences for the hook.",
        "rotateHookSecret" => {
            "For 24 h deliveries carry signatures by both secrets. Rotating again in that time drops the older one."
        }
        "getHookDelivery" => "Finished deliveries are kept for 30 days.",
        "redeliver" => {
            "The same id and body, a new run of attempts, also to a hook that is off. 409 while it is `pending`."
        }
        "createFork" => {
            "Runs as an operation; the fork appears when it has succeeded. It keeps name, description, visibility, branches, tags and default branch of the source."
        }
        "createRelease" => {
            "One release per tag. With `create_tag_if_not_exists` the tag is made at `commit_sha` when it is missing."
        }
        "createPull" => {
            "Unknown fields of the body are ignored, also inside both branches. The source may be in any database of the same fork network that the caller can read; one that is not public needs the write role and, where the base is public, `publish: true`. While the source's commits are being fetched, diff, tables and conflicts are 503."
        }
        "updatePull" => {
            "A `state` equal to the present one changes nothing. The state of a merged pull request is final."
        }
        "withdrawPull" => {
            "For administrators of the source database, also where the base is hidden from them. The difference is gone at once for everybody; an open pull request is closed."
        }
        "mergePull" => {
            "Runs as an operation: merges the head `from_branch` has when it runs, and sets the pull request to `merged`, all or nothing. Conflicts that `resolve` does not settle fail it with `MERGE_CONFLICT`."
        }
        "listPullDiff" | "listPullDiffTables" => {
            "From the merge base of both branches to the head of `from_branch`; for a closed pull request, as it was closed; for a merged one, what the merge took in. 503 while the source is being fetched."
        }
        "listPullConflicts" => {
            "Empty when the pull request merges cleanly, or is merged. 503 also while the source is being fetched, and when the trial merge takes longer than 60 s."
        }
        "listCommits" => {
            "Children before parents, then newest first. All pages show the history of the commit that `ref` named on the first."
        }
        "listDiff" | "listDiffTables" => "All pages compare the commits that the refs named on the first.",
        "runSqlReadQuery" | "runSqlReadQueryPost" => {
            "Runs one statement at exactly one commit, the one `ref` names when the read starts. A statement that fails is answered 200 with `status` `error` or `timeout`. \
             With `Accept: text/csv` or `application/x-ndjson` the whole result is streamed, without row limit; a CSV read that fails before its first byte is answered 422."
        }
        "runSqlWriteQuery" => {
            "Runs as an operation: the statements run on `to_branch` as one commit by the caller; then, if `from_branch` is another branch, it is merged into `to_branch`. All or nothing. `to_branch` is created from the head of `from_branch` when it is missing."
        }
        "createImportUpload" => {
            "Announces a file and answers an address for each part. The session lives one hour, the addresses ten minutes; both hold secrets."
        }
        "putImportPart" => {
            "Send the raw bytes to the address exactly as it was given. It is the credential: `Authorization` is not looked at, and the request does not count against rate limits. \
             A later complete upload of a part replaces the earlier one; one that is cut short changes nothing."
        }
        "createImport" => {
            "Runs as an operation: all of the file becomes one commit, or nothing changes. `file_parts_md5` is the base64 of the MD5 over the concatenated base64 texts of the MD5s of the parts, in order."
        }
        "getOperation" => {
            "Ask with `Prefer: wait=20` until `status` is `succeeded` or `failed`; or without, at once, then after 1 s doubling to 10 s."
        }
        "cancelOperation" => "Only while it is `queued`.",
        "getOpenapiDocument" => "This document.",
        _ => return None,
    })
}
