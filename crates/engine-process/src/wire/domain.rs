//! The encoding of the types of the engine port.

use std::io;

use branchyard_domain::entities::{
    Cell, Change, Commit, Conflict, ConflictKind, ForeignKey, ImportMode, Index, LogEntry, LogPosition, ObjectChange,
    ObjectKind, ResolvedRow, RowChange, RowProblem, RowResolution, SchemaObject, Side, Signature, TableChange,
    TableColumn, TableKind, TableSchema, Trigger,
};
use branchyard_domain::ports::{
    ChangedRows, Chunk, Column, ColumnValues, EngineError, FormatError, HeldChunk, HistoryChange, HistoryPage,
    HistoryPosition, ImportColumn, ImportTarget, MergeOutcome, PreviewRefusal, Previewed, PreviewedTable,
    PushedHistory, ReadReport, RowPage, RowTest, Selected, SqlFailure, Test, WritePreview, Written,
};
use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId, Timestamp};
use branchyard_engine_doltlite::{CollectedHistory, ConflictQuery, ConflictWindow, HeadPair, MAX_LENGTH};
use uuid::Uuid;

use super::{Input, Malformed, Wire, get_bytes, put_bytes, wire_enum, wire_struct};

wire_struct! {
    Signature { name, email, at }
    Commit { hash, parents, message, author }
    LogPosition { from, after }
    LogEntry { commit, next }
    ObjectChange { kind, name, change, from, to }
    SchemaObject { kind, name, owner, create_statement }
    Trigger { name, create_statement }
    TableChange { table, change, schema_changed, rows, objects }
    RowChange { table, change, primary_key, from, to }
    Conflict { table, kind, primary_key, base, ours, theirs, detail }
    TableColumn { name, declared_type, nullable, default, in_primary_key, is_generated }
    Index { name, columns, unique }
    ForeignKey { columns, references_table, references_columns }
    TableSchema { name, kind, columns, primary_key, indexes, foreign_keys, triggers, create_statement }
    RowProblem { line, column, detail }
    Column { name, declared_type, is_primary_key, source_table }
    ReadReport { deterministic }
    RowPage { after, limit, bytes }
    RowTest { column, test, value }
    Selected { first, last, more }
    RowResolution { table, primary_key, becomes }
    ChangedRows { rows, more }
    HistoryPosition { log, after }
    HistoryChange { commit, merged_by, row, next }
    HistoryPage { changes, next, commits, last, key_changed_by }
    ColumnValues { values, more, rows, nulls, range }
    Written { outcome, rows_affected }
    WritePreview { rows_affected, tables }
    PreviewedTable { change, rows, definitions }
    ImportColumn { name, declared_type }
    CollectedHistory { heads, commits }
    HeadPair { database, ours, theirs }
    ConflictQuery { pair, table, skip, limit }
    ConflictWindow { table, start, conflicts, complete }
}

wire_enum!(Change { 0 => Added, 1 => Removed, 2 => Modified });
wire_enum!(ObjectKind { 0 => Index, 1 => Trigger, 2 => View });
wire_enum!(ConflictKind { 0 => Row, 1 => Schema, 2 => Constraint, 3 => Object });
wire_enum!(TableKind { 0 => Table, 1 => View });
wire_enum!(Side { 0 => Ours, 1 => Theirs });
wire_enum!(ResolvedRow { 0 => Of(side), 1 => With(cells) });
wire_enum!(ImportMode { 0 => Create, 1 => Overwrite, 2 => Update, 3 => Replace });
wire_enum!(PreviewRefusal { 0 => TooLong, 1 => TooLarge, 2 => AltersAfterChanges, 3 => ReadsHistory });
wire_enum!(Previewed { 0 => Changes(preview), 1 => Refused(refusal) });
wire_enum!(Test { 0 => Equals, 1 => Differs, 2 => Contains, 3 => Less, 4 => More, 5 => IsNull, 6 => IsNotNull,
    7 => AtMost, 8 => AtLeast, 9 => StartsWith, 10 => OneOf });
wire_enum!(MergeOutcome { 0 => Head(head), 1 => Conflicts(conflicts) });
wire_enum!(ImportTarget { 0 => New { primary_key, overwrite }, 1 => Update, 2 => Replace });
wire_enum!(SqlFailure {
    0 => Syntax { position, near },
    1 => SeveralStatements,
    2 => UnsupportedShow,
    3 => NoSuchTable(table),
    4 => NotARead,
    5 => NotAllowed(word),
    6 => TimedOut(millis),
    7 => Engine(message),
});

impl Wire for CommitHash {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_str().as_bytes());
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(input.take(40)?).map_err(|_| Malformed)?;
        Self::parse(text).map_err(|_| Malformed)
    }
}

impl Wire for ChunkHash {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::from_bytes(input.array()?))
    }
}

wire_enum!(HeldChunk {
    0 => Commit(parents),
    1 => Content,
});

wire_enum!(PushedHistory {
    0 => Complete { known, dates },
    1 => Lacking,
    2 => Malformed(reason),
});

impl Wire for Chunk {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(&self.bytes, out);
        self.parents.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self { bytes: get_bytes(input)?.to_vec(), parents: Option::get(input)? })
    }
}

impl Wire for DatabaseId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_uuid().as_bytes());
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::from_uuid(Uuid::from_bytes(input.array()?)))
    }
}

impl Wire for Timestamp {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_micros().put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::from_micros(i64::get(input)?))
    }
}

