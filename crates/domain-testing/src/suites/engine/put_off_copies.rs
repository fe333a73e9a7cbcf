//! Checks of copies that are put off until their first use. An engine may copy at once instead. One that needs rows of the metadata store
//! for that is tested with it elsewhere.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use branchyard_domain::ports::{Engine, EngineError, KeptCommits};
use branchyard_domain::values::{CommitHash, DatabaseId};

use super::builders::{Db, fresh_id};
use super::collections::only;

/// What a copy keeps, and how often it was made.
#[derive(Default)]
struct Copy {
    kept: Vec<CommitHash>,
    made: usize,
}

/// The copies of all engines. An engine accepts one source of what they keep.
static COPIES: LazyLock<Mutex<HashMap<DatabaseId, Copy>>> = LazyLock::new(Mutex::default);

struct Kept;

impl KeptCommits for Kept {
    fn kept(&self, database: DatabaseId) -> Result<Vec<CommitHash>, EngineError> {
        Ok(COPIES.lock().unwrap()[&database].kept.clone())
    }

    fn made(&self, database: DatabaseId) {
        COPIES.lock().unwrap().entry(database).or_default().made += 1;
    }
}

fn times_made(database: DatabaseId) -> usize {
    COPIES.lock().unwrap()[&database].made
}

/// Returns `true` if the engine puts copies off together with the metadata store, which adds the row of the copy.
fn needs_rows(engine: &dyn Engine) -> bool {
    let (db, _) = Db::with_rows(engine);
    let copy = Db { engine, id: fresh_id(), first: db.first.clone() };
    engine.copy_later(db.id, copy.id).unwrap() && !engine.is_put_off(copy.id)
}

/// Copies a database, later if the engine can. The copy keeps `kept`.
fn copy_later<'a>(db: &Db<'a>, kept: &CommitHash) -> Db<'a> {
    let engine = db.engine;
    let fork = Db { engine, id: fresh_id(), first: db.first.clone() };
    COPIES.lock().unwrap().insert(fork.id, Copy { kept: vec![kept.clone()], made: 0 });
    let is_put_off = engine.copy_later(db.id, fork.id).unwrap();
    assert_eq!(engine.is_put_off(fork.id), is_put_off);
    assert!(engine.list().unwrap().contains(&fork.id));
    assert_eq!(engine.format(fork.id).unwrap(), engine.newest_format());
    if is_put_off {
        assert_eq!(engine.size_bytes(fork.id).unwrap(), engine.size_bytes(db.id).unwrap());
    } else {
        engine.collect(fork.id, &mut only(&[kept])).unwrap();
    }
    fork
}

/// Checks that a copy has what it keeps and nothing else, whatever becomes of its source.
pub fn put_off_copies(engine: &dyn Engine) {
    engine.keep_in_copies(Arc::new(Kept));
    if needs_rows(engine) {
        return;
    }
    let (db, base) = Db::with_rows(engine);
    let other = db.write(&base, 2, "DELETE FROM t WHERE id = 2");
    let [used, collected, removed, gone] = [(); 4].map(|()| copy_later(&db, &base));
    let is_put_off = engine.is_put_off(used.id);
    let later = db.write(&base, 3, "DELETE FROM t WHERE id = 3");

    let lacks = |fork: &Db<'_>, commit: &CommitHash| engine.commit(fork.id, commit).unwrap().is_none();
    assert_eq!(used.lines(&base), db.lines(&base));
    assert!(!engine.is_put_off(used.id));
    assert!(lacks(&used, &other) && lacks(&used, &later));
    let own = used.write(&base, 4, "DELETE FROM t WHERE id = 1");
    assert!(lacks(&db, &own), "both go their own ways");
    assert_eq!(engine.verify(used.id, &[base.clone(), own]).unwrap(), Vec::<String>::new());

    let outlived = || -> Vec<DatabaseId> { engine.outlived_sources().unwrap() };
    assert!(!outlived().contains(&collected.id), "the source has this file");
    let rows = db.lines(&base);
    engine.collect(db.id, &mut only(&[&later])).unwrap();
    assert_eq!(outlived().contains(&collected.id), is_put_off);
    engine.make_copy(collected.id).unwrap();
    engine.make_copy(collected.id).unwrap();
    assert!(!outlived().contains(&collected.id) && !engine.is_put_off(collected.id));
    assert_eq!(collected.lines(&base), rows);
    assert!(lacks(&collected, &other));

    engine.remove(gone.id).unwrap();
    assert!(!engine.list().unwrap().contains(&gone.id) && !engine.is_put_off(gone.id));
    assert!(engine.size_bytes(gone.id).is_err() && engine.commit(gone.id, &base).is_err());

    engine.remove(db.id).unwrap();
    // A copy of a copy that was not used.
    let second = copy_later(&removed, &base);
    assert_eq!(second.lines(&base), rows);
    assert!(lacks(&removed, &other) && lacks(&second, &other));
    let expected = usize::from(is_put_off);
    assert_eq!([&used, &collected, &removed, &second].map(|fork| times_made(fork.id)), [expected; 4]);
    assert_eq!(times_made(gone.id), 0);
}

/// Checks that calls which use a copy at the same time make it once, and that all of them are answered.
pub fn put_off_copies_used_at_once(engine: &dyn Engine) {
    engine.keep_in_copies(Arc::new(Kept));
    if needs_rows(engine) {
        return;
    }
    let (db, base) = Db::with_rows(engine);
    let rows = db.lines(&base);
    let forks = [(); 4].map(|()| copy_later(&db, &base));
    let is_put_off = engine.is_put_off(forks[0].id);
    std::thread::scope(|scope| {
        for fork in &forks {
            for number in 0..3 {
                let (rows, base) = (&rows, &base);
                scope.spawn(move || {
                    assert_eq!(&fork.lines(base), rows);
                    fork.write(base, 10 + number, &format!("INSERT INTO t VALUES ({}, 'new', 0)", 10 + number));
                });
            }
        }
    });
    assert_eq!(forks.map(|fork| times_made(fork.id)), [usize::from(is_put_off); 4]);
}
