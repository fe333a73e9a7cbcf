//! Bringing the commits of sources into bases, in the background.
//!
//! What is due is in the store, so that it survives a crash; in memory there is what runs, and what previews wait for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::rules::{self, FetchPlace};
use super::{Pulls, heads};
use crate::entities::{Pull, PullHeads, PullState};
use crate::errors::{Fault, PullError};
use crate::ports::{FetchEnd, PullFetch};
use crate::usecases::Inner;
use crate::values::{AccountId, CommitHash, DatabaseId, Timestamp};

/// Seconds after which a fetch that did not end is begun again, by another process if need be.
const LEASE_SECONDS: i64 = 600;
/// Fetches that are looked at to choose the next one, in all and of each author.
const LOOKED_AT: usize = 200;
const LOOKED_AT_PER_AUTHOR: u32 = 8;
/// Seconds before a fetch that failed is tried again: the first time, and at most.
const RETRY_SECONDS: i64 = 1;
const RETRY_SECONDS_MAX: i64 = 300;
/// Seconds a prepared preview is kept.
const PREVIEW_SECONDS: i64 = 600;
/// Previews that may wait or be kept, in all and of one user.
const PREVIEWS: usize = 1_000;
const PREVIEWS_PER_USER: usize = 20;

/// What became of a step of [`Pulls::refresh_next`].
#[derive(Debug)]
pub enum Refreshed {
    /// The commits are in the base.
    Fetched,
    /// There was nothing to fetch any more.
    Dropped,
    /// A port failed. A pull's fetch is tried again later.
    Failed(Fault),
}

/// A preview: the database of the pull, its source, and the two heads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PreviewKey {
    pub(super) base: DatabaseId,
    pub(super) source: DatabaseId,
    pub(super) ours: CommitHash,
    pub(super) theirs: CommitHash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Ready,
}

#[derive(Debug, Clone, Copy)]
struct Preview {
    stage: Stage,
    user: AccountId,
    since: Timestamp,
}

/// Fetches that run in this process, and previews.
#[derive(Default)]
pub(crate) struct Fetches(Mutex<Known>);

#[derive(Default)]
struct Known {
    running: Vec<FetchPlace>,
    previews: HashMap<PreviewKey, Preview>,
}

impl Fetches {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a preview prepared, unless it is. Returns whether there was room.
    pub(super) fn prepare(&self, key: PreviewKey, user: AccountId, now: Timestamp) -> bool {
        let mut known = self.lock();
        let oldest = now.plus_seconds(-PREVIEW_SECONDS);
        known.previews.retain(|_, preview| preview.stage == Stage::Running || preview.since > oldest);
        if known.previews.contains_key(&key) {
            return true;
        }
        let of_user = known.previews.values().filter(|preview| preview.user == user).count();
        if known.previews.len() >= PREVIEWS || of_user >= PREVIEWS_PER_USER {
            return false;
        }
        known.previews.insert(key, Preview { stage: Stage::Waiting, user, since: now });
        true
    }

    /// Whether a preview is prepared; `None` when none was asked for in the last ten minutes.
    pub(super) fn is_ready(&self, key: &PreviewKey, now: Timestamp) -> Option<bool> {
        let oldest = now.plus_seconds(-PREVIEW_SECONDS);
        let known = self.lock();
        let preview = known.previews.get(key).filter(|preview| preview.since > oldest)?;
        Some(preview.stage == Stage::Ready)
    }

    /// The previews that wait, the oldest first.
    fn waiting(&self) -> Vec<(PreviewKey, AccountId)> {
        let known = self.lock();
        let is_waiting = |preview: &&Preview| preview.stage == Stage::Waiting;
        let mut found: Vec<_> = known.previews.iter().filter(|(_, preview)| is_waiting(preview)).collect();
        found.sort_by_key(|(_, preview)| preview.since);
        found.into_iter().map(|(key, preview)| (key.clone(), preview.user)).collect()
    }

