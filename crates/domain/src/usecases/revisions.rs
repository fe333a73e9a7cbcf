//! Resolution of refs and revision expressions to commits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::lookup_cache::{LONGEST_NAME, LookupCache};
use crate::access::visibility::find_live;
use crate::call_context;
use crate::entities::Database;
use crate::errors::{PortError, RefError};
use crate::ports::{EngineError, Metadata, MetadataError, Reachability, Transaction};
use crate::values::{CommitHash, CommitPrefix, DatabaseId, RefName, Revision};

/// Number of named commits read at a time in the search for one that reaches a commit.
const NAMED_PAGE: usize = 1_000;
/// How long commits may be looked through for those that begin with some digits. What was looked up until then is remembered.
const PREFIX_SEARCH: Duration = Duration::from_millis(500);

/// Resolves a ref; `None` means the default branch. The order is defined in v2 §1.4: 40 hexadecimal digits are always a
/// commit; then come branches, tags, full names, the first digits of commits, and expressions such as `main~2`.
pub(super) fn resolve(inner: &Inner, database: &Database, text: Option<&str>) -> Result<CommitHash, RefError> {
    let look = || match foreseen_head(database.id, text) {
        Some(head) => Ok(Some(head)),
        None => look_up(inner, database, text),
    };
    let found = match key(database, text) {
        Some(key) => inner.remembered.refs.find(inner.ports.metadata.as_ref(), key, look)?,
        None => look()?,
    };
    found.ok_or_else(|| match text {
        Some(name) => RefError::NoSuchRef { name: name.to_owned(), database: database.locator.to_string() },
        None => RefError::NoSuchBranch(database.default_branch.to_string()),
    })
}

/// Returns what [`resolve`] would return, if it is in the cache.
pub(super) fn known(inner: &Inner, database: &Database, text: Option<&str>) -> Option<CommitHash> {
    inner.remembered.refs.known(inner.ports.metadata.as_ref(), &key(database, text)?)
}

fn key(database: &Database, text: Option<&str>) -> Option<(DatabaseId, Option<String>)> {
    let worth_it = text.is_none_or(|name| name.len() <= LONGEST_NAME);
    worth_it.then(|| (database.id, text.map(str::to_owned)))
}

/// Returns the head of a branch, if it was read with the credential of the call.
fn foreseen_head(database: DatabaseId, text: Option<&str>) -> Option<CommitHash> {
    call_context::take_foreseen(|foreseen| {
        let (_, _, head) =
            foreseen.head.take_if(|(id, branch, _)| *id == database && branch.as_ref().map(RefName::as_str) == text)?;
        Some(head)
    })
}

fn look_up(inner: &Inner, database: &Database, text: Option<&str>) -> Result<Option<CommitHash>, RefError> {
    let mut tx = inner.ports.metadata.look()?;
    let Some(name) = text else {
        return Ok(branch_head(tx.as_mut(), database, database.default_branch.as_str())?);
    };
    let (base, steps) = split_expression(name);
    if let Ok(hash) = CommitHash::parse(base) {
        drop(tx);
        return Ok(if held(inner, database.id, &hash)? { walk(inner, database, hash, steps)? } else { None });
    }
    let named = resolve_name(tx.as_mut(), database, base)?;
    drop(tx);
    let start = match (named, CommitPrefix::parse(base)) {
        (Some(commit), _) => commit,
        (None, Ok(prefix)) => match begins_with(inner, database, &prefix)? {
            Some(commit) => commit,
            None => return Ok(None),
        },
        (None, Err(_)) => return Ok(None),
    };
    Ok(walk(inner, database, start, steps)?)
}

/// Returns the only commit of the database's own history that begins with these digits.
fn begins_with(inner: &Inner, database: &Database, prefix: &CommitPrefix) -> Result<Option<CommitHash>, RefError> {
    let mut heads = Vec::new();
    inner.reachable.visit_named(database.id, PortError::Metadata, |page| {
        heads.extend_from_slice(page);
        Ok(true)
    })?;
    let most = RefError::MOST_CANDIDATES;
    let found = inner.ports.engine.reached_with_prefix(database.id, &heads, prefix, most, PREFIX_SEARCH);
    let mut commits = match found {
        // Deleting a database removes its file, possibly during this lookup.
        Err(_) if find_live(inner.ports.metadata.read()?.as_mut(), database.id)?.is_none() => return Ok(None),
        other => other.map_err(PortError::from)?.ok_or(PortError::Engine(EngineError::Busy))?,
    };
    if commits.len() > 1 {
        commits.sort();
        let (prefix, database) = (prefix.to_string(), database.locator.to_string());
        return Err(RefError::AmbiguousCommit { prefix, database, commits });
    }
    Ok(commits.pop())
}

