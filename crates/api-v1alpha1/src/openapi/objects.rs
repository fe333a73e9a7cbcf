//! The table of the objects in requests and responses, with their fields. Fields of responses are always present unless declared
//! optional. Only cells can be null.

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldKind {
    Text,
    Bool,
    Count,
    Time,
    Words(&'static [&'static str]),
    Texts,
    One(&'static str),
    List(&'static str),
    /// Rows as objects from column name to cell, a string or null.
    Rows,
}

/// A field of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectField {
    pub(super) name: &'static str,
    pub(super) kind: FieldKind,
    pub(super) required: bool,
}

const fn of(name: &'static str, kind: FieldKind) -> ObjectField {
    ObjectField { name, kind, required: true }
}

const fn text(name: &'static str) -> ObjectField {
    of(name, FieldKind::Text)
}

const fn maybe(name: &'static str, kind: FieldKind) -> ObjectField {
    ObjectField { name, kind, required: false }
}

const EXECUTION: FieldKind = FieldKind::Words(&["Success", "RowLimit", "Timeout", "Error"]);
const ENDED: FieldKind = FieldKind::Words(&["Success", "Error"]);
const STATE: FieldKind = FieldKind::Words(&["Open", "Closed", "Merged"]);

const DONE: &[ObjectField] = &[of("status", FieldKind::Words(&["Success"]))];
const ERROR: &[ObjectField] = &[of("status", FieldKind::Words(&["Error"])), text("message")];
const DATABASE: &[ObjectField] = &[text("database_owner"), text("database_name")];
const REPOSITORY: &[ObjectField] = &[text("repository_owner"), text("repository_name")];
const SQL: &[ObjectField] = &[of("query_execution_status", EXECUTION), text("query_execution_message")];
const READ: &[ObjectField] = &[text("commit_ref"), text("sql_query")];
const CREATED: &[ObjectField] =
    &[text("description"), text("repository_owner"), text("repository_name"), text("visibility")];
const FORK: &[ObjectField] = &[text("parent_owner"), text("parent_database"), text("forked_owner")];
const NAME: &[ObjectField] = &[text("operation_name")];
const NEW_BRANCH: &[ObjectField] = &[text("new_branch_name"), text("revision_type"), text("revision_name")];
const NEW_TAG: &[ObjectField] =
    &[text("tag_name"), text("tag_description"), text("revision_type"), text("revision_name")];
const ENDS: &[ObjectField] = &[
    text("title"),
    text("description"),
    text("from_owner_name"),
    text("from_repository_name"),
    text("from_branch_name"),
    text("to_owner_name"),
    text("to_repository_name"),
    text("to_branch_name"),
];
const PULL: &[ObjectField] = &[text("pull_id")];
const PART: &[ObjectField] = &[text("title"), text("description"), of("state", STATE)];
const COMMENT: &[ObjectField] = &[text("pull_id"), text("comment")];
const JOB_NAMES: &[ObjectField] = &[text("operation_name"), text("user_operation_name")];
const UPLOAD: &[ObjectField] = &[text("branch_name"), text("table_name")];
const WRITE: &[ObjectField] =
    &[text("from_branch_name"), text("to_branch_name"), text("query"), text("operation_name")];
const PENDING: &[ObjectField] = &[text("_id"), text("operation_name"), of("done", FieldKind::Bool)];
const START: &[ObjectField] =
    &[of("revisionType", FieldKind::Words(&["branch", "ref", "commit"])), text("revisionName")];

