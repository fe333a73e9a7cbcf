//! The table of operations, with the published names.

/// Who may call it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Auth {
    /// The credential is not looked at, and no quota counts the request.
    Open,
    /// Public data needs no credential.
    Optional,
    /// Needs a credential.
    Required,
}

/// What is sent to it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    None,
    Json(&'static str),
    OptionalJson(&'static str),
    Bytes,
}

/// What `data` is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sends {
    Nothing,
    /// Not in an envelope.
    Document,
    One(&'static str),
    List(&'static str),
}

/// One operation.
#[derive(Debug)]
pub(super) struct Docs {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) auth: Auth,
    pub(super) query: &'static [&'static str],
    pub(super) body: Body,
    pub(super) status: u16,
    pub(super) sends: Sends,
    /// Letters of the error sets of the contract; A is in all.
    pub(super) errors: &'static str,
    /// Statuses beyond those.
    pub(super) own: &'static [u16],
}

macro_rules! operations {
    ($($path:literal {$(
        $method:ident $id:literal $tag:literal $summary:literal $auth:ident [$($query:literal),*] $body:expr => $status:literal $sends:expr, $errors:literal [$($own:literal),*];
    )+})+) => {
        pub(super) const OPERATIONS: &[Docs] = &[$($(Docs {
            path: $path,
            method: stringify!($method),
            id: $id,
            tag: $tag,
            summary: $summary,
            auth: Auth::$auth,
            query: &[$($query),*],
            body: $body,
            status: $status,
            sends: $sends,
            errors: $errors,
            own: &[$($own),*],
        },)+)+];
    };
}

use Body::{Bytes, Json, OptionalJson};
use Sends::{Document, List, Nothing, One};

