//! Collects garbage: writes a new file that holds what given heads reach and nothing else, and puts it in place of the
//! old one.
//!
//! All work is done on a private copy, where each head gets a branch, so that neither readers nor writers wait and the
//! file of the database is not touched. `VACUUM INTO` writes what the branches reach to the new file. Only what was
//! committed meanwhile is copied in the write turn, directly from the file of the database.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use branchyard_domain::ports::{Collected, EngineError, KeptHeads};
use branchyard_domain::values::{CommitHash, DatabaseId};
use rusqlite::limits::Limit;

use crate::branch;
use crate::chunks::{ChunkFile, copy_history};
use crate::commits;
use crate::connection::{Connection, ConnectionUse};
use crate::engine::{DoltliteEngine, io_fault, missing};
use crate::files::{self, Files, Temporary};
use crate::reach::parents_of;
use crate::sql::errors;
use crate::write;

/// How often a collection asks again for the heads to keep, in its write turn.
pub const COLLECTION_ROUNDS: usize = 8;
/// Space to leave free beside the new file, in bytes.
const SPARE_BYTES: u64 = 64 << 20;

/// What a new file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedHistory {
    /// The heads that were in the old file.
    pub heads: Vec<CommitHash>,
    /// Number of the commits that they reach.
    pub commits: u64,
}

/// Reports whether the file of a database is still the one that it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Returns the identity of a file and its length in bytes.
    ///
    /// # Errors
    /// An error if the file does not exist.
    pub fn of(path: &Path) -> io::Result<(Self, u64)> {
        use std::os::unix::fs::MetadataExt as _;
        let file = fs::metadata(path)?;
        Ok((Self { device: file.dev(), inode: file.ino() }, file.len()))
    }
}

/// The file that a collection began with.
#[derive(Debug)]
pub struct CollectionSource {
    identity: FileIdentity,
    /// A private copy of the file.
    pub copy: Temporary,
}

impl CollectionSource {
    /// Copies the file of `database`, if there is space for the copy and for a new file.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if there is no space.
    pub fn copy(files: &Files, database: DatabaseId, share_blocks: bool) -> Result<Self, EngineError> {
        Self::copy_of(files, &files.path(database), database, share_blocks)
    }

    /// Copies the file at `path`, of which a copy that was put off is to be made ([`Files::source_path`]), as [`Self::copy`] does.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if there is no space.
    pub fn copy_of(files: &Files, path: &Path, database: DatabaseId, share_blocks: bool) -> Result<Self, EngineError> {
        let (identity, length) = identify(path, database)?;
        let wanted = length.saturating_mul(2).saturating_add(SPARE_BYTES);
        let free = files.free_bytes().map_err(|error| io_fault("look for free space", error))?;
        if free < wanted {
            return Err(EngineError::Unavailable(format!(
                "writing a database anew needs {} MiB of free space, and {} MiB are left",
                wanted >> 20,
                free >> 20
            )));
        }
        let copy = files.temporary();
        files::copy_for_now(path, copy.path(), u64::MAX, share_blocks)
            .map_err(|error| io_fault("copy a database for a while", error))?;
        Ok(Self { identity, copy })
    }

    /// Returns the present length of the file of `database` in bytes, if it is still the file that was copied.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if another file took its place.
    pub fn length_now(&self, files: &Files, database: DatabaseId) -> Result<u64, EngineError> {
        let (identity, length) = identify(&files.path(database), database)?;
        if identity == self.identity {
            Ok(length)
        } else {
            Err(EngineError::Unavailable("the file of the database was replaced meanwhile".into()))
        }
    }
}

fn identify(path: &Path, database: DatabaseId) -> Result<(FileIdentity, u64), EngineError> {
    FileIdentity::of(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(database),
        _ => io_fault("look at a database", error),
    })
}

