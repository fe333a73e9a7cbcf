//! Syncs of mirrors: what the source has and the database lacks becomes a part of the database, and its branches and tags become
//! those of the source.
//!
//! The chunks take the way of a push: they wait outside the file until all of them are there, and what they make up is checked
//! before a ref names it. A sync in which nothing changed reads the branches and tags of the source, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{LeasedRun, RunError, failed};
use crate::entities::{Database, EventKind, FailureKind, Mirror, OperationKind, Outcome, Role, Tag, Tagger};
use crate::errors::{MirrorError, PortError, RemoteError};
use crate::ports::{
    Durability, EngineError, HeldChunk, MetadataError, NextChunk, PushedChunks, PushedHistory, Pusher, SizeChange,
    SourceConnection, SourceError, SourceRefs, SourceTag, Transaction, WriteKeys,
};
use crate::usecases::collections::{commit_left_behind, record_file};
use crate::usecases::outbox::emit;
use crate::usecases::pushes::pusher_of;
use crate::usecases::ref_log::{FormerCommit, ref_change};
use crate::usecases::remotes::read_refs;
use crate::usecases::{mirrors, revisions};
use crate::values::{ChunkHash, CommitHash, DatabaseId, RefName, Timestamp};

/// The seconds of the years 1 to 9999.
const DATES: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// Number of ended syncs of a mirror that are kept: the server queues them by itself, every minute for as long as it runs.
const KEPT: usize = 100;
/// Number of refs that are named in a message.
const NAMED: usize = 5;

pub(super) fn run(run: &LeasedRun<'_>) -> Result<(), RunError> {
    match sync(run) {
        Err(RunError::Failed(failure)) => {
            note_failure(run, &failure.detail)?;
            Err(RunError::Failed(failure))
        }
        other => other,
    }
}

fn sync(run: &LeasedRun<'_>) -> Result<(), RunError> {
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (database, _) = run.begin(tx.as_mut(), Role::Write)?;
    let mirror = mirror_of(tx.as_mut(), &database)?;
    let present = Wanted::present(run, tx.as_mut(), &database)?;
    tx.discard();
    let unavailable = |error: MirrorError| failed(FailureKind::Unprocessable, error.to_string());
    let sources = mirrors::sources(inner).map_err(unavailable)?;
    let key = mirrors::key_of(inner, &mirror).ok_or_else(|| {
        let detail = "the key of the mirror cannot be read, because the server's key that it is sealed under is gone";
        failed(FailureKind::Unprocessable, detail)
    })?;
    let mut source = sources.connect(&mirror.url, key).map_err(of_source)?;
    let (wanted, left_out) = Wanted::of(run, source.refs().map_err(of_source)?)?;
    let tips = wanted.tips(&present);
    if !tips.is_empty() {
        let result = bring_in(run, &database, source.as_mut(), &tips);
        if let Some(store) = &inner.ports.pushed_chunks {
            store.remove(pusher_of(&run.operation));
        }
        result?;
        check(run, &database, &present, &wanted, &tips)?;
    }
    let plan = Plan::new(run, &database, &present, &wanted)?;
    save(run, &plan, left_out)
}

fn mirror_of(tx: &mut dyn Transaction, database: &Database) -> Result<Mirror, RunError> {
    let mirror = tx.mirrors().get(database.id)?;
    mirror.ok_or_else(|| failed(FailureKind::Canceled, "the database is no mirror any more"))
}

fn of_source(error: SourceError) -> RunError {
    match error {
        SourceError::Source(text) => failed(FailureKind::Unprocessable, text),
        // The operation runs again after the next start.
        SourceError::Aborted => EngineError::Unavailable("the server is stopping".to_owned()).into(),
        SourceError::Port(error) => error.into(),
    }
}

fn note_failure(run: &LeasedRun<'_>, reason: &str) -> Result<(), RunError> {
    let mut tx = run.inner.ports.metadata.write(&WriteKeys::database(run.operation.database_id))?;
    if let Some(mut mirror) = tx.mirrors().get(run.operation.database_id)? {
        mirror.fail(reason, run.inner.now());
        tx.mirrors().update(&mirror)?;
        tx.operations().trim(mirror.database_id, OperationKind::MirrorSync, KEPT)?;
        tx.commit(Durability::Synced)?;
    }
    Ok(())
}