impl Wire for Cell {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(0),
            Self::Integer(number) => {
                out.push(1);
                number.put(out);
            }
            Self::Real(number) => {
                out.push(2);
                number.put(out);
            }
            Self::Text(bytes) => {
                out.push(3);
                put_bytes(bytes, out);
            }
            Self::Blob(bytes) => {
                out.push(4);
                put_bytes(bytes, out);
            }
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(match u8::get(input)? {
            0 => Self::Null,
            1 => Self::Integer(Wire::get(input)?),
            2 => Self::Real(get_real(input)?),
            3 => Self::Text(get_bytes(input)?.to_vec()),
            4 => Self::Blob(get_bytes(input)?.to_vec()),
            _ => return Err(Malformed),
        })
    }
}

/// The kinds of input and output errors that callers treat differently. All others become [`io::ErrorKind::Other`].
const KINDS: [io::ErrorKind; 6] = [
    io::ErrorKind::Other,
    io::ErrorKind::TimedOut,
    io::ErrorKind::NotFound,
    io::ErrorKind::StorageFull,
    io::ErrorKind::InvalidData,
    io::ErrorKind::UnexpectedEof,
];

impl Wire for io::Error {
    fn put(&self, out: &mut Vec<u8>) {
        let kind = KINDS.iter().position(|kind| *kind == self.kind()).unwrap_or(0);
        kind.put(out);
        self.to_string().put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let kind = KINDS.get(usize::get(input)?).ok_or(Malformed)?;
        Ok(Self::new(*kind, String::get(input)?))
    }
}

wire_enum!(FormatError { 0 => File(detail), 1 => Rows(rows), 2 => Io(error) });

impl Wire for EngineError {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Sql { failure, statement } => {
                out.push(0);
                failure.put(out);
                statement.put(out);
            }
            Self::Import(error) => {
                out.push(1);
                error.put(out);
            }
            Self::NoSuchCommit(commit) => {
                out.push(2);
                commit.put(out);
            }
            Self::NoSuchTable(table) => {
                out.push(3);
                table.put(out);
            }
            Self::TableExists(table) => {
                out.push(4);
                table.put(out);
            }
            Self::CannotMerge(reason) => {
                out.push(5);
                reason.put(out);
            }
            Self::TimedOut(millis) => {
                out.push(6);
                millis.put(out);
            }
            Self::Busy => out.push(7),
            Self::Damaged(detail) => {
                out.push(8);
                detail.put(out);
            }
            Self::DamagedCommit { commit, detail } => {
                out.push(9);
                commit.put(out);
                detail.put(out);
            }
            Self::Unavailable(detail) => {
                out.push(10);
                detail.put(out);
            }
            Self::Fault { context, source } => {
                out.push(11);
                context.put(out);
                source.to_string().put(out);
            }
            Self::UnknownFormat { found, newest } => {
                out.push(12);
                found.put(out);
                newest.put(out);
            }
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(match u8::get(input)? {
            0 => Self::Sql { failure: Wire::get(input)?, statement: Wire::get(input)? },
            1 => Self::Import(Wire::get(input)?),
            2 => Self::NoSuchCommit(Wire::get(input)?),
            3 => Self::NoSuchTable(Wire::get(input)?),
            4 => Self::TableExists(Wire::get(input)?),
            5 => Self::CannotMerge(Wire::get(input)?),
            6 => Self::TimedOut(Wire::get(input)?),
            7 => Self::Busy,
            8 => Self::Damaged(Wire::get(input)?),
            9 => Self::DamagedCommit { commit: Wire::get(input)?, detail: Wire::get(input)? },
            10 => Self::Unavailable(Wire::get(input)?),
            11 => Self::Fault { context: Wire::get(input)?, source: String::get(input)?.into() },
            12 => Self::UnknownFormat { found: Wire::get(input)?, newest: Wire::get(input)? },
            _ => return Err(Malformed),
        })
    }
}

/// Encodes a value of a result row. Decoded by [`get_value`].
pub(crate) fn put_value(value: &branchyard_domain::ports::ValueRef<'_>, out: &mut Vec<u8>) {
    use branchyard_domain::ports::ValueRef;
    match value {
        ValueRef::Null => out.push(0),
        ValueRef::Integer(number) => {
            out.push(1);
            number.put(out);
        }
        ValueRef::Real(number) => {
            out.push(2);
            number.put(out);
        }
        ValueRef::Text(bytes) => {
            out.push(3);
            put_bytes(bytes, out);
        }
        ValueRef::Blob(bytes) => {
            out.push(4);
            put_bytes(bytes, out);
        }
    }
}

/// The longest text or blob of a database, in bytes.
pub(crate) const MOST_VALUE: usize = MAX_LENGTH as usize;

/// Decodes a value of a result row, borrowed from the message.
pub(crate) fn get_value<'a>(input: &mut Input<'a>) -> Result<branchyard_domain::ports::ValueRef<'a>, Malformed> {
    use branchyard_domain::ports::ValueRef;
    Ok(match u8::get(input)? {
        0 => ValueRef::Null,
        1 => ValueRef::Integer(Wire::get(input)?),
        2 => ValueRef::Real(get_real(input)?),
        3 => ValueRef::Text(get_value_bytes(input)?),
        4 => ValueRef::Blob(get_value_bytes(input)?),
        _ => return Err(Malformed),
    })
}

/// Reads a real number. Databases hold NULL instead of what is not a number.
fn get_real(input: &mut Input<'_>) -> Result<f64, Malformed> {
    f64::get(input).and_then(|number| if number.is_nan() { Err(Malformed) } else { Ok(number) })
}

fn get_value_bytes<'a>(input: &mut Input<'a>) -> Result<&'a [u8], Malformed> {
    get_bytes(input).and_then(|bytes| if bytes.len() > MOST_VALUE { Err(Malformed) } else { Ok(bytes) })
}

/// The names of the columns and the keys of a SQLite file's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableShape {
    pub(crate) columns: Vec<String>,
    pub(crate) primary_key: Vec<String>,
}

wire_struct! { TableShape { columns, primary_key } }
