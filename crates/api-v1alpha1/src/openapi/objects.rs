//! The table of objects: what is sent and what is answered, field by field. Every field of an answer is there unless it says
//! otherwise, and none is null but cells.

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Bool,
    Count,
    Time,
    Words(&'static [&'static str]),
    Texts,
    One(&'static str),
    List(&'static str),
    /// Cells by column name, strings or null.
    Rows,
}

/// A field of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) required: bool,
}

const fn of(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true }
}

const fn text(name: &'static str) -> Field {
    of(name, Kind::Text)
}

const fn maybe(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false }
}

const EXECUTION: Kind = Kind::Words(&["Success", "RowLimit", "Timeout", "Error"]);
const ENDED: Kind = Kind::Words(&["Success", "Error"]);
const STATE: Kind = Kind::Words(&["Open", "Closed", "Merged"]);

const DONE: &[Field] = &[of("status", Kind::Words(&["Success"]))];
const ERROR: &[Field] = &[of("status", Kind::Words(&["Error"])), text("message")];
const DATABASE: &[Field] = &[text("database_owner"), text("database_name")];
const REPOSITORY: &[Field] = &[text("repository_owner"), text("repository_name")];
const SQL: &[Field] = &[of("query_execution_status", EXECUTION), text("query_execution_message")];
const READ: &[Field] = &[text("commit_ref"), text("sql_query")];
const CREATED: &[Field] = &[text("description"), text("repository_owner"), text("repository_name"), text("visibility")];
const FORK: &[Field] = &[text("parent_owner"), text("parent_database"), text("forked_owner")];
const NAME: &[Field] = &[text("operation_name")];
const NEW_BRANCH: &[Field] = &[text("new_branch_name"), text("revision_type"), text("revision_name")];
const NEW_TAG: &[Field] = &[text("tag_name"), text("tag_description"), text("revision_type"), text("revision_name")];
const ENDS: &[Field] = &[
    text("title"),
    text("description"),
    text("from_owner_name"),
    text("from_repository_name"),
    text("from_branch_name"),
    text("to_owner_name"),
    text("to_repository_name"),
    text("to_branch_name"),
];
const PULL: &[Field] = &[text("pull_id")];
const PART: &[Field] = &[text("title"), text("description"), of("state", STATE)];
const COMMENT: &[Field] = &[text("pull_id"), text("comment")];
const JOB_NAMES: &[Field] = &[text("operation_name"), text("user_operation_name")];
const UPLOAD: &[Field] = &[text("branch_name"), text("table_name")];
const WRITE: &[Field] = &[text("from_branch_name"), text("to_branch_name"), text("query"), text("operation_name")];
const PENDING: &[Field] = &[text("_id"), text("operation_name"), of("done", Kind::Bool)];
const START: &[Field] = &[of("revisionType", Kind::Words(&["branch", "ref", "commit"])), text("revisionName")];