/// The branches and tags of a database, or those that it is to have.
struct Wanted {
    default_branch: RefName,
    branches: BTreeMap<RefName, CommitHash>,
    tags: BTreeMap<RefName, Tag>,
}

impl Wanted {
    fn present(run: &LeasedRun<'_>, tx: &mut dyn Transaction, database: &Database) -> Result<Self, RunError> {
        let refs = read_refs(run.inner, tx, database).map_err(|error| match error {
            RemoteError::Port(error) => error.into(),
            other => failed(FailureKind::Unprocessable, other.to_string()),
        })?;
        Ok(Self {
            default_branch: refs.default_branch,
            branches: refs.branches.into_iter().map(|branch| (branch.name, branch.head)).collect(),
            tags: refs.tags.into_iter().map(|tag| (tag.name.clone(), tag)).collect(),
        })
    }

    /// Returns what a source has, and the names that cannot be had here.
    fn of(run: &LeasedRun<'_>, refs: SourceRefs) -> Result<(Self, Vec<String>), RunError> {
        let most = run.inner.limits.remote_refs;
        if refs.branches.len() + refs.tags.len() > most {
            let detail = format!(
                "the source has more than {most} branches and tags, the limit of this server (remotes.max_refs)"
            );
            return Err(failed(FailureKind::Unprocessable, detail));
        }
        let (mut branches, mut tags, mut left_out) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (name, head) in refs.branches {
            match RefName::parse(&name) {
                Ok(parsed) => drop(branches.insert(parsed, head)),
                Err(_) => left_out.push(name),
            }
        }
        for tag in refs.tags {
            match RefName::parse(&tag.name) {
                Ok(parsed) => drop(tags.insert(parsed.clone(), of_source_tag(parsed, tag))),
                Err(_) => left_out.push(tag.name),
            }
        }
        let default_branch = RefName::parse(&refs.default_branch).ok().filter(|name| branches.contains_key(name));
        let Some(default_branch) = default_branch.or_else(|| branches.keys().next().cloned()) else {
            return Err(failed(FailureKind::Unprocessable, "the source has no branch that can be had here"));
        };
        Ok((Self { default_branch, branches, tags }, left_out))
    }

    /// Returns the commits that are named anew.
    fn tips(&self, present: &Self) -> Vec<CommitHash> {
        let named: BTreeSet<&CommitHash> = present.heads().collect();
        let tips: BTreeSet<&CommitHash> = self.heads().filter(|head| !named.contains(head)).collect();
        tips.into_iter().cloned().collect()
    }

    fn heads(&self) -> impl Iterator<Item = &CommitHash> {
        self.branches.values().chain(self.tags.values().map(|tag| &tag.commit))
    }
}

fn of_source_tag(name: RefName, tag: SourceTag) -> Tag {
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let tagger = text(tag.tagger).map(|name| Tagger { name, email: tag.email });
    let tagged_at = Timestamp::from_seconds(tag.seconds.clamp(*DATES.start(), *DATES.end()));
    Tag { name, commit: tag.commit, message: text(tag.message), tagger, tagged_at }
}

/// Reads what the file of the database lacks, and adds it.
fn bring_in(
    run: &LeasedRun<'_>,
    database: &Database,
    source: &mut dyn SourceConnection,
    tips: &[CommitHash],
) -> Result<(), RunError> {
    let (inner, engine) = (run.inner, &run.inner.ports.engine);
    let store = inner.ports.pushed_chunks.as_deref().ok_or(PortError::Unsettled("there is no store for chunks"))?;
    let pusher = pusher_of(&run.operation);
    store.remove(pusher);
    let mut held = |hashes: &[ChunkHash]| held(run, database.id, hashes).map_err(SourceError::from);
    let mut take = |next: &mut NextChunk<'_>| add(run, store, pusher, next);
    source.fetch(tips, &mut held, &mut take).map_err(of_source)?;
    let Some(pushed) = store.open(pusher)? else { return Ok(()) };
    match engine.examine_push(database.id, &pushed, tips)? {
        PushedHistory::Lacking => return Err(RunError::Moved),
        PushedHistory::Malformed(reason) => {
            return Err(failed(FailureKind::Content, format!("the content of the source is not accepted: {reason}")));
        }
        PushedHistory::Complete { .. } => {}
    }
    match engine.take_over_push(database.id, &pushed, tips) {
        // A collection removed what was there when the chunks were read.
        Err(EngineError::NoSuchCommit(_)) => Err(RunError::Moved),
        other => Ok(other?),
    }
}

