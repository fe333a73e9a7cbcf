//! Meanings of fields, and limits on the values in requests.

use serde_json::{Map, Value, json};

/// Pattern of request texts: they contain no NUL.
const NO_NUL: &str = r"^[^\u0000]*$";
const NOT_BLANK: &str = r"^[^\u0000]*[^\u0000\s][^\u0000]*$";
const NAME: &str = "^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$";
/// Pattern of an operation's name: any prefix that ends in a slash, then the id.
pub(super) const OPERATION: &str = "^(.*(/|%2[Ff]))?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$";

/// Returns `true` if the object is sent by clients.
fn is_request(object: &str) -> bool {
    object.ends_with("Request") || object == "UploadParams"
}

/// Returns the description of a field and, for a request, its limits.
pub(super) fn of(object: &str, field: &str) -> Map<String, Value> {
    let text = meaning(object, field);
    let mut known = match limits(object, field) {
        Value::Object(limits) if is_request(object) => limits,
        _ => Map::new(),
    };
    if !text.is_empty() {
        known.insert("description".to_owned(), text.into());
    }
    known
}

fn limits(object: &str, field: &str) -> Value {
    let length = |min: u32, max: u32| json!({"minLength": min, "maxLength": max, "pattern": NO_NUL});
    match (object, field) {
        ("CreateDatabaseRequest", "ownerName") => json!({"minLength": 3, "maxLength": 32, "pattern": NAME}),
        (_, "repoName") => json!({"minLength": 1, "maxLength": 64, "pattern": NAME}),
        ("CreateDatabaseRequest", "description") => length(0, 4_096),
        (_, "newBranchName" | "tagName") => length(1, 200),
        (_, "tableName") => length(0, 128),
        (_, "title") => json!({"minLength": 1, "maxLength": 256, "pattern": NOT_BLANK}),
        (_, "comment") => json!({"minLength": 1, "maxLength": 65_536, "pattern": NOT_BLANK}),
        (_, "description" | "tagMessage") => length(0, 65_536),
        (_, "query") => length(0, 1 << 20),
        (_, "branchName") => json!({"pattern": NO_NUL}),
        (_, "state" | "visibility" | "revisionType" | "fileType" | "importOp" | "primaryKeys") => json!({}),
        _ => json!({"minLength": 1, "pattern": NO_NUL}),
    }
}

fn meaning(object: &str, field: &str) -> &'static str {
    match (object, field) {
        ("UserOperation", "description") => "What it does; a statement is cut to 1000 bytes.",
        ("Job", "description") => "What it does.",
        ("Job", "status") => "How it stands.",
        ("ForkPoll", "status") => "`Success` only once the fork is there.",
        ("ForkPoll", "database_owner" | "database_name") => "Of the fork; empty until it is there.",
        ("ForkPoll", "owner_name") => "As `database_owner`.",
        ("ForkPollError", "done") => "There, and true, when the fork has failed.",
        ("JobPoll", "status") => "`Error` when the operation has failed.",
        ("JobPoll", "message") => "Why it failed; only then.",
        ("JobPoll", "pull_id") => "Of the path; of an import, once completed, the pull request it opened, or empty.",
        ("ResultDetails" | "WriteDone" | "WritePollError", "query_execution_status") => "`Success` or `Error`.",
        ("WriteStarted", "query_execution_status") => "`Success`: the operation was created.",
        ("WriteStarted", "query") => "The statements as sent; empty for a merge alone.",
        ("WriteStarted", "operation_name") => "What to poll; empty when it was refused.",
        ("WriteRequest", "query") => "Statements; a parameter `q` that is not blank wins.",
        ("NewPullRequest", "toBranchOwnerName" | "toBranchRepoName") => "If given, the database of the path.",
        ("NewPullRequest", "fromBranchOwnerName" | "fromBranchRepoName") => "The database of the path when absent.",
        ("PullEditRequest", "description") => "Empty clears it.",
        ("PullEditRequest", "state") => "`open` reopens; in any letter case.",
        ("UploadParams", "branchName") => "An existing branch; empty = the default branch, imported to directly.",
        ("UploadParams", "tableName") => "Required unless `fileType` is `Sql`; a script without one is run as it is.",
        ("UploadForm", "params") => "A JSON text.",
        ("Releases" | "Tags", "next_page_token") => "Always empty.",
        _ => by_name(field),
    }
}

