//! The encoding: what is sent arrives, and arbitrary bytes do no harm.

use std::fmt::Debug;
use std::time::Duration;

use branchyard_domain::entities::{
    Cell, Change, Commit, Conflict, ConflictKind, ForeignKey, ImportMode, Index, LogEntry, LogPosition, ObjectChange,
    ObjectKind, ResolvedRow, RowChange, RowProblem, RowResolution, SchemaObject, Side, Signature, TableChange,
    TableColumn, TableKind, TableSchema, Trigger,
};
use branchyard_domain::ports::{
    ChangedRows, Chunk, Column, ColumnValues, EngineError, FormatError, HeldChunk, HistoryChange, HistoryPage,
    HistoryPosition, ImportColumn, ImportTarget, MergeOutcome, Previewed, PushedHistory, ReadReport, RowPage, RowTest,
    Selected, SqlFailure, Test, ValueRef, Written,
};
use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId, Timestamp};
use branchyard_engine_doltlite::{CellBatch, CommitParents, ConflictQuery, ConflictWindow, HeadPair};
use proptest::prelude::*;

use super::sample::{Sample, Source};
use crate::messages::{
    Bind, Call, FromWorker, Import, Merge, Page, Preview, RowBatch, Script, Setup, Signal, ToWorker, Write,
};
use crate::wire::domain::{TableShape, get_value, put_value};
use crate::wire::{Bytes, Input, Malformed, Wire};

/// Calls a function for every type that is sent.
macro_rules! for_every_type {
    ($check:ident($($argument:expr),*)) => {
        for_every_type!(@ $check ($($argument),*):
            Setup, Bind, Page, Write, Preview, Merge, Import, Script, Call, RowBatch, TableShape, CellBatch, CommitParents,
            Cell, Change, Commit, Conflict, ConflictKind, ForeignKey, ImportMode, Index, LogEntry, LogPosition,
    ChangedRows, Column, ColumnValues, CommitHash, DatabaseId, EngineError, FormatError, HistoryChange, HistoryPage, HistoryPosition, ImportColumn, ImportTarget, MergeOutcome, ObjectChange, ObjectKind, Previewed, ReadReport, ResolvedRow, RowChange, RowPage, RowProblem, RowResolution, RowTest, SchemaObject, Selected, Side, Signature, SqlFailure, TableChange, TableColumn, TableKind, TableSchema, Test, Trigger, Written,
            ChunkHash, Chunk, HeldChunk, PushedHistory, Timestamp, ConflictQuery, ConflictWindow, HeadPair, Bytes, String, Duration, bool, u8,
            u32, u64, usize, i32, i64, f64, Vec<ConflictWindow>, Vec<TableSchema>, Vec<TableChange>, Option<CommitHash>,
            (CommitHash, usize), (i64, Duration), Result<(), String>, Result<RowBatch, FormatError>,
            Result<Bytes, std::io::Error>, Result<Written, EngineError>, Result<TableShape, FormatError>
        )
    };
    (@ $check:ident $arguments:tt: $($type:ty),*) => { $(for_every_type!(@@ $check::<$type> $arguments);)* };
    (@@ $check:ident::<$type:ty> ($($argument:expr),*)) => { $check::<$type>($($argument),*) };
}

fn arrives<T: Wire + Sample + Debug>(source: &mut Source) {
    source.refill();
    let value = T::sample(source);
    let bytes = value.encode();
    let arrived = T::decode(&bytes).unwrap_or_else(|error| panic!("{error}: {value:?}"));
    assert_eq!(format!("{arrived:?}"), format!("{value:?}"));
    assert_eq!(arrived.encode(), bytes);
    // No value begins another one: what is cut or continued is none.
    let longer = [&bytes[..], &[0]].concat();
    assert!(T::decode(&longer).is_err());
    if let Some((_, shorter)) = bytes.split_last() {
        assert!(T::decode(&bytes[..shorter.len()]).is_err());
    }
}

/// Decodes bytes, and checks that what they mean has one encoding that means the same.
fn harmless<T: Wire + Debug>(bytes: &[u8]) {
    if let Ok(value) = T::decode(bytes) {
        let again = T::decode(&value.encode()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{value:?}"));
    }
}

fn mutants_are_harmless<T: Wire + Sample + Debug>(source: &mut Source) {
    source.refill();
    let mut bytes = T::sample(source).encode();
    source.mutate(&mut bytes);
    harmless::<T>(&bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn what_is_sent_arrives(seed: u64) {
        for_every_type!(arrives(&mut Source::new(seed)));
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for_every_type!(harmless(&bytes));
        let mut input = Input::new(&bytes);
        while !input.is_at_end() && get_value(&mut input).is_ok() {}
    }

    #[test]
    fn small_bytes_do_no_harm(bytes in proptest::collection::vec(0_u8..12, 0..200)) {
        for_every_type!(harmless(&bytes));
    }

    #[test]
    fn changed_messages_do_no_harm(seed: u64) {
        for_every_type!(mutants_are_harmless(&mut Source::new(seed)));
    }

    #[test]
    fn values_of_rows_arrive(seed: u64) {
        let cell = Cell::sample(&mut Source::new(seed));
        let value = match &cell {
            Cell::Null => ValueRef::Null,
            Cell::Integer(number) => ValueRef::Integer(*number),
            Cell::Real(number) => ValueRef::Real(*number),
            Cell::Text(bytes) => ValueRef::Text(bytes),
            Cell::Blob(bytes) => ValueRef::Blob(bytes),
        };
        let mut bytes = Vec::new();
        put_value(&value, &mut bytes);
        // Cells and values have one encoding.
        prop_assert_eq!(&bytes, &cell.encode());
        let mut input = Input::new(&bytes);
        prop_assert_eq!(get_value(&mut input).unwrap(), value);
        prop_assert!(input.is_at_end());
    }

    #[test]
    fn signals_arrive(call: u32, bytes: [u8; 5]) {
        for signal in [Signal::Stop, Signal::Cancel] {
            prop_assert_eq!(Signal::from_bytes(signal.to_bytes(call)), Some((signal, call)));
        }
        if let Some((signal, call)) = Signal::from_bytes(bytes) {
            prop_assert_eq!(signal.to_bytes(call), bytes);
        }
    }
}

#[test]
fn kinds_have_numbers_of_their_own() {
    for number in 0..=u8::MAX {
        assert!(FromWorker::of(number).is_none_or(|kind| kind.number() == number));
        assert!(ToWorker::of(number).is_none_or(|kind| kind.number() == number));
    }
}

#[test]
fn what_is_not_a_number_is_no_value() {
    let bytes = [&[2][..], &f64::NAN.to_bits().to_le_bytes()].concat();
    assert!(Cell::decode(&bytes).is_err());
    assert!(get_value(&mut Input::new(&bytes)).is_err());
}

/// An element of one byte takes more in memory, so a long list of them is refused before it takes a multiple of its message.
#[test]
fn a_list_takes_little_more_memory_than_its_message() {
    let list = |length: usize| {
        let mut bytes = Vec::new();
        crate::wire::put_number(length as u64, &mut bytes);
        bytes.resize(bytes.len() + length, 0);
        bytes
    };
    assert_eq!(Vec::<Cell>::decode(&list(1 << 20)).unwrap().len(), 1 << 20);
    assert_eq!(Vec::<Cell>::decode(&list(8 << 20)).unwrap_err(), Malformed);
    assert_eq!(CellBatch::decode(&list(8 << 20)).unwrap_err(), Malformed);
    // A length without elements takes nothing.
    assert_eq!(Vec::<Cell>::decode(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unwrap_err(), Malformed);
}
