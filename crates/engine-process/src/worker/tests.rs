//! A worker that was taken over: it starts and is confined like any other, and then does what a statement says.
//!
//! The test program runs itself as the launcher and as workers. In a run of the tests [`played_worker`] does nothing.

mod attempts;
mod deeds;
mod raw;

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use branchyard_domain::ports::Engine as _;
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{DoltliteEngine, ProvidedFile};

use super::link::Link;
use super::server::Refs;
use super::{calls, provided, start};
use crate::launcher;
use crate::messages::{Bind, Call, FromWorker, Import, Preview, Script, Setup, ToWorker, Write};
use crate::options::WorkerCommand;
use crate::wire::{Input, Wire as _};

pub(crate) use attempts::{ATTEMPTS, Refused, Targets};
pub(crate) use deeds::{DONE, columns, message, raw_message, row, to_hex};

/// What the first line of a statement begins with that the worker does not run, but follows.
pub(crate) const DEED: &str = "-- deed: ";
const FILE: &str = "file=";
const AT_START: &str = "start=";

/// Returns the command of played workers. `file` is a file that all of them may write, and `at_start` what each does while
/// it starts.
pub(crate) fn command(file: &std::path::Path, at_start: &str) -> WorkerCommand {
    let arguments = ["--exact", "worker::tests::played_worker", "--nocapture", "--test-threads=1"];
    let mut arguments: Vec<_> = arguments.map(Into::into).into();
    arguments.push(format!("{FILE}{}", file.display()).into());
    arguments.push(format!("{AT_START}{at_start}").into());
    WorkerCommand { program: std::env::current_exe().unwrap(), arguments }
}

#[test]
fn played_worker() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let standard = |descriptor: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(descriptor, 3).unwrap();
    let input = || standard(std::io::stdin().as_fd());
    match arguments.last().and_then(|role| role.to_str()) {
        Some(launcher::LAUNCHER) => {
            launcher::run(input(), arguments[..arguments.len() - 1].to_vec());
        }
        Some(launcher::WORKER) => {
            let argument = |name: &str| {
                let mut texts = arguments.iter().filter_map(|text| text.to_str());
                texts.find_map(|text| text.strip_prefix(name)).unwrap_or_default()
            };
            // Errors are those of a server that ended.
            drop(play(input(), standard(std::io::stdout().as_fd()), argument(FILE), argument(AT_START)));
        }
        _ => return,
    }
    std::process::exit(0);
}

/// What a played worker has.
pub(super) struct Player {
    pub(super) link: Arc<Link>,
    pub(super) engine: Arc<DoltliteEngine>,
    /// The socket of `link`.
    pub(super) socket: File,
    /// The database file.
    pub(super) database: File,
    /// Number of the call.
    pub(super) number: u32,
    /// Counts what all workers did, one byte each.
    pub(super) count: File,
}

impl Player {
    /// Returns how often this was called before, by all workers together.
    pub(super) fn next_count(&mut self) -> u64 {
        count(&mut self.count)
    }
}

fn count(file: &mut File) -> u64 {
    file.write_all(b".").unwrap();
    file.stream_position().unwrap() - 1
}

fn play(socket: OwnedFd, control: OwnedFd, file: &str, at_start: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut count_file = File::options().append(true).read(true).open(file)?;
    let raw = File::from(socket.try_clone()?);
    let link = Arc::new(Link::new(socket));
    let setup: Setup = link.expect(ToWorker::Setup)?;
    if at_start == "hang before ready" && count(&mut count_file) == 1 {
        hang();
    }
    let engine = start(&setup, &link, control)?;
    link.send(FromWorker::Ready, &Ok::<(), String>(()))?;
    let bind: Bind = link.expect(ToWorker::Bind)?;
    if at_start == "hang before bound" && count(&mut count_file) == 0 {
        hang();
    }
    let ProvidedFile { file, lock } = provided(link.take_descriptors())?;
    let database = File::from(file.try_clone()?);
    engine.provide(bind.database, ProvidedFile { file, lock })?;
    let engine = Arc::new(engine);
    if bind.limits_history {
        engine.limit_history(Arc::new(Refs { link: Arc::clone(&link), engine: Arc::downgrade(&engine) }));
    }
    link.send(FromWorker::Bound, &())?;
    let mut player = Player { link, engine, socket: raw, database, number: 0, count: count_file };
    loop {
        player.answer(bind.database)?;
    }
}