fn by_name(field: &str) -> &'static str {
    match field {
        "status" => "`Success`, or `Error` with `message`.",
        "message" => "What is wrong.",
        "_id" => "The same name once more.",
        "address" => "Email address.",
        "author" => "Who opened it.",
        "bio" | "location" | "url" | "profile_picture_url" | "display_name" => "Empty when unset.",
        "branch_name" | "from_branch_name" | "to_branch_name" | "new_branch_name" | "from_branch" | "to_branch" => {
            "Name of a branch."
        }
        "branches" | "tags" | "releases" | "forks" => "All of them.",
        "columnName" => "Name, or the text of the expression.",
        "columnType" => "`bigint`, `double`, `longtext`, `longblob` or the declared type, in lower case.",
        "comment" => "The text.",
        "commit_ref" => "The ref as asked for, or the default branch.",
        "created_at" | "tagged_at" => "When it was made.",
        "updated_at" => "When it last changed.",
        "creator" | "creator_name" => "Who made it.",
        "database_owner" | "repository_owner" | "owner_name" | "from_owner_name" | "to_owner_name" => {
            "Owner of the database, as stored."
        }
        "database_name" | "repository_name" | "from_repository_name" | "to_repository_name" => {
            "Name of the database, as stored."
        }
        "from_branch_owner" | "from_branch_owner_name" | "to_branch_owner" | "to_branch_owner_name" => {
            "Owner of the branch's database."
        }
        "from_branch_database" | "from_branch_repo_name" | "to_branch_database" | "to_branch_repo_name" => {
            "The branch's database."
        }
        "description" => "In Markdown; may be empty.",
        "done" => "Whether it is over.",
        "email_addresses" => "All of the user's.",
        "error" | "job_error" => "Why it failed; empty when it did not.",
        "file" => "The bytes.",
        "fileName" => "Shown to people.",
        "fileType" => "In any letter case.",
        "importOp" => "Required unless `fileType` is `Sql`; in any letter case.",
        "primaryKeys" => "Columns of the key of a new table.",
        "fork_network_count" => "Forks in the whole network.",
        "forked_owner" => "Owner of the fork.",
        "parent_owner" | "network_root_owner" => "Owner; empty when there is none or it is hidden.",
        "parent_database" => "Name of the source.",
        "parent_database_name" | "network_root_database_name" => "Name; empty when there is none or it is hidden.",
        "from_commit_id" => "Head of the branch before; empty on error.",
        "to_commit_id" => "Head of the branch at the end; equal when nothing changed.",
        "fromBranchName" | "toBranchName" => "Name of an existing branch.",
        "is_primary" => "Whether it is the one that commits carry.",
        "is_verified" => "Whether it was verified.",
        "job_created" => "Always true.",
        "job_id" | "operation_name" | "user_operation_name" => "A name of the operation, to poll.",
        "job_status" => "How it stands.",
        "job_type" | "operation_type" => "What it is.",
        "jobs" | "operations" | "pulls" => "A page of them.",
        "metadata" => "A text that holds a JSON object.",
        "newBranchName" => "Under git's rules for names of refs.",
        "next_page_token" => "For `pageToken`; empty on the last page.",
        "operation_status" => "How it stands.",
        "ownerName" => "A user or an organization.",
        "parentOwnerName" => "Owner of the source.",
        "parentDatabaseName" => "Name of the source.",
        "pull_id" => "Number of the pull request, as a text.",
        "query" | "sql_query" => "The statement.",
        "query_execution_status" => "How it ended.",
        "query_execution_message" => "What is wrong, or what was done; may be empty.",
        "repoName" => "Name of the new database.",
        "res_details" => "How it ended; only when it is over.",
        "revisionType" => "What `revisionName` is; in any letter case.",
        "revision_type" => "What `revision_name` is, as sent.",
        "revisionName" | "revision_name" => "A branch, a commit of 40 hex digits, or any ref.",
        "rows" => "Keys are the columns, in the order of `schema`; values are texts or null.",
        "schema" => "The columns, also without rows.",
        "state" => "How it stands.",
        "tagName" | "tag_name" => "Name of the tag.",
        "tagMessage" | "tag_description" => "Message of the tag; may be empty.",
        "table_name" => "The table imported to.",
        "title" => "Not blank.",
        "username" => "Name of the user.",
        "visibility" => "`public` or `private`.",
        _ => "",
    }
}
