//! Checks of the history of rows.

use std::collections::BTreeMap;
use std::time::Duration;

use super::builders::{Db, LONG, head, key, no_commit, row, text};
use branchyard_domain::entities::{Cell, Change};
use branchyard_domain::ports::{Engine, EngineError, HistoryChange, HistoryPage, HistoryPosition, HistoryQuery};
use branchyard_domain::values::CommitHash;

fn query<'a>(key: Option<&'a [(String, Cell)]>, limit: usize) -> HistoryQuery<'a> {
    HistoryQuery { table: "T", key, first_parents: false, limit, bytes: 1 << 20, timeout: LONG }
}

impl Db<'_> {
    fn history(&self, at: &CommitHash, wanted: &HistoryQuery<'_>) -> HistoryPage {
        self.engine.row_history(self.id, &at.clone().into(), wanted).unwrap()
    }

    fn history_of(&self, at: &CommitHash, id: i64) -> Vec<HistoryChange> {
        let page = self.history(at, &query(Some(&key(id)), 100));
        assert_eq!((page.next, page.key_changed_by), (None, None));
        page.changes
    }
}

fn commits(changes: &[HistoryChange]) -> Vec<&CommitHash> {
    changes.iter().map(|change| &change.commit.hash).collect()
}

/// Checks the history of single rows, and that of a table.
pub fn row_history(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let changed = db.write(&base, 2, "UPDATE t SET a = 'uno' WHERE id = 1");
    let elsewhere = db.write(&changed, 3, "CREATE TABLE u(id INTEGER PRIMARY KEY); INSERT INTO u VALUES (1)");
    let removed = db.write(&elsewhere, 4, "DELETE FROM t WHERE id = 1");
    let again = db.write(&removed, 5, "INSERT INTO t VALUES (1, 'eins', 11), (5, 'five', 50)");

    let changes = db.history_of(&again, 1);
    let told: Vec<_> = changes
        .iter()
        .map(|HistoryChange { commit, merged_by, row, next }| {
            assert_eq!((merged_by, &row.primary_key), (&None, &key(1)));
            assert_eq!(next, &commit.parents[0].clone().into());
            (commit.hash.clone(), row.change, row.from.clone(), row.to.clone())
        })
        .collect();
    let expected = [
        (again.clone(), Change::Added, None, row(1, "eins", 11)),
        (removed.clone(), Change::Removed, row(1, "uno", 10), None),
        (changed.clone(), Change::Modified, row(1, "one", 10), row(1, "uno", 10)),
        (base.clone(), Change::Added, None, row(1, "one", 10)),
    ];
    assert_eq!(told, expected);
    assert_eq!(changes[1].commit, engine.commit(db.id, &removed).unwrap().unwrap());
    assert_eq!(commits(&db.history_of(&again, 2)), [&base]);
    assert_eq!(commits(&db.history_of(&removed, 1)).len(), 3, "a row that was removed has a history");
    assert_eq!(db.history_of(&removed, 5), [], "a row that is added later has none yet");
    let looked = db.history(&again, &query(Some(&key(5)), 100));
    assert!(looked.commits >= 6 && looked.last.is_some(), "{looked:?}");

    let table = db.history(&again, &query(None, 100));
    let told: Vec<_> = table.changes.iter().map(|change| (&change.commit.hash, &change.row.primary_key)).collect();
    let (one, two, three, five) = (key(1), key(2), key(3), key(5));
    let expected = [
        (&again, &one),
        (&again, &five),
        (&removed, &one),
        (&changed, &one),
        (&base, &one),
        (&base, &two),
        (&base, &three),
    ];
    assert_eq!(told, expected);
    assert_eq!(table.changes[2].row.from, row(1, "uno", 10));

    let other_key = [("name".to_owned(), text("x"))];
    let refused = engine.row_history(db.id, &again.clone().into(), &query(Some(&other_key), 1));
    assert!(matches!(refused, Err(EngineError::NoSuchTable(_))), "{refused:?}");
    let refused = engine.row_history(db.id, &no_commit().into(), &query(Some(&one), 1));
    assert!(matches!(refused, Err(EngineError::NoSuchCommit(_))), "{refused:?}");
}

