//! Descriptions of operations, for facts that do not fit their summaries.

/// Returns the description of an operation in Markdown; empty if it has none.
pub(super) fn of(id: &str) -> &'static str {
    match id {
        "getOpenapiDocument" => "OpenAPI 3.1, with this server's own address.",
        "getUser" => "The only endpoint that answers 401. Unset texts are empty.",
        "listUserOperations" => {
            "15 per page. `username` must be the user of the token. `metadata` is a text that contains a JSON object."
        }
        "createDatabase" => {
            "The database has its default branch at once, so the next request may write from `main` to `main`. The \
             message for a taken name contains `already exists`."
        }
        "forkDatabase" | "createFork" => {
            "Runs as an operation; poll `GET /api/v1alpha1/fork`. The fork keeps the name of the database. `already \
             exists` means that the owner has a fork already or that the name is taken."
        }
        "pollFork" => {
            "Until the fork is done, names are empty and `status` is `Pending`. A failed fork is answered 400 with \
             `done: true`."
        }
        "readDefault" => {
            "Reads the default branch, which `commit_ref` names and which need not be `main`. Values are strings or \
             null, and the keys of each row have the order of the SELECT. At most 1000 rows, 15 MiB and 55 seconds. A \
             statement that fails is answered 200 with `Error`. `SHOW TABLES`, `SHOW COLUMNS FROM t`, `DESCRIBE t` \
             and `SHOW CREATE TABLE t` are supported."
        }
        "read" => {
            "The ref is the whole rest of the path: a branch, a tag, a commit of 40 hex digits, \
             `refs/heads/<branch>`, `refs/tags/<tag>`, or an expression like `HEAD~2`. Send slashes as they are or as \
             `%2F`; encode a ref that looks like another route (`pulls/4`). An unknown ref is answered 200 with \
             `Error`. All else is as for a read of the default branch."
        }
        "write" => {
            "One atomic operation: the statements run on `to_branch`, which is created from `from_branch` if missing, \
             and become one commit. Then `from_branch`, if it is another branch, is merged into `to_branch`. Without \
             a statement, only the merge runs. SQL errors and conflicts appear in the status of the write."
        }
        "pollWrite" => {
            "While the write is queued or running, `res_details` and `query_execution_status` are absent. A failed \
             write is answered 200 with `done: true` and `Error`. Equal commit ids mean that nothing changed. Accepts \
             every spelling of the name of an operation."
        }
        "listForks" => {
            "Direct forks that the caller can see, by owner and name. Parent and root are empty if they are hidden or \
             absent."
        }
        "listBranches" => "The whole list, in bytewise order of names.",
        "createBranch" => {
            "`revisionType` is the kind of `revisionName`: a branch, a commit of 40 hex digits, or any ref."
        }
        "deleteBranch" => {
            "The name is the whole rest of the path; send slashes as they are or as `%2F`. Open pull requests of the \
             branch stay open."
        }
        "listTags" => "The whole list; `next_page_token` is always empty.",
        "createTag" => "`tagMessage` is required and may be empty.",
        "listReleases" => {
            "The whole list; `next_page_token` is always empty. `tagged_at` is the time at which the release was created."
        }
        "createRelease" => "Tag and title are `tagName`. A missing tag is created; a tag on another commit is refused.",
        "listPulls" => "100 per page, by number, highest first. The parameter `state` is ignored: use `filterByState`.",
        "createPull" => {
            "The source is a branch of this database or of a database of the same fork network; the target is a \
             branch of this database. `_id` repeats `pull_id`."
        }
        "getPull" => "Six fields appear under two names each.",
        "updatePull" => {
            "For the author, and for callers with write access. At least one field is required. `closed` closes and \
             `open` reopens; the state of a merged pull request is final."
        }
        "createComment" => "For all callers who can read the database.",
        "mergePull" => {
            "Runs as an operation; poll the same URL with GET, or `upload`. The body is ignored. The answer has no \
             `state`, because the merge has only started."
        }
        "pollMerge" => {
            "`job_status` ends as `Completed` or `Failed`. Accepts operations of every type and every spelling of a name."
        }
        "upload" => {
            "Parts `file` and `params`, in any order; other parts are ignored. The file is committed to a new branch, \
             and a pull request into `branchName` is opened, unless the import changes nothing. An empty `branchName` \
             imports directly to the default branch. At most 100 MiB."
        }
        "pollUpload" => {
            "As the status of a merge. `pull_id` is empty until the import has completed, and if no pull request was opened."
        }
        "listJobs" => "15 per page. `error` repeats `job_error`.",
        "downloadArchive" => {
            "One `<table>.csv` for each table, by name, all at the commit that the ref named when the request \
             arrived. Views are omitted. The archive is streamed: a failure after the first byte cuts the connection \
             and leaves the archive incomplete. Send slashes in the ref as `%2F`, or as they are if they cannot be \
             mistaken for a table."
        }
        "downloadTable" => {
            "A header row, then all rows in the order of the primary key. Lines end in LF; NULL is an empty field, \
             the empty text is `\"\"`; BLOBs are base64. The file is streamed: a failure after the first byte cuts \
             the connection."
        }
        _ => "",
    }
}
