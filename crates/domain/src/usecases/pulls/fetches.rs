//! Background work for pull requests: fetching the commits of sources into bases, and trial merges that take too long for a
//! caller to wait for.
//!
//! Due fetches are in the store, so they survive a crash. Running fetches, fetches for previews and queued trial merges are
//! in memory only. A trial merge that is lost is repeated for the next reader.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::rules::{self, FetchPlace};
use super::{Pulls, heads};
use crate::access::visibility::find_live;
use crate::entities::{Pull, PullHeads, PullState};
use crate::errors::{PortError, PullError};
use crate::ports::{
    Durability, EngineError, FetchBacklog, FetchEnd, PullFetch, PullFilter, PullStanding, SizeChange, Transaction,
    WriteKey, WriteKeys,
};
use crate::usecases::Inner;
use crate::usecases::collections::{record_file, request};
use crate::values::{AccountId, CommitHash, DatabaseId, PullNumber, RefName, Timestamp};

/// Number of due fetches from which the next one is chosen, in total and per author.
const LOOKED_AT: usize = 200;
const LOOKED_AT_PER_AUTHOR: u32 = 8;
/// Seconds before a failed fetch is retried: the first delay, and the maximum of the exponential backoff.
const RETRY_SECONDS: i64 = 1;
const RETRY_SECONDS_MAX: i64 = 300;
/// Seconds for which a prepared preview is kept.
const PREVIEW_SECONDS: i64 = 600;
/// Seconds from a fetch for a preview to the collection of what it brought.
const PREVIEW_GARBAGE_SECONDS: i64 = PREVIEW_SECONDS + 1_800;
/// Maximum number of queued and kept previews, in total and per user.
const PREVIEWS: usize = 1_000;
const PREVIEWS_PER_USER: usize = 20;
/// Maximum number of queued trial merges, in total and per base.
const TRIALS: usize = 1_000;
const TRIALS_PER_BASE: usize = 64;
/// Maximum number of branch moves whose pull requests wait to be looked up, and the number of pull requests read at a time.
const MOVES: usize = 1_000;
const PULLS_AT_A_TIME: usize = 200;

/// The outcome of a step of [`Pulls::refresh_next`].
#[derive(Debug)]
pub enum Refreshed {
    /// The commits are in the base.
    Fetched,
    /// A trial merge was made and its result is cached.
    Prepared,
    /// There was nothing left to do.
    Dropped,
    /// A port failed. The fetch for a pull request is retried later.
    Failed(PortError),
    /// A trial merge failed. It is repeated for the next reader.
    PrepareFailed(PortError),
}

/// The key of a preview: the base, the source, and the two heads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PreviewKey {
    pub(super) base: DatabaseId,
    pub(super) source: DatabaseId,
    pub(super) ours: CommitHash,
    pub(super) theirs: CommitHash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchStage {
    Waiting,
    Running,
    Ready,
}

#[derive(Debug, Clone, Copy)]
struct PreviewEntry {
    stage: FetchStage,
    user: AccountId,
    since: Timestamp,
}

/// A queued trial merge.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Trial {
    /// The heads that a pull request has when the trial runs, so that several moves need only one trial.
    Pull(DatabaseId, PullNumber),
    /// Two commits that a reader asked for.
    Commits { base: DatabaseId, ours: CommitHash, theirs: CommitHash },
}

impl Trial {
    fn base(&self) -> DatabaseId {
        match self {
            Self::Pull(base, _) | Self::Commits { base, .. } => *base,
        }
    }
}

/// The running fetches, the previews and the queued trial merges of this process.
#[derive(Default)]
pub(crate) struct Fetches(Mutex<KnownPreviews>);

#[derive(Default)]
struct KnownPreviews {
    running: Vec<FetchPlace>,
    previews: HashMap<PreviewKey, PreviewEntry>,
    /// Queued trials, each with the user it counts for: the owner of the base, or the user who asked for a preview.
    trials: VecDeque<(Trial, AccountId)>,
    /// Branches that moved, whose pull requests have to be looked up.
    moved: BTreeSet<(DatabaseId, RefName)>,
}

