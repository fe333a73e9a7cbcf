//! The JSON of API v1alpha1. The format is frozen: fields may be added, but nothing else may change. No type of the domain occurs
//! here. An unknown text is `""`, never `null`, and never absent.

mod database;
mod operation;
mod pull;
mod refs;
mod sql;
mod user;

pub(crate) use database::{Created, DatabaseEcho, DatabaseRef, ForkEcho, ForkPoll, ForkRefused, ForkStarted, Forks};
pub(crate) use operation::{
    ExecutionStatus, Job, JobPoll, JobState, JobStatus, JobType, Jobs, NamedEcho, OperationEcho, OperationStatus,
    OperationType, PollStatus, ResultDetails, UploadEcho, UploadStarted, UserOperation, UserOperations, WriteDone,
    WriteEcho, WritePending, WriteStarted,
};
pub(crate) use pull::{
    CommentEcho, MergeStarted, Pull, PullCreated, PullEcho, PullEnds, PullItem, PullPart, PullState, Pulls,
};
pub(crate) use refs::{BranchEcho, BranchItem, NewBranchEcho, TagEcho, TagItem, TagsHead};
pub(crate) use sql::{Column, ReadEcho, ReadResult};
pub(crate) use user::{Email, User};

use serde::Serialize;

/// The value of `status` in successful responses.
pub(crate) const SUCCESS: &str = "Success";

/// A successful response with `status`.
#[derive(Debug, Serialize)]
pub(crate) struct Done<T: Serialize> {
    status: &'static str,
    #[serde(flatten)]
    rest: T,
}

impl<T: Serialize> Done<T> {
    pub(crate) fn new(rest: T) -> Self {
        Self { status: SUCCESS, rest }
    }
}

/// An empty object, for responses that repeat nothing of the request.
#[derive(Debug, Serialize)]
pub(crate) struct Nothing {}

/// The owner and the database of a path: as sent, and as stored once the database was found.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) owner: String,
    pub(crate) name: String,
}

impl Place {
    /// Returns the fields in which most endpoints repeat the database.
    pub(crate) fn echo(&self) -> DatabaseEcho {
        DatabaseEcho { database_owner: self.owner.clone(), database_name: self.name.clone() }
    }
}
