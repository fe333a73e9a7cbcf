//! Checks of garbage collections.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use super::builders::{Db, no_commit};
use branchyard_domain::ports::{Engine, EngineError, KeptHeads};
use branchyard_domain::values::CommitHash;

/// Keeps `first`, and what `later` returns when the engine asks again.
struct Kept<F> {
    first: Vec<CommitHash>,
    later: F,
}

impl<F: FnMut() -> Result<Vec<CommitHash>, EngineError>> KeptHeads for Kept<F> {
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError> {
        Ok(self.first.clone())
    }

    fn approve(&mut self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError> {
        let heads = (self.later)()?;
        Ok(heads.into_iter().filter(|head| !covered.contains(head)).collect())
    }
}

pub(super) fn only(heads: &[&CommitHash]) -> impl KeptHeads {
    Kept { first: heads.iter().map(|head| (*head).clone()).collect(), later: || Ok(Vec::new()) }
}

/// A statement whose rows no other commit has, and which makes a file grow.
fn planted(word: &str) -> String {
    let rows: Vec<String> = (100..200).map(|id| format!("({id},'{word}-{id}-{}',0)", word.repeat(20))).collect();
    format!("INSERT INTO t VALUES {}", rows.join(","))
}

/// Checks that a collection keeps what the heads reach, and removes everything else.
pub fn collections(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ours = db.write(&base, 2, "UPDATE t SET b = 0 WHERE id = 1");
    let tip = db.write(&ours, 3, "DELETE FROM t WHERE id = 2");
    let theirs = db.write(&base, 4, "INSERT INTO t VALUES (4,'four',40)");
    let merged = super::builders::head(db.merge(&tip, &theirs, &Default::default()));
    let other = db.write(&base, 5, "INSERT INTO t VALUES (5,'five',50)");
    let dropped = db.write(&other, 6, &planted("garbage"));
    let below = db.write(&dropped, 7, "DELETE FROM t WHERE id = 100");
    let lines = |at: &CommitHash| (db.lines(at), engine.log(db.id, &at.clone().into(), 100).unwrap());
    let kept = [&merged, &tip, &theirs, &other, &base];
    let before: Vec<_> = kept.iter().map(|head| lines(head)).collect();
    let size = engine.size_bytes(db.id).unwrap();

    let report = engine.collect(db.id, &mut only(&[&other, &merged, &base, &no_commit()])).unwrap();
    assert_eq!(report.before, size);
    assert_eq!(report.after, engine.size_bytes(db.id).unwrap());
    assert!(report.after < report.before, "{report:?}");
    assert_eq!(kept.iter().map(|head| lines(head)).collect::<Vec<_>>(), before, "kept commits read the same");
    for gone in [&dropped, &below] {
        assert_eq!(engine.commit(db.id, gone).unwrap(), None);
        assert!(db.try_read(gone, "SELECT * FROM t").is_err());
    }
    assert_eq!(engine.verify(db.id, &kept.map(Clone::clone)).unwrap(), Vec::<String>::new());
    // Commits that no other descends from can be written to, and what was collected can be made again.
    let next = db.write(&merged, 8, "INSERT INTO t VALUES (8,'eight',80)");
    assert_eq!(db.lines(&next).len(), db.lines(&merged).len() + 1);
    assert_eq!(db.write(&other, 6, &planted("garbage")), dropped);
    // Again, with less to keep.
    engine.collect(db.id, &mut only(&[&base])).unwrap();
    assert_eq!(engine.commit(db.id, &merged).unwrap(), None);
    assert_eq!(engine.commit(db.id, &dropped).unwrap(), None);
    assert_eq!(lines(&base), before[4]);
}

/// Checks that commits which are made during a collection survive it if they are named before its end.
pub fn collections_beside_writes(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let garbage = db.write(&base, 2, &planted("garbage"));
    // The first is asked for together with a descendant, the last when the engine asks once more.
    let first = db.write(&base, 3, "INSERT INTO t VALUES (4,'four',40)");
    let second = db.write(&first, 4, "INSERT INTO t VALUES (5,'five',50)");
    let elsewhere = db.write(&db.first, 5, "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)");
    let before: Vec<_> = [&first, &second, &elsewhere].map(|at| db.lines(at)).into();
    let mut rounds = vec![vec![elsewhere.clone()], vec![second.clone(), first.clone(), base.clone(), no_commit()]];
    let mut all = Vec::new();
    let later = || {
        all.extend(rounds.pop().unwrap_or_default());
        Ok(all.clone())
    };
    engine.collect(db.id, &mut Kept { first: vec![base.clone()], later }).unwrap();
    assert_eq!(engine.commit(db.id, &garbage).unwrap(), None);
    assert_eq!([&first, &second, &elsewhere].map(|at| db.lines(at)).to_vec(), before);
    assert!(engine.is_ancestor(db.id, &base, &second).unwrap());
    let next = db.write(&second, 6, "DELETE FROM t WHERE id = 1");
    assert_eq!(db.lines(&next).len(), 4);
    assert_eq!(engine.verify(db.id, &[second, elsewhere, next]).unwrap(), Vec::<String>::new());
}

/// Checks that a collection that is given up leaves everything as it was.
pub fn collections_given_up(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let head = db.write(&base, 2, "INSERT INTO t VALUES (4,'four',40)");
    let garbage = db.write(&base, 3, &planted("garbage"));
    let later = || Err(EngineError::Unavailable("given up".into()));
    let given_up = engine.collect(db.id, &mut Kept { first: vec![base.clone()], later });
    assert!(matches!(given_up, Err(EngineError::Unavailable(_))), "{given_up:?}");
    // Heads that never come to rest: each answer names one more.
    let mut at = base.clone();
    let mut commits = Vec::new();
    for second in 10..30 {
        at = db.write(&at, second, &format!("INSERT INTO t VALUES ({second},'more',0)"));
        commits.push(at.clone());
    }
    let mut left = commits.clone();
    let later = || Ok(left.pop().into_iter().collect());
    let given_up = engine.collect(db.id, &mut Kept { first: vec![base.clone()], later });
    assert!(matches!(given_up, Err(EngineError::Busy)), "{given_up:?}");
    for commit in [&head, &garbage].into_iter().chain(&commits) {
        assert!(engine.commit(db.id, commit).unwrap().is_some());
    }
    assert_eq!(db.lines(&head).len(), 4);
    assert_eq!(db.lines(&db.write(&head, 90, "DELETE FROM t WHERE id = 1")).len(), 3);
}

/// Checks that readers are undisturbed by collections, and that writers go on.
pub fn readers_beside_a_collection(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let head = db.write(&base, 2, "INSERT INTO t VALUES (4,'four',40)");
    let lines = (db.lines(&base), db.lines(&head));
    let (has_ended, reading) = (AtomicBool::new(false), Barrier::new(3));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    reading.wait();
                    loop {
                        assert_eq!((db.lines(&base), db.lines(&head)), lines);
                        assert_eq!(engine.log(db.id, &head.clone().into(), 10).unwrap().len(), 3);
                        if has_ended.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                })
            })
            .collect();
        reading.wait();
        for round in 0..3 {
            let garbage = db.write(&head, 10 + round, &planted("garbage"));
            engine.collect(db.id, &mut only(&[&head])).unwrap();
            assert_eq!(engine.commit(db.id, &garbage).unwrap(), None);
        }
        has_ended.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}
