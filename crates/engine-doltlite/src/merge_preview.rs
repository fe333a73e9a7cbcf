//! Trial merges: find the conflicts of a merge without changing the database.
//!
//! The engine can only merge where it writes, so a trial merges in a private copy of the file and never waits for
//! writers. A long file is not copied while a caller waits, unless the file system shares blocks. Instead a background
//! job runs the trial with [`Trials::prepare`], and until then the answer is [`EngineError::Busy`].
//! [`Trials::needs_preparing`] returns whether this applies to a database.
//!
//! Commits never change, so answers are cached by the two commits, with as much of the list of conflicts as is cheap:
//! further pages need no merge.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use branchyard_domain::entities::Conflict;
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};
use parking_lot::{Condvar, Mutex};

use crate::commits;
use crate::conflicts::{list, size};
use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::merge;
use crate::objects::{self, Objects};
use crate::private_copy::PrivateCopy;
use crate::sql::errors;

/// Maximum number of concurrent trials that a caller waits for, over all databases.
const AT_ONCE: usize = 4;
/// Maximum number of concurrent callers that wait for the trial of another caller, and how long each waits.
const WAITING: usize = 4;
const WAIT: Duration = Duration::from_secs(2);
/// Maximum number of concurrent background trials. Each may copy a long file.
const PREPARING: usize = 2;
/// Size limits of the cache, in bytes and in answers.
const MOST_BYTES: usize = 16 << 20;
const MOST_ANSWERS: usize = 512;
/// Maximum number of queries recorded for background trials.
const MOST_WANTED: usize = 64;
/// How long a merge that took too long is not tried again.
const SLOW_FOR: Duration = Duration::from_secs(300);

/// Two commits of a database to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadPair {
    /// The database.
    pub database: DatabaseId,
    /// The side to merge into.
    pub ours: CommitHash,
    /// The side to merge from.
    pub theirs: CommitHash,
}

/// A query for a page of the list of conflicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictQuery {
    /// The commits to merge.
    pub pair: HeadPair,
    /// The table whose conflicts are listed, in lower case; `None` lists those of all tables.
    pub table: Option<String>,
    /// Number of conflicts to skip.
    pub skip: usize,
    /// Maximum number of conflicts.
    pub limit: usize,
}

impl ConflictQuery {
    fn beginning(pair: &HeadPair) -> Self {
        Self { pair: pair.clone(), table: None, skip: 0, limit: 1 }
    }
}

/// Consecutive conflicts in the list of one table or of all tables.
#[derive(Debug)]
pub struct ConflictWindow {
    /// The table; `None` for the list of all tables.
    pub table: Option<String>,
    /// Number of conflicts before the window.
    pub start: usize,
    /// The conflicts.
    pub conflicts: Vec<Conflict>,
    /// Whether no conflict follows the window.
    pub complete: bool,
}

impl ConflictWindow {
    fn answer(&self, question: &ConflictQuery) -> Option<Vec<Conflict>> {
        let ConflictQuery { table, skip, limit, .. } = question;
        if self.table == *table {
            let from = skip.checked_sub(self.start)?;
            let enough = self.complete || from.saturating_add(*limit) <= self.conflicts.len();
            return enough.then(|| self.conflicts.iter().skip(from).take(*limit).cloned().collect());
        }
        let table = table.as_ref().filter(|_| self.table.is_none() && self.start == 0 && self.complete)?;
        let of_table = self.conflicts.iter().filter(|conflict| conflict.table.eq_ignore_ascii_case(table));
        Some(of_table.skip(*skip).take(*limit).cloned().collect())
    }
}

#[derive(Debug)]
enum PreviewAnswer {
    Listed(Arc<ConflictWindow>),
    CannotMerge(String),
    /// The merge took longer than this many milliseconds. The answer is valid until the instant.
    TooSlow(u64, Instant),
}

impl PreviewAnswer {
    fn bytes(&self) -> usize {
        match self {
            Self::Listed(window) => window.conflicts.iter().map(size).sum(),
            Self::CannotMerge(reason) => reason.len(),
            Self::TooSlow(..) => 0,
        }
    }
}

/// The running trials, and the cached answers of earlier ones.
#[derive(Debug, Default)]
pub struct Trials {
    state: Mutex<PreviewsState>,
    ended: Condvar,
    /// Whether the last copied file above the size limit shared its blocks with the copy.
    shares_blocks: AtomicBool,
}