/// Resolves the revision that a branch, tag or release starts at.
pub(super) fn revision(inner: &Inner, database: &Database, from: &Revision) -> Result<CommitHash, RefError> {
    match from {
        Revision::Branch(name) => {
            let mut tx = inner.ports.metadata.read()?;
            branch_head(tx.as_mut(), database, name)?.ok_or_else(|| RefError::NoSuchBranch(name.clone()))
        }
        Revision::Commit(prefix) => {
            let found = match prefix.whole() {
                Some(hash) => held(inner, database.id, &hash)?.then_some(hash),
                None => begins_with(inner, database, prefix)?,
            };
            let absent = || RefError::NoSuchRef { name: prefix.to_string(), database: database.locator.to_string() };
            found.ok_or_else(absent)
        }
    }
}

/// Runs `work`, which looks up a hash and stores it in a transaction. `work` returns `None` if that transaction finds
/// another generation than the database that it is passed: a garbage collection took effect in between, and the commit may
/// be gone because its name was removed before. `work` then runs again.
pub(super) fn in_one_generation<T, E: From<PortError> + From<MetadataError>>(
    inner: &Inner,
    database: &Database,
    mut work: impl FnMut(&Database) -> Result<Option<T>, E>,
) -> Result<T, E> {
    /// Collections are rare, and each takes a while.
    const TRIES: usize = 8;
    let mut present = database.clone();
    for _ in 0..TRIES {
        if let Some(done) = work(&present)? {
            return Ok(done);
        }
        if let Some(newer) = inner.ports.metadata.read()?.databases().get(database.id)? {
            present = newer;
        }
    }
    Err(PortError::Engine(EngineError::Busy).into())
}

/// Returns the commit of a name that is not a hash.
fn resolve_name(tx: &mut dyn Transaction, database: &Database, name: &str) -> Result<Option<CommitHash>, PortError> {
    if name == "HEAD" {
        return branch_head(tx, database, database.default_branch.as_str());
    }
    if let Some(head) = branch_head(tx, database, name)? {
        return Ok(Some(head));
    }
    if let Some(commit) = tag_commit(tx, database, name)? {
        return Ok(Some(commit));
    }
    if let Some(branch) = name.strip_prefix("refs/heads/") {
        return branch_head(tx, database, branch);
    }
    match name.strip_prefix("refs/tags/") {
        Some(tag) => tag_commit(tx, database, tag),
        None => Ok(None),
    }
}

fn branch_head(tx: &mut dyn Transaction, database: &Database, name: &str) -> Result<Option<CommitHash>, PortError> {
    let Ok(name) = RefName::parse(name) else { return Ok(None) };
    Ok(tx.branches().get(database.id, &name)?.map(|branch| branch.head))
}

fn tag_commit(tx: &mut dyn Transaction, database: &Database, name: &str) -> Result<Option<CommitHash>, PortError> {
    let Ok(name) = RefName::parse(name) else { return Ok(None) };
    Ok(tx.tags().get(database.id, &name)?.map(|tag| tag.commit))
}

/// Returns `true` if the database's own history holds a commit. The engine file may hold more: remains of deleted branches,
/// commits fetched for pull requests and, in a fork, everything the source ever had.
pub(super) fn held(inner: &Inner, database: DatabaseId, hash: &CommitHash) -> Result<bool, PortError> {
    let mut descends = |heads: &[CommitHash]| match heads {
        [] => Ok(false),
        _ => inner.ports.engine.descends(database, heads, hash),
    };
    match inner.reachable.reaches(database, hash, &mut descends) {
        // Deleting a database removes its file, possibly during this lookup.
        Err(_) if find_live(inner.ports.metadata.read()?.as_mut(), database)?.is_none() => Ok(false),
        other => Ok(other?),
    }
}

/// Returns for each of `commits` what [`held`] does, with one search for all. `parents` holds the parents of each: those of held
/// commits are held as well and remembered, because clients follow a history from its newest commits.
pub(super) fn all_held(
    inner: &Inner,
    database: DatabaseId,
    commits: &[CommitHash],
    parents: &[Vec<CommitHash>],
) -> Result<Vec<bool>, PortError> {
    let Reachable { metadata, known } = inner.reachable.as_ref();
    let metadata = metadata.as_ref();
    let before = metadata.version();
    let mut held: HashSet<&CommitHash> =
        commits.iter().filter(|commit| known.known(metadata, &(database, (*commit).clone())).is_some()).collect();
    let mut wanted: Vec<CommitHash> = commits.iter().filter(|commit| !held.contains(commit)).cloned().collect();
    let looked = match wanted.is_empty() {
        true => Ok(()),
        false => inner.reachable.visit_named(database, PortError::Metadata, |page| {
            let mut reached = inner.ports.engine.reached(database, page, &wanted)?.into_iter();
            wanted.retain(|_| !reached.next().unwrap_or_default());
            Ok(!wanted.is_empty())
        }),
    };
    match looked {
        // Deleting a database removes its file, possibly during this lookup.
        Err(_) if find_live(metadata.read()?.as_mut(), database)?.is_none() => return Ok(vec![false; commits.len()]),
        other => other?,
    }
    let lacking: HashSet<&CommitHash> = wanted.iter().collect();
    held.extend(commits.iter().filter(|commit| !lacking.contains(commit)));
    for (commit, parents) in commits.iter().zip(parents).filter(|(commit, _)| held.contains(commit)) {
        for reached in std::iter::once(commit).chain(parents) {
            known.note(before, metadata, (database, reached.clone()), ());
        }
    }
    Ok(commits.iter().map(|commit| held.contains(commit)).collect())
}