impl Fetches {
    /// Queues the fetch for a preview, unless it is queued or prepared. Returns `false` if there is no room.
    pub(super) fn prepare(&self, key: PreviewKey, user: AccountId, now: Timestamp) -> bool {
        let mut known = self.0.lock();
        let oldest = now.plus_seconds(-PREVIEW_SECONDS);
        known.previews.retain(|_, preview| preview.stage == FetchStage::Running || preview.since > oldest);
        if known.previews.contains_key(&key) {
            return true;
        }
        let of_user = known.previews.values().filter(|preview| preview.user == user).count();
        if known.previews.len() >= PREVIEWS || of_user >= PREVIEWS_PER_USER {
            return false;
        }
        known.previews.insert(key, PreviewEntry { stage: FetchStage::Waiting, user, since: now });
        true
    }

    /// Returns whether a preview is prepared, or `None` if it was not requested in the last ten minutes.
    pub(super) fn is_ready(&self, key: &PreviewKey, now: Timestamp) -> Option<bool> {
        let oldest = now.plus_seconds(-PREVIEW_SECONDS);
        let known = self.0.lock();
        let preview = known.previews.get(key).filter(|preview| preview.since > oldest)?;
        Some(preview.stage == FetchStage::Ready)
    }

    /// Forgets the prepared previews of a base, because a garbage collection may have removed their commits.
    pub(in crate::usecases) fn forget_previews(&self, base: DatabaseId) {
        self.0.lock().previews.retain(|key, preview| key.base != base || preview.stage != FetchStage::Ready);
    }

    /// Returns the queued previews, oldest first.
    fn waiting(&self) -> Vec<(PreviewKey, AccountId)> {
        let known = self.0.lock();
        let is_waiting = |preview: &&PreviewEntry| preview.stage == FetchStage::Waiting;
        let mut found: Vec<_> = known.previews.iter().filter(|(_, preview)| is_waiting(preview)).collect();
        found.sort_by_key(|(_, preview)| preview.since);
        found.into_iter().map(|(key, preview)| (key.clone(), preview.user)).collect()
    }

    /// Queues a trial merge, unless it is queued already. Returns `false` if there is no room.
    fn want(&self, trial: Trial, owner: AccountId) -> bool {
        let mut known = self.0.lock();
        if known.trials.iter().any(|(waiting, _)| *waiting == trial) {
            return true;
        }
        let of_base = known.trials.iter().filter(|(waiting, _)| waiting.base() == trial.base()).count();
        if known.trials.len() >= TRIALS || of_base >= TRIALS_PER_BASE {
            return false;
        }
        known.trials.push_back((trial, owner));
        true
    }

    /// Returns the queued trial merges, oldest first.
    fn trials(&self) -> Vec<(Trial, AccountId)> {
        self.0.lock().trials.iter().cloned().collect()
    }

    /// Removes a trial merge from the queue. Returns `true` if it was queued.
    fn take_trial(&self, trial: &Trial) -> bool {
        let mut known = self.0.lock();
        let at = known.trials.iter().position(|(waiting, _)| waiting == trial);
        at.and_then(|at| known.trials.remove(at)).is_some()
    }

    /// Records that a branch moved whose pull requests need trial merges.
    fn note_move(&self, database: DatabaseId, branch: RefName) {
        let mut known = self.0.lock();
        if known.moved.len() < MOVES {
            known.moved.insert((database, branch));
        }
    }

    fn take_move(&self) -> Option<(DatabaseId, RefName)> {
        self.0.lock().moved.pop_first()
    }

    /// Takes a permit for the fetch to run next, or returns `None` if none may run.
    fn take(&self, waiting: &[FetchPlace], places: usize) -> Option<(usize, FetchPermit<'_>)> {
        let mut known = self.0.lock();
        let at = rules::next_fetch(&known.running, waiting, places)?;
        let place = *waiting.get(at)?;
        known.running.push(place);
        Some((at, FetchPermit { fetches: self, place }))
    }

