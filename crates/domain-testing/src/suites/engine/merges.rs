//! Checks of merges and conflicts.

use std::collections::BTreeMap;

use super::builders::{Db, author, head, key, no_commit, row};
use branchyard_domain::entities::{ConflictKind, Side};
use branchyard_domain::ports::{Engine, EngineError, MergeOutcome};

/// Checks merges without conflicts.
pub fn merges(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ours = db.write(&base, 2, "UPDATE t SET a = 'ours' WHERE id = 1; INSERT INTO t VALUES (4,'four',40)");
    let theirs = db.write(
        &base,
        3,
        "UPDATE t SET b = 11 WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (5,'five',50)",
    );
    let none = BTreeMap::new();
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, None, 0, 10).unwrap(), vec![]);
    let merged = head(db.merge(&ours, &theirs, &none));
    assert_eq!(db.lines(&merged), ["1|ours|11", "3|three|30", "4|four|40", "5|five|50"], "also inside one row");
    let commit = engine.commit(db.id, &merged).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.author.at), ("merge", author(100).at));
    assert_eq!(head(db.merge(&merged, &theirs, &none)), merged, "what is contained is not merged again");
    assert_eq!(head(db.merge(&merged, &merged, &none)), merged);
    let ahead = head(db.merge(&base, &theirs, &none));
    assert!(engine.is_ancestor(db.id, &theirs, &ahead).unwrap());
    assert_eq!(db.lines(&ahead), db.lines(&theirs));
}

/// Checks that a merge with conflicts changes nothing and reports the conflicts.
pub fn conflicts(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let create = "CREATE TABLE u(id INTEGER PRIMARY KEY, a TEXT, b INTEGER); INSERT INTO u VALUES (1,'x',1)";
    let base = db.write(&base, 2, create);
    let ours = db.write(
        &base,
        3,
        "UPDATE t SET a = 'ours' WHERE id = 1; DELETE FROM t WHERE id = 2; UPDATE u SET b = 2 WHERE id = 1",
    );
    let theirs = db.write(
        &base,
        4,
        "UPDATE t SET a = 'theirs' WHERE id = 1; UPDATE t SET b = 21 WHERE id = 2; UPDATE u SET b = 3 WHERE id = 1",
    );
    let outcome = db.merge(&ours, &theirs, &BTreeMap::new());
    assert_eq!(outcome, MergeOutcome::Conflicts(vec![("t".to_owned(), 2), ("u".to_owned(), 1)]));

    engine.prepare_conflicts(db.id, &ours, &theirs).unwrap();
    let all = engine.conflicts(db.id, &ours, &theirs, None, 0, 10).unwrap();
    assert!(all.iter().all(|conflict| conflict.kind == ConflictKind::Row));
    let told: Vec<_> = all
        .iter()
        .map(|c| (c.table.as_str(), c.primary_key.clone(), c.base.clone(), c.ours.clone(), c.theirs.clone()))
        .collect();
    assert_eq!(
        told,
        vec![
            ("t", key(1), row(1, "one", 10), row(1, "ours", 10), row(1, "theirs", 10)),
            ("t", key(2), row(2, "two", 20), None, row(2, "two", 21)),
            ("u", key(1), row(1, "x", 1), row(1, "x", 2), row(1, "x", 3)),
        ]
    );
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, None, 1, 1).unwrap(), all[1..2]);
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, Some("u"), 0, 10).unwrap(), all[2..]);
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, Some("T"), 1, 10).unwrap(), all[1..2]);
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, None, 3, 10).unwrap(), vec![]);
    engine.prepare_conflicts(db.id, &base, &theirs).unwrap();
    assert_eq!(engine.conflicts(db.id, &base, &theirs, None, 0, 10).unwrap(), vec![], "one contains the other");
    let missing = engine.prepare_conflicts(db.id, &no_commit(), &theirs);
    assert!(matches!(missing, Err(EngineError::NoSuchCommit(_))), "{missing:?}");
    let next = db.write(&ours, 5, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|ours|10"], "the attempt left nothing behind");
}

/// Checks merges in which one side wins the conflicts of a table.
pub fn resolved_conflicts(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ours = db.write(&base, 2, "UPDATE t SET a = 'ours' WHERE id = 1; INSERT INTO t VALUES (4,'four',40)");
    let theirs = db.write(&base, 3, "UPDATE t SET a = 'theirs' WHERE id = 1; UPDATE t SET b = 31 WHERE id = 3");
    let won = |side| head(db.merge(&ours, &theirs, &BTreeMap::from([("t".to_owned(), side)])));
    assert_eq!(db.lines(&won(Side::Ours)), ["1|ours|10", "2|two|20", "3|three|31", "4|four|40"]);
    assert_eq!(db.lines(&won(Side::Theirs)), ["1|theirs|10", "2|two|20", "3|three|31", "4|four|40"]);
    let elsewhere = db.merge(&ours, &theirs, &BTreeMap::from([("u".to_owned(), Side::Ours)]));
    assert_eq!(elsewhere, MergeOutcome::Conflicts(vec![("t".to_owned(), 1)]));
}
