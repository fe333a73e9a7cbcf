//! Makes chunks that a client uploaded a part of a file: the walk from a commit through them, and their way into the file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;

use branchyard_domain::ports::{EngineError, PushedHistory};
use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId, Timestamp};

use super::copy::{LOOKED_UP, READ, as_chunks, parents_first};
use super::file::ChunkFile;
use super::pushed::PushedFile;
use crate::engine::{DoltliteEngine, io_fault, missing};
use crate::sql::errors;
use branchyard_remote_protocol::{Malformed, NO_HASH, layout};

/// The seconds of the years 1 to 9999.
const DATES: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Finds out whether everything below a commit was pushed or is in the file of a database.
pub(crate) fn examine(
    engine: &DoltliteEngine,
    database: DatabaseId,
    pushed: &File,
    tips: &[CommitHash],
) -> Result<PushedHistory, EngineError> {
    let pushed = PushedFile::open(pushed).map_err(unreadable)?;
    let into = super::read::open_anew(engine, database)?;
    match walk(&pushed, &into, tips) {
        Ok(walked) => Ok(PushedHistory::Complete {
            known: walked.known.iter().map(ChunkHash::as_commit).collect(),
            dates: tips.iter().map(|tip| walked.dates.get(&ChunkHash::from(tip)).copied()).collect(),
        }),
        Err(End::Lacking) => Ok(PushedHistory::Lacking),
        Err(End::Malformed(hash, Malformed(reason))) => {
            Ok(PushedHistory::Malformed(format!("chunk {hash} is not accepted: {reason}")))
        }
        Err(End::Engine(error)) => Err(error),
    }
}

/// Adds the chunks below a commit to the file of a database, in one commit of the file.
pub(crate) fn take_over(
    engine: &DoltliteEngine,
    database: DatabaseId,
    pushed: &File,
    tips: &[CommitHash],
) -> Result<(), EngineError> {
    let Some(first) = tips.first() else { return Ok(()) };
    let pushed = PushedFile::open(pushed).map_err(unreadable)?;
    let _turn = engine.queues.enter(database);
    engine.check_format(database)?;
    let path = engine.files.path(database);
    // To open it for writing would create it.
    if !engine.files.exists(&path) {
        return Err(missing(database));
    }
    let fault = |error| errors::fault("add chunks to a file", error);
    let into = ChunkFile::open_for_writing(&path).map_err(fault)?;
    let walked = walk(&pushed, &into, tips).map_err(|end| match end {
        End::Lacking | End::Malformed(..) => EngineError::NoSuchCommit(first.clone()),
        End::Engine(error) => error,
    })?;
    // Children first: whatever is cut short, a chunk in the file has all that is below it there, too.
    for hash in walked.nodes.into_values().flatten().chain(walked.catalogs).chain(walked.commits) {
        let content = pushed.get(&hash).map_err(unreadable)?;
        let content = content.ok_or_else(|| EngineError::NoSuchCommit(first.clone()))?;
        into.put(&hash, &content).map_err(fault)?;
    }
    into.commit().map_err(fault)
}

fn unreadable(error: std::io::Error) -> EngineError {
    io_fault("read pushed chunks", error)
}

/// Why a walk has no result.
enum End {
    /// A chunk was neither pushed nor is it in the file.
    Lacking,
    /// A chunk is not what its place demands.
    Malformed(ChunkHash, Malformed),
    Engine(EngineError),
}

impl From<EngineError> for End {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// The pushed chunks below a commit.
#[derive(Default)]
struct Walked {
    /// Parents first.
    commits: Vec<ChunkHash>,
    catalogs: Vec<ChunkHash>,
    /// By their level, leaves first.
    nodes: BTreeMap<u8, Vec<ChunkHash>>,
    /// The commits of the file at which the walk ended.
    known: Vec<ChunkHash>,
    /// When the tips were made, of those that were pushed.
    dates: HashMap<ChunkHash, Timestamp>,
}

/// A walk through pushed chunks.
struct Walk<'a> {
    pushed: &'a PushedFile<'a>,
    into: &'a ChunkFile,
    seen: HashSet<ChunkHash>,
}