    /// Moves a preview from stage `from` to `to`, or removes it if `to` is `None`. Returns `true` if it was in stage `from`.
    fn turn(&self, key: &PreviewKey, from: FetchStage, to: Option<FetchStage>, now: Timestamp) -> bool {
        let mut known = self.0.lock();
        let Some(preview) = known.previews.get_mut(key).filter(|preview| preview.stage == from) else { return false };
        match to {
            Some(stage) => (preview.stage, preview.since) = (stage, now),
            None => drop(known.previews.remove(key)),
        }
        true
    }
}

/// Permission to run one fetch, released when dropped.
struct FetchPermit<'a> {
    fetches: &'a Fetches,
    place: FetchPlace,
}

impl Drop for FetchPermit<'_> {
    fn drop(&mut self) {
        let mut known = self.fetches.0.lock();
        if let Some(at) = known.running.iter().position(|place| *place == self.place) {
            known.running.swap_remove(at);
        }
    }
}

/// A unit of background work.
enum FetchJob {
    Pull(PullFetch),
    Preview(PreviewKey, AccountId),
    Trial(Trial, AccountId),
}

impl FetchJob {
    fn place(&self) -> FetchPlace {
        match self {
            Self::Pull(fetch) => FetchPlace { base: fetch.database_id, user: fetch.author },
            Self::Preview(key, user) => FetchPlace { base: key.base, user: *user },
            Self::Trial(trial, owner) => FetchPlace { base: trial.base(), user: *owner },
        }
    }
}

impl Pulls<'_> {
    /// Runs one unit of background work: fetches the commits of one pull request or preview into its base, or makes one
    /// trial merge. Returns `None` if there is no work or none of the `places` is free. The choice is fair if at most
    /// `places` threads run it at once: one fetch or trial at a time per base, and at most half of the places for the pull
    /// requests of one author or the trials in the databases of one owner. Fetches come before trials.
    ///
    /// # Errors
    /// [`PortError`] if the store failed. The fetch is due again when its lease expires.
    pub fn refresh_next(&self, places: usize) -> Result<Option<Refreshed>, PortError> {
        let inner = self.0;
        if inner.free_space.is_low() {
            return Ok(None);
        }
        let now = inner.now();
        while let Some((database, branch)) = inner.fetches.take_move() {
            want_trials_of(inner, database, &branch)?;
        }
        let mut jobs: Vec<FetchJob> =
            inner.fetches.waiting().into_iter().map(|(key, user)| FetchJob::Preview(key, user)).collect();
        let due = inner.ports.metadata.read()?.pull_fetches().due(now, LOOKED_AT_PER_AUTHOR, LOOKED_AT)?;
        jobs.extend(due.into_iter().map(FetchJob::Pull));
        jobs.extend(inner.fetches.trials().into_iter().map(|(trial, owner)| FetchJob::Trial(trial, owner)));
        let waiting: Vec<FetchPlace> = jobs.iter().map(FetchJob::place).collect();
        let Some((at, _place)) = inner.fetches.take(&waiting, places) else { return Ok(None) };
        match jobs.swap_remove(at) {
            FetchJob::Preview(key, user) => Ok(Some(fetch_preview(inner, &key, user))),
            FetchJob::Trial(trial, _) => make_trial(inner, &trial).map(Some),
            FetchJob::Pull(fetch) => {
                let mut tx = inner.ports.metadata.write(&WriteKeys::database(fetch.database_id))?;
                let until = now.plus_seconds(inner.limits.pull_fetch_lease_seconds);
                if !tx.pull_fetches().lease(fetch.database_id, fetch.number, now, until)? {
                    return Ok(Some(Refreshed::Dropped));
                }
                tx.commit(Durability::Relaxed)?;
                fetch_pull(inner, &fetch).map(Some)
            }
        }
    }

    /// Ends the leases that a former process left behind, and records the branch moves of the time in which no process of
    /// this release ran. To be called when a server starts, before anything else runs. Returns the number of due fetches.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn recover(&self) -> Result<u64, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let due = tx.pull_fetches().recover(self.0.now())?;
        tx.commit(Durability::Synced)?;
        Ok(due)
    }

    /// Returns the backlog of fetches for pull requests in all processes, and the number of queued trial merges in this
    /// process.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn backlog(&self) -> Result<(FetchBacklog, usize), PortError> {
        let fetches = self.0.ports.metadata.read()?.pull_fetches().backlog(self.0.now())?;
        Ok((fetches, self.0.fetches.0.lock().trials.len()))
    }

    /// Returns how often work became due in this process. Pass a count that was read before looking for work to
    /// [`Pulls::wait`], so that no signal is missed.
    pub fn signals(&self) -> u64 {
        self.0.fetch_wake.count()
    }

    /// Waits until work has become due since `seen`, for at most `at_most`.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        self.0.fetch_wake.wait(seen, at_most);
    }

    /// Wakes the callers of [`Pulls::wait`], because the server shuts down.
    pub fn wake(&self) {
        self.0.fetch_wake.all();
    }
}

