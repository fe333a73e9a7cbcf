//! The messages between the server and a worker.
//!
//! A worker answers one call at a time. Until its last answer, it may ask the server for things that only the server
//! has: rows to import, the write turn, the refs of the database, memory, the permission to go on.

use std::collections::BTreeMap;
use std::time::Duration;

use branchyard_domain::entities::{Cell, ImportMode, LogPosition, RowResolution, Side, Signature};
use branchyard_domain::ports::{HistoryPosition, ImportColumn, ImportTarget, RowPage, RowTest};
use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId};
use branchyard_engine_doltlite::{ConflictQuery, HeadPair};

use crate::wire::{wire_enum, wire_struct};

/// The settings of a worker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setup {
    pub(crate) statement_memory: usize,
    /// Maximum memory of any call, in bytes: that of the pool of the server.
    pub(crate) most_memory: i64,
    pub(crate) pattern_bytes: i32,
    pub(crate) bounded_functions: bool,
    pub(crate) trial_merge_timeout: Duration,
    pub(crate) fetch_step: Duration,
    pub(crate) diff_timeout: Duration,
    pub(crate) count_timeout: Duration,
    pub(crate) verify_timeout: Duration,
    /// Computing time between two questions whether a call may go on.
    pub(crate) long_every: Option<Duration>,
    /// Whether system calls outside the list end the process, instead of failing.
    pub(crate) kills: bool,
    /// Whether the worker ends if it cannot be confined.
    pub(crate) requires_confinement: bool,
}

wire_struct! {
    Setup {
        statement_memory, most_memory, pattern_bytes, bounded_functions, trial_merge_timeout, fetch_step,
        diff_timeout, count_timeout, verify_timeout, long_every, kills, requires_confinement,
    }
}

/// The database of a worker. Its descriptors come with the message: the file and, for writing, the file of its locks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bind {
    pub(crate) database: DatabaseId,
    /// Whether users' statements see only the commits that the server shows.
    pub(crate) limits_history: bool,
}

wire_struct! { Bind { database, limits_history } }

/// A page of rows, as `branchyard_domain::ports::Selection`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Page {
    pub(crate) table: String,
    pub(crate) tests: Vec<RowTest>,
    pub(crate) order: Option<(String, bool)>,
    pub(crate) backwards: bool,
    pub(crate) after: Option<Vec<Cell>>,
    pub(crate) skip: u64,
    pub(crate) limit: u64,
    pub(crate) timeout: Duration,
}

/// A write, as `branchyard_domain::ports::WriteJob`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Write {
    pub(crate) base: CommitHash,
    pub(crate) statements: String,
    pub(crate) message: String,
    pub(crate) then_merge: Option<(CommitHash, String)>,
    pub(crate) author: Signature,
    pub(crate) timeout: Duration,
}

/// A preview of a write, as `branchyard_domain::ports::PreviewJob`. It runs in the file of the worker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preview {
    pub(crate) base: CommitHash,
    pub(crate) statements: String,
    pub(crate) timeout: Duration,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// A write of several, as `branchyard_domain::ports::BatchedWrite`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WriteOfBatch {
    pub(crate) statements: String,
    pub(crate) message: String,
    pub(crate) author: Signature,
    pub(crate) timeout: Duration,
}

/// A merge, as `branchyard_domain::ports::MergeJob`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Merge {
    pub(crate) ours: CommitHash,
    pub(crate) theirs: CommitHash,
    pub(crate) message: String,
    pub(crate) author: Signature,
    pub(crate) resolve: BTreeMap<String, Side>,
    pub(crate) rows: Vec<RowResolution>,
    pub(crate) fast_forward: bool,
    pub(crate) timeout: Duration,
}

/// An import, as `branchyard_domain::ports::ImportJob`. The worker asks for its rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Import {
    pub(crate) base: CommitHash,
    pub(crate) table: String,
    pub(crate) target: ImportTarget,
    pub(crate) columns: Vec<ImportColumn>,
    pub(crate) message: String,
    pub(crate) author: Signature,
    pub(crate) timeout: Duration,
}

/// A script, as `branchyard_domain::ports::ScriptJob`. The worker asks for its text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    pub(crate) base: CommitHash,
    pub(crate) target: Option<(String, ImportMode)>,
    pub(crate) statement_bytes: usize,
    pub(crate) message: String,
    pub(crate) author: Signature,
    pub(crate) timeout: Duration,
}

wire_struct! {
    Page { table, tests, order, backwards, after, skip, limit, timeout }
    Write { base, statements, message, then_merge, author, timeout }
    Preview { base, statements, timeout, rows, bytes }
    WriteOfBatch { statements, message, author, timeout }
    Merge { ours, theirs, message, author, resolve, rows, fast_forward, timeout }
    Import { base, table, target, columns, message, author, timeout }
    Script { base, target, statement_bytes, message, author, timeout }
}