/// All objects, each with its name and the groups of its fields.
pub(super) const OBJECTS: &[(&str, &[&[ObjectField]])] = &[
    ("Error", &[ERROR]),
    ("DatabaseError", &[ERROR, DATABASE]),
    (
        "User",
        &[
            DONE,
            &[
                text("username"),
                text("display_name"),
                text("bio"),
                text("location"),
                text("url"),
                text("profile_picture_url"),
                of("email_addresses", FieldKind::List("Email")),
            ],
        ],
    ),
    ("Email", &[&[text("address"), of("is_primary", FieldKind::Bool), of("is_verified", FieldKind::Bool)]]),
    ("Created", &[DONE, CREATED]),
    ("CreatedError", &[ERROR, CREATED]),
    ("ReadResult", &[SQL, REPOSITORY, READ, &[of("schema", FieldKind::List("Column")), of("rows", FieldKind::Rows)]]),
    ("ReadError", &[SQL, REPOSITORY, READ]),
    ("Column", &[&[text("columnName"), text("columnType")]]),
    ("WriteStarted", &[SQL, REPOSITORY, WRITE]),
    ("WritePending", &[PENDING]),
    ("WriteDone", &[PENDING, SQL, &[of("res_details", FieldKind::One("ResultDetails"))]]),
    ("WritePollError", &[SQL, NAME]),
    (
        "ResultDetails",
        &[SQL, &[text("owner_name"), text("repository_name"), text("from_commit_id"), text("to_commit_id")]],
    ),
    (
        "Forks",
        &[
            DONE,
            DATABASE,
            &[
                of("forks", FieldKind::List("DatabaseRef")),
                text("parent_owner"),
                text("parent_database_name"),
                text("network_root_owner"),
                text("network_root_database_name"),
                of("fork_network_count", FieldKind::Count),
            ],
        ],
    ),
    ("DatabaseRef", &[DATABASE]),
    ("ForkStarted", &[DONE, FORK, NAME]),
    ("ForkError", &[ERROR, FORK]),
    (
        "ForkPoll",
        &[
            &[of("status", FieldKind::Words(&["Pending", "Success"])), of("done", FieldKind::Bool)],
            NAME,
            DATABASE,
            &[text("owner_name")],
        ],
    ),
    ("ForkPollError", &[ERROR, NAME, &[maybe("done", FieldKind::Bool)]]),
    ("Branches", &[DONE, DATABASE, &[of("branches", FieldKind::List("BranchItem"))]]),
    ("BranchItem", &[&[text("branch_name")]]),
    ("NewBranch", &[DONE, DATABASE, NEW_BRANCH]),
    ("NewBranchError", &[ERROR, DATABASE, NEW_BRANCH]),
    ("Branch", &[DONE, DATABASE, &[text("branch_name")]]),
    ("BranchError", &[ERROR, DATABASE, &[text("branch_name")]]),
    ("Tags", &[DONE, DATABASE, &[text("next_page_token"), of("tags", FieldKind::List("TagItem"))]]),
    ("Releases", &[DONE, DATABASE, &[text("next_page_token"), of("releases", FieldKind::List("TagItem"))]]),
    ("TagItem", &[&[text("tag_name"), text("tag_description"), of("tagged_at", FieldKind::Time)]]),
    ("NewTag", &[DONE, DATABASE, NEW_TAG]),
    ("NewTagError", &[ERROR, DATABASE, NEW_TAG]),
    ("Pulls", &[DONE, DATABASE, &[text("next_page_token"), of("pulls", FieldKind::List("PullItem"))]]),
    (
        "PullItem",
        &[
            PULL,
            PART,
            &[
                of("created_at", FieldKind::Time),
                of("updated_at", FieldKind::Time),
                text("creator"),
                text("creator_name"),
            ],
        ],
    ),
    ("PullCreated", &[DONE, ENDS, PULL, &[text("_id")]]),
    ("PullCreatedError", &[ERROR, ENDS]),
    (
        "Pull",
        &[
            DONE,
            DATABASE,
            PULL,
            PART,
            &[
                text("from_branch_owner"),
                text("from_branch_owner_name"),
                text("from_branch_database"),
                text("from_branch_repo_name"),
                text("from_branch"),
                text("from_branch_name"),
                text("to_branch_owner"),
                text("to_branch_owner_name"),
                text("to_branch_database"),
                text("to_branch_repo_name"),
                text("to_branch"),
                text("to_branch_name"),
                of("created_at", FieldKind::Time),
                text("author"),
            ],
        ],
    ),
    ("PullPart", &[DONE, DATABASE, PULL, PART]),
    ("PullError", &[ERROR, DATABASE, PULL]),
    ("Comment", &[DONE, REPOSITORY, COMMENT]),
    ("CommentError", &[ERROR, REPOSITORY, COMMENT]),
    ("MergeStarted", &[DONE, DATABASE, PULL, JOB_NAMES]),
    (
        "JobPoll",
        &[
            &[of("status", ENDED), maybe("message", FieldKind::Text), of("job_created", FieldKind::Bool)],
            NAME,
            DATABASE,
            PULL,
            &[
                of("job_status", FieldKind::Words(&["Pending", "In Progress", "Completed", "Failed"])),
                of("done", FieldKind::Bool),
                maybe("res_details", FieldKind::One("ResultDetails")),
            ],
        ],
    ),
    ("PollError", &[ERROR, NAME]),
    ("UploadStarted", &[DONE, DATABASE, UPLOAD, JOB_NAMES]),
    ("UploadError", &[ERROR, DATABASE, UPLOAD]),
    ("Jobs", &[DONE, DATABASE, &[text("next_page_token"), of("jobs", FieldKind::List("Job"))]]),
    (
        "Job",
        &[&[
            text("job_id"),
            text("creator"),
            text("description"),
            of("job_type", FieldKind::Words(&["Import", "Merge"])),
            of("status", FieldKind::Words(&["Pending", "Running", "Succeeded", "Failed"])),
            of("created_at", FieldKind::Time),
            text("job_error"),
            text("error"),
        ]],
    ),
    ("UserOperations", &[DONE, &[text("next_page_token"), of("operations", FieldKind::List("UserOperation"))]]),
    (
        "UserOperation",
        &[&[
            text("operation_name"),
            text("creator"),
            text("description"),
            of("operation_type", FieldKind::Words(&["SqlWrite", "Import", "Merge", "Fork"])),
            of("operation_status", FieldKind::Words(&["Pending", "Running", "Success", "Failure"])),
            text("error"),
            text("metadata"),
            of("created_at", FieldKind::Time),
            of("updated_at", FieldKind::Time),
        ]],
    ),
    ("UserOperationsError", &[ERROR, &[text("username"), text("operation_type")]]),
    (
        "CreateDatabaseRequest",
        &[&[
            text("ownerName"),
            text("repoName"),
            of("visibility", FieldKind::Words(&["public", "private"])),
            maybe("description", FieldKind::Text),
        ]],
    ),
    ("WriteRequest", &[&[maybe("query", FieldKind::Text)]]),
    ("ForkRequest", &[&[text("ownerName")]]),
    ("ForkNamedRequest", &[&[text("parentOwnerName"), text("parentDatabaseName"), text("ownerName")]]),
    ("NewBranchRequest", &[START, &[text("newBranchName")]]),
    ("NewTagRequest", &[START, &[text("tagName"), text("tagMessage")]]),
    (
        "NewPullRequest",
        &[&[
            text("title"),
            maybe("description", FieldKind::Text),
            maybe("fromBranchOwnerName", FieldKind::Text),
            maybe("fromBranchRepoName", FieldKind::Text),
            text("fromBranchName"),
            maybe("toBranchOwnerName", FieldKind::Text),
            maybe("toBranchRepoName", FieldKind::Text),
            text("toBranchName"),
        ]],
    ),
    (
        "PullEditRequest",
        &[&[
            maybe("title", FieldKind::Text),
            maybe("description", FieldKind::Text),
            maybe("state", FieldKind::Words(&["open", "closed"])),
        ]],
    ),
    ("CommentRequest", &[&[text("comment")]]),
    ("MergeRequest", &[&[]]),
    ("UploadForm", &[&[text("file"), of("params", FieldKind::One("UploadParams"))]]),
    (
        "UploadParams",
        &[&[
            text("fileName"),
            text("branchName"),
            of("fileType", FieldKind::Words(&["Csv", "Psv", "Json", "Xlsx", "Sql"])),
            maybe("importOp", FieldKind::Words(&["Create", "Update", "Overwrite", "Replace"])),
            maybe("tableName", FieldKind::Text),
            maybe("primaryKeys", FieldKind::Texts),
        ]],
    ),
];
