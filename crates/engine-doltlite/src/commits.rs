//! Creates, finds and relates commits, and copies whole database files.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use branchyard_domain::entities::{Commit, LogEntry, LogPosition, LogWalk, Signature};
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId, Timestamp};
use branchyard_remote_protocol::layout;
use chrono::{DateTime, NaiveDateTime};
use rusqlite::{OpenFlags, params_from_iter};

use crate::branch;
use crate::connection::{Connection, ConnectionUse};
use crate::engine::{DoltliteEngine, io_fault};
use crate::sql::errors;

/// Replaces an empty email address, because the engine requires one.
const NO_EMAIL: &str = "none@invalid";
/// Maximum length in bytes of an argument of an engine function.
const MAX_ARGUMENT: usize = 65_535;
/// Size in bytes from which on a file is flushed to disk while it is copied.
const LONG_FILE: u64 = 32 << 20;

pub(crate) fn create(
    engine: &DoltliteEngine,
    database: DatabaseId,
    author: &Signature,
    message: &str,
) -> Result<CommitHash, EngineError> {
    create_with(engine, database, author, message, branch::rename)
}

/// Creates a database with one branch, `main`, that holds one empty commit. `finish` runs on the new file before it is
/// installed.
pub(crate) fn create_with(
    engine: &DoltliteEngine,
    database: DatabaseId,
    author: &Signature,
    message: &str,
    finish: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<()>,
) -> Result<CommitHash, EngineError> {
    let turn = engine.queues.enter(database);
    let temporary = engine.files.temporary();
    let hash = create_at(temporary.path(), author, message, finish)?;
    engine.install(&turn, temporary.path()).map_err(|error| io_fault("create a database", error))?;
    drop(turn);
    Ok(hash)
}

/// Creates a database file, or fills an empty one. The only place that creates a database file.
pub(crate) fn create_at(
    path: &Path,
    author: &Signature,
    message: &str,
    finish: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<()>,
) -> Result<CommitHash, EngineError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let fault = |error| errors::fault("create a database", error);
    let raw = rusqlite::Connection::open_with_flags(path, flags).map_err(fault)?;
    // The engine's own first commit has the date of the engine's clock and no author. Amending replaces it.
    let hash = commit_all_raw(&raw, message, author, &["--amend", "--allow-empty"]).map_err(fault)?;
    finish(&raw).map_err(fault)?;
    raw.close().map_err(|(_, error)| fault(error))?;
    parse(&hash)
}

pub(crate) fn copy(engine: &DoltliteEngine, from: DatabaseId, to: DatabaseId) -> Result<(), EngineError> {
    engine.check_format(from)?;
    install_copy(engine, &engine.files.path(from), to, branch::rename)
}

/// Installs a copy of a file as the file of a database, after checking that the copy is readable. `finish` runs on the
/// copy before it is installed.
pub(crate) fn install_copy(
    engine: &DoltliteEngine,
    from: &Path,
    to: DatabaseId,
    finish: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<()>,
) -> Result<(), EngineError> {
    let fault = |error| io_fault("copy a database", error);
    let turn = engine.queues.enter(to);
    let temporary = engine.files.temporary();
    copy_file(from, temporary.path()).map_err(fault)?;
    finish_copy(engine, temporary.path(), finish)?;
    engine.install(&turn, temporary.path()).map_err(fault)
}

/// Checks that a copy is readable, and runs `finish` on it.
pub(crate) fn finish_copy(
    engine: &DoltliteEngine,
    path: &Path,
    finish: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<()>,
) -> Result<(), EngineError> {
    let copied = engine.open_file(path, ConnectionUse::Write).map_err(|error| errors::fault("open the copy", error))?;
    copied
        .raw()
        .query_row("SELECT commit_hash FROM dolt_log LIMIT 1", [], |_| Ok(()))
        .map_err(|error| errors::fault("read the copy", error))?;
    finish(copied.raw()).map_err(|error| errors::fault("finish the copy", error))
}