#[derive(Debug, Default)]
struct PreviewsState {
    running: Vec<HeadPair>,
    waiting: usize,
    preparing: usize,
    answers: VecDeque<(HeadPair, PreviewAnswer, usize)>,
    bytes: usize,
    /// Queries that are left to background trials.
    wanted: VecDeque<ConflictQuery>,
    /// Changes when a file is replaced.
    generation: u64,
}

/// A slot for a running trial, released when dropped.
struct PreviewSlot<'a> {
    trials: &'a Trials,
    /// `None` for a background trial.
    pair: Option<&'a HeadPair>,
    generation: u64,
}

impl Drop for PreviewSlot<'_> {
    fn drop(&mut self) {
        let mut state = self.trials.state.lock();
        match self.pair {
            Some(pair) => state.running.retain(|running| running != pair),
            None => state.preparing -= 1,
        }
        drop(state);
        self.trials.ended.notify_all();
    }
}

impl Trials {
    /// Reserves the slot of a trial that a caller waits for. Only one trial per pair of commits runs at a time, and its
    /// result also answers the callers that wait for it.
    ///
    /// Returns [`EngineError::Busy`] if the trial of the same pair is still running after the wait, or too many trials
    /// run.
    fn place<'a>(&'a self, pair: &'a HeadPair) -> Result<PreviewSlot<'a>, EngineError> {
        let mut state = self.state.lock();
        if state.running.contains(pair) && state.waiting < WAITING {
            state.waiting += 1;
            self.ended.wait_while_for(&mut state, |state| state.running.contains(pair), WAIT);
            state.waiting -= 1;
        }
        if state.running.contains(pair) || state.running.len() >= AT_ONCE {
            return Err(EngineError::Busy);
        }
        state.running.push(pair.clone());
        Ok(PreviewSlot { trials: self, pair: Some(pair), generation: state.generation })
    }

    /// Waits for a slot of a background trial.
    fn background_place(&self) -> PreviewSlot<'_> {
        let mut state = self.state.lock();
        self.ended.wait_while(&mut state, |state| state.preparing >= PREPARING);
        state.preparing += 1;
        PreviewSlot { trials: self, pair: None, generation: state.generation }
    }

    fn known(&self, question: &ConflictQuery) -> Option<Result<Vec<Conflict>, EngineError>> {
        let mut state = self.state.lock();
        let now = Instant::now();
        let found = state.answers.iter().enumerate().find_map(|(at, (pair, answer, _))| {
            if *pair != question.pair {
                return None;
            }
            let found = match answer {
                PreviewAnswer::Listed(window) => Ok(window.answer(question)?),
                PreviewAnswer::CannotMerge(reason) => Err(EngineError::CannotMerge(reason.clone())),
                PreviewAnswer::TooSlow(millis, until) if now < *until => Err(EngineError::TimedOut(*millis)),
                PreviewAnswer::TooSlow(..) => return None,
            };
            Some((at, found))
        });
        let (at, found) = found?;
        // Moves the answer to the back, so that the least recently used answer is dropped first.
        if let Some(answer) = state.answers.remove(at) {
            state.answers.push_back(answer);
        }
        Some(found)
    }

    fn remember(&self, place: &PreviewSlot<'_>, pair: &HeadPair, answer: PreviewAnswer) {
        let bytes = answer.bytes();
        let mut state = self.state.lock();
        if bytes > MOST_BYTES || state.generation != place.generation {
            return;
        }
        state.answers.push_back((pair.clone(), answer, bytes));
        state.bytes += bytes;
        while state.bytes > MOST_BYTES || state.answers.len() > MOST_ANSWERS {
            let Some((.., bytes)) = state.answers.pop_front() else { break };
            state.bytes -= bytes;
        }
    }

    /// Leaves a query to the next background trial of its commits.
    fn want(&self, question: ConflictQuery) {
        let mut state = self.state.lock();
        if !state.wanted.contains(&question) {
            state.wanted.push_back(question);
        }
        if state.wanted.len() > MOST_WANTED {
            state.wanted.pop_front();
        }
    }

    /// Takes the queries about a pair of commits that were left to background trials.
    fn take_wanted(&self, pair: &HeadPair) -> Vec<ConflictQuery> {
        let mut state = self.state.lock();
        let (taken, kept) = state.wanted.drain(..).partition(|question| question.pair == *pair);
        state.wanted = kept;
        Vec::from(taken)
    }

    /// Removes all entries of a database, because its file is replaced.
    pub fn forget(&self, database: DatabaseId) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.answers.retain(|(pair, ..)| pair.database != database);
        state.wanted.retain(|question| question.pair.database != database);
        state.bytes = state.answers.iter().map(|(.., bytes)| bytes).sum();
    }
}

