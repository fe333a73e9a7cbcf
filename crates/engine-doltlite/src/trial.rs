//! Trial merges: what would stand in the way of a merge.
//!
//! The engine can only merge where it writes, so a trial needs the turn of a writer. Whoever asks waits for a page of a list, and must neither be
//! held up by an import of minutes nor take the server's places from others: few trials at once, each waiting for its turn for a short while.
//! Commits never change, so what was found is remembered by commits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use branchyard_domain::entities::{Cell, Conflict};
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::conflicts::list;
use crate::engine::DoltliteEngine;
use crate::merge;
use crate::objects;
use crate::queue::Turn;
use crate::sql::errors;

/// Trials at once, over all databases.
const AT_ONCE: usize = 4;
/// How long a trial waits for writers of its database.
const WAIT: Duration = Duration::from_secs(2);
/// What is remembered, in bytes and in answers.
const MOST_BYTES: usize = 16 << 20;
const MOST_ANSWERS: usize = 512;

/// A question: everything the answer depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) database: DatabaseId,
    pub(crate) ours: CommitHash,
    pub(crate) theirs: CommitHash,
    /// Of which table; `None` = of all.
    pub(crate) table: Option<String>,
    pub(crate) skip: usize,
    pub(crate) limit: usize,
}

/// Trials that run, and answers of those that ran.
#[derive(Debug, Default)]
pub(crate) struct Trials(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    answers: VecDeque<(Question, Arc<Vec<Conflict>>, usize)>,
    bytes: usize,
}

/// One of the trials there may be.
struct Place<'a>(&'a Trials);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

impl Trials {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> Result<Place<'_>, EngineError> {
        let mut state = self.lock();
        if state.running >= AT_ONCE {
            return Err(EngineError::Busy);
        }
        state.running += 1;
        Ok(Place(self))
    }

    fn known(&self, question: &Question) -> Option<Arc<Vec<Conflict>>> {
        let mut state = self.lock();
        let at = state.answers.iter().position(|(asked, ..)| asked == question)?;
        // What is asked for again stays longest.
        let found = state.answers.remove(at)?;
        let answer = Arc::clone(&found.1);
        state.answers.push_back(found);
        Some(answer)
    }

    fn remember(&self, question: Question, answer: &Arc<Vec<Conflict>>) {
        let bytes = answer.iter().map(size).sum();
        let mut state = self.lock();
        if bytes > MOST_BYTES || state.answers.iter().any(|(asked, ..)| *asked == question) {
            return;
        }
        state.answers.push_back((question, Arc::clone(answer), bytes));
        state.bytes += bytes;
        while state.bytes > MOST_BYTES || state.answers.len() > MOST_ANSWERS {
            let Some((.., bytes)) = state.answers.pop_front() else { break };
            state.bytes -= bytes;
        }
    }

    /// Forgets a database whose file is exchanged.
    pub(crate) fn forget(&self, database: DatabaseId) {
        let mut state = self.lock();
        state.answers.retain(|(asked, ..)| asked.database != database);
        state.bytes = state.answers.iter().map(|(.., bytes)| bytes).sum();
    }
}

/// Bytes a conflict takes up, about.
fn size(conflict: &Conflict) -> usize {
    let row = |cells: &[(String, Cell)]| -> usize {
        let cell = |(name, cell): &(String, Cell)| name.len() + 64 + cell.bytes();
        cells.iter().map(cell).sum()
    };
    let sides = [&conflict.base, &conflict.ours, &conflict.theirs].into_iter().flatten();
    sides.map(|side| row(side)).sum::<usize>()
        + row(&conflict.primary_key)
        + conflict.table.len()
        + conflict.detail.as_ref().map_or(0, String::len)
        + 256
}

pub(crate) fn conflicts(engine: &DoltliteEngine, question: Question) -> Result<Vec<Conflict>, EngineError> {
    if let Some(known) = engine.trials.known(&question) {
        return Ok(known.to_vec());
    }
    let base = merge::base(engine, question.database, &question.ours, &question.theirs)?;
    if merge::without_merging(&base, &question.ours, &question.theirs).is_some() {
        return Ok(Vec::new());
    }
    let _place = engine.trials.place()?;
    let turn = engine.queues.enter_within(question.database, WAIT).ok_or(EngineError::Busy)?;
    let found = Arc::new(merge_in_vain(engine, &turn, &base, &question)?);
    drop(turn);
    engine.trials.remember(question, &found);
    Ok(found.to_vec())
}

fn merge_in_vain(
    engine: &DoltliteEngine,
    turn: &Turn,
    base: &CommitHash,
    question: &Question,
) -> Result<Vec<Conflict>, EngineError> {
    let Question { database, ours, theirs, table, skip, limit } = question;
    engine.writing(turn, |connection| {
        let timed = connection
            .limit_time(&engine.watchdog, engine.options.trial_merge_timeout)
            .map_err(|error| errors::fault("set a time limit", error))?;
        let listed = merge::attempt(connection, ours, theirs).and_then(|()| {
            let objects = objects::in_conflict(engine, *database, connection, [base, ours, theirs])?;
            list(connection, &objects, table.as_deref(), *skip, *limit)
                .map_err(|error| errors::fault("list conflicts", error))
        });
        match listed {
            Err(error) => Err(timed.ended().unwrap_or(error)),
            listed => listed,
        }
    })
}
