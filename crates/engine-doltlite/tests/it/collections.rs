//! Garbage collections, and what they leave in files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use branchyard_domain::ports::{Engine as _, EngineError, KeptHeads};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::DoltliteEngine;

use crate::support::{EngineHarness, id};

/// Keeps `heads`, and runs `before_end` when the engine asks whether they are all.
struct Kept<F> {
    heads: Vec<CommitHash>,
    before_end: F,
}

impl<F: FnMut()> KeptHeads for Kept<F> {
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError> {
        Ok(self.heads.clone())
    }

    fn approve(&mut self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError> {
        (self.before_end)();
        Ok(self.heads.iter().filter(|head| !covered.contains(*head)).cloned().collect())
    }
}

fn only(heads: &[&CommitHash]) -> Kept<impl FnMut() + use<>> {
    Kept { heads: heads.iter().map(|head| (*head).clone()).collect(), before_end: || () }
}

fn file(harness: &EngineHarness, database: DatabaseId) -> Vec<u8> {
    fs::read(harness.folder.path().join("databases").join(DoltliteEngine::place(database))).unwrap()
}

fn holds(file: &[u8], text: &str) -> bool {
    file.windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

/// Adds a remote to the file of database 1.
fn leave_remote(harness: &EngineHarness) {
    let path = harness.folder.path().join("databases").join(DoltliteEngine::place(id(1)));
    let file = rusqlite::Connection::open(path).unwrap();
    file.query_row("select dolt_remote('add', 'left-remote', 'file:///nowhere.db')", [], |_| Ok(())).unwrap();
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn collected_values_are_not_in_the_file() {
    let harness = EngineHarness::new();
    let at = harness
        .write(&harness.base, "create table t(id integer primary key, v text); insert into t values (1, 'KEPT')");
    let secret = harness.write(&at, "insert into t values (2, 'PLANTED IN A ROW'); create table planted_as_a_name(a)");
    let next = harness.write(&secret, "delete from t where id = 2; drop table planted_as_a_name");
    harness.write(&at, "insert into t values (3, 'PLANTED IN A BRANCH')");
    let words = ["PLANTED IN A ROW", "planted_as_a_name", "PLANTED IN A BRANCH"];
    assert!(words.iter().all(|word| holds(&file(&harness, id(1)), word)));
    // A fetch leaves what it fetched, and a fetch of an earlier version a remote if it was killed.
    leave_remote(&harness);
    harness.engine.copy(id(1), id(2)).unwrap();
    let theirs = harness.write_to(id(2), &at, "insert into t values (4, 'PLANTED IN A FORK')");
    harness.engine.fetch(id(1), id(2), &theirs).unwrap();
    assert!(holds(&file(&harness, id(1)), "PLANTED IN A FORK"));
    assert!(holds(&file(&harness, id(1)), "left-remote"));
    harness.engine.collect(id(1), &mut only(&[&at])).unwrap();
    let collected = file(&harness, id(1));
    assert!(holds(&collected, "KEPT"));
    assert!(!holds(&collected, "left-remote"));
    for word in words.iter().chain(&["PLANTED IN A FORK"]) {
        assert!(!holds(&collected, word), "{word}");
    }
    assert_eq!(harness.engine.commit(id(1), &next).unwrap(), None);
    assert!(is_empty(&harness.folder.path().join("databases/tmp")), "nothing is left of the work");
}

#[test]
fn writers_wait_for_the_end_of_a_collection_only() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, "create table t(id integer primary key, v text)");
    let garbage = harness.write(&at, "insert into t values (1, 'garbage')");
    thread::scope(|scope| {
        let mut writer = None;
        let mut kept = Kept {
            heads: vec![at.clone()],
            before_end: || {
                // Waits for the turn that the collection has, and then finds the new file.
                writer.get_or_insert_with(|| scope.spawn(|| harness.write(&at, "insert into t values (2, 'after')")));
            },
        };
        harness.engine.collect(id(1), &mut kept).unwrap();
        let head = writer.unwrap().join().unwrap();
        assert_eq!(harness.read(&head, "select v from t").len(), 1);
        assert!(harness.engine.commit(id(1), &head).unwrap().is_some());
    });
    assert_eq!(harness.engine.commit(id(1), &garbage).unwrap(), None);
}

#[test]
fn a_missing_file_is_not_collected() {
    let harness = EngineHarness::new();
    harness.engine.remove(id(1)).unwrap();
    let collected = harness.engine.collect(id(1), &mut only(&[&harness.base]));
    assert!(matches!(collected, Err(EngineError::Damaged(_))), "{collected:?}");
    assert!(!harness.engine.list().unwrap().contains(&id(1)));
}