/// Returns for each chunk whether the file has it with all that is below it. A commit that the database does not show counts as
/// absent, because a collection may remove it.
fn held(run: &LeasedRun<'_>, id: DatabaseId, hashes: &[ChunkHash]) -> Result<Vec<bool>, PortError> {
    let found = run.inner.ports.engine.held_chunks(id, hashes)?;
    let (mut commits, mut parents) = (Vec::new(), Vec::new());
    for (hash, held) in hashes.iter().zip(&found) {
        if let Some(HeldChunk::Commit(of_commit)) = held {
            commits.push(hash.as_commit());
            parents.push(of_commit.clone());
        }
    }
    let mut is_shown = revisions::all_held(run.inner, id, &commits, &parents)?.into_iter();
    let is_held = |held: Option<HeldChunk>| match held {
        Some(HeldChunk::Commit(_)) => is_shown.next().unwrap_or_default(),
        Some(HeldChunk::Content) => true,
        None => false,
    };
    Ok(found.into_iter().map(is_held).collect())
}

fn add(
    run: &LeasedRun<'_>,
    store: &dyn PushedChunks,
    pusher: Pusher,
    next: &mut NextChunk<'_>,
) -> Result<(), SourceError> {
    let at_most = run.inner.limits.push_bytes;
    match store.add(pusher, next, at_most, run.inner.now()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(SourceError::Source(format!(
            "one sync can bring in at most {at_most} bytes, the limit of this server (remotes.max_push_bytes)"
        ))),
        Err(error) => Err(SourceError::Port(error.into())),
    }
}

/// Checks the content of new commits. Each is compared with one whose content is trusted, so that only what changed is checked.
fn check(
    run: &LeasedRun<'_>,
    database: &Database,
    present: &Wanted,
    wanted: &Wanted,
    tips: &[CommitHash],
) -> Result<(), RunError> {
    let timeout = Duration::from_millis(run.inner.limits.push_check_timeout_ms);
    let mut trusted = present.branches.get(&present.default_branch);
    let default = wanted.branches.get(&wanted.default_branch).filter(|head| tips.contains(head));
    for commit in default.into_iter().chain(tips.iter().filter(|tip| Some(*tip) != default)) {
        let before = wanted.branches.iter().find(|(_, head)| *head == commit);
        let before = before.and_then(|(name, _)| present.branches.get(name)).or(trusted);
        let problems = run.inner.ports.engine.check_commit(database.id, commit, before, timeout)?;
        if let Some(first) = problems.first() {
            let detail = format!("commit {commit} of the source is not accepted: {first}");
            return Err(failed(FailureKind::Content, detail));
        }
        trusted = default.or(trusted);
    }
    Ok(())
}

/// A branch that moves, is created or goes.
struct BranchChange<'a> {
    name: &'a RefName,
    was: Option<&'a CommitHash>,
    head: Option<&'a CommitHash>,
    /// The commit from which the history of a new branch counts.
    created_from: Option<CommitHash>,
    /// Whether it moves to a commit that does not descend from its head.
    is_forced: bool,
    /// When the new head was made.
    at: Timestamp,
}

/// All changes, with what is read from the engine for them.
struct Plan<'a> {
    present: &'a Wanted,
    wanted: &'a Wanted,
    branches: Vec<BranchChange<'a>>,
}

impl<'a> Plan<'a> {
    fn new(
        run: &LeasedRun<'_>,
        database: &Database,
        present: &'a Wanted,
        wanted: &'a Wanted,
    ) -> Result<Self, RunError> {
        let (id, engine) = (database.id, &run.inner.ports.engine);
        let default = wanted.branches.get(&wanted.default_branch);
        let names: BTreeSet<&RefName> = present.branches.keys().chain(wanted.branches.keys()).collect();
        let mut changes = Vec::new();
        for name in names {
            let (was, head) = (present.branches.get(name), wanted.branches.get(name));
            if was == head {
                continue;
            }
            let at = head.map(|head| run.made_at(head)).transpose()?;
            let created_from = match (was, head, default) {
                (None, Some(head), Some(default)) => engine.merge_base(id, default, head)?,
                _ => None,
            };
            let is_forced = match (was, head) {
                (Some(was), Some(head)) => !engine.is_ancestor(id, was, head)?,
                _ => false,
            };
            changes.push(BranchChange {
                name,
                was,
                head,
                created_from,
                is_forced,
                at: at.unwrap_or_else(|| run.inner.now()),
            });
        }
        Ok(Self { present, wanted, branches: changes })
    }
}

