//! The commit that a branch had at a time.

use std::time::{Duration, Instant};

use super::{Inner, ref_log, revisions};
use crate::entities::{Database, LogPosition};
use crate::errors::{AtTimeError, HistoryError, PortError};
use crate::values::{CommitHash, RefName, Timestamp};

/// Time for which first parents are followed.
const SEARCH: Duration = Duration::from_secs(2);
/// Number of commits that are read at a time.
const READ: usize = 500;

/// Returns the commit that a branch pointed to at a time, from the log of branch changes. If the log does not reach back that far, or
/// if the branch has since been moved so that the commit is hidden, returns the newest commit made by that time among the first
/// parents of the present head.
pub(super) fn commit_at(
    inner: &Inner,
    database: &Database,
    name: Option<&str>,
    at: Timestamp,
) -> Result<CommitHash, AtTimeError> {
    let name = name.map(|name| name.strip_prefix("refs/heads/").unwrap_or(name));
    let branch = name.unwrap_or(database.default_branch.as_str());
    let parsed = RefName::parse(branch).ok();
    let mut tx = inner.ports.metadata.look().map_err(PortError::from)?;
    let head = match &parsed {
        Some(name) => tx.branches().get(database.id, name).map_err(PortError::from)?.map(|branch| branch.head),
        None => None,
    };
    drop(tx);
    let (Some(parsed), Some(head)) = (parsed, head) else {
        // Says that there is no such ref, if so.
        revisions::resolve(inner, database, name)?;
        return Err(AtTimeError::NotABranch(branch.to_owned()));
    };
    if at >= inner.now() {
        return Ok(head);
    }
    let mut tx = inner.ports.metadata.read().map_err(PortError::from)?;
    let logged = ref_log::head_at(inner, tx.as_mut(), database, &parsed, at);
    drop(tx);
    match logged {
        Ok(commit) if revisions::held(inner, database.id, &commit)? => return Ok(commit),
        Err(HistoryError::NoBranch(_)) => return Err(AtTimeError::NotThen(branch.to_owned())),
        Err(HistoryError::Port(fault)) => return Err(fault.into()),
        Ok(_) | Err(_) => {}
    }
    first_parent_at(inner, database, branch, &head, at)
}

fn first_parent_at(
    inner: &Inner,
    database: &Database,
    branch: &str,
    head: &CommitHash,
    at: Timestamp,
) -> Result<CommitHash, AtTimeError> {
    let began = Instant::now();
    let (mut position, mut next) = (LogPosition::from(head.clone()), head.clone());
    loop {
        let entries = inner.ports.engine.log(database.id, &position, READ).map_err(PortError::from)?;
        let Some(last) = entries.last() else { return Err(AtTimeError::NotThen(branch.to_owned())) };
        position = last.next.clone();
        for entry in entries {
            if entry.commit.hash != next {
                continue;
            }
            if entry.commit.author.at <= at {
                return Ok(next);
            }
            match entry.commit.parents.into_iter().next() {
                Some(parent) => next = parent,
                None => return Err(AtTimeError::NotThen(branch.to_owned())),
            }
        }
        if began.elapsed() >= SEARCH {
            return Err(AtTimeError::TooFar(branch.to_owned()));
        }
    }
}

/// Returns the commit of a branch whose first parent is `commit`, looking at the `most` newest commits of the branch. Returns `None`
/// if there is none among them.
pub(super) fn commit_after(
    inner: &Inner,
    database: &Database,
    branch: &str,
    commit: &CommitHash,
    most: usize,
) -> Result<Option<CommitHash>, PortError> {
    let Ok(name) = RefName::parse(branch) else { return Ok(None) };
    let Some(found) = inner.ports.metadata.look()?.branches().get(database.id, &name)? else { return Ok(None) };
    let (mut position, mut next, mut left) = (LogPosition::from(found.head.clone()), found.head, most);
    loop {
        let entries = inner.ports.engine.log(database.id, &position, READ.min(left))?;
        let Some(last) = entries.last() else { return Ok(None) };
        position = last.next.clone();
        left = left.saturating_sub(entries.len());
        for entry in entries {
            if entry.commit.hash != next {
                continue;
            }
            match entry.commit.parents.into_iter().next() {
                Some(parent) if parent == *commit => return Ok(Some(next)),
                Some(parent) => next = parent,
                None => return Ok(None),
            }
        }
        if left == 0 {
            return Ok(None);
        }
    }
}
