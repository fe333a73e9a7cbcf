//! The versions of a branch: the commit that it had at a time, and the line of first parents.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Inner, ref_log, revisions};
use crate::entities::{Commit, Database, LogEntry, LogPosition};
use crate::errors::{AtTimeError, HistoryError, PortError};
use crate::values::{CommitHash, DatabaseId, RefName, Timestamp};

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
    let mut line = FirstParents::of(inner, database, head.clone(), usize::MAX);
    while let Some(commit) = line.step()? {
        if commit.author.at <= at {
            return Ok(commit.hash);
        }
    }
    Err(if line.is_cut() { AtTimeError::TooFar(branch.to_owned()) } else { AtTimeError::NotThen(branch.to_owned()) })
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
    let Some(mut line) = of_branch(inner, database, branch, most)? else { return Ok(None) };
    let mut after = None;
    while let Some(Commit { hash, .. }) = line.step()? {
        if hash == *commit {
            return Ok(after);
        }
        after = Some(hash);
    }
    Ok(None)
}

/// Returns the head of a branch and its first parents, newest first, looking at the `most` newest commits of the branch. Without such a
/// branch there are none.
pub(super) fn versions(
    inner: &Inner,
    database: &Database,
    branch: &str,
    most: usize,
) -> Result<Vec<Commit>, PortError> {
    let mut found = Vec::new();
    if let Some(mut line) = of_branch(inner, database, branch, most)? {
        while let Some(commit) = line.step()? {
            found.push(commit);
        }
    }
    Ok(found)
}

fn of_branch<'a>(
    inner: &'a Inner,
    database: &Database,
    branch: &str,
    most: usize,
) -> Result<Option<FirstParents<'a>>, PortError> {
    let Ok(name) = RefName::parse(branch) else { return Ok(None) };
    let found = inner.ports.metadata.look()?.branches().get(database.id, &name)?;
    Ok(found.map(|branch| FirstParents::of(inner, database, branch.head, most)))
}

/// A commit, its first parent, the first parent of that, and so on. Ends early after [`SEARCH`], or when `left` commits were read, those
/// of merged branches included.
struct FirstParents<'a> {
    inner: &'a Inner,
    database: DatabaseId,
    until: Instant,
    left: usize,
    position: LogPosition,
    read: VecDeque<LogEntry>,
    next: Option<CommitHash>,
}

impl<'a> FirstParents<'a> {
    fn of(inner: &'a Inner, database: &Database, head: CommitHash, left: usize) -> Self {
        let (position, until) = (LogPosition::from(head.clone()), Instant::now() + SEARCH);
        Self { inner, database: database.id, until, left, position, read: VecDeque::new(), next: Some(head) }
    }

    /// Returns the next first parent, or `None` at the end.
    fn step(&mut self) -> Result<Option<Commit>, PortError> {
        while let Some(next) = &self.next {
            if let Some(entry) = self.read.pop_front() {
                if entry.commit.hash == *next {
                    self.next = entry.commit.parents.first().cloned();
                    return Ok(Some(entry.commit));
                }
                continue;
            }
            if self.left == 0 || Instant::now() >= self.until {
                break;
            }
            self.read = self.inner.ports.engine.log(self.database, &self.position, READ.min(self.left))?.into();
            let Some(last) = self.read.back() else {
                // The history ends here.
                self.next = None;
                break;
            };
            self.position = last.next.clone();
            self.left -= self.read.len();
        }
        Ok(None)
    }

    /// Returns `true` if there are more first parents than were returned.
    fn is_cut(&self) -> bool {
        self.next.is_some()
    }
}
