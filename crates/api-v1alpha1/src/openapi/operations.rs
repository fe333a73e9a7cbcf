//! The table of operations.

/// Whether an operation requires a credential.
#[derive(Debug, Clone, Copy)]
pub(super) enum Auth {
    /// Public data is available without a credential.
    Optional,
    /// A credential is required.
    Required,
}

/// The request body. A name refers to the table of objects.
#[derive(Debug, Clone, Copy)]
pub(super) enum BodyDocs {
    None,
    Json(&'static str),
    Optional(&'static str),
    Form(&'static str),
}

/// The successful response. A name refers to the table of objects.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sends {
    Document,
    One(&'static str),
    Either(&'static str, &'static str),
    Table,
    Archive,
}

/// The description of an operation.
#[derive(Debug)]
pub(super) struct Docs {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) auth: Auth,
    pub(super) query: &'static [&'static str],
    pub(super) body: BodyDocs,
    pub(super) sends: Sends,
    /// Name of the object in error responses.
    pub(super) error: &'static str,
}

macro_rules! operations {
    ($($path:literal {$(
        $method:ident $id:literal $tag:literal $summary:literal $auth:ident [$($query:literal),*] $body:expr => $sends:expr, $error:literal;
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
            sends: $sends,
            error: $error,
        },)+)+];
    };
}

use BodyDocs::{Form, Json, Optional};
use Sends::{Archive, Document, Either, One, Table};

operations! {
    "/api/v1alpha1/openapi.json" {
        get "getOpenapiDocument" "Document" "This document" Optional [] BodyDocs::None => Document, "Error";
    }
    "/api/v1alpha1/user" {
        get "getUser" "User" "The caller" Required [] BodyDocs::None => One("User"), "Error";
    }
    "/api/v1alpha1/users/{username}/operations" {
        get "listUserOperations" "User" "Operations of the caller, newest first" Required ["operationType", "pageToken"] BodyDocs::None => One("UserOperations"), "UserOperationsError";
    }
    "/api/v1alpha1/database" {
        post "createDatabase" "Database" "Create a database" Required [] Json("CreateDatabaseRequest") => One("Created"), "CreatedError";
    }
    "/api/v1alpha1/fork" {
        post "forkDatabase" "Fork" "Fork a database named in the body" Required [] Json("ForkNamedRequest") => One("ForkStarted"), "ForkError";
        get "pollFork" "Fork" "Status of a fork" Optional ["operationName"] BodyDocs::None => One("ForkPoll"), "ForkPollError";
    }
    "/api/v1alpha1/{owner}/{database}" {
        get "readDefault" "SQL" "Run a read at the default branch" Optional ["q"] BodyDocs::None => Either("ReadResult", "ReadError"), "ReadError";
    }
    "/api/v1alpha1/{owner}/{database}/{ref}" {
        get "read" "SQL" "Run a read at a ref" Optional ["q"] BodyDocs::None => Either("ReadResult", "ReadError"), "ReadError";
    }
    "/api/v1alpha1/{owner}/{database}/write/{from_branch}/{to_branch}" {
        post "write" "SQL" "Run a write, or merge a branch" Required ["write_q"] Optional("WriteRequest") => One("WriteStarted"), "WriteStarted";
    }
    "/api/v1alpha1/{owner}/{database}/write" {
        get "pollWrite" "SQL" "Status of a write" Optional ["operationName"] BodyDocs::None => Either("WritePending", "WriteDone"), "WritePollError";
    }
    "/api/v1alpha1/{owner}/{database}/forks" {
        get "listForks" "Fork" "Direct forks that the caller can see, with parent and root" Optional [] BodyDocs::None => One("Forks"), "DatabaseError";
        post "createFork" "Fork" "Fork a database" Required [] Json("ForkRequest") => One("ForkStarted"), "ForkError";
    }
    "/api/v1alpha1/{owner}/{database}/branches" {
        get "listBranches" "Branch" "All branches, by name" Optional [] BodyDocs::None => One("Branches"), "DatabaseError";
        post "createBranch" "Branch" "Create a branch" Required [] Json("NewBranchRequest") => One("NewBranch"), "NewBranchError";
    }
    "/api/v1alpha1/{owner}/{database}/branches/{branch}" {
        delete "deleteBranch" "Branch" "Delete a branch" Required [] BodyDocs::None => One("Branch"), "BranchError";
    }
    "/api/v1alpha1/{owner}/{database}/tags" {
        get "listTags" "Tag" "All tags, by name" Optional [] BodyDocs::None => One("Tags"), "DatabaseError";
        post "createTag" "Tag" "Create a tag" Required [] Json("NewTagRequest") => One("NewTag"), "NewTagError";
    }
    "/api/v1alpha1/{owner}/{database}/releases" {
        get "listReleases" "Release" "All releases, newest first" Optional [] BodyDocs::None => One("Releases"), "DatabaseError";
        post "createRelease" "Release" "Publish a release, and create a missing tag" Required [] Json("NewTagRequest") => One("NewTag"), "NewTagError";
    }
    "/api/v1alpha1/{owner}/{database}/pulls" {
        get "listPulls" "Pull" "Pull requests, newest first" Optional ["filterByState", "filterByReviewStatus", "query", "pageToken"] BodyDocs::None => One("Pulls"), "DatabaseError";
        post "createPull" "Pull" "Open a pull request" Required [] Json("NewPullRequest") => One("PullCreated"), "PullCreatedError";
    }
    "/api/v1alpha1/{owner}/{database}/pulls/{pull_id}" {
        get "getPull" "Pull" "A pull request" Optional [] BodyDocs::None => One("Pull"), "PullError";
        patch "updatePull" "Pull" "Edit, close or reopen a pull request" Required [] Json("PullEditRequest") => One("PullPart"), "PullError";
    }
    "/api/v1alpha1/{owner}/{database}/pulls/{pull_id}/comments" {
        post "createComment" "Pull" "Comment on a pull request" Required [] Json("CommentRequest") => One("Comment"), "CommentError";
    }
    "/api/v1alpha1/{owner}/{database}/pulls/{pull_id}/merge" {
        post "mergePull" "Pull" "Merge a pull request" Required [] Optional("MergeRequest") => One("MergeStarted"), "PullError";
        get "pollMerge" "Pull" "Status of a merge" Optional ["operationName"] BodyDocs::None => One("JobPoll"), "PollError";
    }
    "/api/v1alpha1/{owner}/{database}/upload" {
        post "upload" "Upload" "Import a file" Required [] Form("UploadForm") => One("UploadStarted"), "UploadError";
        get "pollUpload" "Upload" "Status of an import" Optional ["operationName"] BodyDocs::None => One("JobPoll"), "PollError";
    }
    "/api/v1alpha1/{owner}/{database}/jobs" {
        get "listJobs" "Upload" "Imports and merges, newest first" Optional ["pageToken"] BodyDocs::None => One("Jobs"), "DatabaseError";
    }
    "/csv/{owner}/{database}/{ref}" {
        get "downloadArchive" "Download" "All tables as a ZIP of CSV files" Optional [] BodyDocs::None => Archive, "Error";
    }
    "/csv/{owner}/{database}/{ref}/{table}" {
        get "downloadTable" "Download" "A table as CSV" Optional ["include_bom"] BodyDocs::None => Table, "Error";
    }
}