fn fetch_preview(inner: &Inner, key: &PreviewKey, user: AccountId) -> Refreshed {
    if !inner.fetches.turn(key, FetchStage::Waiting, Some(FetchStage::Running), inner.now()) {
        return Refreshed::Dropped;
    }
    match inner.ports.engine.fetch(key.base, key.source, &key.theirs) {
        Ok(()) => {
            inner.fetches.turn(key, FetchStage::Running, Some(FetchStage::Ready), inner.now());
            want_trial(inner, key.base, user, &key.ours, &key.theirs);
            match record_preview(inner, key.base) {
                Ok(()) => Refreshed::Fetched,
                Err(error) => Refreshed::Failed(error),
            }
        }
        Err(error) => {
            inner.fetches.turn(key, FetchStage::Running, None, inner.now());
            Refreshed::Failed(error.into())
        }
    }
}

/// Records what a preview brought. No ref reaches it, so it is garbage once the preview has ended.
fn record_preview(inner: &Inner, base: DatabaseId) -> Result<(), PortError> {
    let mut tx = inner.ports.metadata.write(&WriteKeys::database(base))?;
    if record_fetch(inner, tx.as_mut(), base, SizeChange::Wasted)? {
        request(tx.as_mut(), base, inner.now().plus_seconds(PREVIEW_GARBAGE_SECONDS), false)?;
    }
    Ok(tx.commit(Durability::Unsynced)?)
}

/// Records the size of the file of a base. Returns `true` if it changed.
fn record_fetch(
    inner: &Inner,
    tx: &mut dyn Transaction,
    base: DatabaseId,
    change: SizeChange,
) -> Result<bool, PortError> {
    match record_file(inner, tx, base, change, inner.now()) {
        // The size is measured again after the next operation.
        Err(PortError::Engine(_)) => Ok(false),
        other => other,
    }
}

fn fetch_pull(inner: &Inner, leased: &PullFetch) -> Result<Refreshed, PortError> {
    let (database, number) = (leased.database_id, leased.number);
    let end = |end: FetchEnd<'_>| -> Result<bool, PortError> {
        let mut tx = inner.ports.metadata.write(&WriteKeys::database(database))?;
        let shown = tx.pull_fetches().settle(database, number, end)?;
        record_fetch(inner, tx.as_mut(), database, if shown { SizeChange::Added } else { SizeChange::Wasted })?;
        let pull = tx.pulls().get(database, number)?;
        let is_hidden = pull.is_some_and(|pull| pull.content.hidden.is_some());
        if is_hidden {
            // The commits arrived after a collection that was to remove them, perhaps.
            request(tx.as_mut(), database, inner.now(), true)?;
        }
        tx.commit(Durability::Synced)?;
        if is_hidden {
            inner.collection_wake.one();
        }
        Ok(shown)
    };
    let Some((pull, heads)) = wanted(inner, leased)? else {
        end(FetchEnd::Dropped)?;
        return Ok(Refreshed::Dropped);
    };
    if !pull.is_within()
        && let Err(error) =
            while_leased(inner, leased, || inner.ports.engine.fetch(database, pull.from_database_id, &heads.from))
    {
        let delay =
            RETRY_SECONDS.checked_shl(leased.tries.min(20)).map_or(RETRY_SECONDS_MAX, |s| s.min(RETRY_SECONDS_MAX));
        end(FetchEnd::Failed(inner.now().plus_seconds(delay)))?;
        return Ok(Refreshed::Failed(error.into()));
    }
    if !end(FetchEnd::Fetched(&heads.from))? {
        return Ok(Refreshed::Dropped);
    }
    want_trial_of(inner, &pull)?;
    Ok(Refreshed::Fetched)
}

