//! The format of database files: what the engine writes, and files of newer formats, which it does not open.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use branchyard_domain::ports::{Collected, CollectedRows, Engine, EngineError, KeptHeads, ReadQuery, RecordedFormats};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{EngineOptions, Files, NEWEST_FORMAT};
use parking_lot::Mutex;

use crate::support::{EngineHarness, LONG, id};
use crate::tested::open;

/// Position and length of the format in a file.
const AT: u64 = 4;

fn path(harness: &EngineHarness, database: DatabaseId) -> PathBuf {
    harness.folder.path().join("databases").join(Files::place(database))
}

fn format_in(harness: &EngineHarness, database: DatabaseId) -> u32 {
    let mut head = [0; 8];
    File::open(path(harness, database)).unwrap().read_exact(&mut head).unwrap();
    assert_eq!(&head[..4], b"CTLD");
    u32::from_le_bytes(head[4..].try_into().unwrap())
}

/// Writes another format into a file, as a newer engine would.
fn set_format(harness: &EngineHarness, database: DatabaseId, format: u32) {
    let mut file = OpenOptions::new().write(true).open(path(harness, database)).unwrap();
    file.seek(SeekFrom::Start(AT)).unwrap();
    file.write_all(&format.to_le_bytes()).unwrap();
}

fn read(engine: &dyn Engine, database: DatabaseId, at: &CommitHash) -> Result<(), EngineError> {
    engine.read(database, at, &ReadQuery::new("SELECT 1", LONG), &mut CollectedRows::default()).map(drop)
}

/// A record that a test changes.
#[derive(Default)]
struct Record(Mutex<BTreeMap<DatabaseId, u32>>);

impl RecordedFormats for Record {
    fn recorded(&self, database: DatabaseId) -> Result<Option<u32>, EngineError> {
        Ok(self.0.lock().get(&database).copied())
    }
}

struct Everything(CommitHash);

impl KeptHeads for Everything {
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError> {
        Ok(vec![self.0.clone()])
    }

    fn approve(&mut self, _: &std::collections::BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError> {
        Ok(Vec::new())
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, EngineError>, found: u32) {
    match result {
        Err(EngineError::UnknownFormat { found: seen, newest: NEWEST_FORMAT }) => assert_eq!(seen, found),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_have_the_format_that_the_engine_names() {
    let harness = EngineHarness::new();
    assert_eq!(format_in(&harness, id(1)), NEWEST_FORMAT, "after an upgrade of DoltLite, raise NEWEST_FORMAT");
    assert_eq!(harness.engine.newest_format(), NEWEST_FORMAT);
    assert_eq!(harness.engine.format(id(1)).unwrap(), NEWEST_FORMAT);
    harness.engine.copy(id(1), id(2)).unwrap();
    assert_eq!(harness.engine.format(id(2)).unwrap(), NEWEST_FORMAT);
    let head = harness.write(&harness.base, "CREATE TABLE t(x)");
    let collected: Collected = harness.engine.collect(id(1), &mut Everything(head)).unwrap();
    assert!(collected.after > 0);
    assert_eq!(format_in(&harness, id(1)), NEWEST_FORMAT);
    assert!(harness.engine.format(id(9)).is_err());
    std::fs::write(path(&harness, id(2)), b"CTLD\x0c").unwrap();
    assert!(matches!(harness.engine.format(id(2)), Err(EngineError::Damaged(_))), "half a format");
}

#[test]
fn a_file_of_a_newer_format_is_refused_and_left_as_it_is() {
    let harness = EngineHarness::new();
    let head = harness.write(&harness.base, "CREATE TABLE t(x)");
    harness.engine.copy(id(1), id(2)).unwrap();
    let EngineHarness { folder, engine, base } = harness;
    drop(engine);
    let harness =
        EngineHarness { engine: open(&folder.path().join("databases"), EngineOptions::default()), folder, base };
    set_format(&harness, id(1), NEWEST_FORMAT + 1);
    let before = std::fs::read(path(&harness, id(1))).unwrap();
    let engine = &*harness.engine;
    refused(read(engine, id(1), &head), 13);
    refused(harness.try_write(id(1), &head, "INSERT INTO t VALUES (1)", LONG), 13);
    refused(engine.log(id(1), &head.clone().into(), 1), 13);
    refused(engine.copy(id(1), id(3)), 13);
    refused(engine.collect(id(1), &mut Everything(head.clone())), 13);
    refused(engine.fetch(id(2), id(1), &harness.base).and_then(|()| engine.fetch(id(1), id(2), &head)), 13);
    refused(engine.verify(id(1), &[]), 13);
    refused(engine.restore(id(3), &path(&harness, id(1))), 13);
    assert_eq!(engine.format(id(1)).unwrap(), 13);
    assert_eq!(engine.list().unwrap(), [id(1), id(2)], "no copy was made");
    assert_eq!(std::fs::read(path(&harness, id(1))).unwrap(), before);
    read(engine, id(2), &head).unwrap();
    engine.remove(id(1)).unwrap();
}

#[test]
fn a_recorded_format_is_checked_before_a_file_is_opened() {
    let harness = EngineHarness::new();
    let engine = open(&harness.folder.path().join("databases"), EngineOptions::default());
    let record = Arc::new(Record::default());
    engine.check_formats(record.clone());
    // Without a record, the database is being created.
    read(&*engine, id(1), &harness.base).unwrap();
    engine.copy(id(1), id(2)).unwrap();
    engine.copy(id(1), id(4)).unwrap();
    record.0.lock().extend([(id(1), 99), (id(2), NEWEST_FORMAT)]);
    engine.remove(id(3)).unwrap();
    let fresh = open(&harness.folder.path().join("databases"), EngineOptions::default());
    fresh.check_formats(record.clone());
    refused(read(&*fresh, id(1), &harness.base), 99);
    read(&*fresh, id(2), &harness.base).unwrap();
    // A file that was opened is checked again when it is replaced.
    record.0.lock().insert(id(2), 99);
    read(&*fresh, id(2), &harness.base).unwrap();
    fresh.copy(id(4), id(2)).unwrap();
    refused(read(&*fresh, id(2), &harness.base), 99);
}