impl Player {
    fn answer(&mut self, database: DatabaseId) -> Result<(), Box<dyn std::error::Error>> {
        let (number, call) = self.link.receive(ToWorker::Call, |content| {
            let mut input = Input::new(content);
            let number = u32::get(&mut input)?;
            Ok((number, Call::get(&mut input)?))
        })?;
        self.number = number;
        self.link.begin(number);
        let is_done = match deed(&call).map(str::to_owned) {
            Some(deed) => deeds::perform(self, &deed)?,
            None => false,
        };
        if !is_done {
            calls::answer(&self.engine, &self.link, database, call)?;
        }
        self.link.end();
        Ok(())
    }

    /// Sends bytes that need not be a message.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Receives and forgets, until the other side ends.
    pub(super) fn drain(&mut self) {
        let mut bytes = [0; 4096];
        while self.socket.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }

    /// Sends a byte with a descriptor.
    pub(super) fn send_descriptor(&self) -> std::io::Result<()> {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [self.database.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let bytes = [std::io::IoSlice::new(&[1])];
        sendmsg(&self.socket, &bytes, &mut control, SendFlags::empty())?;
        Ok(())
    }

    pub(super) fn database_number(&self) -> usize {
        self.database.as_raw_fd() as usize
    }
}

/// Serves calls in this thread, without confinement. Returns a summary of the end.
pub(crate) fn serve_in_thread(engine: &DoltliteEngine, socket: OwnedFd, database: DatabaseId) -> String {
    let ended = super::answer_calls(engine, &Link::new(socket), database).unwrap_err();
    let text = ended.to_string();
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

pub(crate) fn message_to_worker(kind: ToWorker, content: &[u8]) -> Vec<u8> {
    raw_message(kind.number(), content)
}

fn deed(call: &Call) -> Option<&str> {
    let text = match call {
        Call::Read { sql, .. } => sql,
        Call::Write(Write { statements, .. }) | Call::Preview(Preview { statements, .. }) => statements,
        Call::WriteBatch { writes, .. } => &writes.last()?.statements,
        Call::Import(Import { message, .. }) | Call::Script(Script { message, .. }) => message,
        _ => return None,
    };
    text.strip_prefix(DEED)
}

/// Waits without looking at anything.
pub(super) fn hang() -> ! {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

/// A signal that comes late does not reach the next call.
#[test]
fn a_signal_reaches_its_own_call_only() {
    use crate::messages::Signal;
    let (near, _far) = crate::channel::pair().unwrap();
    let link = Link::new(near);
    let running = link.running();
    let reached = |link: &Link| (link.is_stopped(), link.canceled().is_canceled());
    for signal in [Signal::Stop, Signal::Cancel] {
        link.begin(1);
        link.end();
        running.signal(signal, 1);
        running.signal(signal, 2);
        link.begin(2);
        assert_eq!(reached(&link), (false, false), "{signal:?}");
        running.signal(signal, 1);
        running.signal(signal, 3);
        assert_eq!(reached(&link), (false, false), "{signal:?}");
        let first = link.canceled();
        running.signal(signal, 2);
        assert_eq!(reached(&link), (signal == Signal::Stop, signal == Signal::Cancel));
        link.end();
        link.begin(3);
        assert_eq!(reached(&link), (false, false), "{signal:?}");
        assert_eq!(first.is_canceled(), signal == Signal::Cancel);
    }
}
