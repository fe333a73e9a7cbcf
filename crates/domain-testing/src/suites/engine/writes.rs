//! Checks of writes.

use super::builders::{Db, LONG, author, fresh_id, head, no_commit, sql_failure};
use branchyard_domain::ports::{Engine, EngineError, MergeOutcome, SqlFailure, WriteJob};
use branchyard_domain::values::CommitHash;

/// Checks that a write creates one commit on its base, and that existing commits never change.
pub fn writes(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let commit = engine.commit(db.id, &head).unwrap().unwrap();
    assert_eq!(commit.parents, vec![db.first.clone()]);
    assert_eq!(commit.author, author(1));
    assert!(commit.message.starts_with("CREATE TABLE t("));

    let next = db.write(
        &head,
        2,
        "UPDATE t SET a = 'zwei' WHERE id = 2; DELETE FROM t WHERE id = 1; INSERT INTO t (id, b) VALUES (4, -1)",
    );
    assert_eq!(db.lines(&next), ["2|zwei|20", "3|three|30", "4|NULL|-1"]);
    assert_eq!(db.lines(&head), ["1|one|10", "2|two|20", "3|three|30"], "a commit never changes");
    assert_eq!(engine.commit(db.id, &next).unwrap().unwrap().parents, vec![head.clone()]);

    let sibling = db.write(&head, 3, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&sibling), ["1|one|10", "2|two|20"], "writers may go on from any commit");

    let author = author(3);
    let sql = "INSERT INTO t VALUES (7,'x',0),(8,'y',0); UPDATE t SET b = 1 WHERE id = 7; DELETE FROM t WHERE id = 99";
    let job = WriteJob { base: &head, statements: sql, message: sql, then_merge: None, author: &author, timeout: LONG };
    assert_eq!(engine.write(db.id, &job).unwrap().rows_affected, 3);

    let same = db.write(&head, 4, "UPDATE t SET a = 'one' WHERE id = 1");
    assert_eq!(same, head, "nothing changed, so there is no commit");
    assert!(matches!(db.try_write(&no_commit(), 5, "DELETE FROM t WHERE id = 1"), Err(EngineError::NoSuchCommit(_))));
}

/// Checks that a failed write names the failed statement and changes nothing.
pub fn failed_writes(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let (failure, statement) =
        sql_failure(db.try_write(&head, 2, "DELETE FROM t WHERE id = 1; DELETE FROM gone WHERE id = 1"));
    assert_eq!((failure, statement), (SqlFailure::NoSuchTable("gone".to_owned()), 2));
    let (failure, statement) = sql_failure(db.try_write(&head, 2, "INSERT INTO t VALUES (1,'again',0)"));
    assert_eq!((failure, statement), (SqlFailure::Engine("UNIQUE constraint failed: t.id".to_owned()), 1));
    let (failure, _) = sql_failure(db.try_write(&head, 2, "INSERT INTO t VALUES (9,'short')"));
    assert_eq!(failure, SqlFailure::Engine("table t has 3 columns but 2 values were supplied".to_owned()));
    let (failure, _) = sql_failure(db.try_write(&head, 2, "CREATE TABLE t(id INTEGER PRIMARY KEY)"));
    assert_eq!(failure, SqlFailure::Engine("table t already exists".to_owned()));
    let (failure, _) = sql_failure(db.try_write(&head, 2, "DELETE FORM t"));
    assert_eq!(failure, SqlFailure::Syntax { position: 12, near: "FORM".to_owned() });
    let (failure, _) = sql_failure(db.try_write(&head, 2, "ATTACH 'x' AS y"));
    assert_eq!(failure, SqlFailure::NotAllowed("ATTACH".to_owned()));
    assert_eq!(db.lines(&head), ["1|one|10", "2|two|20", "3|three|30"]);
    let next = db.write(&head, 3, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|one|10", "2|two|20"], "the failures left nothing behind");
}

/// Checks that statements and a subsequent merge are atomic.
pub fn write_then_merge(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let theirs = db.write(&base, 2, "UPDATE t SET a = 'theirs' WHERE id = 1");
    let author = author(3);
    let run = |base: &CommitHash, statements: &str, theirs: &CommitHash| {
        let then_merge = Some((theirs, "merge"));
        let job = WriteJob { base, statements, message: "write", then_merge, author: &author, timeout: LONG };
        engine.write(db.id, &job).unwrap().outcome
    };
    let merged = head(run(&base, "INSERT INTO t VALUES (4,'four',40)", &theirs));
    assert_eq!(db.lines(&merged), ["1|theirs|10", "2|two|20", "3|three|30", "4|four|40"]);
    let commit = engine.commit(db.id, &merged).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.parents.len(), &commit.parents[1]), ("merge", 2, &theirs));
    let written = engine.commit(db.id, &commit.parents[0]).unwrap().unwrap();
    assert_eq!((written.message.as_str(), written.parents), ("write", vec![base.clone()]));

    let contained = head(run(&merged, "DELETE FROM t WHERE id = 4", &theirs));
    assert_eq!(engine.commit(db.id, &contained).unwrap().unwrap().parents, vec![merged.clone()]);
    assert_eq!(head(run(&merged, "DELETE FROM t WHERE id = 99", &theirs)), merged);
    let clash = run(&base, "UPDATE t SET a = 'ours' WHERE id = 1", &theirs);
    assert_eq!(clash, MergeOutcome::Conflicts(vec![("t".to_owned(), 1)]));
}

/// Checks that trial merges do not wait for writers, and that fetches do not wait for writers of the source.
pub fn beside_a_long_write(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ours = db.write(&base, 2, "UPDATE t SET a = 'ours' WHERE id = 1");
    let theirs = db.write(&base, 3, "UPDATE t SET a = 'theirs' WHERE id = 1");
    let fork = Db { engine, id: fresh_id(), first: db.first.clone() };
    engine.copy(db.id, fork.id).unwrap();
    let tip = fork.write(&base, 4, "UPDATE t SET b = 0 WHERE id = 3");
    fork.while_written(&base, || engine.fetch(db.id, fork.id, &tip).unwrap());
    db.while_written(&base, || {
        assert_eq!(engine.conflicts(db.id, &ours, &theirs, None, 0, 10).unwrap().len(), 1);
        engine.prepare_conflicts(db.id, &ours, &tip).unwrap();
        assert_eq!(engine.conflicts(db.id, &ours, &tip, None, 0, 10).unwrap(), vec![]);
        engine.fetch(db.id, fork.id, &tip).unwrap();
    });
    assert_eq!(db.lines(&tip), ["1|one|10", "2|two|20", "3|three|0"]);
}
