//! Streams: the state that lives from one request of a client to the next.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{SessionCaller, SessionEngine, SessionError, SessionRequest, SqlPower, SqlSession};
use branchyard_domain::values::{AccountId, DatabaseId};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

/// The caller, database and branch of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamOf {
    pub(crate) user: AccountId,
    pub(crate) caller: SessionCaller,
    pub(crate) power: SqlPower,
    pub(crate) database: DatabaseId,
    pub(crate) branch: Option<String>,
}

/// A stream.
pub(crate) struct Stream {
    pub(crate) id: Uuid,
    /// Sequence number of the last answer.
    pub(crate) sequence: u64,
    pub(crate) of: StreamOf,
    /// The session. Present while a request runs, and between requests as long as a new session could not replace it.
    pub(crate) session: Option<Box<dyn SqlSession>>,
    /// The write turn of the database, kept while a transaction that has written is open.
    pub(crate) turn: Option<OwnedMutexGuard<()>>,
    pub(crate) stored: BTreeMap<i32, String>,
    /// Deadline of the open transaction.
    pub(crate) transaction_until: Option<Instant>,
    /// Whether a transaction timed out and its client has not seen the error yet.
    pub(crate) overdue: bool,
}

impl Stream {
    fn new(id: Uuid, of: StreamOf) -> Self {
        Self {
            id,
            sequence: 0,
            of,
            session: None,
            turn: None,
            stored: BTreeMap::new(),
            transaction_until: None,
            overdue: false,
        }
    }

    /// Returns the session, and opens it if there is none.
    pub(crate) fn session(
        &mut self,
        engine: &dyn SessionEngine,
        foreign_keys: bool,
    ) -> Result<&mut Box<dyn SqlSession>, SessionError> {
        if self.session.is_none() {
            self.session = Some(engine.session(&SessionRequest {
                database: self.of.database,
                branch: self.of.branch.clone(),
                power: self.of.power,
                caller: self.of.caller.clone(),
                foreign_keys,
            })?);
        }
        self.session.as_mut().ok_or_else(|| SessionError::NoSuchBranch(self.of.branch.clone().unwrap_or_default()))
    }

    /// Closes the session if it is clean, and releases the write turn if no transaction is open. Returns `true` if a
    /// new stream can replace this one.
    pub(crate) fn settle(&mut self) -> bool {
        if self.session.as_ref().is_some_and(|session| session.is_clean()) {
            self.session = None;
        }
        if self.session.as_ref().is_none_or(|session| session.is_autocommit()) {
            self.turn = None;
            self.transaction_until = None;
        }
        self.session.is_none() && self.stored.is_empty() && !self.overdue
    }

    /// Rolls back a transaction that took too long.
    pub(crate) fn expire_transaction(&mut self) {
        let rolled_back = self.session.as_mut().is_none_or(|session| session.roll_back().is_ok());
        if !rolled_back {
            self.session = None;
        }
        self.turn = None;
        self.transaction_until = None;
        self.overdue = true;
    }
}

struct StreamSlot {
    sequence: u64,
    /// `None` while a request runs on the stream.
    stream: Option<Stream>,
    idle_since: Instant,
}

/// The reason why a stream is not available.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoStream {
    Gone,
    InUse,
}

/// All streams of a process.
#[derive(Default)]
pub(crate) struct Streams {
    slots: Mutex<HashMap<Uuid, StreamSlot>>,
}

impl Streams {
    /// Opens a stream and marks it as in use. Returns `None` if there are `most` streams already.
    pub(crate) fn open(&self, of: StreamOf, id: Uuid, most: usize, now: Instant) -> Option<Stream> {
        let mut slots = self.slots.lock();
        if slots.len() >= most {
            return None;
        }
        slots.insert(id, StreamSlot { sequence: 0, stream: None, idle_since: now });
        Some(Stream::new(id, of))
    }

    /// Takes a stream to run a request on it.
    pub(crate) fn take(&self, id: Uuid, sequence: u64) -> Result<Stream, NoStream> {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(&id).ok_or(NoStream::Gone)?;
        if slot.sequence != sequence {
            return Err(NoStream::InUse);
        }
        slot.stream.take().ok_or(NoStream::InUse)
    }

    /// Returns a stream after its request.
    pub(crate) fn put_back(&self, stream: Stream, now: Instant) {
        let mut slots = self.slots.lock();
        let slot = StreamSlot { sequence: stream.sequence, idle_since: now, stream: None };
        slots.insert(stream.id, StreamSlot { stream: Some(stream), ..slot });
    }

    /// Removes a stream that is in use.
    pub(crate) fn close(&self, id: Uuid) {
        self.slots.lock().remove(&id);
    }

    /// Returns the number of streams.
    pub(crate) fn count(&self) -> usize {
        self.slots.lock().len()
    }

    /// Removes and returns the streams that have been idle for too long. The caller should drop them where blocking is
    /// allowed.
    pub(crate) fn expired(&self, now: Instant, idle: Duration) -> Vec<Stream> {
        let mut slots = self.slots.lock();
        let is_over =
            |slot: &StreamSlot| slot.stream.is_some() && now.saturating_duration_since(slot.idle_since) >= idle;
        let over: Vec<Uuid> = slots.iter().filter(|(_, slot)| is_over(slot)).map(|(id, _)| *id).collect();
        over.iter().filter_map(|id| slots.remove(id)).filter_map(|slot| slot.stream).collect()
    }

    /// Rolls back the timed-out transactions of idle streams.
    pub(crate) fn expire_transactions(&self, now: Instant) {
        let mut taken = Vec::new();
        {
            let mut slots = self.slots.lock();
            for slot in slots.values_mut() {
                let is_due = |stream: &Stream| stream.transaction_until.is_some_and(|until| until <= now);
                if slot.stream.as_ref().is_some_and(is_due) {
                    taken.extend(slot.stream.take().map(|stream| (stream, slot.idle_since)));
                }
            }
        }
        for (mut stream, idle_since) in taken {
            stream.expire_transaction();
            self.put_back(stream, idle_since);
        }
    }

    /// Takes all idle streams for good.
    pub(crate) fn drain(&self) -> Vec<Stream> {
        let mut slots = self.slots.lock();
        slots.values_mut().filter_map(|slot| slot.stream.take()).collect()
    }
}
