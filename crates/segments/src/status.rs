//! What readers see of a node's file without waiting for the turn.

use crate::node::NodeLease;
use crate::record::{Epoch, Holder, Known, Position};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How far a node's file can be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// There is no file.
    Absent,
    /// There is a file, and its content was not compared with the segments since the node started or found damage.
    Unknown,
    /// The file is exactly these durable bytes. It is opened for reading only.
    Prefix(Known),
    /// The node holds the lease in this epoch. The file begins with these durable bytes; the node may write behind them.
    Leading(Known, Epoch),
    /// The file begins with these durable bytes, and what follows is not durable. The node does not write to it.
    Dirty(Known),
}

impl State {
    /// Returns the durable bytes with which the file is known to begin.
    #[must_use]
    pub fn known(&self) -> Option<Known> {
        match self {
            Self::Absent | Self::Unknown => None,
            Self::Prefix(known) | Self::Leading(known, _) | Self::Dirty(known) => Some(*known),
        }
    }
}

/// How connections to the file may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For reading only, whatever the connection is for: checks, trial merges and fetches from the file too.
    ReadOnly,
    /// For writing too, while the turn is held.
    ReadWrite,
}

/// A handle to the state of a node's file, for callers that do not hold the turn.
#[derive(Debug, Clone)]
pub struct FileStatus(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    state: State,
    /// The run of the node that acquired the lease.
    holder: Option<Holder>,
    /// Whether an extension is under way. It may have taken effect before its answer arrives.
    is_saving: bool,
    /// The number of extensions so far.
    saves: u64,
}

/// A time in which a node that leads a database saved nothing.
///
/// A node that remembers refs notes the term with them, while it holds the turn. As long as [`FileStatus::leads`] returns an equal
/// term, no unit of a lease holder has changed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The epoch of the node's lease.
    pub epoch: Epoch,
    /// The number of extensions that the node began before.
    saves: u64,
}

impl FileStatus {
    pub(crate) fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(Inner { state, holder: None, is_saving: false, saves: 0 })))
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> State {
        self.0.lock().state.clone()
    }

    /// Returns `true` if a reader at this position finds its head in the file now. Otherwise it calls
    /// [`DatabaseFile::follow`](crate::DatabaseFile::follow) first.
    ///
    /// The file may be of a later generation than the position. It then has every commit that the metadata named when that
    /// generation began; a reader that misses its commit looks its head up again.
    #[must_use]
    pub fn covers(&self, position: &Position) -> bool {
        let state = &self.0.lock().state;
        let Some(known) = state.known() else {
            return false;
        };
        // In its own epoch, the node wrote every byte that is durable, even if it does not know yet that some are.
        let is_ours = matches!(state, State::Leading(_, epoch) if *epoch == position.epoch);
        known.generation > position.generation
            || known.generation == position.generation && (is_ours || known.length >= position.durable_length)
    }

    /// Returns the present term if no lease holder can have changed the database without this node's knowledge: the node leads it,
    /// its lease holds, and no extension is under way. Refs that were noted in the same term are then the newest, and need no read
    /// of the metadata; except for those that units outside the lease may change.
    ///
    /// `now` is the time of the clock that [`NodeLease`] uses.
    #[must_use]
    pub fn leads(&self, lease: &NodeLease, now: Duration) -> Option<Term> {
        let inner = self.0.lock();
        let is_leased = inner.holder.as_ref() == Some(lease.holder()) && lease.holds(now) && !inner.is_saving;
        match inner.state {
            State::Leading(_, epoch) if is_leased => Some(Term { epoch, saves: inner.saves }),
            _ => None,
        }
    }

    pub(crate) fn set(&self, state: State) {
        let mut inner = self.0.lock();
        inner.state = state;
        inner.is_saving = false;
    }

    pub(crate) fn lead(&self, known: Known, epoch: Epoch, holder: &Holder) {
        let mut inner = self.0.lock();
        inner.state = State::Leading(known, epoch);
        inner.holder = Some(holder.clone());
        inner.is_saving = false;
    }

    /// Records that an extension is about to be sent.
    pub(crate) fn begin_saving(&self) {
        let mut inner = self.0.lock();
        inner.is_saving = true;
        inner.saves += 1;
    }

    /// Records that the extension had no effect.
    pub(crate) fn end_saving(&self) {
        self.0.lock().is_saving = false;
    }

    /// Returns the run of the node that acquired the lease last, if this node did.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        self.0.lock().holder.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Generation;

    fn known(generation: u64, length: u64) -> Known {
        Known { generation: Generation(generation), length }
    }

    fn position(generation: u64, durable_length: u64, epoch: u64) -> Position {
        Position { generation: Generation(generation), durable_length, epoch: Epoch(epoch) }
    }

    #[test]
    fn a_file_covers_positions_up_to_its_durable_bytes() {
        for state in [State::Prefix(known(1, 9)), State::Dirty(known(1, 9)), State::Leading(known(1, 9), Epoch(4))] {
            let status = FileStatus::new(state);
            assert!(status.covers(&position(1, 9, 5)));
            assert!(!status.covers(&position(1, 10, 5)), "another holder added to it");
            assert!(!status.covers(&position(2, 3, 5)));
            assert!(status.covers(&position(0, 99, 5)), "a later generation has what is named");
        }
        assert!(FileStatus::new(State::Leading(known(1, 9), Epoch(4))).covers(&position(1, 10, 4)));
        assert!(!FileStatus::new(State::Unknown).covers(&position(0, 0, 0)));
        assert!(!FileStatus::new(State::Absent).covers(&position(0, 0, 0)));
    }
}