pub(crate) fn collect(
    engine: &DoltliteEngine,
    database: DatabaseId,
    kept: &mut dyn KeptHeads,
) -> Result<Collected, EngineError> {
    engine.check_format(database)?;
    let heads = kept.heads()?;
    let source = CollectionSource::copy(&engine.files, database, engine.options.share_blocks)?;
    let new = engine.files.temporary();
    let held = write_new_file(engine, source.copy.path(), new.path(), &heads)?;
    check_new_file(engine, new.path(), &held.heads, Some(held.commits))?;
    kept.written(new.path())?;
    let turn = engine.queues.enter(database);
    let before = source.length_now(&engine.files, database)?;
    let path = engine.files.path(database);
    // Not all that was asked for: what the copy lacked may have been fetched since.
    let mut covered: BTreeSet<CommitHash> = held.heads.into_iter().collect();
    for _ in 0..COLLECTION_ROUNDS {
        let lacking = kept.approve(&covered)?;
        if lacking.is_empty() {
            let after = FileIdentity::of(new.path()).map_err(|error| io_fault("look at a new file", error))?.1;
            kept.install(new.path())?;
            engine.install(&turn, new.path()).map_err(|error| io_fault("install a database", error))?;
            return Ok(Collected { before, after });
        }
        let brought = complete(&path, new.path(), &lacking)?;
        check_new_file(engine, new.path(), &brought, None)?;
        covered.extend(lacking);
    }
    Err(EngineError::Busy)
}

/// Makes the file of a database if its copy was put off.
pub(crate) fn make_copy(engine: &DoltliteEngine, database: DatabaseId) -> Result<(), EngineError> {
    engine.put_off.make(&engine.files, database, |source, heads| {
        let source = CollectionSource::copy_of(&engine.files, source, database, engine.options.share_blocks)?;
        let new = engine.files.temporary();
        let held = write_new_file(engine, source.copy.path(), new.path(), heads)?;
        commits::finish_copy(engine, new.path(), branch::rename)?;
        check_new_file(engine, new.path(), heads, Some(held.commits))?;
        Ok(new)
    })
}

/// Writes what `heads` reach from `copy`, a private copy of a database file, to `new`, which is empty or does not exist.
/// The copy cannot be used for anything else afterwards.
pub(crate) fn write_new_file(
    engine: &DoltliteEngine,
    copy: &Path,
    new: &Path,
    heads: &[CommitHash],
) -> Result<CollectedHistory, EngineError> {
    let fault = |error| errors::fault("collect garbage", error);
    let open = |path| engine.open_file(path, ConnectionUse::Write).map_err(fault);
    let file = open(copy)?;
    file.raw().execute_batch("PRAGMA synchronous = off").map_err(fault)?;
    let (held, ends) = history(&file, heads)?;
    let Some(root) = ends.root else {
        return Err(EngineError::Damaged("the file holds none of the heads to keep".into()));
    };
    let reserved = branch::name(file.raw()).map_err(fault)?;
    remove_remotes(&file).map_err(fault)?;
    remove_refs(&file, &reserved).map_err(fault)?;
    // `VACUUM` first defines the tables of the present commit once more, in memory. The first commit has none.
    stand_at(&file, &root)?;
    for (number, tip) in ends.tips.iter().enumerate() {
        let name = format!("{reserved}-{number}");
        file.raw()
            .query_row("SELECT dolt_branch(?, ?)", [name.as_str(), tip.as_str()], |_| Ok(()))
            .map_err(|error| errors::fault_at("keep a commit", tip, error))?;
    }
    // What a connection has seen counts as used, so that the next one writes the file.
    drop(file);
    let file = open(copy)?;
    // The memory in which it does so counts as an attached database.
    file.raw().set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1).map_err(fault)?;
    file.raw().execute("VACUUM INTO ?", [new.to_string_lossy()]).map_err(fault)?;
    drop(file);
    let file = open(new)?;
    remove_refs(&file, &reserved).map_err(fault)?;
    Ok(held)
}