operations! {
    "/user" {
        get "getCurrentUser" "User" "The caller" Required [] Body::None => 200 One("User"), "" [];
    }
    "/user/tokens" {
        get "listUserTokens" "User" "Tokens of the caller, newest first" Required ["page_token", "page_size"] Body::None => 200 List("Token"), "L" [];
        post "createUserToken" "User" "Make a token; it is shown once" Required [] Json("CreateUserTokenRequest") => 201 One("Token"), "BK" [422];
    }
    "/user/tokens/{token_id}" {
        delete "deleteUserToken" "User" "Delete a token; it stops working at once" Required [] Body::None => 200 One("Token"), "" [404];
    }
    "/user/organizations" {
        get "listUserOrganizations" "User" "Organizations of the caller, by name" Required ["page_token", "page_size"] Body::None => 200 List("Organization"), "L" [];
    }
    "/organizations" {
        post "createOrganization" "Organization" "Create an organization owned by the caller" Required [] Json("CreateOrganizationRequest") => 201 One("Organization"), "BK" [409];
    }
    "/organizations/{organization}" {
        get "getOrganization" "Organization" "An organization" Optional [] Body::None => 200 One("Organization"), "" [404];
        patch "updateOrganization" "Organization" "Change an organization" Required [] Json("UpdateOrganizationRequest") => 200 One("Organization"), "BPM" [404];
        delete "deleteOrganization" "Organization" "Delete an organization that owns no databases" Required [] Body::None => 200 One("Organization"), "PM" [404, 409];
    }
    "/organizations/{organization}/members" {
        get "listOrganizationMembers" "Organization" "Members, by name; for members" Required ["page_token", "page_size"] Body::None => 200 List("Member"), "LP" [404];
    }
    "/organizations/{organization}/members/{username}" {
        put "putOrganizationMember" "Organization" "Add a member or change a role" Required [] Json("PutOrganizationMemberRequest") => 200 One("Member"), "BP" [404, 422];
        delete "removeOrganizationMember" "Organization" "Remove a member, or leave" Required [] Body::None => 200 One("Member"), "P" [404, 422];
    }
    "/databases" {
        get "listDatabases" "Database" "Databases the caller sees" Optional ["of_owner", "q", "visibility", "page_token", "page_size"] Body::None => 200 List("Database"), "L" [];
        post "createDatabase" "Database" "Create a database" Required [] Json("CreateDatabaseRequest") => 201 One("Database"), "BK" [403, 409, 422];
    }
    "/databases/{owner}/{database}" {
        get "getDatabase" "Database" "A database" Optional [] Body::None => 200 One("Database"), "D" [];
        patch "updateDatabase" "Database" "Change description, visibility or default branch" Required [] Json("UpdateDatabaseRequest") => 200 One("Database"), "DBPM" [422];
        delete "deleteDatabase" "Database" "Delete a database" Required [] Body::None => 200 One("Database"), "DPM" [];
    }
    "/databases/{owner}/{database}/collaborators" {
        get "listCollaborators" "Database" "Collaborators, by name" Required ["page_token", "page_size"] Body::None => 200 List("Collaborator"), "DLP" [];
    }
    "/databases/{owner}/{database}/collaborators/{username}" {
        put "putCollaborator" "Database" "Add a collaborator or change a role" Required [] Json("PutCollaboratorRequest") => 200 One("Collaborator"), "DBP" [422];
        delete "removeCollaborator" "Database" "Remove a collaborator, or leave" Required [] Body::None => 200 One("Collaborator"), "DP" [];
    }
    "/databases/{owner}/{database}/branches" {
        get "listBranches" "Database" "Branches, by name" Optional ["page_token", "page_size"] Body::None => 200 List("Branch"), "DL" [];
        post "createBranch" "Database" "Create a branch" Required [] Json("CreateBranchRequest") => 201 One("Branch"), "DBKP" [409];
    }
    "/databases/{owner}/{database}/branches/{branch}" {
        get "getBranch" "Database" "A branch" Optional [] Body::None => 200 One("Branch"), "D" [];
        delete "deleteBranch" "Database" "Delete a branch" Required [] Body::None => 200 One("Branch"), "DPM" [409, 422];
    }
    "/databases/{owner}/{database}/tags" {
        get "listTags" "Database" "Tags, by name" Optional ["page_token", "page_size"] Body::None => 200 List("Tag"), "DL" [];
        post "createTag" "Database" "Create a tag" Required [] Json("CreateTagRequest") => 201 One("Tag"), "DBKP" [409];
    }
    "/databases/{owner}/{database}/tags/{tag}" {
        get "getTag" "Database" "A tag" Optional [] Body::None => 200 One("Tag"), "D" [];
        delete "deleteTag" "Database" "Delete a tag" Required [] Body::None => 200 One("Tag"), "DPM" [409];
    }
    "/databases/{owner}/{database}/forks" {
        get "listForks" "Database" "Direct forks the caller sees" Optional ["page_token", "long_page_size"] Body::None => 200 List("DatabaseRef"), "DL" [];
        post "createFork" "Database" "Fork a database" Required [] Json("CreateForkRequest") => 202 One("OperationRef"), "DBK" [403, 422];
    }
    "/databases/{owner}/{database}/releases" {
        get "listReleases" "Database" "Releases, newest first" Optional ["page_token", "page_size"] Body::None => 200 List("Release"), "DL" [];
        post "createRelease" "Database" "Publish a release" Required [] Json("CreateReleaseRequest") => 201 One("Release"), "DBKP" [409];
    }
    "/databases/{owner}/{database}/releases/{tag}" {
        get "getRelease" "Database" "The release of a tag" Optional [] Body::None => 200 One("Release"), "D" [];
        patch "updateRelease" "Database" "Change title or notes of a release" Required [] Json("UpdateReleaseRequest") => 200 One("Release"), "DBPM" [];
        delete "deleteRelease" "Database" "Delete a release; its tag stays" Required [] Body::None => 200 One("Release"), "DPM" [];
    }
    "/databases/{owner}/{database}/pulls" {
        get "listPulls" "Database" "Pull requests, newest first" Optional ["state", "page_token", "page_size"] Body::None => 200 List("PullSummary"), "DL" [];
        post "createPull" "Database" "Open a pull request" Required [] Json("CreatePullRequest") => 201 One("Pull"), "DBK" [403, 409, 422];
    }
    "/databases/{owner}/{database}/pulls/{pull_number}" {
        get "getPull" "Database" "A pull request" Optional [] Body::None => 200 One("Pull"), "D" [400];
        patch "updatePull" "Database" "Edit, close or reopen a pull request" Required [] Json("UpdatePullRequest") => 200 One("Pull"), "DBPM" [409, 422];
    }
    "/databases/{owner}/{database}/pulls/{pull_number}/withdraw" {
        post "withdrawPull" "Database" "Take back what a pull request shows" Required [] Body::None => 200 One("WithdrawnPull"), "ABKP" [404, 422];
    }
    "/databases/{owner}/{database}/pulls/{pull_number}/comments" {
        get "listPullComments" "Database" "Comments, oldest first" Optional ["page_token", "long_page_size"] Body::None => 200 List("PullComment"), "DL" [];
        post "createPullComment" "Database" "Comment on a pull request" Required [] Json("CreatePullCommentRequest") => 201 One("PullComment"), "DBK" [];
    }
    "/databases/{owner}/{database}/pulls/{pull_number}/merge" {
        post "mergePull" "Database" "Merge a pull request" Required [] OptionalJson("MergePullRequest") => 202 One("OperationRef"), "DBKP" [422];
    }
    "/databases/{owner}/{database}/pulls/{pull_number}/diff" {
        get "listPullDiff" "Database" "Rows a pull request changes" Optional ["table", "page_token", "page_size"] Body::None => 200 List("RowDiff"), "DL" [422];
    }
    "/databases/{owner}/{database}/pulls/{pull_number}/diff/tables" {
        get "listPullDiffTables" "Database" "Tables a pull request changes" Optional ["table", "page_token", "page_size"] Body::None => 200 List("TableDiff"), "DL" [422];
    }
    "/databases/{owner}/{database}/pulls/{pull_number}/conflicts" {
        get "listPullConflicts" "Database" "Conflicts of a trial merge" Optional ["table", "page_token", "page_size"] Body::None => 200 List("Conflict"), "DL" [422];
    }
    "/databases/{owner}/{database}/commits" {
        get "listCommits" "Database" "Commits reachable from a ref" Optional ["ref", "page_token", "page_size"] Body::None => 200 List("Commit"), "DL" [];
    }
    "/databases/{owner}/{database}/diff" {
        get "listDiff" "Database" "Rows that differ between two refs" Optional ["from", "to", "table", "merge_base", "page_token", "page_size"] Body::None => 200 List("RowDiff"), "DL" [422];
    }
    "/databases/{owner}/{database}/diff/tables" {
        get "listDiffTables" "Database" "Tables that differ between two refs" Optional ["from", "to", "table", "merge_base", "page_token", "page_size"] Body::None => 200 List("TableDiff"), "DL" [422];
    }
    "/databases/{owner}/{database}/schema" {
        get "listSchema" "Database" "Tables and views at a ref" Optional ["ref", "table", "page_token", "page_size"] Body::None => 200 List("TableSchema"), "DL" [];
    }
    "/databases/{owner}/{database}/sql" {
        get "runSqlReadQuery" "Database" "Run a SQL read" Optional ["sql_q", "ref", "limit", "timeout_ms"] Body::None => 200 One("QueryResult"), "DL" [422];
        post "runSqlReadQueryPost" "Database" "Run a SQL read" Optional [] Json("SqlReadRequest") => 200 One("QueryResult"), "DB" [422];
    }
    "/databases/{owner}/{database}/sql-writes" {
        post "runSqlWriteQuery" "Database" "Run SQL statements as one commit" Required [] Json("SqlWriteRequest") => 202 One("OperationRef"), "DBKP" [];
    }
    "/databases/{owner}/{database}/imports/uploads" {
        post "createImportUpload" "Database" "Open an upload session" Required [] Json("CreateImportUploadRequest") => 201 One("ImportUpload"), "DBKP" [];
    }
    "/databases/{owner}/{database}/imports" {
        post "createImport" "Database" "Import an uploaded file" Required [] Json("CreateImportRequest") => 202 One("OperationRef"), "DBKP" [409];
    }
    "/uploads/{upload_id}/{part_number}" {
        put "putImportPart" "Database" "Upload a part to the address a session gave" Open ["expires", "signature"] Bytes => 200 Nothing, "" [400, 403, 409, 413];
    }
    "/databases/{owner}/{database}/hooks" {
        get "listHooks" "Hooks" "Hooks of a database, oldest first" Required ["page_token", "page_size"] Body::None => 200 List("Hook"), "DLP" [];
        post "createHook" "Hooks" "Register a hook; its secret is shown once" Required [] Json("CreateHookRequest") => 201 One("Hook"), "DBKP" [422];
    }
    "/databases/{owner}/{database}/hooks/{hook_id}" {
        get "getHook" "Hooks" "A hook" Required [] Body::None => 200 One("Hook"), "DP" [];
        patch "updateHook" "Hooks" "Change a hook, switch it off or on" Required [] Json("UpdateHookRequest") => 200 One("Hook"), "DBPM" [422];
        delete "deleteHook" "Hooks" "Delete a hook and its deliveries" Required [] Body::None => 200 One("Hook"), "DPM" [];
    }
    "/databases/{owner}/{database}/hooks/{hook_id}/ping" {
        post "pingHook" "Hooks" "Send a trial event to a hook" Required [] Body::None => 201 One("Delivery"), "DBKP" [];
    }
    "/databases/{owner}/{database}/hooks/{hook_id}/rotate-secret" {
        post "rotateHookSecret" "Hooks" "Give a hook a new secret; it is shown once" Required [] Body::None => 200 One("Hook"), "DBKP" [];
    }
    "/databases/{owner}/{database}/hooks/{hook_id}/deliveries" {
        get "listHookDeliveries" "Hooks" "Deliveries to a hook, newest first" Required ["delivery_status", "page_token", "page_size"] Body::None => 200 List("DeliverySummary"), "DLP" [];
    }
    "/databases/{owner}/{database}/hooks/{hook_id}/deliveries/{delivery_id}" {
        get "getHookDelivery" "Hooks" "What was sent to a hook and what it answered" Required [] Body::None => 200 One("Delivery"), "DP" [];
    }
    "/databases/{owner}/{database}/hooks/{hook_id}/deliveries/{delivery_id}/redeliver" {
        post "redeliver" "Hooks" "Send a delivery again" Required [] Body::None => 200 One("Delivery"), "DBKP" [];
    }
    "/databases/{owner}/{database}/operations" {
        get "listOperations" "Operations" "Operations of a database, newest first" Optional ["status", "type", "page_token", "page_size"] Body::None => 200 List("Operation"), "DL" [];
    }
    "/operations/{operation_id}" {
        get "getOperation" "Operations" "An operation" Required [] Body::None => 200 One("Operation"), "" [404];
    }
    "/operations/{operation_id}/cancel" {
        post "cancelOperation" "Operations" "Cancel a queued operation" Required [] Body::None => 200 One("Operation"), "BK" [403, 404, 409];
    }
    "/openapi.json" {
        get "getOpenapiDocument" "Document" "The OpenAPI document of this API" Optional [] Body::None => 200 Document, "" [];
    }
}