/// Copies a file that may be written to meanwhile, and returns the size of the copy. The file only grows at its end,
/// and an incomplete end is cut off when the copy is opened. Garbage collection replaces the file and leaves the old
/// one unchanged.
///
/// # Errors
/// An error if the file cannot be copied.
pub fn copy_file(from: &Path, to: &Path) -> io::Result<u64> {
    let (mut source, target) = (File::open(from)?, File::create_new(to)?);
    let is_long = source.metadata()?.len() >= LONG_FILE;
    let copied = AtomicBool::new(false);
    let size = thread::scope(|scope| {
        // Flushes to disk while the rest is still copied: one flush at the end takes a third longer.
        let syncing = is_long.then(|| {
            scope.spawn(|| {
                while !copied.load(Ordering::Relaxed) {
                    target.sync_data()?;
                    // Avoids spinning if reading is slow.
                    thread::sleep(Duration::from_millis(2));
                }
                Ok(())
            })
        });
        let size = io::copy(&mut source, &mut &target);
        copied.store(true, Ordering::Relaxed);
        // The system reports a disk error once, possibly to the flushing thread.
        let synced = syncing.map_or(Ok(()), |thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        size.and_then(|size| synced.map(|()| size))
    })?;
    target.sync_all()?;
    Ok(size)
}

/// Runs `dolt_commit` on all changes.
pub(crate) fn commit_all(
    connection: &Connection,
    message: &str,
    author: &Signature,
    flags: &[&str],
) -> rusqlite::Result<String> {
    commit_all_raw(connection.raw(), message, author, flags)
}

fn commit_all_raw(
    raw: &rusqlite::Connection,
    message: &str,
    author: &Signature,
    flags: &[&str],
) -> rusqlite::Result<String> {
    let (message, date, author) = (message_argument(message), date_argument(author.at)?, author_argument(author));
    let arguments = ["-A", "-m", &message, "--date", &date, "--author", &author];
    let arguments: Vec<&str> = flags.iter().copied().chain(arguments).collect();
    let marks = vec!["?"; arguments.len()].join(", ");
    raw.prepare_cached(&format!("SELECT dolt_commit({marks})"))?
        .query_row(params_from_iter(arguments), |row| row.get(0))
}

/// Runs `dolt_commit` on all changes, with the current time and the user of the connection as the author.
pub(crate) fn commit_session(connection: &Connection, message: &str) -> rusqlite::Result<()> {
    connection.raw().query_row("SELECT dolt_commit('-A', '-m', ?)", [message], |_| Ok(()))
}

fn message_argument(message: &str) -> String {
    let mut message = message.replace('\0', "\u{fffd}");
    if message.trim().is_empty() {
        message = "(no message)".into();
    }
    truncate(&mut message, MAX_ARGUMENT);
    message
}

fn truncate(text: &mut String, most: usize) {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Returns `Name <address>`, with every character of the name and the address that would break this format replaced.
fn author_argument(author: &Signature) -> String {
    let clean = |text: &str| {
        let kept: String = text.chars().map(|c| if c.is_control() || c == '<' || c == '>' { ' ' } else { c }).collect();
        let mut kept = kept.trim().to_owned();
        truncate(&mut kept, 1000);
        kept
    };
    let (mut name, mut email) = (clean(&author.name), clean(&author.email));
    if name.is_empty() {
        name = "unknown".into();
    }
    if email.is_empty() {
        email = NO_EMAIL.into();
    }
    format!("{name} <{email}>")
}

fn date_argument(at: Timestamp) -> rusqlite::Result<String> {
    let at = DateTime::from_timestamp(at.as_seconds(), 0)
        .ok_or_else(|| rusqlite::Error::ToSqlConversionFailure("the time of the commit is out of range".into()))?;
    Ok(at.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

pub(crate) fn parse(hash: &str) -> Result<CommitHash, EngineError> {
    CommitHash::parse(hash)
        .map_err(|error| EngineError::Fault { context: format!("read the hash '{hash}'"), source: Box::new(error) })
}

pub(crate) fn commit(
    engine: &DoltliteEngine,
    database: DatabaseId,
    hash: &CommitHash,
) -> Result<Option<Commit>, EngineError> {
    match log(engine, database, &hash.clone().into(), 1) {
        Err(EngineError::NoSuchCommit(_)) => Ok(None),
        found => Ok(found?.pop().map(|entry| entry.commit)),
    }
}

pub(crate) fn log(
    engine: &DoltliteEngine,
    database: DatabaseId,
    at: &LogPosition,
    limit: usize,
) -> Result<Vec<LogEntry>, EngineError> {
    engine.reading_history(database, |connection| {
        read_log(connection, at, limit).map_err(|error| errors::fault_at("read the log", &at.from, error))
    })
}

fn read_log(connection: &Connection, at: &LogPosition, limit: usize) -> rusqlite::Result<Vec<LogEntry>> {
    let mut parents_of = connection
        .raw()
        .prepare_cached("SELECT parent_hash FROM dolt_commit_ancestors WHERE commit_hash = ? ORDER BY parent_index")?;
    let mut log =
        connection.raw().prepare_cached("SELECT commit_hash, committer, email, date, message FROM dolt_log(?)")?;
    let mut rows = log.query([at.from.as_str()])?;
    let mut walk = LogWalk::new(&at.from);
    let mut skipping = at.after.is_some();
    let mut entries = Vec::new();
    while entries.len() < limit {
        let Some(row) = rows.next()? else { break };
        let Ok(hash) = CommitHash::parse(&row.get::<_, String>(0)?) else { continue };
        let parents: Vec<CommitHash> = parents_of
            .query_map([hash.as_str()], |row| row.get::<_, Option<String>>(0))?
            .collect::<rusqlite::Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .filter_map(|hash| CommitHash::parse(&hash).ok())
            .collect();
        let next = walk.pass(&hash, &parents);
        if skipping {
            skipping = at.after.as_ref() != Some(&hash);
            continue;
        }
        let commit = Commit { hash, parents, message: row.get(4)?, author: signature(row)? };
        entries.push(LogEntry { commit, next });
    }
    Ok(entries)
}

/// Returns what the chunk of a commit says.
pub(crate) fn from_chunk(hash: ChunkHash, commit: &layout::Commit<'_>) -> Commit {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let email = text(commit.address);
    Commit {
        hash: hash.as_commit(),
        parents: commit.parents.iter().map(|parent| ChunkHash::from_bytes(*parent).as_commit()).collect(),
        message: text(commit.message),
        author: Signature {
            name: text(commit.author),
            email: if email == NO_EMAIL { String::new() } else { email },
            at: Timestamp::from_seconds(commit.seconds),
        },
    }
}

fn signature(row: &rusqlite::Row<'_>) -> rusqlite::Result<Signature> {
    let (name, email, date): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
    let at = NaiveDateTime::parse_from_str(&date, "%Y-%m-%d %H:%M:%S").unwrap_or_default();
    Ok(Signature {
        name,
        email: if email == NO_EMAIL { String::new() } else { email },
        at: Timestamp::from_seconds(at.and_utc().timestamp()),
    })
}

pub(crate) fn merge_base(
    engine: &DoltliteEngine,
    database: DatabaseId,
    a: &CommitHash,
    b: &CommitHash,
) -> Result<Option<CommitHash>, EngineError> {
    engine.reading_history(database, |connection| {
        let base: Option<String> = connection
            .raw()
            .query_row("SELECT dolt_merge_base(?, ?)", [a.as_str(), b.as_str()], |row| row.get(0))
            .or_else(|error| if errors::parts(&error).1.contains("no common ancestor") { Ok(None) } else { Err(error) })
            .map_err(|error| {
                let second = errors::parts(&error).1.contains("second argument");
                errors::fault_at("find a common ancestor", if second { b } else { a }, error)
            })?;
        base.as_deref().map(parse).transpose()
    })
}

/// A bounded cache of ancestor relations, which never change.
#[derive(Debug, Default)]
pub struct AncestorCache {
    known: HashSet<(DatabaseId, CommitHash, CommitHash)>,
    order: VecDeque<(DatabaseId, CommitHash, CommitHash)>,
}

impl AncestorCache {
    const MOST: usize = 4096;

    /// Returns `true` if the second commit is known to descend from the first.
    pub fn holds(&self, fact: &(DatabaseId, CommitHash, CommitHash)) -> bool {
        self.known.contains(fact)
    }

    /// Records that the second commit descends from the first.
    pub fn insert(&mut self, fact: (DatabaseId, CommitHash, CommitHash)) {
        if self.known.insert(fact.clone()) {
            self.order.push_back(fact);
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Removes all entries of a database, because its file is replaced.
    pub fn forget(&mut self, database: DatabaseId) {
        self.order.retain(|fact| fact.0 != database);
        self.known.retain(|fact| fact.0 != database);
    }
}

pub(crate) fn is_ancestor(
    engine: &DoltliteEngine,
    database: DatabaseId,
    ancestor: &CommitHash,
    descendant: &CommitHash,
) -> Result<bool, EngineError> {
    let fact = (database, ancestor.clone(), descendant.clone());
    if engine.ancestors.lock().holds(&fact) {
        return Ok(true);
    }
    let is = match merge_base(engine, database, ancestor, descendant) {
        Ok(base) => base.as_ref() == Some(ancestor),
        Err(EngineError::NoSuchCommit(missing)) if missing != *descendant => false,
        Err(error) => return Err(error),
    };
    if is {
        engine.ancestors.lock().insert(fact);
    }
    Ok(is)
}

/// Returns `true` if a database has a file.
pub(crate) fn exists(engine: &DoltliteEngine, database: DatabaseId) -> bool {
    engine.files.exists(&engine.files.path(database))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{LONG_FILE, copy_file};

    #[test]
    fn short_and_long_files_are_copied_whole_and_onto_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for size in [0, 5, LONG_FILE - 1, LONG_FILE, LONG_FILE + 1] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251).to_le_bytes()[0]).collect();
            fs::write(&from, &bytes).unwrap();
            assert_eq!(copy_file(&from, &to).unwrap(), size);
            assert!(fs::read(&to).unwrap() == bytes, "{size} bytes");
            assert_eq!(copy_file(&from, &to).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
            fs::remove_file(&to).unwrap();
        }
    }
}