/// A call to a worker.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// Fill an empty file.
    Create {
        author: Signature,
        message: String,
    },
    /// Check a copy, and make it independent.
    FinishCopy,
    /// Prove that the last of new heads can be read, and that each descends from the one before, the first from `base`.
    Prove {
        heads: Vec<CommitHash>,
        base: CommitHash,
    },
    Log {
        at: LogPosition,
        limit: usize,
    },
    MergeBase {
        a: CommitHash,
        b: CommitHash,
    },
    IsAncestor {
        ancestor: CommitHash,
        descendant: CommitHash,
    },
    Parents {
        from: CommitHash,
        limit: usize,
    },
    Read {
        at: CommitHash,
        sql: String,
        timeout: Duration,
    },
    Scan {
        at: CommitHash,
        table: String,
        timeout: Duration,
    },
    Rows {
        at: CommitHash,
        page: Page,
    },
    Count {
        at: CommitHash,
        table: String,
        tests: Vec<RowTest>,
        timeout: Duration,
    },
    ColumnValues {
        at: CommitHash,
        table: String,
        column: String,
        tests: Vec<RowTest>,
        rows: u64,
        limit: u64,
        timeout: Duration,
    },
    ChangedTables {
        from: CommitHash,
        to: CommitHash,
    },
    ChangedRows {
        from: CommitHash,
        to: CommitHash,
        table: String,
        page: RowPage,
    },
    RowHistory {
        at: HistoryPosition,
        table: String,
        key: Option<Vec<(String, Cell)>>,
        first_parents: bool,
        limit: usize,
        bytes: usize,
        timeout: Duration,
    },
    Tables {
        at: CommitHash,
    },
    Objects {
        at: CommitHash,
    },
    Write(Write),
    Preview(Preview),
    /// Run writes one after the other, the first on `base`.
    WriteBatch {
        base: CommitHash,
        writes: Vec<WriteOfBatch>,
        at_most: Duration,
    },
    Merge(Merge),
    Import(Import),
    Script(Script),
    Verify {
        heads: Vec<CommitHash>,
    },
    /// Merge in a private copy.
    Trial {
        pair: HeadPair,
        base: CommitHash,
        queries: Vec<ConflictQuery>,
    },
    /// Fetch a commit from a private copy, whose descriptors come with the message.
    Fetch {
        commit: CommitHash,
    },
    /// Write what `heads` reach from a private copy to a new file, whose descriptors come with the message.
    Collect {
        heads: Vec<CommitHash>,
    },
    /// Fetch `heads` into a new file from the file that it replaces, whose descriptors come with the message.
    Complete {
        heads: Vec<CommitHash>,
    },
    /// Check that a new file holds `heads`, and `commits` commits in all if that is known.
    CheckNewFile {
        heads: Vec<CommitHash>,
        commits: Option<u64>,
    },
    Chunks {
        hashes: Vec<ChunkHash>,
        at_most: usize,
    },
    HeldChunks {
        hashes: Vec<ChunkHash>,
    },
    /// Follow what commits name through pushed chunks, a file whose descriptor comes with the message.
    ExaminePush {
        tips: Vec<CommitHash>,
    },
    /// Add pushed chunks, in a file whose descriptor comes with the message.
    TakeOverPush {
        tips: Vec<CommitHash>,
    },
    /// Check the content of a commit that comes from outside.
    CheckCommit {
        commit: CommitHash,
        trusted: Option<CommitHash>,
        timeout: Duration,
    },
    /// Find a table of a SQLite file, whose descriptor comes with the message.
    InspectSqlite {
        table: String,
        timeout: Duration,
    },
    /// Write the tables of a commit to a SQLite file.
    ExportSqlite {
        at: CommitHash,
        max_bytes: u64,
        timeout: Duration,
    },
    /// List the tables of a SQLite file.
    SqliteTables {
        timeout: Duration,
    },
    /// Read that table.
    ReadSqlite {
        table: String,
        timeout: Duration,
    },
}