/// Returns what [`held`] does, without a lookup if `known`, which the database holds, descends from the commit.
pub(super) fn held_with(
    inner: &Inner,
    database: DatabaseId,
    known: &CommitHash,
    hash: &CommitHash,
) -> Result<bool, PortError> {
    match inner.ports.engine.descends(database, std::slice::from_ref(known), hash) {
        Ok(true) => Ok(true),
        _ => held(inner, database, hash),
    }
}

/// Answers which commits can be reached from the refs, pull requests and releases in the metadata store. Positive results
/// are cached until the store changes. The engine caches the ancestry of commits.
pub(crate) struct Reachable {
    metadata: Arc<dyn Metadata>,
    known: LookupCache<(DatabaseId, CommitHash), ()>,
}

impl Reachable {
    pub(super) fn new(metadata: Arc<dyn Metadata>) -> Self {
        Self { metadata, known: LookupCache::new(|metadata| metadata.version()) }
    }

    fn look(
        &self,
        database: DatabaseId,
        descends: &mut dyn FnMut(&[CommitHash]) -> Result<bool, EngineError>,
    ) -> Result<Option<()>, EngineError> {
        let mut found = None;
        self.visit_named(database, unavailable, |page| {
            found = descends(page)?.then_some(());
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Passes the commits that branches, tags and pull requests name to `visit`, a page at a time, until it returns `false`.
    fn visit_named<E>(
        &self,
        database: DatabaseId,
        failed: impl Fn(MetadataError) -> E,
        mut visit: impl FnMut(&[CommitHash]) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut after: Option<CommitHash> = None;
        loop {
            // The search may take a while, so it holds no connection to the store.
            let page = |after| self.metadata.read()?.refs().named_commits(database, after, NAMED_PAGE);
            let page = page(after.as_ref()).map_err(&failed)?;
            if !visit(&page)? {
                return Ok(());
            }
            match page.last() {
                Some(last) if page.len() == NAMED_PAGE => after = Some(last.clone()),
                _ => return Ok(()),
            }
        }
    }
}

impl Reachability for Reachable {
    fn reaches(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        descends: &mut dyn FnMut(&[CommitHash]) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError> {
        let key = (database, commit.clone());
        let found = self.known.find(self.metadata.as_ref(), key, || self.look(database, descends))?;
        Ok(found.is_some())
    }
}

fn unavailable(error: MetadataError) -> EngineError {
    match error {
        MetadataError::Unavailable(cause) => EngineError::Unavailable(format!("look up the refs: {cause}")),
        other => EngineError::Fault { context: "look up the refs".into(), source: Box::new(other) },
    }
}

/// Splits `main~2^` into `main` and `~2^`. Names contain neither character.
fn split_expression(text: &str) -> (&str, &str) {
    match text.find(['~', '^']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    }
}

/// Follows `~n` (n first parents) and `^n` (the n-th parent), as in Git revisions.
fn walk(inner: &Inner, database: &Database, start: CommitHash, steps: &str) -> Result<Option<CommitHash>, PortError> {
    /// Maximum number of steps, because each costs a lookup. Longer expressions do not resolve.
    const MAX_STEPS: usize = 10_000;
    let mut at = start;
    let mut rest = steps;
    let mut taken = 0;
    while let Some(kind) = rest.chars().next() {
        rest = &rest[kind.len_utf8()..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = rest.split_at(digits);
        rest = tail;
        let Ok(count) = (if number.is_empty() { Ok(1) } else { number.parse::<usize>() }) else { return Ok(None) };
        let (rounds, parent) = match kind {
            '~' => (count, 1),
            '^' => (1, count),
            _ => return Ok(None),
        };
        for _ in 0..rounds {
            taken += 1;
            if taken > MAX_STEPS {
                return Ok(None);
            }
            let Some(index) = parent.checked_sub(1) else { continue };
            let Some(commit) = inner.ports.engine.commit(database.id, &at)? else { return Ok(None) };
            let Some(next) = commit.parents.into_iter().nth(index) else { return Ok(None) };
            at = next;
        }
    }
    Ok(Some(at))
}
