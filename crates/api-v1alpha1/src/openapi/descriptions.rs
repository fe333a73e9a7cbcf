//! Descriptions of operations, for facts that do not fit their summaries.

/// Returns the description of an operation in Markdown; empty if it has none.
pub(super) fn of(id: &str) -> &'static str {
    match id {
        "getOpenapiDocument" => "OpenAPI 3.1, with this server's own address.",
        "getUser" => "The only endpoint that answers 401. Texts that are not set are empty.",
        "listUserOperations" => {
            "15 a page; `username` has to be the token's user. `metadata` is a text that holds a JSON object."
        }
        "createDatabase" => {
            "It has its default branch at once, so a write `main` to `main` works next. A taken name is told by `already exists`."
        }
        "forkDatabase" | "createFork" => {
            "Runs as an operation; poll `GET /api/v1alpha1/fork`. The fork keeps the database's name. `already exists` says that it was forked there before, or \
             that the name is taken."
        }
        "pollFork" => {
            "Names are empty and `status` is `Pending` until it is done. A failed fork answers 400 with `done: true`."
        }
        "readDefault" => {
            "At the default branch, which need not be `main`: `commit_ref` says which it was. Values are strings or null, and each row has its keys in the order of the SELECT. \
             At most 1000 rows, 15 MiB and 55 seconds. A statement that fails is HTTP 200 with `Error`. `SHOW TABLES`, `SHOW COLUMNS FROM t`, `DESCRIBE t` and \
             `SHOW CREATE TABLE t` are answered."
        }
        "read" => {
            "The ref is the whole rest of the path: a branch, a tag, a commit of 40 hex digits, `refs/heads/<branch>`, `refs/tags/<tag>`, or an expression like `HEAD~2`. \
             Slashes in it are sent raw or as `%2F`; one that looks like another route (`pulls/4`) has to be encoded. An unknown ref is HTTP 200 with `Error`. \
             Otherwise as a read of the default branch."
        }
        "write" => {
            "One atomic operation: the statements run as one commit on `to_branch`, which is created from `from_branch` when missing; then `from_branch`, if it is another \
             branch, is merged into it. Without a statement it is the merge alone. What the SQL does wrong, and conflicts, appear in the poll."
        }
        "pollWrite" => {
            "While it waits or runs there is neither `res_details` nor any `query_execution_status`. A failed write is HTTP 200 with `done: true` and `Error`. Equal commit ids say that \
             nothing changed. Every spelling of an operation's name is taken."
        }
        "listForks" => {
            "Direct forks that the caller may see, by owner and name. Parent and root are empty where they are hidden or absent."
        }
        "listBranches" => "The whole list, bytewise by name.",
        "createBranch" => {
            "`revisionType` says what `revisionName` is: a branch, a commit of 40 hex digits, or any ref."
        }
        "deleteBranch" => {
            "The name is the whole rest of the path, slashes raw or as `%2F`. Open pull requests of the branch stay open."
        }
        "listTags" => "The whole list; `next_page_token` is always empty.",
        "createTag" => "`tagMessage` has to be there and may be empty.",
        "listReleases" => {
            "The whole list; `next_page_token` is always empty, `tagged_at` is when the release was made."
        }
        "createRelease" => {
            "Its tag and title are `tagName`. The tag is created when missing; one on another commit is refused."
        }
        "listPulls" => "100 a page, by number, highest first. A parameter `state` is ignored: use `filterByState`.",
        "createPull" => {
            "From a branch of this database or of a fork of the same network, into a branch of this one. `_id` repeats `pull_id`."
        }
        "getPull" => "Six fields are sent under two names each.",
        "updatePull" => {
            "For its author, and for whoever may write. At least one field. `closed` closes, `open` reopens; a merged pull request has no other state."
        }
        "createComment" => "For everybody who may read the database.",
        "mergePull" => {
            "Runs as an operation; poll the same address with GET, or `upload`. The body is ignored. There is no `state` in the answer: the merge has only begun."
        }
        "pollMerge" => {
            "`job_status` ends as `Completed` or `Failed`. Operations of every type and names of every spelling are taken."
        }
        "upload" => {
            "Parts `file` and `params`, in any order; others are ignored. The file is committed on a branch of its own, and a pull request against `branchName` is opened; \
             importing what is there already opens none. An empty `branchName` imports to the default branch directly. At most 100 MiB."
        }
        "pollUpload" => {
            "As the poll of a merge; `pull_id` is empty until it is completed, and if no pull request was opened."
        }
        "listJobs" => "15 a page. `error` repeats `job_error`.",
        "downloadArchive" => {
            "One `<table>.csv` for each table, by name, all at the commit the ref named when the request came. Views are left out. Streamed: a failure after the first byte cuts the \
             connection, so that the archive is not whole. Slashes in the ref are sent as `%2F`, or raw where they cannot be taken for a table."
        }
        "downloadTable" => {
            "A header row, then all rows in the order of the primary key. Lines end in LF; NULL is an empty field, the empty text `\"\"`; BLOBs are base64. Streamed: a failure after the \
             first byte cuts the connection."
        }
        _ => "",
    }
}
