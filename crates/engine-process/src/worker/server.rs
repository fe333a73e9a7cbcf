//! What the engine of a worker asks the server for.
//!
//! If the server is gone, the thread that reads signals ends the process. Until then a failed question counts as
//! answered in the way that ends the call soonest.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use branchyard_domain::ports::{CancellationToken, EngineError, FormatError, Reachability, RowSource};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{CommitParents, DoltliteEngine, MemoryLender, TurnGate, WatchedCall, YieldHook};

use super::link::{Link, LinkError};
use crate::messages::{FromWorker, RowBatch};
use crate::wire::{Bytes, Wire as _};

/// Memory in bytes that each statement has without asking.
const OWN: i64 = 2 << 20;
/// Memory is asked for in pieces of this many bytes.
const PIECE: i64 = 4 << 20;

/// The server's memory for statements.
#[derive(Debug)]
pub(super) struct Lender {
    link: Arc<Link>,
    /// Bytes that the server may ever lend.
    most: i64,
    /// Bytes that the statement took.
    taken: AtomicI64,
    /// Bytes that the server lent.
    lent: AtomicI64,
}

impl Lender {
    pub(super) fn new(link: Arc<Link>, most: i64) -> Self {
        Self { link, most, taken: AtomicI64::new(0), lent: AtomicI64::new(0) }
    }
}

impl MemoryLender for Lender {
    fn most_for(&self, wanted: i64) -> i64 {
        wanted.min(self.most)
    }

    fn take(&self, bytes: i64, held: i64) -> bool {
        let taken = self.taken.load(Ordering::Relaxed) + bytes;
        let lacking = taken - OWN - self.lent.load(Ordering::Relaxed);
        if lacking > 0 {
            let whole = lacking.saturating_add(PIECE - 1) / PIECE * PIECE;
            let is_lent = |piece: &i64| matches!(self.link.ask(FromWorker::TakeMemory, &(*piece, held)), Ok(true));
            let Some(piece) = [whole, lacking].into_iter().find(is_lent) else { return false };
            self.lent.fetch_add(piece, Ordering::Relaxed);
        }
        self.taken.store(taken, Ordering::Relaxed);
        true
    }

    fn give_back(&self, bytes: i64) {
        let taken = self.taken.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        let spare = self.lent.load(Ordering::Relaxed) - (taken - OWN).max(0);
        if spare > 0 && self.link.send(FromWorker::ReturnMemory, &spare).is_ok() {
            self.lent.fetch_sub(spare, Ordering::Relaxed);
        }
    }

    fn wait_for(&self, bytes: i64, wait: Duration, _: &CancellationToken) -> bool {
        matches!(self.link.ask(FromWorker::WaitForMemory, &(bytes, wait)), Ok(true))
    }
}

/// The server's queue of writes.
#[derive(Debug)]
pub(super) struct Gate(pub(super) Arc<Link>);

impl TurnGate for Gate {
    fn enter(&self) {
        if !self.0.holds_turn() {
            let entered: Result<(), LinkError> = self.0.ask(FromWorker::EnterTurn, &());
            // Writing without the turn could wait for another writer for long, but damages nothing.
            drop(entered);
        }
    }

    fn leave(&self) {
        if !self.0.holds_turn() {
            drop(self.0.send(FromWorker::LeaveTurn, &()));
        }
    }
}

/// The server's scheduler of long calls.
pub(super) struct Turns(pub(super) Arc<Link>);

impl Turns {
    fn may(&self, question: FromWorker) -> ControlFlow<()> {
        match self.0.ask(question, &()) {
            Ok(true) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}

impl YieldHook for Turns {
    fn begin(&self, _: u64, _: &CancellationToken) -> ControlFlow<()> {
        // The server asked before it sent the call.
        ControlFlow::Continue(())
    }

    fn go_on(&self, _: &CancellationToken) -> ControlFlow<()> {
        self.may(FromWorker::GoOn)
    }

    fn pause(&self) -> ControlFlow<()> {
        self.may(FromWorker::Pause)
    }

    fn call(&self) -> Option<Arc<dyn WatchedCall>> {
        None
    }
}

/// The refs of the database, which the server has.
pub(super) struct Refs {
    pub(super) link: Arc<Link>,
    pub(super) engine: Weak<DoltliteEngine>,
}

impl Reachability for Refs {
    fn reaches(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        _: &mut dyn FnMut(&[CommitHash]) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError> {
        // The server searches the histories, because it remembers them longer. It asks for those it does not know.
        let fault = |error: LinkError| EngineError::Fault { context: "look up a commit".into(), source: error.into() };
        self.link.send(FromWorker::Reaches, commit).map_err(fault)?;
        loop {
            let question = match self.link.answer_or_parents::<Result<bool, EngineError>>().map_err(fault)? {
                Ok(answer) => return answer,
                Err(question) => question,
            };
            let (from, limit) = <(CommitHash, usize)>::decode(&question).map_err(|error| fault(error.into()))?;
            let parents: Result<CommitParents, EngineError> = match self.engine.upgrade() {
                Some(engine) => engine.parents(database, &from, limit),
                None => Ok(CommitParents::new()),
            };
            self.link.send(FromWorker::Parents, &parents).map_err(fault)?;
        }
    }
}

/// The rows of an import.
pub(super) struct ImportRows<'a> {
    link: &'a Link,
    batch: std::vec::IntoIter<(u64, Vec<branchyard_domain::entities::Cell>)>,
    is_last: bool,
}

impl<'a> ImportRows<'a> {
    pub(super) fn new(link: &'a Link) -> Self {
        Self { link, batch: Vec::new().into_iter(), is_last: false }
    }
}

impl RowSource for ImportRows<'_> {
    fn next(&mut self, row: &mut Vec<branchyard_domain::entities::Cell>) -> Result<Option<u64>, FormatError> {
        loop {
            if let Some((line, cells)) = self.batch.next() {
                *row = cells;
                return Ok(Some(line));
            }
            if self.is_last {
                return Ok(None);
            }
            let lost = |error: LinkError| FormatError::Io(std::io::Error::other(error));
            let batch: Result<RowBatch, FormatError> = self.link.ask(FromWorker::NextRows, &()).map_err(lost)?;
            // The source is at its end after an error.
            self.is_last = true;
            let RowBatch { rows, is_last } = batch?;
            self.batch = rows.into_iter();
            self.is_last = is_last;
        }
    }
}

/// The text of a script.
pub(super) struct ScriptText<'a>(pub(super) &'a Link);

impl std::io::Read for ScriptText<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let piece: Result<Bytes, std::io::Error> =
            self.0.ask(FromWorker::NextBytes, &into.len()).map_err(std::io::Error::other)?;
        let Bytes(piece) = piece?;
        let fits = into.get_mut(..piece.len()).ok_or_else(|| std::io::Error::other("the piece is too long"))?;
        fits.copy_from_slice(&piece);
        Ok(piece.len())
    }
}