wire_enum!(Call {
    0 => Create { author, message },
    1 => FinishCopy,
    2 => Prove { heads, base },
    3 => Log { at, limit },
    4 => MergeBase { a, b },
    5 => IsAncestor { ancestor, descendant },
    6 => Parents { from, limit },
    7 => Read { at, sql, timeout },
    8 => Scan { at, table, timeout },
    9 => Rows { at, page },
    10 => Count { at, table, tests, timeout },
    11 => ChangedTables { from, to },
    12 => ChangedRows { from, to, table, page },
    13 => Tables { at },
    14 => Objects { at },
    15 => Write(job),
    16 => Merge(job),
    17 => Import(job),
    18 => Script(job),
    19 => Verify { heads },
    20 => Trial { pair, base, queries },
    21 => Fetch { commit },
    22 => InspectSqlite { table, timeout },
    23 => ReadSqlite { table, timeout },
    24 => Collect { heads },
    25 => Complete { heads },
    26 => CheckNewFile { heads, commits },
    27 => WriteBatch { base, writes, at_most },
    28 => Chunks { hashes, at_most },
    29 => HeldChunks { hashes },
    30 => ExaminePush { tips },
    31 => TakeOverPush { tips },
    32 => CheckCommit { commit, trusted, timeout },
    33 => RowHistory { at, table, key, first_parents, limit, bytes, timeout },
    34 => Preview(job),
    36 => SqliteTables { timeout },
    37 => ExportSqlite { at, max_bytes, timeout },
    38 => ColumnValues { at, table, column, tests, rows, limit, timeout },
});

/// The kind of a message to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToWorker {
    /// [`Setup`]; the first message.
    Setup,
    /// [`Bind`]; the second message.
    Bind,
    /// A number and a [`Call`].
    Call,
    /// The answer to a question of the worker. Its type depends on the question.
    Reply,
    /// [`Call::Parents`] in the middle of a [`FromWorker::Reaches`].
    Parents,
}

/// The kind of a message from a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FromWorker {
    /// The worker is confined and ready, or the text of an error.
    Ready,
    /// The worker has its database.
    Bound,
    /// The columns of a result.
    Columns,
    /// Rows of a result, as their values one after another.
    Rows,
    /// Rows of a SQLite file.
    Cells,
    /// The number of the call and its result.
    Done,
    /// Question: rows to import.
    NextRows,
    /// Question: the next piece of a script, of at most so many bytes.
    NextBytes,
    /// Question: the write turn.
    EnterTurn,
    /// Returns the write turn. No answer.
    LeaveTurn,
    /// Question: does the database show a commit?
    Reaches,
    /// The answer to [`ToWorker::Parents`].
    Parents,
    /// Question: may the call go on computing?
    GoOn,
    /// Question: may the call wait for memory?
    Pause,
    /// Question: more memory, and how much the statement holds.
    TakeMemory,
    /// Returns memory. No answer.
    ReturnMemory,
    /// Question: wait for memory.
    WaitForMemory,
    /// Question: a temporary file, whose descriptor comes with the answer.
    TemporaryFile,
}

impl FromWorker {
    /// Returns `true` if the worker sends more without an answer of the server.
    pub(crate) fn needs_no_answer(self) -> bool {
        match self {
            Self::Columns | Self::Rows | Self::Cells | Self::Done | Self::LeaveTurn | Self::ReturnMemory => true,
            Self::Ready
            | Self::Bound
            | Self::NextRows
            | Self::NextBytes
            | Self::EnterTurn
            | Self::Reaches
            | Self::Parents
            | Self::GoOn
            | Self::Pause
            | Self::TakeMemory
            | Self::WaitForMemory
            | Self::TemporaryFile => false,
        }
    }
}

macro_rules! kinds {
    ($type:ident: $($variant:ident),* $(,)?) => {
        impl $type {
            const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the number of the kind.
            pub(crate) fn number(self) -> u8 {
                self as u8
            }

            /// Returns the kind with a number.
            pub(crate) fn of(number: u8) -> Option<Self> {
                Self::ALL.get(usize::from(number)).copied()
            }
        }
    };
}

kinds!(ToWorker: Setup, Bind, Call, Reply, Parents);
kinds!(FromWorker:
    Ready, Bound, Columns, Rows, Cells, Done, NextRows, NextBytes, EnterTurn, LeaveTurn, Reaches, Parents, GoOn, Pause,
    TakeMemory, ReturnMemory, WaitForMemory, TemporaryFile,
);

/// Rows to import: for each row the number of its line and its cells. The last batch ends the rows.
#[derive(Debug)]
pub(crate) struct RowBatch {
    pub(crate) rows: Vec<(u64, Vec<Cell>)>,
    pub(crate) is_last: bool,
}

wire_struct! { RowBatch { rows, is_last } }

/// What the control channel of a worker says about a call: the signal, then the number of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// No more rows are needed.
    Stop,
    /// The result is not needed.
    Cancel,
}

impl Signal {
    /// Returns the message on the control channel.
    pub(crate) fn to_bytes(self, call: u32) -> [u8; 5] {
        let [a, b, c, d] = call.to_le_bytes();
        [self as u8, a, b, c, d]
    }

    /// Reads a message of the control channel.
    pub(crate) fn from_bytes([signal, a, b, c, d]: [u8; 5]) -> Option<(Self, u32)> {
        let signal = match signal {
            0 => Self::Stop,
            1 => Self::Cancel,
            _ => return None,
        };
        Some((signal, u32::from_le_bytes([a, b, c, d])))
    }
}
