//! The connection to the server, as the parts of the engine use it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use branchyard_domain::ports::CancellationToken;
use parking_lot::Mutex;

use crate::channel::{Channel, ChannelError};
use crate::messages::{FromWorker, Signal, ToWorker};
use crate::wire::{Malformed, Wire};

/// Rows are sent once they have this many bytes, or this long after the first of them.
const BATCH_BYTES: usize = 32 << 10;
const BATCH_WAIT: Duration = Duration::from_millis(10);

/// Why a message could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the server sent a message out of order")]
    OutOfOrder,
}

/// The call that runs, as the thread that reads signals sees it.
#[derive(Debug, Default)]
pub(super) struct RunningCall {
    number: AtomicU32,
    stopped: AtomicBool,
    canceled: Mutex<CancellationToken>,
}

impl RunningCall {
    /// Passes a signal to the call with a number, if that call still runs.
    pub(super) fn signal(&self, signal: Signal, call: u32) {
        // Held until the end, so that the signal does not reach the next call.
        let canceled = self.canceled.lock();
        if self.number.load(Ordering::Acquire) == call {
            match signal {
                Signal::Stop => self.stopped.store(true, Ordering::Relaxed),
                // The receiver needs the rows that follow, so the call has to fail instead of ending early.
                Signal::Cancel => canceled.cancel(),
            }
        }
    }
}

/// Rows that are not sent yet.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    since: Option<Instant>,
}

/// The connection to the server. Only the thread that runs calls uses it.
#[derive(Debug)]
pub(super) struct Link {
    channel: Mutex<Channel>,
    batch: Mutex<Batch>,
    running: Arc<RunningCall>,
    /// Whether the server holds the write turn for the call.
    holds_turn: AtomicBool,
}

/// Waits for the server for as long as it takes. The thread that reads signals ends the process with the server.
fn patiently() -> bool {
    true
}

fn with_room(_: usize) -> bool {
    true
}

impl Link {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            channel: Mutex::new(Channel::new(socket)),
            batch: Mutex::default(),
            running: Arc::default(),
            holds_turn: AtomicBool::new(false),
        }
    }

    pub(super) fn running(&self) -> Arc<RunningCall> {
        Arc::clone(&self.running)
    }

    /// Begins a call.
    pub(super) fn begin(&self, number: u32) {
        let mut canceled = self.running.canceled.lock();
        *canceled = CancellationToken::default();
        self.running.stopped.store(false, Ordering::Relaxed);
        self.running.number.store(number, Ordering::Release);
    }

    /// Ends the call: later signals for it have no effect.
    pub(super) fn end(&self) {
        let _canceled = self.running.canceled.lock();
        self.running.number.store(0, Ordering::Release);
    }

    /// Returns the token that cancels the call.
    pub(super) fn canceled(&self) -> CancellationToken {
        self.running.canceled.lock().clone()
    }

    /// Returns `true` if no more rows are needed.
    pub(super) fn is_stopped(&self) -> bool {
        self.running.stopped.load(Ordering::Relaxed)
    }

    /// Sets whether the server holds the write turn for the call.
    pub(super) fn hold_turn(&self, holds: bool) {
        self.holds_turn.store(holds, Ordering::Relaxed);
    }

    pub(super) fn holds_turn(&self) -> bool {
        self.holds_turn.load(Ordering::Relaxed)
    }

    pub(super) fn take_descriptors(&self) -> Vec<OwnedFd> {
        self.channel.lock().take_descriptors()
    }

    /// Queues a message, after the rows before it. It is sent with the next that cannot wait.
    pub(super) fn queue<T: Wire>(&self, kind: FromWorker, value: &T) -> Result<(), LinkError> {
        self.queue_rows()?;
        Ok(self.channel.lock().queue(kind.number(), |out| value.put(out))?)
    }

    /// Sends a message.
    pub(super) fn send<T: Wire>(&self, kind: FromWorker, value: &T) -> Result<(), LinkError> {
        self.queue(kind, value)?;
        Ok(self.channel.lock().flush(&[], &mut patiently)?)
    }

    /// Sends the result of the call.
    pub(super) fn finish<T: Wire>(&self, result: &T) -> Result<(), LinkError> {
        self.queue_rows()?;
        let number = self.running.number.load(Ordering::Relaxed);
        let mut channel = self.channel.lock();
        channel.queue(FromWorker::Done.number(), |out| {
            number.put(out);
            result.put(out);
        })?;
        Ok(channel.flush(&[], &mut patiently)?)
    }

    /// Receives a message of a kind.
    pub(super) fn receive<T>(
        &self,
        kind: ToWorker,
        read: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, LinkError> {
        let mut channel = self.channel.lock();
        let message = channel.receive(&mut patiently, &mut with_room)?;
        if ToWorker::of(message.kind) != Some(kind) {
            return Err(LinkError::OutOfOrder);
        }
        Ok(read(message.content)?)
    }

    /// Receives a value.
    pub(super) fn expect<T: Wire>(&self, kind: ToWorker) -> Result<T, LinkError> {
        self.receive(kind, T::decode)
    }

    /// Asks the server a question.
    pub(super) fn ask<Q: Wire, A: Wire>(&self, kind: FromWorker, question: &Q) -> Result<A, LinkError> {
        self.send(kind, question)?;
        self.expect(ToWorker::Reply)
    }

    /// Receives the answer to a question, or another question in between: `Err` holds its content.
    pub(super) fn answer_or_parents<A: Wire>(&self) -> Result<Result<A, Vec<u8>>, LinkError> {
        let mut channel = self.channel.lock();
        let message = channel.receive(&mut patiently, &mut with_room)?;
        match ToWorker::of(message.kind) {
            Some(ToWorker::Reply) => Ok(Ok(A::decode(message.content)?)),
            Some(ToWorker::Parents) => Ok(Err(message.content.to_vec())),
            _ => Err(LinkError::OutOfOrder),
        }
    }

    /// Appends a row to the batch, and sends the batch if it is large or old enough.
    pub(super) fn row(&self, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), LinkError> {
        let mut batch = self.batch.lock();
        put(&mut batch.bytes);
        let since = *batch.since.get_or_insert_with(Instant::now);
        let is_due = batch.bytes.len() >= BATCH_BYTES || since.elapsed() >= BATCH_WAIT;
        drop(batch);
        if is_due {
            self.queue_rows()?;
            self.channel.lock().flush(&[], &mut patiently)?;
        }
        Ok(())
    }

    /// Queues the rows of the batch as one message.
    fn queue_rows(&self) -> Result<(), LinkError> {
        let mut batch = self.batch.lock();
        if batch.since.take().is_none() {
            return Ok(());
        }
        self.channel.lock().queue(FromWorker::Rows.number(), |out| out.extend_from_slice(&batch.bytes))?;
        batch.bytes.clear();
        if batch.bytes.capacity() > 2 * BATCH_BYTES {
            batch.bytes = Vec::new();
        }
        Ok(())
    }

    /// Asks the server for a temporary file.
    pub(super) fn temporary_file(&self) -> io::Result<OwnedFd> {
        let made: Result<bool, LinkError> = self.ask(FromWorker::TemporaryFile, &());
        match made.map_err(io::Error::other)? {
            true => self.take_descriptors().pop().ok_or_else(|| io::Error::other("the descriptor is missing")),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}
