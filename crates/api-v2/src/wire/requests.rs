//! Bodies of requests, as the OpenAPI document describes them. They are read field by field (`branchyard_http_common::Fields`),
//! so that all faults are found at once; these types only say what they look like.
#![expect(dead_code, reason = "described, never constructed")]

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::{BranchRef, HookEvent, MemberRole, Role, Visibility};

/// Where something starts: exactly one of both.
#[derive(ToSchema)]
pub(crate) struct RevisionRef {
    branch: Option<String>,
    /// 40 hex digits.
    commit: Option<String>,
}

/// How long a token lives; `1y` is 365 days.
#[derive(ToSchema)]
pub(crate) enum TokenLifetime {
    #[schema(rename = "30d")]
    Days30,
    #[schema(rename = "60d")]
    Days60,
    #[schema(rename = "90d")]
    Days90,
    #[schema(rename = "1y")]
    Year1,
}

#[derive(ToSchema)]
pub(crate) struct CreateUserTokenRequest {
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    expires_in: TokenLifetime,
}

#[derive(ToSchema)]
pub(crate) struct CreateOrganizationRequest {
    name: String,
    #[schema(max_length = 100)]
    display_name: Option<String>,
    description: Option<String>,
    /// `write` when absent.
    base_role: Option<Role>,
}

/// At least one field.
#[derive(ToSchema)]
pub(crate) struct UpdateOrganizationRequest {
    /// `""` and `null` clear.
    #[schema(max_length = 100)]
    display_name: Option<String>,
    /// `""` and `null` clear.
    description: Option<String>,
    base_role: Option<Role>,
}

#[derive(ToSchema)]
pub(crate) struct PutOrganizationMemberRequest {
    role: MemberRole,
}

#[derive(ToSchema)]
pub(crate) struct PutCollaboratorRequest {
    role: Role,
}

#[derive(ToSchema)]
pub(crate) struct CreateDatabaseRequest {
    owner: String,
    name: String,
    visibility: Visibility,
    description: Option<String>,
    default_branch: Option<String>,
}

/// At least one field.
#[derive(ToSchema)]
pub(crate) struct UpdateDatabaseRequest {
    /// `""` and `null` clear.
    description: Option<String>,
    visibility: Option<Visibility>,
    /// An existing branch.
    default_branch: Option<String>,
}

#[derive(ToSchema)]
pub(crate) struct CreateBranchRequest {
    name: String,
    from: RevisionRef,
}

#[derive(ToSchema)]
pub(crate) struct CreateTagRequest {
    name: String,
    from: RevisionRef,
    /// Makes it an annotated tag.
    message: Option<String>,
}

#[derive(ToSchema)]
pub(crate) struct CreateForkRequest {
    owner: String,
}

#[derive(ToSchema)]
pub(crate) struct CreateReleaseRequest {
    tag: String,
    title: String,
    commit_sha: String,
    description: Option<String>,
    create_tag_if_not_exists: Option<bool>,
}

/// At least one field.
#[derive(ToSchema)]
pub(crate) struct UpdateReleaseRequest {
    title: Option<String>,
    /// `""` and `null` clear.
    description: Option<String>,
}

/// Unknown fields are ignored, also inside the branches.
#[derive(ToSchema)]
pub(crate) struct CreatePullRequest {
    title: String,
    description: Option<String>,
    from_branch: BranchRef,
    to_branch: BranchRef,
    /// The caller agrees that everybody may see the source branch.
    publish: Option<bool>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum WantedPullState {
    Open,
    Closed,
}

/// At least one field.
#[derive(ToSchema)]
pub(crate) struct UpdatePullRequest {
    title: Option<String>,
    /// `""` and `null` clear.
    description: Option<String>,
    state: Option<WantedPullState>,
    /// Beside `state` `open` only: the caller agrees that everybody may see the source branch.
    publish: Option<bool>,
}

#[derive(ToSchema)]
pub(crate) struct CreatePullCommentRequest {
    body: String,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Side {
    Ours,
    Theirs,
}

#[derive(ToSchema)]
pub(crate) struct MergePullRequest {
    message: Option<String>,
    /// Who wins in tables with conflicts.
    resolve: Option<BTreeMap<String, Side>>,
}

#[derive(ToSchema)]
pub(crate) struct CreateHookRequest {
    url: String,
    /// `["on_push"]` when absent.
    events: Option<Vec<HookEvent>>,
    /// `true` when absent.
    active: Option<bool>,
}

/// At least one field.
#[derive(ToSchema)]
pub(crate) struct UpdateHookRequest {
    url: Option<String>,
    events: Option<Vec<HookEvent>>,
    /// `true` also clears `disabled_reason`.
    active: Option<bool>,
}

#[derive(ToSchema)]
pub(crate) struct SqlReadRequest {
    q: String,
    r#ref: Option<String>,
    #[schema(minimum = 1)]
    limit: Option<i64>,
    #[schema(minimum = 1)]
    timeout_ms: Option<i64>,
}

#[derive(ToSchema)]
pub(crate) struct SqlWriteRequest {
    from_branch: String,
    to_branch: String,
    q: String,
    commit_message: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum ImportFileType {
    Csv,
    Psv,
    Xlsx,
    Json,
    Sql,
    Yaml,
    Parquet,
    Sqlite,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum ImportOperation {
    Create,
    Overwrite,
    Update,
    Replace,
}

#[derive(ToSchema)]
pub(crate) struct CreateImportUploadRequest {
    #[schema(minimum = 1)]
    content_length: i64,
    #[schema(minimum = 1, maximum = 1000)]
    num_parts: i64,
    file_type: ImportFileType,
}

#[derive(ToSchema)]
pub(crate) struct CompletedPart {
    #[schema(minimum = 1)]
    part_number: i64,
    etag: String,
}

#[derive(ToSchema)]
pub(crate) struct CreateImportRequest {
    branch_name: String,
    table_name: String,
    file_name: String,
    file_size: i64,
    file_type: ImportFileType,
    import_operation: ImportOperation,
    token: String,
    contents_key: String,
    completed_parts: Vec<CompletedPart>,
    file_parts_md5: String,
    primary_keys: Vec<String>,
    commit_message: Option<String>,
    pull_request_branch_name: Option<String>,
    column_map: Option<BTreeMap<String, String>>,
}
