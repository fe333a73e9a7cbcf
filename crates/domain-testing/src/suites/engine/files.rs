//! Checks of files: creation, copies, fetches, and concurrent calls.

use std::collections::BTreeMap;

use super::builders::{Db, author, fresh_id, head, no_commit};
use branchyard_domain::ports::{Engine, EngineError};
use branchyard_domain::values::ChunkHash;

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

/// Checks that chunks are found by their hashes, in order, up to a length.
pub fn chunks(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let [first, head, none] = [&db.first, &base, &no_commit()].map(ChunkHash::from);
    let read = |hashes: &[ChunkHash], at_most| engine.chunks(db.id, hashes, at_most).unwrap();
    let found = read(&[head, none, first, head], usize::MAX);
    let parents: Vec<_> = found.iter().map(|chunk| Some(chunk.as_ref()?.parents.clone().unwrap())).collect();
    let of = |commit| Some(engine.commit(db.id, commit).unwrap().unwrap().parents);
    assert_eq!(parents, [of(&base), None, of(&db.first), of(&base)]);
    assert_eq!(found[0], found[3]);
    let [length, of_first] = [0, 2].map(|at: usize| found[at].as_ref().unwrap().bytes.len());
    assert_eq!(read(&[head, none, first], 0), found[..1], "the first one is not too long");
    assert_eq!(read(&[head, none, first], length), found[..2]);
    assert_eq!(read(&[head, none, first], length + of_first), found[..3]);
    assert_eq!(read(&[], 0), []);
    let next = db.write(&base, 7, "DELETE FROM t WHERE id = 1");
    assert!(read(&[ChunkHash::from(&next)], 0)[0].is_some(), "what is new is found, too");
    assert!(engine.chunks(fresh_id(), &[head], 0).is_err());
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
