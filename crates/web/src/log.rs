//! The commits that one ref has and another has not.

use std::collections::HashSet;

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::entities::{LogEntry, LogPosition};
use branchyard_domain::errors::ReadError;
use branchyard_domain::values::{CommitHash, Timestamp};

use crate::database::DatabaseFrame;
use crate::format::{self, Markup};

/// Commits examined. Further commits are not shown.
const LOOKED_AT: usize = 250;

/// A commit in a list.
#[derive(Debug)]
pub(crate) struct CommitLine {
    pub(crate) short: String,
    pub(crate) href: String,
    pub(crate) message: String,
    pub(crate) author: String,
    pub(crate) when: Markup,
}

impl CommitLine {
    pub(crate) fn new(entry: &LogEntry, frame: &DatabaseFrame, now: Timestamp) -> Self {
        let commit = &entry.commit;
        let message = format::first_line(&commit.message);
        Self {
            short: format::short(&commit.hash),
            href: frame.commit(&commit.hash),
            message: if message.trim().is_empty() { "(no message)".to_owned() } else { message },
            author: commit.author.name.clone(),
            when: format::when(commit.author.at, now),
        }
    }
}

/// Returns the commits reachable from `head` but not from `base`, newest first, and whether there may be more.
pub(crate) fn since<L: Level>(
    hub: &Hub,
    access: &DatabaseAccess<L>,
    base: &CommitHash,
    head: &CommitHash,
) -> Result<(Vec<LogEntry>, bool), ReadError> {
    if base == head {
        return Ok((Vec::new(), false));
    }
    let entries = hub.history().commits(access, &LogPosition::from(head.clone()), LOOKED_AT)?;
    let is_cut = entries.len() == LOOKED_AT;
    // Children come before parents, so every commit of the base is known before it is visited.
    let mut known = HashSet::from([base.clone()]);
    let mut found = Vec::new();
    for entry in entries {
        if known.contains(&entry.commit.hash) {
            known.extend(entry.commit.parents);
        } else {
            found.push(entry);
        }
    }
    Ok((found, is_cut))
}
