//! The history of rows. Looks at one commit after the other, whatever the time limit is.

use super::Result;
use super::commits::CommitGraph;
use super::diff;
use super::table::{Key, Snapshot, Table};
use branchyard_domain::entities::{Cell, Commit, LogPosition, LogWalk, RowChange};
use branchyard_domain::ports::{EngineError, HistoryChange, HistoryPage, HistoryPosition, HistoryQuery, RowPage};
use branchyard_domain::values::CommitHash;

/// Number of commits that a query without time looks at.
const WITHOUT_TIME: u64 = 1;

pub(super) fn page(history: &CommitGraph, at: &HistoryPosition, wanted: &HistoryQuery<'_>) -> Result<HistoryPage> {
    let mut walk = LogWalk::new(&at.log.from);
    let looked_at = |commit: &Commit| {
        let count = if wanted.first_parents { 1 } else { usize::MAX };
        commit.parents.iter().take(count).cloned().collect::<Vec<_>>()
    };
    let log = match wanted.first_parents {
        true => first_parents(history, &at.log.from)?,
        false => history.log(&at.log.from)?,
    };
    let mut position = at.clone();
    let mut page = HistoryPage::default();
    let mut commits = log.into_iter().map(|commit| (commit, walk.pass(&commit.hash, &looked_at(commit))));
    if let Some(after) = &at.log.after {
        commits.by_ref().find(|(commit, _)| commit.hash == *after);
    }
    let mut commits = commits.peekable();
    while let Some((commit, behind)) = commits.next() {
        page.commits += 1;
        page.last = Some(commit.hash.clone());
        if let Some(key) = wanted.key
            && changes_key(history, commit, wanted.table, key)?
        {
            page.key_changed_by = Some(commit.hash.clone());
            break;
        }
        let rows =
            RowPage { after: position.after.take(), limit: wanted.limit - page.changes.len(), bytes: wanted.bytes };
        let (changes, more) = changes(history, commit, wanted, &rows)?;
        let last = changes.last().map(key_of);
        for row in changes {
            if wanted.first_parents || !is_of_other_parent(history, commit, wanted.table, &row)? {
                let merged_by = merged_by(history, &at.log, commit)?;
                let next = match wanted.key {
                    Some(_) => HistoryPosition { log: behind.clone(), after: None },
                    None => HistoryPosition { log: position.log.clone(), after: Some(key_of(&row)) },
                };
                page.changes.push(HistoryChange { commit: commit.clone(), merged_by, row, next });
            }
        }
        if more {
            page.next = Some(HistoryPosition { log: position.log, after: last });
            break;
        }
        position = HistoryPosition { log: behind, after: None };
        let is_over = wanted.timeout.is_zero() && page.commits >= WITHOUT_TIME;
        if commits.peek().is_some() && (page.changes.len() >= wanted.limit || is_over) {
            page.next = Some(position);
            break;
        }
    }
    Ok(page)
}

fn first_parents<'a>(history: &'a CommitGraph, from: &CommitHash) -> Result<Vec<&'a Commit>> {
    let mut line = vec![&history.get(from)?.commit];
    while let Some(parent) = line.last().and_then(|commit| commit.parents.first()) {
        line.push(&history.get(parent)?.commit);
    }
    Ok(line)
}

fn key_of(row: &RowChange) -> Vec<Cell> {
    row.primary_key.iter().map(|(_, cell)| cell.clone()).collect()
}

/// Returns the changes of a commit after its first parent, and whether more follow.
fn changes(
    history: &CommitGraph,
    commit: &Commit,
    wanted: &HistoryQuery<'_>,
    page: &RowPage,
) -> Result<(Vec<RowChange>, bool)> {
    let empty = Snapshot::default();
    let before = match commit.parents.first() {
        Some(parent) => &history.get(parent)?.tables,
        None => &empty,
    };
    let whole = RowPage { after: None, limit: usize::MAX, bytes: usize::MAX };
    let page = if wanted.key.is_some() { &whole } else { page };
    match diff::rows(before, &history.get(&commit.hash)?.tables, wanted.table, page) {
        Err(EngineError::NoSuchTable(_)) => Ok((Vec::new(), false)),
        Err(other) => Err(other),
        Ok(mut found) => {
            found.rows.retain(|row| wanted.key.is_none_or(|key| is_same(&row.primary_key, key)));
            Ok((found.rows, found.more))
        }
    }
}

fn is_same(a: &[(String, Cell)], b: &[(String, Cell)]) -> bool {
    let cell = |name: &str| b.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, cell)| cell);
    a.len() == b.len() && a.iter().all(|(name, value)| cell(name) == Some(value))
}

/// Returns `true` if the table of a parent has other columns in its key.
fn changes_key(history: &CommitGraph, commit: &Commit, table: &str, key: &[(String, Cell)]) -> Result<bool> {
    let has = |table: &Table| {
        let names = table.schema().primary_key;
        names.len() == key.len()
            && names.iter().all(|name| key.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)))
    };
    if history.get(&commit.hash)?.tables.find(table).is_some_and(|table| !has(table)) {
        return Err(EngineError::NoSuchTable(table.to_owned()));
    }
    for parent in &commit.parents {
        if history.get(parent)?.tables.find(table).is_some_and(|table| !has(table)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_of_other_parent(history: &CommitGraph, commit: &Commit, table: &str, row: &RowChange) -> Result<bool> {
    let key = Key(row.primary_key.iter().map(|(_, cell)| cell.clone()).collect());
    for parent in commit.parents.iter().skip(1) {
        let table = history.get(parent)?.tables.find(table);
        if table.and_then(|table| table.rows.get(&key).map(|row| table.named(row))) == row.to {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the oldest of the first parents that reaches a commit, unless the commit is one of them.
fn merged_by(history: &CommitGraph, from: &LogPosition, commit: &Commit) -> Result<Option<CommitHash>> {
    let (mut found, mut at) = (None, Some(from.from.clone()));
    while let Some(main) = at {
        if main == commit.hash {
            return Ok(None);
        }
        if !history.is_ancestor(&commit.hash, &main)? {
            break;
        }
        at = history.get(&main)?.commit.parents.first().cloned();
        found = Some(main);
    }
    Ok(found)
}
