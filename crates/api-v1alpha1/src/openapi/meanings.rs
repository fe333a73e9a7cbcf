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
        ("UserOperation", "description") => "A description of the work; statements are truncated to 1000 bytes.",
        ("Job", "description") => "A description of the work.",
        ("Job", "status") => "The current status.",
        ("ForkPoll", "status") => "`Success` only once the fork exists.",
        ("ForkPoll", "database_owner" | "database_name") => "Of the fork; empty until the fork exists.",
        ("ForkPoll", "owner_name") => "As `database_owner`.",
        ("ForkPollError", "done") => "Present and true if the fork failed.",
        ("JobPoll", "status") => "`Error` if the operation failed.",
        ("JobPoll", "message") => "The reason of a failure; absent otherwise.",
        ("JobPoll", "pull_id") => {
            "The number in the path. For a completed import, the pull request it opened, or empty."
        }
        ("ResultDetails" | "WriteDone" | "WritePollError", "query_execution_status") => "`Success` or `Error`.",
        ("WriteStarted", "query_execution_status") => "`Success`: the operation was created.",
        ("WriteStarted", "query") => "The statements as sent; empty for a merge alone.",
        ("WriteStarted", "operation_name") => "The name for polling; empty if the request was refused.",
        ("WriteRequest", "query") => "The statements; a parameter `q` that is not blank takes precedence.",
        ("NewPullRequest", "toBranchOwnerName" | "toBranchRepoName") => "If present, the database in the path.",
        ("NewPullRequest", "fromBranchOwnerName" | "fromBranchRepoName") => "Default: the database in the path.",
        ("PullEditRequest", "description") => "Empty clears it.",
        ("PullEditRequest", "state") => "`open` reopens; in any letter case.",
        ("UploadParams", "branchName") => {
            "An existing branch. If empty, the file is imported directly to the default branch."
        }
        ("UploadParams", "tableName") => "Required unless `fileType` is `Sql`; a script without one is run as it is.",
        ("UploadForm", "params") => "A text that contains JSON.",
        ("Releases" | "Tags", "next_page_token") => "Always empty.",
        _ => by_name(field),
    }
}

fn by_name(field: &str) -> &'static str {
    match field {
        "status" => "`Success`, or `Error` with `message`.",
        "message" => "The error.",
        "_id" => "The same name again.",
        "address" => "Email address.",
        "author" => "The author.",
        "bio" | "location" | "url" | "profile_picture_url" | "display_name" => "Empty when unset.",
        "branch_name" | "from_branch_name" | "to_branch_name" | "new_branch_name" | "from_branch" | "to_branch" => {
            "Name of a branch."
        }
        "branches" | "tags" | "releases" | "forks" => "The whole list.",
        "columnName" => "Name, or the text of the expression.",
        "columnType" => "`bigint`, `double`, `longtext`, `longblob` or the declared type, in lower case.",
        "comment" => "The text.",
        "commit_ref" => "The requested ref, or the default branch.",
        "created_at" | "tagged_at" => "The time of creation.",
        "updated_at" => "The time of the last change.",
        "creator" | "creator_name" => "The creator.",
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
        "done" => "Whether the operation has ended.",
        "email_addresses" => "All addresses of the user.",
        "error" | "job_error" => "The reason of a failure; otherwise empty.",
        "file" => "The bytes.",
        "fileName" => "Name to show.",
        "fileType" => "In any letter case.",
        "importOp" => "Required unless `fileType` is `Sql`; in any letter case.",
        "primaryKeys" => "Primary key columns of a new table.",
        "fork_network_count" => "Forks in the whole network.",
        "forked_owner" => "Owner of the fork.",
        "parent_owner" | "network_root_owner" => "Owner; empty if absent or hidden.",
        "parent_database" => "Name of the source.",
        "parent_database_name" | "network_root_database_name" => "Name; empty if absent or hidden.",
        "from_commit_id" => "Head of the branch before; empty on error.",
        "to_commit_id" => "Head of the branch afterwards; the same if nothing changed.",
        "fromBranchName" | "toBranchName" => "Name of an existing branch.",
        "is_primary" => "Whether commits carry this address.",
        "is_verified" => "Whether the address is verified.",
        "job_created" => "Always true.",
        "job_id" | "operation_name" | "user_operation_name" => "The name of the operation, for polling.",
        "job_status" => "The current status.",
        "job_type" | "operation_type" => "The kind of work.",
        "jobs" | "operations" | "pulls" => "A page of the list.",
        "metadata" => "A text that contains a JSON object.",
        "newBranchName" => "Follows git's rules for names of refs.",
        "next_page_token" => "For `pageToken`; empty on the last page.",
        "operation_status" => "The current status.",
        "ownerName" => "A user or an organization.",
        "parentOwnerName" => "Owner of the source.",
        "parentDatabaseName" => "Name of the source.",
        "pull_id" => "Number of the pull request, as a text.",
        "query" | "sql_query" => "The statement.",
        "query_execution_status" => "The outcome.",
        "query_execution_message" => "The error or a note; may be empty.",
        "repoName" => "Name of the new database.",
        "res_details" => "The outcome; absent until the operation has ended.",
        "revisionType" => "The kind of `revisionName`, in any letter case.",
        "revision_type" => "The kind of `revision_name`, as sent.",
        "revisionName" | "revision_name" => "A branch, a commit of 40 hex digits, or any ref.",
        "rows" => "Objects with the columns as keys, in the order of `schema`; values are texts or null.",
        "schema" => "The columns, present also without rows.",
        "state" => "The current state.",
        "tagName" | "tag_name" => "Name of the tag.",
        "tagMessage" | "tag_description" => "Message of the tag; may be empty.",
        "table_name" => "The table of the import.",
        "title" => "Not blank.",
        "username" => "Name of the user.",
        "visibility" => "`public` or `private`.",
        _ => "",
    }
}