    /// Takes the place of the fetch to run next, if one may run.
    fn take(&self, waiting: &[FetchPlace], places: usize) -> Option<(usize, Taken<'_>)> {
        let mut known = self.lock();
        let at = rules::next_fetch(&known.running, waiting, places)?;
        let place = *waiting.get(at)?;
        known.running.push(place);
        Some((at, Taken { fetches: self, place }))
    }

    /// Moves a preview on; `None` forgets it. Returns whether it was at `from`.
    fn turn(&self, key: &PreviewKey, from: Stage, to: Option<Stage>, now: Timestamp) -> bool {
        let mut known = self.lock();
        let Some(preview) = known.previews.get_mut(key).filter(|preview| preview.stage == from) else { return false };
        match to {
            Some(stage) => (preview.stage, preview.since) = (stage, now),
            None => drop(known.previews.remove(key)),
        }
        true
    }
}

/// A place, until it is dropped.
struct Taken<'a> {
    fetches: &'a Fetches,
    place: FetchPlace,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut known = self.fetches.lock();
        if let Some(at) = known.running.iter().position(|place| *place == self.place) {
            known.running.swap_remove(at);
        }
    }
}

/// Something to fetch.
enum Job {
    Pull(PullFetch),
    Preview(PreviewKey, AccountId),
}

impl Job {
    fn place(&self) -> FetchPlace {
        match self {
            Self::Pull(fetch) => FetchPlace { base: fetch.database_id, user: fetch.author },
            Self::Preview(key, user) => FetchPlace { base: key.base, user: *user },
        }
    }
}

impl Pulls<'_> {
    /// Fetches the commits of one pull or preview into its base, if any are due and one of the `places` is free. Run by so many threads at once at
    /// most, it is fair: one fetch at a time into a base, and at most half of the places for the pulls of one author.
    ///
    /// # Errors
    /// [`Fault`] when the store failed; what was being fetched is due again when its lease has ended.
    pub fn refresh_next(&self, places: usize) -> Result<Option<Refreshed>, Fault> {
        let inner = self.0;
        let now = inner.now();
        let mut jobs: Vec<Job> =
            inner.fetches.waiting().into_iter().map(|(key, user)| Job::Preview(key, user)).collect();
        let due = inner.ports.metadata.read()?.pull_fetch_due(now, LOOKED_AT_PER_AUTHOR, LOOKED_AT)?;
        jobs.extend(due.into_iter().map(Job::Pull));
        let waiting: Vec<FetchPlace> = jobs.iter().map(Job::place).collect();
        let Some((at, _place)) = inner.fetches.take(&waiting, places) else { return Ok(None) };
        match jobs.swap_remove(at) {
            Job::Preview(key, _) => Ok(Some(fetch_preview(inner, &key))),
            Job::Pull(fetch) => {
                let mut unit = inner.ports.metadata.write()?;
                let until = now.plus_seconds(LEASE_SECONDS);
                if !unit.pull_fetch_lease(fetch.database_id, fetch.number, now, until)? {
                    return Ok(Some(Refreshed::Dropped));
                }
                unit.save_and_leave()?;
                fetch_pull(inner, &fetch).map(Some)
            }
        }
    }

    /// Ends the leases that a former process left behind, and notes what moved while no process of this release watched. For the start of a server,
    /// before anything else runs. Returns how many fetches are due.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn recover(&self) -> Result<u64, Fault> {
        let mut unit = self.0.ports.metadata.write()?;
        let due = unit.pull_fetch_recover(self.0.now())?;
        unit.save()?;
        Ok(due)
    }

    /// How often something became due in this process so far. Taken before looking for work, it makes [`Pulls::wait`] miss nothing.
    pub fn signals(&self) -> u64 {
        self.0.fetch_wake.count()
    }

    /// Waits until something became due since `seen`, at most so long.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        self.0.fetch_wake.wait(seen, at_most);
    }
}

