//! A worker process, from the side of the server.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use branchyard_domain::values::DatabaseId;
use rustix::process::{Signal as ProcessSignal, pidfd_send_signal};

use crate::channel::{Channel, ChannelError};
use crate::launcher::Launched;
use crate::messages::{Bind, FromWorker, Setup, Signal, ToWorker};
use crate::wire::Wire;

/// How often a call that waits for its worker looks at its limits.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// What a worker may do with its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Read,
    Write,
}

/// What other threads see and change of a worker in use.
#[derive(Debug)]
pub(crate) struct Shared {
    process: OwnedFd,
    pub(crate) pid: u32,
    /// Whether the call has to end at once.
    pub(crate) is_revoked: AtomicBool,
    /// Whether the worker has the file open for writing.
    pub(crate) writes: AtomicBool,
    /// Since when the call waits for its client, in milliseconds since the engine was opened, plus one; 0 if it does not.
    pub(crate) stalled_since: AtomicU64,
}

impl Shared {
    /// Ends the process at once.
    pub(crate) fn kill(&self) {
        if let Err(error) = pidfd_send_signal(&self.process, ProcessSignal::KILL)
            && error != rustix::io::Errno::SRCH
        {
            tracing::error!(pid = self.pid, %error, "cannot end a worker process");
        }
    }
}

/// A worker process. It is killed when dropped: an idle worker has nothing to lose, and one in a call is not trusted.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    pub(crate) channel: Channel,
    control: UnixStream,
    pub(crate) shared: Arc<Shared>,
    pub(crate) database: Option<(DatabaseId, Access)>,
    /// Whether users' statements see only the commits that the server shows.
    pub(crate) limits_history: bool,
    /// Generation of the database's file when the worker took it.
    pub(crate) generation: u64,
    /// Number of calls so far, and of the last call.
    pub(crate) calls: u32,
    /// When it became idle.
    pub(crate) idle_since: Instant,
    /// Whether it must not be used again.
    pub(crate) is_spent: bool,
}

impl WorkerProcess {
    /// Sets a started worker up, and waits until it is confined.
    pub(crate) fn set_up(launched: Launched, setup: &Setup) -> io::Result<Self> {
        let Launched { socket, control, process, pid } = launched;
        let mut channel = Channel::without_descriptors(socket);
        channel.wake_every(LOOK)?;
        let control = UnixStream::from(control);
        control.set_write_timeout(Some(LOOK))?;
        let shared = Shared {
            process,
            pid,
            is_revoked: AtomicBool::new(false),
            writes: AtomicBool::new(false),
            stalled_since: AtomicU64::new(0),
        };
        let mut worker = Self {
            channel,
            control,
            shared: Arc::new(shared),
            database: None,
            limits_history: false,
            generation: 0,
            calls: 0,
            idle_since: Instant::now(),
            is_spent: false,
        };
        worker.exchange(ToWorker::Setup, setup, &[], FromWorker::Ready)?;
        Ok(worker)
    }

    /// Binds the worker to a database for the rest of its life.
    pub(crate) fn bind(
        &mut self,
        bind: &Bind,
        access: Access,
        generation: u64,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.database = Some((bind.database, access));
        self.shared.writes.store(access == Access::Write, Ordering::Relaxed);
        self.limits_history = bind.limits_history;
        self.generation = generation;
        self.exchange(ToWorker::Bind, bind, descriptors, FromWorker::Bound)
    }

    /// Sends a message and waits for its answer, before the worker has seen anything of a user.
    fn exchange<T: Wire>(
        &mut self,
        kind: ToWorker,
        value: &T,
        descriptors: &[BorrowedFd<'_>],
        answer: FromWorker,
    ) -> io::Result<()> {
        /// Starting takes some ten milliseconds, more on a busy machine.
        const PATIENCE: Duration = Duration::from_secs(10);
        /// The longest answer, the text of an error, in bytes.
        const MOST_ANSWER: usize = 64 << 10;
        let until = Instant::now() + PATIENCE;
        let mut wait = || Instant::now() < until;
        let fail = |error: ChannelError| io::Error::other(format!("a worker process did not start: {error}"));
        self.channel.queue(kind.number(), |out| value.put(out)).map_err(fail)?;
        self.channel.flush(descriptors, &mut wait).map_err(fail)?;
        let message = self.channel.receive(&mut wait, &mut |length| length <= MOST_ANSWER).map_err(fail)?;
        if FromWorker::of(message.kind) != Some(answer) {
            return Err(io::Error::other("a worker process broke the protocol while it started"));
        }
        if answer == FromWorker::Ready {
            let ready = Result::<(), String>::decode(message.content).map_err(io::Error::other)?;
            ready.map_err(|error| io::Error::other(format!("a worker process cannot be confined: {error}")))?;
        }
        Ok(())
    }

    /// Sends a signal to the running call. A worker that does not take it is killed later, when its time is over.
    pub(crate) fn signal(control: &UnixStream, signal: Signal, call: u32) {
        let mut control = control;
        if let Err(error) = control.write_all(&signal.to_bytes(call)) {
            tracing::debug!(%error, "a worker process did not take a signal");
        }
    }

    /// Splits the worker into its channel and its control channel.
    pub(crate) fn parts(&mut self) -> (&mut Channel, &UnixStream, &Arc<Shared>) {
        (&mut self.channel, &self.control, &self.shared)
    }

    /// Returns `true` if the process ended while it was idle.
    pub(crate) fn has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An idle worker sends nothing, so anything to read is its end, or breaks the protocol.
        !matches!(poll(&mut polled, Some(&at_once)), Ok(0))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.shared.is_revoked.store(true, Ordering::Relaxed);
        self.shared.kill();
    }
}