/// What trial merges need of an engine.
pub trait TrialMerges {
    /// Returns the merge base of two commits.
    ///
    /// # Errors
    /// As [`Engine::merge_base`](branchyard_domain::ports::Engine::merge_base).
    fn trial_base(&self, pair: &HeadPair) -> Result<Option<CommitHash>, EngineError>;

    /// Returns `true` if the file of a database is longer than a caller can wait for its copy.
    fn is_long(&self, database: DatabaseId) -> bool;

    /// Merges in a private copy of the file, and returns a window for each query. With `wait_for_copy` unset, returns
    /// `None` if the file is long and the file system cannot share blocks.
    ///
    /// # Errors
    /// [`EngineError::CannotMerge`] and [`EngineError::TimedOut`], which are answers too.
    fn try_merge(
        &self,
        pair: &HeadPair,
        base: &CommitHash,
        queries: &[ConflictQuery],
        wait_for_copy: bool,
    ) -> Result<Option<Vec<ConflictWindow>>, EngineError>;
}

impl Trials {
    /// Answers a query about a merge from the cache, or from a trial in a private copy.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if too many trials run, or the file is too long to be copied while a caller waits.
    pub fn conflicts(&self, engine: &dyn TrialMerges, question: &ConflictQuery) -> Result<Vec<Conflict>, EngineError> {
        if let Some(known) = self.known(question) {
            return known;
        }
        let pair = &question.pair;
        let Some(base) = base(engine, pair)? else { return Ok(Vec::new()) };
        let place = self.place(pair)?;
        // The trial that this call waited for may have found the answer.
        if let Some(known) = self.known(question) {
            return known;
        }
        let found = self.attempt(engine, &place, pair, &base, std::slice::from_ref(question), false);
        if engine.is_long(pair.database)
            && let Ok(found) = &found
        {
            self.shares_blocks.store(found.is_some(), Ordering::Relaxed);
        }
        let Some(found) = found? else {
            self.want(question.clone());
            return Err(EngineError::Busy);
        };
        found.first().and_then(|window| window.answer(question)).ok_or_else(|| EngineError::Fault {
            context: "list conflicts".to_owned(),
            source: "the list does not cover the query".into(),
        })
    }

    /// Returns `true` if callers get no trial merges of this database until [`Self::prepare`] has made them: its file is
    /// too long to be copied while a caller waits, and the file system is not known to share blocks.
    pub fn needs_preparing(&self, engine: &dyn TrialMerges, database: DatabaseId) -> bool {
        engine.is_long(database) && !self.shares_blocks.load(Ordering::Relaxed)
    }

    /// Runs a trial merge regardless of the length of the file, and caches what it finds: the beginning of the list,
    /// and the answers to the queries that callers left. A merge that is impossible or takes too long is cached too.
    ///
    /// # Errors
    /// [`EngineError`] if the trial itself cannot run.
    pub fn prepare(&self, engine: &dyn TrialMerges, pair: &HeadPair) -> Result<(), EngineError> {
        let Some(base) = base(engine, pair)? else { return Ok(()) };
        let place = self.background_place();
        let mut questions = self.take_wanted(pair);
        questions.push(ConflictQuery::beginning(pair));
        questions.retain(|question| self.known(question).is_none());
        if questions.is_empty() {
            return Ok(());
        }
        match self.attempt(engine, &place, pair, &base, &questions, true) {
            Ok(Some(_)) | Err(EngineError::CannotMerge(_) | EngineError::TimedOut(_)) => Ok(()),
            Ok(None) => Err(EngineError::Unavailable("the database is too large to copy".into())),
            Err(error) => Err(error),
        }
    }

    /// Merges in a private copy. Returns and caches the windows that answer `questions`.
    fn attempt(
        &self,
        engine: &dyn TrialMerges,
        place: &PreviewSlot<'_>,
        pair: &HeadPair,
        base: &CommitHash,
        questions: &[ConflictQuery],
        wait_for_copy: bool,
    ) -> Result<Option<Vec<Arc<ConflictWindow>>>, EngineError> {
        match engine.try_merge(pair, base, questions, wait_for_copy) {
            Ok(windows) => Ok(windows.map(|windows| {
                let windows: Vec<_> = windows.into_iter().map(Arc::new).collect();
                for window in &windows {
                    self.remember(place, pair, PreviewAnswer::Listed(Arc::clone(window)));
                }
                windows
            })),
            Err(error) => {
                match &error {
                    EngineError::CannotMerge(reason) => {
                        self.remember(place, pair, PreviewAnswer::CannotMerge(reason.clone()));
                    }
                    EngineError::TimedOut(millis) => {
                        self.remember(place, pair, PreviewAnswer::TooSlow(*millis, Instant::now() + SLOW_FOR));
                    }
                    _ => {}
                }
                Err(error)
            }
        }
    }
}

