//! A call whose worker, a thread of the test, says anything.

use std::io::Write as _;
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::entities::{Cell, LogEntry, TableSchema};
use branchyard_domain::ports::{
    CancellationToken, ChangedRows, Column, EngineError, FormatError, Reachability, ReadReport, RowSink, RowSource,
    ValueRef, Written,
};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{
    Ancestry, CellBatch, CommitParents, ConflictWindow, MemoryLender as _, MemoryPool, WriteQueues,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use uuid::Uuid;

use super::super::sample::{Sample, Source};
use super::Attempt;
use crate::call::{self, Bounds, Ends, Failed, Outcome, Resources};
use crate::channel::pair;
use crate::launcher::Launched;
use crate::messages::{Call, FromWorker, Setup};
use crate::pool::Pool;
use crate::process::{Access, WorkerProcess};
use crate::wire::Wire;
use crate::wire::domain::put_value;
use crate::worker::tests::{columns, message, raw_message};

/// All memory of the pool, of which statements that hold much may take all but the reserve, in bytes.
const MEMORY: i64 = 1 << 40;
const RESERVE: i64 = 32 << 20;

const DATABASE: DatabaseId = DatabaseId::from_uuid(Uuid::from_u128(1));

/// What all attempts share.
pub(super) struct Server {
    pool: Arc<Pool>,
    memory: Arc<MemoryPool>,
    queues: WriteQueues,
    ancestry: Ancestry,
    reachability: Arc<dyn Reachability>,
    /// A process that ended.
    ended: OwnedFd,
}

/// Searches one history for every commit.
struct OneHead;

impl Reachability for OneHead {
    fn reaches(
        &self,
        _: DatabaseId,
        _: &CommitHash,
        descends: &mut dyn FnMut(&[CommitHash]) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError> {
        descends(&[CommitHash::parse(&"ab".repeat(20)).unwrap()])
    }
}

/// Checks what it receives.
#[derive(Default)]
struct Checked {
    width: Option<usize>,
    rows: usize,
}

impl RowSink for Checked {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        assert_eq!(self.width.replace(columns.len()), None, "columns twice");
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        assert_eq!(self.width, Some(row.len()));
        assert!(row.iter().all(|value| !matches!(value, ValueRef::Real(number) if number.is_nan())));
        self.rows += 1;
        if self.rows < 50 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

struct Rows(usize);

impl RowSource for Rows {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        self.0 += 1;
        row.push(Cell::Integer(1));
        match self.0 {
            0..300 => Ok(Some(1)),
            300 => Err(FormatError::File("expected by the test".into())),
            _ => Ok(None),
        }
    }
}

impl Server {
    pub(super) fn new() -> Self {
        let mut process = std::process::Command::new("/bin/true").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap();
        let ended = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        process.wait().unwrap();
        let setup = Setup::sample(&mut Source::new(1));
        Self {
            pool: Pool::without_launcher(setup),
            memory: Arc::new(MemoryPool::new(usize::try_from(MEMORY).ok())),
            queues: WriteQueues::default(),
            ancestry: Ancestry::default(),
            reachability: Arc::new(OneHead),
            ended,
        }
    }

    /// Runs a call whose worker sends `bytes`, and then ends.
    pub(super) fn run<T: Wire + std::fmt::Debug>(&self, call: &Call, bytes: &[u8]) -> String {
        let (socket, theirs) = pair().unwrap();
        let (control, _their_control) = pair().unwrap();
        let mut theirs = UnixStream::from(theirs);
        theirs.write_all(&message(FromWorker::Ready, &Ok::<(), String>(()).encode())).unwrap();
        let launched = Launched { socket, control, process: self.ended.try_clone().unwrap(), pid: 1 };
        let mut worker = WorkerProcess::set_up(launched, &self.pool_setup()).unwrap();
        worker.database = Some((DATABASE, Access::Read));
        let mut borrowed = self.pool.lend_played(worker, DATABASE);
        let resources = Resources {
            pool: &self.pool,
            memory: &self.memory,
            queues: &self.queues,
            ancestry: &self.ancestry,
            reachability: Some(&self.reachability),
            long: None,
            kill_after: Duration::from_millis(50),
            most_memory: 228 << 20,
            make_temporary: &|| tempfile::tempfile(),
        };
        let (mut sink, mut rows, mut script) = (Checked::default(), Rows(0), &b"SELECT 1; SELECT 2"[..]);
        let mut cells = |batch: CellBatch| batch.len() < 3;
        let mut ends = match call {
            Call::Read { .. } | Call::Rows { .. } => Ends { sink: Some(&mut sink), ..Ends::default() },
            Call::Import(_) => Ends { rows: Some(&mut rows), ..Ends::default() },
            Call::Script(_) => Ends { script: Some(&mut script), ..Ends::default() },
            Call::ReadSqlite { .. } => Ends { cells: Some(&mut cells), ..Ends::default() },
            _ => Ends::default(),
        };
        let bounds = Bounds { limit: Duration::from_secs(5), canceled: CancellationToken::default() };
        let outcome: Outcome<T> = std::thread::scope(|scope| {
            let mut reads = theirs.try_clone().unwrap();
            // Errors are those of a server that ended the call.
            scope.spawn(move || drop(std::io::copy(&mut reads, &mut std::io::sink())));
            scope.spawn(|| {
                drop(theirs.write_all(bytes));
                drop(theirs.shutdown(Shutdown::Write));
            });
            let begun = call::begin(&mut borrowed, call);
            // A read may be looked at before a thread waits for it.
            if matches!(call, Call::Read { .. }) && call::send_now(&mut borrowed) {
                call::is_at_hand(&mut borrowed);
            }
            let outcome = call::run(&mut borrowed, begun, &resources, DATABASE, &[], &bounds, &mut ends);
            assert_eq!(borrowed.worker().is_spent, outcome.result.is_err());
            drop(borrowed);
            assert_eq!(self.pool.places_after(DATABASE), 0);
            outcome
        });
        // Nothing that the worker took remains taken.
        assert!(self.memory.take(MEMORY - RESERVE, 0), "memory is lost");
        self.memory.give_back(MEMORY - RESERVE);
        drop(self.queues.enter(DATABASE));
        match outcome.result {
            Ok(_) => "an answer".into(),
            Err(Failed::Broke(what)) => format!("broke the protocol: {what}"),
            Err(Failed::Io(error)) => panic!("{error}"),
            Err(failed) => format!("{failed:?}"),
        }
    }

    fn pool_setup(&self) -> Setup {
        Setup::sample(&mut Source::new(1))
    }
}

pub(super) fn target() -> Attempt {
    let server = Server::new();
    Box::new(move |seed| {
        let mut source = Source::new(seed);
        source.longest = Duration::from_millis(1);
        source.commits = (0..4).map(|number| CommitHash::parse(&format!("{number:x}b").repeat(20)).unwrap()).collect();
        source.commits.push(CommitHash::parse(&"ab".repeat(20)).unwrap());
        let call = Call::sample(&mut source);
        type Port<T> = Result<T, EngineError>;
        match source.below(10) {
            0 | 1 => attempt::<Port<ReadReport>>(&server, &mut source, &read(call)),
            2 => attempt::<Port<Written>>(&server, &mut source, &call),
            3 => {
                attempt::<Port<CommitHash>>(&server, &mut source, &Call::Import(Sample::sample(&mut Source::new(seed))))
            }
            4 => {
                attempt::<Port<CommitHash>>(&server, &mut source, &Call::Script(Sample::sample(&mut Source::new(seed))))
            }
            5 => {
                let call = Call::ReadSqlite { table: String::new(), timeout: Duration::ZERO };
                attempt::<Result<(), FormatError>>(&server, &mut source, &call)
            }
            6 => attempt::<Port<Vec<LogEntry>>>(&server, &mut source, &call),
            7 => attempt::<Port<ChangedRows>>(&server, &mut source, &call),
            8 => attempt::<Port<Vec<TableSchema>>>(&server, &mut source, &Call::Verify { heads: Vec::new() }),
            _ => attempt::<Port<Vec<ConflictWindow>>>(&server, &mut source, &call),
        }
    })
}

fn read(call: Call) -> Call {
    match call {
        Call::Read { .. } | Call::Rows { .. } => call,
        _ => {
            Call::Read { at: CommitHash::parse(&"ab".repeat(20)).unwrap(), sql: String::new(), timeout: Duration::ZERO }
        }
    }
}

fn attempt<T: Wire + Sample + std::fmt::Debug>(server: &Server, source: &mut Source, call: &Call) -> String {
    let mut bytes = Vec::new();
    let mut width = None;
    for _ in 0..source.below(12) {
        source.refill();
        let mut one = anything(source, call, &mut width);
        if source.once_in(12) {
            source.mutate(&mut one);
        }
        bytes.extend_from_slice(&one);
    }
    source.refill();
    if !source.once_in(4) {
        let number = if source.once_in(20) { u32::sample(source) } else { 1 };
        bytes.extend_from_slice(&message(FromWorker::Done, &(number, T::sample(source)).encode()));
    }
    if source.once_in(8) {
        source.mutate(&mut bytes);
    }
    server.run::<T>(call, &bytes)
}

/// Makes a message, most often one that has a meaning.
fn anything(source: &mut Source, call: &Call, width: &mut Option<usize>) -> Vec<u8> {
    use FromWorker::*;
    let (anywhere, own): (_, &[FromWorker]) = (
        [LeaveTurn, Reaches, GoOn, Pause, TakeMemory, TakeMemory, ReturnMemory, WaitForMemory, TemporaryFile],
        match call {
            Call::Read { .. } | Call::Rows { .. } => {
                if width.is_some() {
                    &[Rows]
                } else {
                    &[Columns]
                }
            }
            Call::Import(_) => &[NextRows],
            Call::Script(_) => &[NextBytes],
            Call::ReadSqlite { .. } => &[Cells],
            Call::Verify { .. } => &[EnterTurn, LeaveTurn],
            _ => &[GoOn],
        },
    );
    let foreign = [Ready, Columns, Rows, Cells, NextRows, NextBytes, EnterTurn, Parents];
    let kind = match source.below(24) {
        0 => source.one_of(&foreign),
        1..12 => source.one_of(&anywhere),
        _ => source.one_of(own),
    };
    if source.once_in(40) {
        let content = source.bytes(60);
        return raw_message(source.step() as u8, &content);
    }
    let content = match kind {
        Columns => {
            let count = 1 + source.below(3);
            *width = Some(count);
            columns(count).encode()
        }
        Rows => {
            let mut content = Vec::new();
            for _ in 0..source.below(3) * width.unwrap_or(1) {
                let number = i64::sample(source);
                put_value(&ValueRef::Integer(number), &mut content);
            }
            content
        }
        Cells => CellBatch::sample(source).encode(),
        NextBytes => usize::sample(source).encode(),
        Reaches => CommitHash::sample(source).encode(),
        Parents => Result::<CommitParents, EngineError>::sample(source).encode(),
        TakeMemory => (1 + (source.step() % (1 << 26)) as i64, i64::sample(source)).encode(),
        ReturnMemory => ((source.step() % (1 << 26)) as i64).encode(),
        WaitForMemory => ((source.step() % (1 << 26)) as i64, Duration::sample(source)).encode(),
        _ => Vec::new(),
    };
    // Questions have no answers here, but the search of a history reads the next message as one.
    let mut bytes = message(kind, &content);
    if kind == Reaches {
        for _ in 0..source.below(3) {
            source.refill();
            bytes.extend(message(Parents, &Result::<CommitParents, EngineError>::sample(source).encode()));
        }
    }
    bytes
}

/// A call that may take the write turn takes it once.
#[test]
fn a_second_write_turn_breaks_the_protocol() {
    let server = Server::new();
    let (enter, leave) = (message(FromWorker::EnterTurn, &[]), message(FromWorker::LeaveTurn, &[]));
    let done = message(FromWorker::Done, &(1_u32, Ok::<_, EngineError>(Vec::<String>::new())).encode());
    let call = Call::Verify { heads: Vec::new() };
    let run = |parts: &[&[u8]]| server.run::<Result<Vec<String>, EngineError>>(&call, &parts.concat());
    assert_eq!(run(&[&enter, &leave, &enter, &done]), "an answer");
    assert_eq!(run(&[&enter, &done]), "an answer");
    assert!(run(&[&enter, &enter, &done]).contains("write turn"));
}

/// Also when the call fails after the worker took memory or announced a long message.
#[test]
fn a_worker_that_breaks_off_keeps_no_memory() {
    let server = Server::new();
    let take = message(FromWorker::TakeMemory, &(50_i64 << 20, 0_i64).encode());
    let call = Call::Tables { at: CommitHash::parse(&"ab".repeat(20)).unwrap() };
    let run = |bytes: &[u8]| server.run::<Result<Vec<TableSchema>, EngineError>>(&call, bytes);
    assert_eq!(run(&take), "Ended");
    // 16 MiB that do not come, and that are no value.
    assert_eq!(run(&[0, 0, 0, 1, FromWorker::Done.number(), 1]), "Ended");
    let malformed = message(FromWorker::Done, &vec![0xff; 4 << 20]);
    assert!(run(&malformed).contains("malformed"));
}
