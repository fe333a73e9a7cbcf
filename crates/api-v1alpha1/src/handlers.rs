//! The handlers, one per endpoint. A handler reads the request, calls one use case and converts the result. It collects the values
//! that its response repeats first, because an error response repeats them too.

pub(crate) mod branches;
pub(crate) mod databases;
pub(crate) mod document;
pub(crate) mod exports;
pub(crate) mod forks;
pub(crate) mod jobs;
pub(crate) mod operations;
pub(crate) mod pulls;
pub(crate) mod releases;
pub(crate) mod sql;
pub(crate) mod tags;
pub(crate) mod uploads;
pub(crate) mod user;
pub(crate) mod writes;

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read, Write};
use branchyard_domain::entities::Operation;
use branchyard_domain::errors::OperationError;
use branchyard_domain::values::{CommitHash, CommitPrefix, Revision};
use branchyard_http_common::{ApiError, Fields, HandlerError, RequestContext};

use crate::access::access;
use crate::legacy_errors::{LegacyError, field, no_such_operation};
use crate::names;
use crate::request::LegacyRequest;
use crate::wire::Place;

/// Parses one of the choices, ignoring case.
pub(crate) fn word<T: Copy>(text: &str, choices: &[(&'static str, T)]) -> Result<T, String> {
    let spellings: Vec<&str> = choices.iter().map(|(spelling, _)| *spelling).collect();
    find_word(text, choices)
        .map(|(_, choice)| *choice)
        .ok_or_else(|| format!("must be one of {}", spellings.join(", ")))
}

/// Returns the choice with this spelling, ignoring case.
fn find_word<'a, T>(text: &str, choices: &'a [(&'static str, T)]) -> Option<&'a (&'static str, T)> {
    choices.iter().find(|(spelling, _)| spelling.eq_ignore_ascii_case(text))
}

/// The kinds of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevisionType {
    Branch,
    Commit,
    Ref,
}

const REVISION_TYPES: &[(&str, RevisionType)] =
    &[("branch", RevisionType::Branch), ("ref", RevisionType::Ref), ("commit", RevisionType::Commit)];

/// Returns `revisionType` as responses repeat it: in the exact case of the contract, or as it was sent if it is none of its words.
pub(crate) fn sent_revision_type(asked: &LegacyRequest) -> String {
    let sent = asked.sent("revisionType");
    find_word(&sent, REVISION_TYPES).map(|(spelling, _)| (*spelling).to_owned()).unwrap_or(sent)
}

/// The revision from which a branch or a tag starts.
pub(crate) struct Start {
    kind: RevisionType,
    name: String,
}

/// Reads `revisionType` and `revisionName`.
pub(crate) fn start(fields: &Fields<'_>) -> Option<Start> {
    let kind = fields.required_as("revisionType", |text| word(text, REVISION_TYPES));
    let name = fields.required_text("revisionName");
    Some(Start { kind: kind?, name: name? })
}

impl Start {
    /// Returns the revision. Resolves a ref to its commit.
    pub(crate) fn revision(&self, hub: &Hub, access: &DatabaseAccess<Write>) -> Result<Revision, ApiError> {
        match self.kind {
            RevisionType::Branch => Ok(Revision::Branch(self.name.clone())),
            RevisionType::Commit => match CommitHash::parse(&self.name) {
                Ok(commit) => Ok(Revision::Commit(commit.into())),
                Err(error) => Err(field("revisionName", error.to_string()).into()),
            },
            RevisionType::Ref => {
                Ok(Revision::Commit(hub.sql().resolve(access, Some(&self.name)).map_err(LegacyError)?.into()))
            }
        }
    }

    /// Returns the commit of the revision.
    pub(crate) fn commit(&self, hub: &Hub, access: &DatabaseAccess<Write>) -> Result<CommitPrefix, ApiError> {
        match self.revision(hub, access)? {
            Revision::Commit(commit) => Ok(commit),
            Revision::Branch(name) => Ok(hub.branches().get(access, &name).map_err(LegacyError)?.head.into()),
        }
    }
}

/// An operation that a client polls, and whether the caller may see its result.
pub(crate) struct Polled {
    pub(crate) operation: Operation,
    pub(crate) sees_result: bool,
}

/// Returns the operation that a poll names. If the path names a database, the operation must belong to it. If there is no such
/// operation and the caller has no access to that database, the lack of access is the error.
pub(crate) async fn polled(
    call: &RequestContext,
    asked: &LegacyRequest,
    place: Option<&mut Place>,
) -> Result<Polled, HandlerError> {
    let name = asked.parameter("operationName");
    let Some(id) = names::parse(&name) else {
        if let Some(place) = place {
            access::<Read>(call, place, "polling").await?;
        }
        let text = if name.is_empty() { "is required" } else { "does not end in the id of an operation" };
        return Err(HandlerError::parameter("operationName", text));
    };
    let (caller, at) = (call.caller.clone(), place.as_deref().cloned());
    let found = call
        .read(move |hub| -> Result<_, ApiError> {
            let operation = match hub.operations().get(&caller, id) {
                Ok(operation) => operation,
                Err(OperationError::NoSuchOperation) => return Ok(None),
                Err(other) => return Err(LegacyError(other).into()),
            };
            let locator = &operation.locator;
            let belongs = at.is_none_or(|place| {
                let is_named = locator.owner.as_str().eq_ignore_ascii_case(&place.owner)
                    && locator.name.as_str().eq_ignore_ascii_case(&place.name);
                // A former name of the database is one of its names.
                let leads_there = || {
                    let seen = hub.databases().access::<Read>(&caller, &place.owner, &place.name);
                    seen.is_ok_and(|seen| seen.database().id == operation.database_id)
                };
                is_named || leads_there()
            });
            if !belongs {
                return Ok(None);
            }
            let sees_result = hub.operations().sees_result(&caller, &operation).map_err(LegacyError)?;
            Ok(Some(Polled { operation, sees_result }))
        })
        .await?;
    if let Some(found) = found {
        return Ok(found);
    }
    if let Some(place) = place {
        access::<Read>(call, place, "polling").await?;
    }
    Err(no_such_operation().into())
}