fn fetch_preview(inner: &Inner, key: &PreviewKey) -> Refreshed {
    if !inner.fetches.turn(key, Stage::Waiting, Some(Stage::Running), inner.now()) {
        return Refreshed::Dropped;
    }
    match inner.ports.engine.fetch(key.base, key.source, &key.theirs) {
        Ok(()) => {
            inner.fetches.turn(key, Stage::Running, Some(Stage::Ready), inner.now());
            prepare_conflicts(inner, key.base, &key.ours, &key.theirs);
            Refreshed::Fetched
        }
        Err(error) => {
            inner.fetches.turn(key, Stage::Running, None, inner.now());
            Refreshed::Failed(error.into())
        }
    }
}

fn fetch_pull(inner: &Inner, leased: &PullFetch) -> Result<Refreshed, Fault> {
    let (database, number) = (leased.database_id, leased.number);
    let end = |end: FetchEnd<'_>| -> Result<bool, Fault> {
        let mut unit = inner.ports.metadata.write()?;
        let shown = unit.pull_fetch_end(database, number, end)?;
        unit.save()?;
        Ok(shown)
    };
    let Some((pull, heads)) = wanted(inner, leased)? else {
        end(FetchEnd::Dropped)?;
        return Ok(Refreshed::Dropped);
    };
    if !pull.is_within()
        && let Err(error) = inner.ports.engine.fetch(database, pull.from_database_id, &heads.from)
    {
        let delay =
            RETRY_SECONDS.checked_shl(leased.tries.min(20)).map_or(RETRY_SECONDS_MAX, |s| s.min(RETRY_SECONDS_MAX));
        end(FetchEnd::Failed(inner.now().plus_seconds(delay)))?;
        return Ok(Refreshed::Failed(error.into()));
    }
    if !end(FetchEnd::Fetched(&heads.from))? {
        return Ok(Refreshed::Dropped);
    }
    if pull.state == PullState::Open {
        let target = inner.ports.metadata.read()?.branch_get(database, &pull.to_branch)?;
        if let Some(target) = target {
            prepare_conflicts(inner, database, &target.head, &heads.from);
        }
    }
    Ok(Refreshed::Fetched)
}

/// The pull as it is now and the heads it is to show; `None` when there is nothing to fetch.
fn wanted(inner: &Inner, leased: &PullFetch) -> Result<Option<(Pull, PullHeads)>, Fault> {
    let mut unit = inner.ports.metadata.read()?;
    let Some(mut pull) = unit.pull_get(leased.database_id, leased.number)? else { return Ok(None) };
    let is_gone = |id: DatabaseId, unit: &mut dyn crate::ports::Unit| -> Result<bool, Fault> {
        Ok(unit.database_get(id)?.is_none_or(|database| database.deleted_at.is_some()))
    };
    if pull.content.fetch_due_at.is_none()
        || is_gone(pull.database_id, unit.as_mut())?
        || is_gone(pull.from_database_id, unit.as_mut())?
    {
        return Ok(None);
    }
    if let Some(shown) = pull.content.heads.clone() {
        return Ok(Some((pull, shown)));
    }
    unit.leave();
    // A release that stored no heads opened it, and asked for no consent.
    let mut unit = inner.ports.metadata.write()?;
    let source = unit.database_get(pull.from_database_id)?;
    if !pull.is_within() && source.is_none_or(|source| rules::is_guarded(&source)) {
        return Ok(None);
    }
    let (to, from) = match heads(unit.as_mut(), &pull) {
        Ok(found) => found,
        Err(PullError::Fault(fault)) => return Err(fault),
        Err(_) => return Ok(None),
    };
    let shown = PullHeads { from, to };
    pull.content.heads = Some(shown.clone());
    if pull.state != PullState::Open || !unit.pull_update(&pull)? {
        return Ok(None);
    }
    unit.save()?;
    Ok(Some((pull, shown)))
}

/// A trial merge that fails here fails again for the first reader, where it can be reported.
fn prepare_conflicts(inner: &Inner, database: DatabaseId, ours: &CommitHash, theirs: &CommitHash) {
    let _ = inner.ports.engine.prepare_conflicts(database, ours, theirs);
}
