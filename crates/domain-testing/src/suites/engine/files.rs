//! Checks of files: creation, copies, fetches, and concurrent calls.

use std::collections::BTreeMap;

use super::builders::{Db, author, fresh_id, head, no_commit};
use branchyard_domain::ports::{Engine, EngineError};

/// Checks that files are created, listed, measured, verified and removed.
pub fn files(engine: &dyn Engine) {
    let id = fresh_id();
    assert!(!engine.list().unwrap().contains(&id));
    engine.remove(id).unwrap();
    let first = engine.create(id, &author(0), "Initialize database").unwrap();
    assert!(engine.list().unwrap().contains(&id));
    assert!(engine.size_bytes(id).unwrap() > 0);
    assert_eq!(engine.format(id).unwrap(), engine.newest_format());
    let commit = engine.commit(id, &first).unwrap().unwrap();
    assert_eq!((commit.hash.clone(), commit.message.as_str()), (first.clone(), "Initialize database"));
    assert_eq!(commit.author, author(0));
    assert_eq!(engine.tables(id, &first).unwrap(), vec![]);
    assert_eq!(engine.commit(id, &no_commit()).unwrap(), None);
    assert_eq!(engine.verify(id, &[first]).unwrap(), Vec::<String>::new());
    assert!(!engine.verify(id, &[no_commit()]).unwrap().is_empty(), "a lost head is told");
    engine.remove(id).unwrap();
    assert!(!engine.list().unwrap().contains(&id));
    assert!(engine.size_bytes(id).is_err());
    assert!(engine.format(id).is_err());
}

/// Checks that commits are copied and fetched between databases.
pub fn fetch_and_copy(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let fork = Db { engine, id: fresh_id(), first: db.first.clone() };
    engine.copy(db.id, fork.id).unwrap();
    assert_eq!(fork.lines(&base), db.lines(&base), "a copy holds the same commits under the same names");
    let theirs = fork.write(&base, 2, "UPDATE t SET b = 0 WHERE id = 3");
    let tip = fork.write(&theirs, 3, "DELETE FROM t WHERE id = 2");
    let ours = db.write(&base, 4, "DELETE FROM t WHERE id = 1");
    assert_eq!(engine.commit(db.id, &tip).unwrap(), None);
    for _ in 0..2 {
        engine.fetch(db.id, fork.id, &tip).unwrap();
    }
    assert_eq!(db.lines(&tip), ["1|one|10", "3|three|0"]);
    assert!(engine.commit(db.id, &theirs).unwrap().is_some(), "with its history");
    assert_eq!(engine.merge_base(db.id, &ours, &tip).unwrap(), Some(base.clone()));
    assert_eq!(db.lines(&head(db.merge(&ours, &tip, &BTreeMap::new()))), ["3|three|0"]);
    assert_eq!(engine.commit(fork.id, &ours).unwrap(), None, "nothing came back");
    assert!(matches!(engine.fetch(db.id, fork.id, &no_commit()), Err(EngineError::NoSuchCommit(_))));
    engine.copy(db.id, fork.id).unwrap();
    assert_eq!(fork.lines(&ours), ["2|two|20", "3|three|30"], "copying again replaces the copy");
}

/// Checks that writers of one database are queued and do not block readers.
pub fn at_once(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    std::thread::scope(|scope| {
        let (db, base) = (&db, &base);
        let writers: Vec<_> = (10..14)
            .map(|id| scope.spawn(move || (id, db.write(base, id, &format!("INSERT INTO t VALUES ({id},'new',0)")))))
            .collect();
        for _ in 0..10 {
            assert_eq!(db.lines(base).len(), 3);
        }
        for writer in writers {
            let (id, head) = writer.join().unwrap();
            assert_eq!(db.lines(&head).last(), Some(&format!("{id}|new|0")));
            assert_eq!(db.lines(&head).len(), 4);
        }
    });
}