/// Copies `heads` that `new` lacks from `source`, the file of a database in its write turn. Returns those that `new`
/// holds afterwards; the others are not in the source either.
pub(crate) fn complete(source: &Path, new: &Path, heads: &[CommitHash]) -> Result<Vec<CommitHash>, EngineError> {
    let fault = |error| errors::fault("complete a new file", error);
    let (from, into) = (ChunkFile::open(source).map_err(fault)?, ChunkFile::open_for_writing(new).map_err(fault)?);
    let mut held = Vec::new();
    for head in heads {
        match copy_history(&from, &into, head) {
            Ok(()) => held.push(head.clone()),
            Err(EngineError::NoSuchCommit(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(held)
}

/// Checks with fresh connections that a file holds `heads`, that each can be read, and that their histories are complete:
/// `commits` commits in all, if that is known.
pub(crate) fn check_new_file(
    engine: &DoltliteEngine,
    new: &Path,
    heads: &[CommitHash],
    commits: Option<u64>,
) -> Result<(), EngineError> {
    let fault = |error| errors::fault("check a new file", error);
    let file = engine.open_file(new, ConnectionUse::History).map_err(fault)?;
    let (held, _) = history(&file, heads)?;
    drop(file);
    if held.heads.len() != heads.len() || commits.is_some_and(|commits| commits != held.commits) {
        return Err(EngineError::Damaged(format!(
            "a new file holds {} of {} heads, and {} commits",
            held.heads.len(),
            heads.len(),
            held.commits
        )));
    }
    for head in heads {
        let fault = |error| errors::fault_at("check a new file", head, error);
        let file = engine.open_file(new, ConnectionUse::Read(head)).map_err(fault)?;
        file.raw().query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(fault)?;
    }
    Ok(())
}

/// The ends of histories.
struct HistoryEnds {
    /// The heads of which no other is a descendant.
    tips: BTreeSet<CommitHash>,
    /// A commit without parents. `None` if there are no commits.
    root: Option<CommitHash>,
}

/// Walks the histories of `heads`. Returns the heads that the file holds with the number of commits that they reach.
fn history(file: &Connection, heads: &[CommitHash]) -> Result<(CollectedHistory, HistoryEnds), EngineError> {
    let parents =
        |at: &CommitHash| parents_of(file.raw(), at).map_err(|error| errors::fault_at("read the log", at, error));
    let (mut seen, mut held) = (HashSet::new(), Vec::new());
    let mut ends = HistoryEnds { tips: BTreeSet::new(), root: None };
    for head in heads {
        if seen.contains(head) {
            held.push(head.clone());
            continue;
        }
        let Some(mut next) = parents(head)? else { continue };
        held.push(head.clone());
        ends.tips.insert(head.clone());
        seen.insert(head.clone());
        if next.is_empty() {
            ends.root = Some(head.clone());
        }
        while let Some(commit) = next.pop() {
            if !seen.insert(commit.clone()) {
                // The root of an earlier walk is no tip if a later one arrives at it.
                ends.tips.remove(&commit);
                continue;
            }
            let Some(further) = parents(&commit)? else {
                return Err(EngineError::Damaged(format!("commit {commit} of the history of {head} is missing")));
            };
            if further.is_empty() {
                ends.root = Some(commit);
            }
            next.extend(further);
        }
    }
    let commits = u64::try_from(seen.len()).unwrap_or(u64::MAX);
    Ok((CollectedHistory { heads: held, commits }, ends))
}

/// Moves the reserved branch of a file to a commit.
fn stand_at(file: &Connection, commit: &CommitHash) -> Result<(), EngineError> {
    write::start(file, commit)?;
    file.raw().execute_batch("COMMIT").map_err(|error| errors::fault("move to a commit", error))
}

/// Removes the remotes with their tracking branches, which the fetches of earlier versions left when they were killed.
fn remove_remotes(file: &Connection) -> rusqlite::Result<()> {
    let mut remotes = file.raw().prepare("SELECT name FROM dolt_remotes")?;
    let names: Vec<String> = remotes.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for name in names {
        file.raw().query_row("SELECT dolt_remote('remove', ?)", [name], |_| Ok(()))?;
    }
    Ok(())
}

/// Removes all tags, and all branches but the reserved one.
fn remove_refs(file: &Connection, reserved: &str) -> rusqlite::Result<()> {
    let names = |sql: &str| -> rusqlite::Result<Vec<String>> {
        file.raw().prepare(sql)?.query_map([], |row| row.get(0))?.collect()
    };
    for tag in names("SELECT tag_name FROM dolt_tags")? {
        file.raw().query_row("SELECT dolt_tag('-d', ?)", [tag], |_| Ok(()))?;
    }
    for branch in names("SELECT name FROM dolt_branches")? {
        if branch != reserved {
            file.raw().query_row("SELECT dolt_branch('-D', ?)", [branch], |_| Ok(()))?;
        }
    }
    Ok(())
}