/// Returns the present state of a pull request and the heads it is to show, or `None` if there is nothing to fetch.
fn wanted(inner: &Inner, leased: &PullFetch) -> Result<Option<(Pull, PullHeads)>, PortError> {
    let mut tx = inner.ports.metadata.read()?;
    let Some(mut pull) = tx.pulls().get(leased.database_id, leased.number)? else { return Ok(None) };
    let is_gone = |id: DatabaseId, tx: &mut dyn crate::ports::Transaction| -> Result<bool, PortError> {
        Ok(tx.databases().get(id)?.is_none_or(|database| database.deleted_at.is_some()))
    };
    if pull.content.fetch_due_at.is_none()
        || is_gone(pull.database_id, tx.as_mut())?
        || is_gone(pull.from_database_id, tx.as_mut())?
    {
        return Ok(None);
    }
    if let Some(shown) = pull.content.heads.clone() {
        return Ok(Some((pull, shown)));
    }
    tx.discard();
    // The pull request was opened by a release that stored no heads and asked for no consent.
    let keys = WriteKeys::database(leased.database_id).and(WriteKey::Database(pull.from_database_id));
    let mut tx = inner.ports.metadata.write(&keys)?;
    let source = tx.databases().get(pull.from_database_id)?;
    if !pull.is_within() && source.is_none_or(|source| rules::is_guarded(&source)) {
        return Ok(None);
    }
    let (to, from) = match heads(tx.as_mut(), &pull) {
        Ok(found) => found,
        Err(PullError::Port(fault)) => return Err(fault),
        Err(_) => return Ok(None),
    };
    let shown = PullHeads { from, to };
    pull.content.heads = Some(shown.clone());
    if pull.state != PullState::Open || !tx.pulls().update(&pull)? {
        return Ok(None);
    }
    tx.commit(Durability::Synced)?;
    Ok(Some((pull, shown)))
}

/// Runs `work` and extends the lease of the fetch meanwhile. After a crash the lease thus expires soon.
///
/// A lease that expires nevertheless, for example because the clock jumped, does no harm: another process fetches the same
/// commits, which are stored once, and both processes settle the fetch for what the pull request shows.
fn while_leased(
    inner: &Inner,
    leased: &PullFetch,
    work: impl FnOnce() -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let seconds = inner.limits.pull_fetch_lease_seconds;
    let period = Duration::from_millis(u64::try_from(seconds).unwrap_or(1) * 1_000 / 3);
    let prolong = || -> Result<bool, PortError> {
        let mut tx = inner.ports.metadata.write(&WriteKeys::database(leased.database_id))?;
        let until = inner.now().plus_seconds(seconds);
        let is_held = tx.pull_fetches().extend_lease(leased.database_id, leased.number, until)?;
        tx.commit(Durability::Unsynced)?;
        Ok(is_held)
    };
    let (done, beat) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let keeping = thread::Builder::new().name("pull-lease".to_owned()).spawn_scoped(scope, move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = beat.recv_timeout(period) {
                // The next heartbeat makes up for a failed one.
                let _ = prolong();
            }
        });
        keeping.map_err(|error| EngineError::Unavailable(format!("no thread to keep the lease by: {error}")))?;
        let ended = work();
        drop(done);
        ended
    })
}

