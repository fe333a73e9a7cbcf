//! Checks of merges and conflicts.

use std::collections::BTreeMap;

use super::builders::{Db, author, head, int, key, no_commit, row, text};
use branchyard_domain::entities::{Cell, ConflictKind, ResolvedRow, RowResolution, Side};
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

/// Checks decisions about single rows in conflict.
pub fn resolved_rows(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let base = db.write(&base, 2, "INSERT INTO t VALUES (4,'four',40),(5,'five',50)");
    let ours = db.write(
        &base,
        3,
        "UPDATE t SET a = 'ours', b = 11 WHERE id = 1; UPDATE t SET a = 'mine' WHERE id = 2; DELETE FROM t WHERE id = 3; \
         UPDATE t SET b = 41 WHERE id = 4; UPDATE t SET a = 'V' WHERE id = 5",
    );
    let theirs = db.write(
        &base,
        4,
        "UPDATE t SET a = 'theirs', b = 12 WHERE id = 1; UPDATE t SET a = 'yours' WHERE id = 2; UPDATE t SET b = 31 WHERE id = 3; \
         DELETE FROM t WHERE id = 4; UPDATE t SET a = 'fuenf' WHERE id = 5",
    );
    let decision =
        |id: Cell, becomes| RowResolution { table: "T".to_owned(), primary_key: vec![("ID".to_owned(), id)], becomes };
    let values = ResolvedRow::With(vec![("a".to_owned(), text("both")), ("B".to_owned(), text("7"))]);
    let decided = [
        decision(text("1"), values),
        decision(int(2), ResolvedRow::Of(Side::Theirs)),
        decision(text("3"), ResolvedRow::Of(Side::Theirs)),
        decision(text("4"), ResolvedRow::Of(Side::Theirs)),
        decision(int(5), ResolvedRow::Of(Side::Ours)),
    ];
    let none = BTreeMap::new();
    let merged = head(db.merge_rows(&ours, &theirs, &none, &decided).unwrap());
    assert_eq!(db.lines(&merged), ["1|both|7", "2|yours|20", "3|three|31", "5|V|50"]);
    assert_eq!(engine.commit(db.id, &merged).unwrap().unwrap().parents, [ours.clone(), theirs.clone()]);

    let some = db.merge_rows(&ours, &theirs, &none, &decided[..2]).unwrap();
    assert_eq!(some, MergeOutcome::Conflicts(vec![("t".to_owned(), 3)]));
    let rest = BTreeMap::from([("t".to_owned(), Side::Ours)]);
    let merged = head(db.merge_rows(&ours, &theirs, &rest, &decided[..2]).unwrap());
    assert_eq!(db.lines(&merged), ["1|both|7", "2|yours|20", "4|four|41", "5|V|50"]);
    let back = [decision(text("3"), ResolvedRow::With(vec![("a".to_owned(), Cell::Null)]))];
    let merged = head(db.merge_rows(&ours, &theirs, &rest, &back).unwrap());
    assert_eq!(db.lines(&merged)[2], "3|NULL|31", "the row is that of the side that has it");

    let cut = db.merge_rows(&ours, &theirs, &rest, &[decision(text("99"), ResolvedRow::Of(Side::Ours))]);
    assert!(matches!(cut, Err(EngineError::CannotMerge(_))), "{cut:?}");
    let elsewhere = RowResolution { table: "nope".to_owned(), ..decided[1].clone() };
    let refused = db.merge_rows(&ours, &theirs, &rest, &[elsewhere]);
    assert!(matches!(refused, Err(EngineError::CannotMerge(_))), "{refused:?}");
    let next = db.write(&ours, 5, "DELETE FROM t WHERE id = 2");
    assert_eq!(db.lines(&next), ["1|ours|11", "4|four|41", "5|V|50"], "the attempts left nothing behind");
}

/// Checks that a merge has a commit of its own if a fast-forward is not wanted.
pub fn merge_commits(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ahead = db.write(&base, 2, "UPDATE t SET a = 'uno' WHERE id = 1");
    let merged = db.merge_with_commit(&base, &ahead);
    let commit = engine.commit(db.id, &merged).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.parents), ("join", vec![base.clone(), ahead.clone()]));
    assert_eq!(db.lines(&merged), db.lines(&ahead));
    assert_eq!(db.merge_with_commit(&ahead, &base), ahead, "what is contained is not merged again");
}