/// Returns the merge base. Returns `None` if one side contains the other, which leaves nothing to merge.
fn base(engine: &dyn TrialMerges, pair: &HeadPair) -> Result<Option<CommitHash>, EngineError> {
    let base = engine.trial_base(pair)?;
    let base = base.ok_or_else(|| EngineError::CannotMerge("the two sides have no common ancestor".into()))?;
    Ok(merge::without_merging(&base, &pair.ours, &pair.theirs).is_none().then_some(base))
}

impl TrialMerges for DoltliteEngine {
    fn trial_base(&self, pair: &HeadPair) -> Result<Option<CommitHash>, EngineError> {
        commits::merge_base(self, pair.database, &pair.ours, &pair.theirs)
    }

    fn is_long(&self, database: DatabaseId) -> bool {
        let length = std::fs::metadata(self.files.path(database)).map_or(0, |file| file.len());
        length > self.options.trial_copy_bytes
    }

    fn try_merge(
        &self,
        pair: &HeadPair,
        base: &CommitHash,
        queries: &[ConflictQuery],
        wait_for_copy: bool,
    ) -> Result<Option<Vec<ConflictWindow>>, EngineError> {
        let most = if wait_for_copy { u64::MAX } else { self.options.trial_copy_bytes };
        let copy = PrivateCopy::of(self, pair.database, &[&pair.ours, &pair.theirs], most)?;
        copy.map(|copy| merge_on_copy(self, copy.connection(), pair, base, queries)).transpose()
    }
}

/// Merges in a private copy, and returns a window for each query.
pub(crate) fn merge_on_copy(
    engine: &DoltliteEngine,
    connection: &Connection,
    pair: &HeadPair,
    base: &CommitHash,
    queries: &[ConflictQuery],
) -> Result<Vec<ConflictWindow>, EngineError> {
    let timed = connection
        .limit_time(&engine.watchdog, engine.options.trial_merge_timeout)
        .map_err(|error| errors::fault("set a time limit", error))?;
    let listed = merge::attempt(connection, &pair.ours, &pair.theirs).and_then(|()| {
        let commits = [base, &pair.ours, &pair.theirs];
        let objects = objects::in_conflict(engine, pair.database, connection, commits)?;
        queries.iter().map(|query| window(connection, &objects, query)).collect()
    });
    listed.map_err(|error| timed.ended().unwrap_or_else(|| merge::too_large(timed.memory(), error)))
}

