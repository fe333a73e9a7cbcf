//! The request to a process that stages files, and its answer.

use branchyard_deployments::ports::ProvisionError;
use branchyard_domain::entities::Signature;
use branchyard_domain::values::{CommitHash, DatabaseId, Invalid, RefName, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Heads, StagedContent, StagingTask};
use crate::local::unavailable;

/// Maximum size of a request in bytes.
pub(super) const MOST_REQUEST: u64 = 1 << 20;
/// Maximum size of an answer in bytes: some 100,000 branches.
pub(super) const MOST_ANSWER: usize = 16 << 20;
/// Maximum number of characters of an error.
const MOST_ERROR: usize = 1000;

/// What the process does. The paths are its arguments, because they may not be text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) allow_unconfined: bool,
    database: String,
    content: Content,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Content {
    Empty { name: String, email: String, at_micros: i64 },
    Hub { branch: String, commit: String },
    Copy {},
}

/// The values of a request.
pub(super) struct Parsed {
    pub(super) database: DatabaseId,
    pub(super) content: ParsedContent,
}

pub(super) enum ParsedContent {
    Empty(Signature),
    Hub(RefName, CommitHash),
    Copy,
}

impl Request {
    pub(super) fn new(task: &StagingTask<'_>, allow_unconfined: bool) -> Self {
        let content = match &task.content {
            StagedContent::Empty { author } => {
                let Signature { name, email, at } = (*author).clone();
                Content::Empty { name, email, at_micros: at.as_micros() }
            }
            StagedContent::Hub { branch, commit, .. } => {
                Content::Hub { branch: branch.to_string(), commit: commit.to_string() }
            }
            StagedContent::Copy { .. } => Content::Copy {},
        };
        Self { allow_unconfined, database: task.database.to_string(), content }
    }

    pub(super) fn parse(self) -> Result<Parsed, Invalid> {
        let content = match self.content {
            Content::Empty { name, email, at_micros } => {
                ParsedContent::Empty(Signature { name, email, at: Timestamp::from_micros(at_micros) })
            }
            Content::Hub { branch, commit } => {
                ParsedContent::Hub(RefName::parse(&branch)?, CommitHash::parse(&commit)?)
            }
            Content::Copy {} => ParsedContent::Copy,
        };
        Ok(Parsed { database: DatabaseId::parse(&self.database)?, content })
    }
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum Answer {
    /// The database was created. Branches and their heads.
    Created { heads: Vec<(String, String)> },
    /// [`ProvisionError::Refused`].
    Refused { why: String },
    /// Any other error.
    Failed { context: String, why: String },
}

impl Answer {
    pub(super) fn new(created: Result<Heads, ProvisionError>) -> Self {
        match created {
            Ok(heads) => {
                let text = |(name, commit): (RefName, CommitHash)| (name.to_string(), commit.to_string());
                Self::Created { heads: heads.into_iter().map(text).collect() }
            }
            Err(ProvisionError::Refused(why)) => Self::Refused { why },
            Err(ProvisionError::Unavailable { context, source }) => {
                Self::Failed { context, why: crate::child::chain(&*source) }
            }
            Err(error @ (ProvisionError::Gone | ProvisionError::NoData { .. })) => {
                Self::Failed { context: "create a database".into(), why: error.to_string() }
            }
        }
    }

    /// Returns the values. The process is not trusted: texts are shortened, and names and hashes are checked.
    pub(super) fn into_result(self) -> Result<Heads, ProvisionError> {
        match self {
            Self::Created { heads } => {
                let parse = |(name, commit): (String, String)| -> Result<_, Invalid> {
                    Ok((RefName::parse(&name)?, CommitHash::parse(&commit)?))
                };
                let heads: Result<Heads, Invalid> = heads.into_iter().map(parse).collect();
                let mut heads = heads.map_err(|error| unavailable("read the heads of a staged database", error))?;
                heads.sort();
                Ok(heads)
            }
            Self::Refused { why } => Err(ProvisionError::Refused(shorten(&why))),
            Self::Failed { context, why } => Err(unavailable(&shorten(&context), shorten(&why))),
        }
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MOST_ERROR).map(|char| if char.is_control() { ' ' } else { char }).collect()
}