/// Checks that pages together are the whole history, whatever ends them.
pub fn row_history_pages(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let mut at = base;
    for number in 0..7 {
        let updates: Vec<String> =
            (1..=1 + number % 3).map(|id| format!("UPDATE t SET b = {number} WHERE id = {id}")).collect();
        at = db.write(&at, 2 + number, &updates.join("; "));
    }
    let side = db.write(&at, 20, "UPDATE t SET a = 'left' WHERE id = 1");
    let other = db.write(&at, 21, "UPDATE t SET a = 'right' WHERE id = 3");
    let merged = head(db.merge(&side, &other, &BTreeMap::new()));
    for key in [None, Some(key(1)), Some(key(3))] {
        let whole = db.history(&merged, &query(key.as_deref(), 100));
        assert!(whole.changes.len() > 3 && whole.next.is_none());
        for (number, change) in whole.changes.iter().enumerate() {
            let rest = engine.row_history(db.id, &change.next, &query(key.as_deref(), 100)).unwrap();
            assert_eq!(rest.changes, whole.changes[number + 1..], "behind {number}");
        }
        for (limit, bytes, timeout) in
            [(1, 1 << 20, LONG), (2, 1 << 20, LONG), (100, 1, LONG), (100, 1 << 20, Duration::ZERO)]
        {
            let wanted = HistoryQuery { limit, bytes, timeout, ..query(key.as_deref(), limit) };
            let (mut changes, mut looked, mut position) = (Vec::new(), 0, HistoryPosition::from(merged.clone()));
            loop {
                let page = engine.row_history(db.id, &position, &wanted).unwrap();
                assert!(page.changes.len() <= limit && page.commits > 0);
                changes.extend(page.changes);
                looked += page.commits;
                position = match page.next {
                    Some(next) => next,
                    None => break,
                };
            }
            assert_eq!(changes, whole.changes, "{limit} {bytes} {timeout:?}");
            assert!(looked >= whole.commits);
        }
    }
}

/// Checks that a merge counts if the row differs from that of all parents, and which merge brought a commit.
pub fn row_history_of_merges(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ours = db.write(&base, 2, "UPDATE t SET a = 'ours' WHERE id = 1; UPDATE t SET a = 'mine' WHERE id = 2");
    let theirs = db.write(&base, 3, "UPDATE t SET b = 100 WHERE id = 1; UPDATE t SET b = 300 WHERE id = 3");
    let merged = head(db.merge(&ours, &theirs, &BTreeMap::new()));
    let at = db.write(&merged, 101, "UPDATE t SET b = 7 WHERE id = 2");

    let changes = db.history_of(&at, 1);
    assert_eq!(commits(&changes), [&merged, &theirs, &ours, &base], "cells of both sides were merged");
    assert_eq!(changes[0].row.from, row(1, "ours", 10));
    assert_eq!(changes[0].row.to, row(1, "ours", 100));
    let merges: Vec<_> = changes.iter().map(|change| change.merged_by.clone()).collect();
    assert_eq!(merges, [None, Some(merged.clone()), None, None]);
    assert_eq!(commits(&db.history_of(&at, 2)), [&at, &ours, &base], "the merge took the row of one side");
    assert_eq!(commits(&db.history_of(&at, 3)), [&theirs, &base]);
    // Along the first parents, a merge did what it brought.
    let line = |id: i64| db.history(&at, &HistoryQuery { first_parents: true, ..query(Some(&key(id)), 100) });
    let (first, third) = (line(1).changes, line(3));
    assert_eq!(commits(&first), [&merged, &ours, &base]);
    assert_eq!((&first[0].row.from, first[0].commit.parents.len()), (&row(1, "ours", 10), 2));
    assert!(first.iter().all(|change| change.merged_by.is_none()));
    assert_eq!((commits(&third.changes), third.next, third.commits), (vec![&merged, &base], None, 5));
    let rest =
        engine.row_history(db.id, &first[0].next, &HistoryQuery { first_parents: true, ..query(Some(&key(1)), 1) });
    assert_eq!(commits(&rest.unwrap().changes), [&ours]);
    let table = db.history(&at, &query(None, 100)).changes;
    let of_merge: Vec<_> = table.iter().filter(|change| change.commit.hash == merged).collect();
    assert_eq!(of_merge.len(), 1, "{of_merge:?}");
    assert_eq!(of_merge[0].row.primary_key, key(1));
}