/// Makes all changes, and settles the operation.
fn save(run: &LeasedRun<'_>, plan: &Plan<'_>, left_out: Vec<String>) -> Result<(), RunError> {
    let inner = run.inner;
    let now = inner.now();
    let mut tx = inner.ports.metadata.write(&run.keys())?;
    let (mut database, _) = run.begin(tx.as_mut(), Role::Write)?;
    let mut mirror = mirror_of(tx.as_mut(), &database)?;
    let head = plan.wanted.branches.get(&plan.wanted.default_branch).cloned();
    if plan.wanted.default_branch != database.default_branch {
        database.default_branch = plan.wanted.default_branch.clone();
        update(tx.as_mut(), &mut database)?;
    }
    for change in &plan.branches {
        save_branch(run, tx.as_mut(), database.id, change, now)?;
    }
    save_tags(run, tx.as_mut(), database.id, plan, now)?;
    record_file(inner, tx.as_mut(), database.id, SizeChange::Added, now)?;
    tx.operations().trim(database.id, OperationKind::MirrorSync, KEPT)?;
    mirror.succeed(now);
    mirror.last_error = left_out_text(&left_out);
    match mirror.interval_seconds {
        0 => {
            database.is_mirror = false;
            tx.mirrors().remove(database.id)?;
            update(tx.as_mut(), &mut database)?;
        }
        _ => drop(tx.mirrors().update(&mirror)?),
    }
    run.succeed(tx, Outcome { commit: head, ..Outcome::default() }, now)
}

fn update(tx: &mut dyn Transaction, database: &mut Database) -> Result<(), RunError> {
    if !tx.databases().update(database)? {
        return Err(RunError::Moved);
    }
    database.version += 1;
    Ok(())
}

fn save_branch(
    run: &LeasedRun<'_>,
    tx: &mut dyn Transaction,
    id: DatabaseId,
    change: &BranchChange<'_>,
    now: Timestamp,
) -> Result<(), RunError> {
    let BranchChange { name, was, head, created_from, is_forced, at } = change;
    if was.is_some() && (*is_forced || head.is_none()) {
        commit_left_behind(run.inner, tx, id, now)?;
    }
    let Some(head) = head else {
        let Some(was) = was else { return Ok(()) };
        let deleted = ref_change(run.inner, run.operation.created_by, FormerCommit::LeftBehind);
        if !tx.branches().remove(id, name, was, deleted)? {
            return Err(RunError::Moved);
        }
        let by = (run.operation.created_by, &run.operation.created_by_name);
        return Ok(emit(run.inner, tx, id, by, now, EventKind::BranchDeleted { branch: (*name).clone() })?);
    };
    let former = if *is_forced { FormerCommit::LeftBehind } else { FormerCommit::Reached };
    run.move_branch(tx, name, was.map(|was| (was, former)), created_from.as_ref().unwrap_or(head), (head, *at), now)
}

fn save_tags(
    run: &LeasedRun<'_>,
    tx: &mut dyn Transaction,
    id: DatabaseId,
    plan: &Plan<'_>,
    now: Timestamp,
) -> Result<(), RunError> {
    let by = run.operation.created_by;
    for (name, was) in &plan.present.tags {
        if plan.wanted.tags.get(name) != Some(was) {
            tx.tags().remove(id, name, ref_change(run.inner, by, FormerCommit::LeftBehind))?;
            commit_left_behind(run.inner, tx, id, now)?;
        }
    }
    for (name, tag) in &plan.wanted.tags {
        if plan.present.tags.get(name) != Some(tag) {
            match tx.tags().add(id, tag, ref_change(run.inner, by, FormerCommit::Reached)) {
                Err(MetadataError::Taken) => return Err(RunError::Moved),
                other => other?,
            }
        }
    }
    Ok(())
}

/// Says which refs of the source have names that are not allowed here.
fn left_out_text(names: &[String]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let shown = |name: &String| name.chars().filter(|c| !c.is_control()).take(60).collect::<String>();
    let first: Vec<String> = names.iter().take(NAMED).map(|name| format!("'{}'", shown(name))).collect();
    let more = names.len().saturating_sub(NAMED);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("left out, because their names are not allowed here: {}{rest}", first.join(", ")))
}