/// Every object: its name and the groups of its fields.
pub(super) const OBJECTS: &[(&str, &[&[Field]])] = &[
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
                of("email_addresses", Kind::List("Email")),
            ],
        ],
    ),
    ("Email", &[&[text("address"), of("is_primary", Kind::Bool), of("is_verified", Kind::Bool)]]),
    ("Created", &[DONE, CREATED]),
    ("CreatedError", &[ERROR, CREATED]),
    ("ReadResult", &[SQL, REPOSITORY, READ, &[of("schema", Kind::List("Column")), of("rows", Kind::Rows)]]),
    ("ReadError", &[SQL, REPOSITORY, READ]),
    ("Column", &[&[text("columnName"), text("columnType")]]),
    ("WriteStarted", &[SQL, REPOSITORY, WRITE]),
    ("WritePending", &[PENDING]),
    ("WriteDone", &[PENDING, SQL, &[of("res_details", Kind::One("ResultDetails"))]]),
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
                of("forks", Kind::List("DatabaseRef")),
                text("parent_owner"),
                text("parent_database_name"),
                text("network_root_owner"),
                text("network_root_database_name"),
                of("fork_network_count", Kind::Count),
            ],
        ],
    ),
    ("DatabaseRef", &[DATABASE]),
    ("ForkStarted", &[DONE, FORK, NAME]),
    ("ForkError", &[ERROR, FORK]),
    (
        "ForkPoll",
        &[
            &[of("status", Kind::Words(&["Pending", "Success"])), of("done", Kind::Bool)],
            NAME,
            DATABASE,
            &[text("owner_name")],
        ],
    ),
    ("ForkPollError", &[ERROR, NAME, &[maybe("done", Kind::Bool)]]),
    ("Branches", &[DONE, DATABASE, &[of("branches", Kind::List("BranchItem"))]]),
    ("BranchItem", &[&[text("branch_name")]]),
    ("NewBranch", &[DONE, DATABASE, NEW_BRANCH]),
    ("NewBranchError", &[ERROR, DATABASE, NEW_BRANCH]),
    ("Branch", &[DONE, DATABASE, &[text("branch_name")]]),
    ("BranchError", &[ERROR, DATABASE, &[text("branch_name")]]),
    ("Tags", &[DONE, DATABASE, &[text("next_page_token"), of("tags", Kind::List("TagItem"))]]),
    ("Releases", &[DONE, DATABASE, &[text("next_page_token"), of("releases", Kind::List("TagItem"))]]),
    ("TagItem", &[&[text("tag_name"), text("tag_description"), of("tagged_at", Kind::Time)]]),
    ("NewTag", &[DONE, DATABASE, NEW_TAG]),
    ("NewTagError", &[ERROR, DATABASE, NEW_TAG]),
    ("Pulls", &[DONE, DATABASE, &[text("next_page_token"), of("pulls", Kind::List("PullItem"))]]),
    (
        "PullItem",
        &[
            PULL,
            PART,
            &[of("created_at", Kind::Time), of("updated_at", Kind::Time), text("creator"), text("creator_name")],
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
                of("created_at", Kind::Time),
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
            &[of("status", ENDED), maybe("message", Kind::Text), of("job_created", Kind::Bool)],
            NAME,
            DATABASE,
            PULL,
            &[
                of("job_status", Kind::Words(&["Pending", "In Progress", "Completed", "Failed"])),
                of("done", Kind::Bool),
                maybe("res_details", Kind::One("ResultDetails")),
            ],
        ],
    ),
    ("PollError", &[ERROR, NAME]),
    ("UploadStarted", &[DONE, DATABASE, UPLOAD, JOB_NAMES]),
    ("UploadError", &[ERROR, DATABASE, UPLOAD]),
    ("Jobs", &[DONE, DATABASE, &[text("next_page_token"), of("jobs", Kind::List("Job"))]]),
    (
        "Job",
        &[&[
            text("job_id"),
            text("creator"),
            text("description"),
            of("job_type", Kind::Words(&["Import", "Merge"])),
            of("status", Kind::Words(&["Pending", "Running", "Succeeded", "Failed"])),
            of("created_at", Kind::Time),
            text("job_error"),
            text("error"),
        ]],
    ),
    ("UserOperations", &[DONE, &[text("next_page_token"), of("operations", Kind::List("UserOperation"))]]),
    (
        "UserOperation",
        &[&[
            text("operation_name"),
            text("creator"),
            text("description"),
            of("operation_type", Kind::Words(&["SqlWrite", "Import", "Merge", "Fork"])),
            of("operation_status", Kind::Words(&["Pending", "Running", "Success", "Failure"])),
            text("error"),
            text("metadata"),
            of("created_at", Kind::Time),
            of("updated_at", Kind::Time),
        ]],
    ),
    ("UserOperationsError", &[ERROR, &[text("username"), text("operation_type")]]),
    (
        "CreateDatabaseRequest",
        &[&[
            text("ownerName"),
            text("repoName"),
            of("visibility", Kind::Words(&["public", "private"])),
            maybe("description", Kind::Text),
        ]],
    ),
    ("WriteRequest", &[&[maybe("query", Kind::Text)]]),
    ("ForkRequest", &[&[text("ownerName")]]),
    ("ForkNamedRequest", &[&[text("parentOwnerName"), text("parentDatabaseName"), text("ownerName")]]),
    ("NewBranchRequest", &[START, &[text("newBranchName")]]),
    ("NewTagRequest", &[START, &[text("tagName"), text("tagMessage")]]),
    (
        "NewPullRequest",
        &[&[
            text("title"),
            maybe("description", Kind::Text),
            maybe("fromBranchOwnerName", Kind::Text),
            maybe("fromBranchRepoName", Kind::Text),
            text("fromBranchName"),
            maybe("toBranchOwnerName", Kind::Text),
            maybe("toBranchRepoName", Kind::Text),
            text("toBranchName"),
        ]],
    ),
    (
        "PullEditRequest",
        &[&[
            maybe("title", Kind::Text),
            maybe("description", Kind::Text),
            maybe("state", Kind::Words(&["open", "closed"])),
        ]],
    ),
    ("CommentRequest", &[&[text("comment")]]),
    ("MergeRequest", &[&[]]),
    ("UploadForm", &[&[text("file"), of("params", Kind::One("UploadParams"))]]),
    (
        "UploadParams",
        &[&[
            text("fileName"),
            text("branchName"),
            of("fileType", Kind::Words(&["Csv", "Psv", "Json", "Xlsx", "Sql"])),
            maybe("importOp", Kind::Words(&["Create", "Update", "Overwrite", "Replace"])),
            maybe("tableName", Kind::Text),
            maybe("primaryKeys", Kind::Texts),
        ]],
    ),
];