fn window(connection: &Connection, objects: &Objects, question: &ConflictQuery) -> Result<ConflictWindow, EngineError> {
    let ConflictQuery { table, skip, limit, .. } = question;
    let listed = list(connection, objects, table.as_deref(), *skip, *limit);
    let (conflicts, complete) = listed.map_err(|error| errors::fault("list conflicts", error))?;
    Ok(ConflictWindow { table: table.clone(), start: *skip, conflicts, complete })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn pair(n: u8) -> HeadPair {
        let hash = |digit: u8| CommitHash::parse(&format!("{digit:040x}")).unwrap();
        let database = DatabaseId::parse("0199c3a7-1111-7222-8333-444455556666").unwrap();
        HeadPair { database, ours: hash(n), theirs: hash(0) }
    }

    fn question(pair: &HeadPair, table: Option<&str>, skip: usize, limit: usize) -> ConflictQuery {
        ConflictQuery { pair: pair.clone(), table: table.map(str::to_owned), skip, limit }
    }

    fn conflict(table: &str, bytes: usize) -> Conflict {
        Conflict {
            table: table.to_owned(),
            kind: branchyard_domain::entities::ConflictKind::Schema,
            primary_key: Vec::new(),
            base: None,
            ours: None,
            theirs: None,
            detail: Some("x".repeat(bytes)),
        }
    }

    fn listed(table: Option<&str>, start: usize, conflicts: Vec<Conflict>, complete: bool) -> PreviewAnswer {
        PreviewAnswer::Listed(Arc::new(ConflictWindow { table: table.map(str::to_owned), start, conflicts, complete }))
    }

    #[test]
    fn a_few_trials_run_at_once_and_one_for_each_pair() {
        let trials = Trials::default();
        let pairs: Vec<HeadPair> = (1..=5).map(pair).collect();
        let mut places: Vec<PreviewSlot<'_>> =
            pairs[..AT_ONCE].iter().map(|pair| trials.place(pair).unwrap()).collect();
        assert!(matches!(trials.place(&pairs[4]), Err(EngineError::Busy)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| trials.place(&pairs[0]).map(|place| place.pair == Some(&pairs[0])));
            while trials.state.lock().waiting == 0 {
                thread::yield_now();
            }
            places.remove(0);
            // The wait may have timed out on a machine that was suspended.
            assert!(matches!(waiting.join().unwrap(), Ok(true) | Err(EngineError::Busy)));
        });
        drop(places);
        assert!(trials.place(&pairs[4]).is_ok());
        let state = trials.state.lock();
        assert_eq!((state.running.len(), state.waiting), (0, 0));
    }

    #[test]
    fn background_trials_wait_for_each_other() {
        let trials = Trials::default();
        let first: Vec<PreviewSlot<'_>> = (0..PREPARING).map(|_| trials.background_place()).collect();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(trials.background_place()));
            drop(first);
            waiting.join().unwrap();
        });
        assert_eq!(trials.state.lock().preparing, 0);
    }

    #[test]
    fn windows_answer_what_they_hold() {
        let trials = Trials::default();
        let (pair, other) = (pair(1), pair(2));
        let place = trials.background_place();
        let all: Vec<Conflict> = ["a", "a", "b"].map(|table| conflict(table, 1)).into();
        let asked = |table, skip, limit| trials.known(&question(&pair, table, skip, limit)).map(Result::unwrap);
        trials.remember(&place, &pair, listed(None, 0, all.clone(), false));
        assert_eq!(asked(None, 1, 2), Some(all[1..].to_vec()));
        assert_eq!((asked(None, 1, 3), asked(Some("a"), 0, 1)), (None, None));
        trials.remember(&place, &pair, listed(Some("a"), 1, all[1..2].to_vec(), true));
        assert_eq!(asked(Some("a"), 1, 9), Some(all[1..2].to_vec()));
        assert_eq!(asked(Some("a"), 0, 1), None);
        trials.remember(&place, &pair, listed(None, 0, all.clone(), true));
        assert_eq!((asked(Some("a"), 0, 1), asked(None, 3, 3)), (Some(all[..1].to_vec()), Some(Vec::new())));
        assert!(trials.known(&question(&other, None, 0, 1)).is_none());
        trials.remember(&place, &other, PreviewAnswer::TooSlow(7, Instant::now()));
        assert!(trials.known(&question(&other, None, 0, 1)).is_none(), "after a while it may be tried again");
        trials.remember(&place, &other, PreviewAnswer::TooSlow(7, Instant::now() + SLOW_FOR));
        let slow = trials.known(&question(&other, None, 0, 1));
        assert!(matches!(slow, Some(Err(EngineError::TimedOut(7)))));
        trials.forget(pair.database);
        trials.remember(&place, &pair, listed(None, 0, all, true));
        assert_eq!(asked(None, 0, 1), None, "what was found in the file before is not remembered");
        assert_eq!(trials.state.lock().bytes, 0);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let trials = Trials::default();
        let place = trials.background_place();
        let half = MOST_BYTES / 2 + 1;
        for n in 1..=3 {
            trials.remember(&place, &pair(n), listed(None, 0, vec![conflict("t", half)], true));
        }
        let known = |n| trials.known(&question(&pair(n), None, 0, 1)).is_some();
        assert_eq!((known(1), known(2), known(3)), (false, false, true));
        trials.remember(&place, &pair(4), listed(None, 0, vec![conflict("t", MOST_BYTES)], true));
        assert!(!known(4) && known(3));
        for skip in 0..2 * MOST_WANTED {
            trials.want(question(&pair(1), None, skip, 1));
        }
        trials.want(question(&pair(2), None, 0, 1));
        assert_eq!(trials.take_wanted(&pair(1)).len(), MOST_WANTED - 1);
        assert_eq!(trials.take_wanted(&pair(1)), []);
        assert_eq!(trials.take_wanted(&pair(2)).len(), 1);
    }
}