/// Queues a trial merge of the heads of an open pull request, if the engine needs it to answer readers.
pub(super) fn want_trial_of(inner: &Inner, pull: &Pull) -> Result<(), PortError> {
    if pull.state != PullState::Open || !inner.ports.engine.needs_preparing(pull.database_id) {
        return Ok(());
    }
    let base = inner.ports.metadata.read()?.databases().get(pull.database_id)?;
    if let Some(base) = base
        && inner.fetches.want(Trial::Pull(base.id, pull.number), base.owner_id)
    {
        inner.fetch_wake.one();
    }
    Ok(())
}

/// Queues a trial merge of two commits on behalf of a user, if the engine needs it to answer readers.
pub(super) fn want_trial(inner: &Inner, base: DatabaseId, user: AccountId, ours: &CommitHash, theirs: &CommitHash) {
    let trial = Trial::Commits { base, ours: ours.clone(), theirs: theirs.clone() };
    if inner.ports.engine.needs_preparing(base) && inner.fetches.want(trial, user) {
        inner.fetch_wake.one();
    }
}

/// Records a branch move, so that trial merges are queued for the open pull requests to and from the branch, if the engine
/// needs them to answer readers. Looks up no pull request: the caller may be about to acknowledge a write.
pub(crate) fn branch_moved(inner: &Inner, database: DatabaseId, branch: &RefName) {
    if inner.ports.engine.needs_preparing(database) {
        inner.fetches.note_move(database, branch.clone());
        inner.fetch_wake.one();
    }
}

fn want_trials_of(inner: &Inner, database: DatabaseId, branch: &RefName) -> Result<(), PortError> {
    let mut tx = inner.ports.metadata.read()?;
    let Some(base) = find_live(tx.as_mut(), database)? else { return Ok(()) };
    let filter = PullFilter { standing: Some(PullStanding::Open), contains: None };
    let mut before = None;
    loop {
        let page = tx.pulls().list(database, &filter, before, PULLS_AT_A_TIME)?;
        let Some(last) = page.last() else { return Ok(()) };
        before = Some(last.number);
        let concerned = |pull: &&Pull| pull.to_branch == *branch || (pull.is_within() && pull.from_branch == *branch);
        for pull in page.iter().filter(concerned) {
            // The newest pull requests matter most. The others wait for a reader.
            if !inner.fetches.want(Trial::Pull(database, pull.number), base.owner_id) {
                return Ok(());
            }
        }
    }
}

fn make_trial(inner: &Inner, trial: &Trial) -> Result<Refreshed, PortError> {
    if !inner.fetches.take_trial(trial) {
        return Ok(Refreshed::Dropped);
    }
    let commits = match trial {
        Trial::Pull(base, number) => present_heads(inner, *base, *number)?,
        Trial::Commits { ours, theirs, .. } => Some((ours.clone(), theirs.clone())),
    };
    let Some((ours, theirs)) = commits else { return Ok(Refreshed::Dropped) };
    Ok(match inner.ports.engine.prepare_conflicts(trial.base(), &ours, &theirs) {
        Ok(()) => Refreshed::Prepared,
        // Memory is short at present, or the commits are gone. The next reader gets the error and requests the trial again.
        Err(EngineError::Busy | EngineError::NoSuchCommit(_)) => Refreshed::Dropped,
        Err(error) => Refreshed::PrepareFailed(error.into()),
    })
}

/// Returns the heads of the target and of an open pull request, or `None` if they cannot be merged now.
fn present_heads(
    inner: &Inner,
    database: DatabaseId,
    number: PullNumber,
) -> Result<Option<(CommitHash, CommitHash)>, PortError> {
    let mut tx = inner.ports.metadata.read()?;
    let Some(pull) = tx.pulls().get(database, number)? else { return Ok(None) };
    let is_ready = pull.state == PullState::Open && pull.content.fetch_due_at.is_none();
    let Some(heads) = pull.content.heads.filter(|_| is_ready) else { return Ok(None) };
    Ok(tx.branches().get(database, &pull.to_branch)?.map(|target| (target.head, heads.from)))
}