fn walk(pushed: &PushedFile<'_>, into: &ChunkFile, tips: &[CommitHash]) -> Result<Walked, End> {
    let mut walk = Walk { pushed, into, seen: HashSet::new() };
    let mut walked = Walked::default();
    let tips: Vec<ChunkHash> = tips.iter().map(ChunkHash::from).collect();
    let catalogs = walk.commits(&tips, &mut walked)?;
    let roots = walk.catalogs(catalogs, &mut walked)?;
    walk.nodes(roots, &mut walked)?;
    Ok(walked)
}

impl Walk<'_> {
    /// Follows the commits of the histories of `tips`. Returns their catalogs.
    ///
    /// A commit that was pushed is followed even if the file holds it: the file holds commits that the database does not show, and
    /// the history that was pushed has to be complete without them.
    fn commits(&mut self, tips: &[ChunkHash], walked: &mut Walked) -> Result<Vec<ChunkHash>, End> {
        let (mut parents, mut catalogs, mut next) = (HashMap::new(), Vec::new(), tips.to_vec());
        let named: HashSet<&ChunkHash> = tips.iter().collect();
        while let Some(hash) = next.pop() {
            if !self.seen.insert(hash) {
                continue;
            }
            let Some(content) = self.pushed(&hash)? else {
                walked.known.push(hash);
                continue;
            };
            let commit = acceptable_commit(&content).map_err(|malformed| End::Malformed(hash, malformed))?;
            if named.contains(&hash) {
                walked.dates.insert(hash, Timestamp::from_seconds(commit.seconds));
            }
            let of_commit = as_chunks(commit.parents);
            next.extend(&of_commit);
            catalogs.push(ChunkHash::from_bytes(commit.catalog));
            parents.insert(hash, of_commit);
        }
        for known in walked.known.chunks(LOOKED_UP) {
            if self.held(known)?.contains(&false) {
                return Err(End::Lacking);
            }
        }
        self.check(&walked.known, |content| layout::commit(content).map(drop))?;
        walked.commits = parents_first(&parents, tips);
        Ok(catalogs)
    }

    /// Returns the roots of the trees that the catalogs name.
    fn catalogs(&mut self, catalogs: Vec<ChunkHash>, walked: &mut Walked) -> Result<Vec<ChunkHash>, End> {
        let mut roots = Vec::new();
        let (pushed, held) = self.split(&catalogs)?;
        self.check(&held, |content| layout::catalog(content).map(drop))?;
        for hash in &pushed {
            let content = self.pushed(hash)?.ok_or(End::Lacking)?;
            let named = layout::catalog(&content).map_err(|malformed| End::Malformed(*hash, malformed))?;
            roots.extend(as_chunks(named));
        }
        walked.catalogs = pushed;
        Ok(roots)
    }

    /// Follows the trees with these roots, which may have any level.
    fn nodes(&mut self, roots: Vec<ChunkHash>, walked: &mut Walked) -> Result<(), End> {
        let mut below = BTreeMap::<u8, Vec<ChunkHash>>::new();
        let (pushed, held) = self.split(&roots)?;
        self.check(&held, |content| layout::node(content).map(drop))?;
        for hash in pushed {
            let level = self.node(hash, None, &mut below)?;
            walked.nodes.entry(level).or_default().push(hash);
        }
        while let Some((level, children)) = below.pop_last() {
            let (pushed, held) = self.split(&children)?;
            drop(children);
            self.check(&held, |content| at_level(content, Some(level)).map(drop))?;
            for hash in pushed {
                self.node(hash, Some(level), &mut below)?;
                walked.nodes.entry(level).or_default().push(hash);
            }
        }
        Ok(())
    }

    /// Reads a pushed node, and adds its children to those of the level below. Returns its level.
    fn node(
        &mut self,
        hash: ChunkHash,
        level: Option<u8>,
        below: &mut BTreeMap<u8, Vec<ChunkHash>>,
    ) -> Result<u8, End> {
        let content = self.pushed(&hash)?.ok_or(End::Lacking)?;
        let node = at_level(&content, level).map_err(|malformed| End::Malformed(hash, malformed))?;
        if let Some(level) = node.level.checked_sub(1) {
            if node.children.contains(&NO_HASH) {
                return Err(End::Malformed(hash, Malformed("a child of the node is missing")));
            }
            below.entry(level).or_default().extend(as_chunks(node.children));
        }
        Ok(node.level)
    }

    /// Returns those of the chunks that have not been seen: first the ones that have to be brought into the file, then those that
    /// it holds.
    fn split(&mut self, hashes: &[ChunkHash]) -> Result<(Vec<ChunkHash>, Vec<ChunkHash>), End> {
        let unseen: Vec<_> =
            hashes.iter().copied().filter(|hash| *hash != ChunkHash::NONE && self.seen.insert(*hash)).collect();
        let (mut lacking, mut held) = (Vec::new(), Vec::new());
        for hashes in unseen.chunks(LOOKED_UP) {
            for (hash, is_held) in hashes.iter().zip(self.held(hashes)?) {
                if is_held { &mut held } else { &mut lacking }.push(*hash);
            }
        }
        if lacking.iter().all(|hash| self.pushed.holds(hash)) { Ok((lacking, held)) } else { Err(End::Lacking) }
    }

    fn held(&self, hashes: &[ChunkHash]) -> Result<Vec<bool>, EngineError> {
        self.into.has(hashes).map_err(|error| errors::fault("look for chunks", error))
    }

    /// Checks chunks that the file holds. They are sound, but not necessarily what the pushed ones use them for.
    fn check(&self, held: &[ChunkHash], parse: impl Fn(&[u8]) -> Result<(), Malformed>) -> Result<(), End> {
        for hashes in held.chunks(READ) {
            let chunks = self.into.get(hashes).map_err(|error| errors::fault("read chunks", error))?;
            for (hash, chunk) in hashes.iter().zip(chunks) {
                parse(&chunk.ok_or(End::Lacking)?).map_err(|malformed| End::Malformed(*hash, malformed))?;
            }
        }
        Ok(())
    }

    fn pushed(&self, hash: &ChunkHash) -> Result<Option<Vec<u8>>, End> {
        Ok(self.pushed.get(hash).map_err(unreadable)?)
    }
}

/// Parses a node that is expected to have a level, if one is given.
fn at_level(bytes: &[u8], level: Option<u8>) -> Result<layout::Node, Malformed> {
    let node = layout::node(bytes)?;
    match level {
        Some(level) if level != node.level => Err(Malformed("the node has a wrong level")),
        _ => Ok(node),
    }
}

/// Parses a commit. Refuses one that no API of the server could show.
fn acceptable_commit(bytes: &[u8]) -> Result<layout::Commit<'_>, Malformed> {
    let commit = layout::commit(bytes)?;
    if commit.parents.contains(&NO_HASH) {
        return Err(Malformed("a parent of the commit is missing"));
    }
    if !DATES.contains(&commit.seconds) {
        return Err(Malformed("the date of the commit is not in the years 1 to 9999"));
    }
    for (text, reason) in [
        (commit.author, "the name of the commit's author is no UTF-8 text"),
        (commit.address, "the email address of the commit's author is no UTF-8 text"),
        (commit.message, "the message of the commit is no UTF-8 text"),
    ] {
        if std::str::from_utf8(text).is_err() || text.contains(&0) {
            return Err(Malformed(reason));
        }
    }
    Ok(commit)
}
