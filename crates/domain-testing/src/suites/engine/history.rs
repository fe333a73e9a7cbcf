//! Checks of the log, of differences and of schemas.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::builders::{Db, head, key, no_commit, row};
use branchyard_domain::entities::{Change, LogPosition, ObjectChange, ObjectKind};
use branchyard_domain::ports::{ChangedRows, Engine, EngineError, RowPage};
use branchyard_domain::values::{CommitHash, CommitPrefix};

/// Checks the log, ancestors and merge bases.
pub fn log_and_ancestry(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let left = db.write(&base, 2, "UPDATE t SET a = 'left' WHERE id = 1");
    let right = db.write(&base, 3, "UPDATE t SET a = 'right' WHERE id = 2");
    let merged = head(db.merge(&left, &right, &BTreeMap::new()));
    let hashes = |after: Option<&CommitHash>, limit| -> Vec<CommitHash> {
        let at = LogPosition { from: merged.clone(), after: after.cloned() };
        engine.log(db.id, &at, limit).unwrap().into_iter().map(|entry| entry.commit.hash).collect()
    };
    let all = [merged.clone(), right.clone(), left.clone(), base.clone(), db.first.clone()];
    assert!(hashes(None, 10).starts_with(&all), "children before parents, then newest first");
    assert_eq!(hashes(None, 2), all[..2]);
    assert_eq!(hashes(Some(&right), 2), all[2..4]);
    let whole = engine.log(db.id, &merged.clone().into(), 10).unwrap();
    for (n, entry) in whole.iter().enumerate() {
        assert_eq!(engine.log(db.id, &entry.next, 10).unwrap(), whole[n + 1..], "after {n}");
    }
    assert_eq!(whole[2].next, base.clone().into(), "one way on: nothing is passed again");
    assert_eq!(engine.commit(db.id, &merged).unwrap().unwrap().parents, vec![left.clone(), right.clone()]);
    assert!(matches!(engine.log(db.id, &no_commit().into(), 1), Err(EngineError::NoSuchCommit(_))));

    let is = |ancestor, descendant| engine.is_ancestor(db.id, ancestor, descendant).unwrap();
    assert!(is(&base, &merged) && is(&right, &merged) && is(&base, &base));
    assert!(!is(&merged, &base) && !is(&left, &right) && !is(&no_commit(), &base));
    assert!(engine.is_ancestor(db.id, &base, &no_commit()).is_err());
    let reached = |heads: &[&CommitHash]| {
        let heads: Vec<_> = heads.iter().copied().cloned().collect();
        let commits = [&base, &left, &right, &merged, &no_commit(), &base].map(Clone::clone);
        engine.reached(db.id, &heads, &commits).unwrap()
    };
    assert_eq!(reached(&[&left]), [true, true, false, false, false, true]);
    let absent = CommitHash::parse(&"1".repeat(40)).unwrap();
    assert_ne!(absent, no_commit());
    assert_eq!(reached(&[&left, &absent, &right]), [true, true, true, false, false, true]);
    assert_eq!(reached(&[&merged]), [true, true, true, true, false, true]);
    assert_eq!(reached(&[]), [false; 6]);
    let parted = |a, b| engine.merge_base(db.id, a, b).unwrap();
    assert_eq!(parted(&left, &right), Some(base.clone()));
    assert_eq!(parted(&right, &merged), Some(right.clone()));
    assert_eq!(parted(&merged, &merged), Some(merged.clone()));
}

/// Checks the look-up of commits by the first digits of their hashes.
pub fn commits_with_prefix(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    // Among 300 commits, some begin with the same digit.
    let heads = (0..300).map(|n| db.write(&base, 2, &format!("UPDATE t SET a = 'v{n}' WHERE id = 1")));
    let heads: Vec<CommitHash> = heads.collect();
    let find = |heads: &[CommitHash], digits: &str, at_most: usize| {
        let prefix = CommitPrefix::parse(digits).unwrap();
        let found =
            engine.reached_with_prefix(db.id, heads, &prefix, at_most, Duration::from_secs(60)).unwrap().unwrap();
        found.into_iter().collect::<BTreeSet<_>>()
    };
    let seven = |commit: &CommitHash| commit.as_str()[..CommitPrefix::MIN_DIGITS].to_owned();
    for wanted in [&heads[7], &base, &db.first] {
        assert_eq!(find(&heads, &seven(wanted), 10), BTreeSet::from([wanted.clone()]));
        assert_eq!(find(&heads, &wanted.as_str()[..39].to_uppercase(), 10), BTreeSet::from([wanted.clone()]));
        assert_eq!(find(&heads, wanted.as_str(), 10), BTreeSet::from([wanted.clone()]));
    }
    assert!(find(&heads[..3], &seven(&heads[7]), 10).is_empty(), "no head reaches it");
    assert!(find(&[], &seven(&base), 10).is_empty());
    assert_eq!(find(&[no_commit(), heads[7].clone()], &seven(&base), 10), BTreeSet::from([base.clone()]));
    assert!(find(&heads, "0000000", 10).is_empty());
    assert!(find(&heads, &seven(&base), 0).len() <= 1, "no more than asked for, or one");
    let prefix = CommitPrefix::parse(&seven(&base)).unwrap();
    let unseen = db.write(&base, 4, "UPDATE t SET a = 'unseen' WHERE id = 1");
    let ended = engine.reached_with_prefix(db.id, &[unseen], &prefix, 10, Duration::ZERO).unwrap();
    assert!(ended.is_none_or(|found| found == [base.clone()]), "the time was over, or all was looked at");
}

/// Checks which tables and rows differ between commits.
pub fn diff(engine: &dyn Engine) {
    let (db, from) = Db::with_rows(engine);
    let to = db.write(
        &from,
        2,
        "UPDATE t SET a = 'uno' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (4,'four',40); \
         CREATE TABLE u(id INTEGER PRIMARY KEY); INSERT INTO u VALUES (1),(2)",
    );
    let changes = engine.changed_tables(db.id, &from, &to).unwrap();
    let told: Vec<_> = changes.iter().map(|c| (c.table.as_str(), c.change, c.schema_changed, c.rows)).collect();
    assert_eq!(told, [("t", Change::Modified, false, Some((1, 1, 1))), ("u", Change::Added, true, Some((2, 0, 0)))]);
    let back = engine.changed_tables(db.id, &to, &from).unwrap();
    assert_eq!((back[1].change, back[1].rows), (Change::Removed, Some((0, 2, 0))));
    assert_eq!(engine.changed_tables(db.id, &to, &to).unwrap(), vec![]);

    let page = RowPage { after: None, limit: 10, bytes: 1 << 20 };
    let found = engine.changed_rows(db.id, &from, &to, "t", &page).unwrap();
    assert!(!found.more);
    let told: Vec<_> = found.rows.into_iter().map(|r| (r.change, r.primary_key, r.from, r.to)).collect();
    assert_eq!(
        told,
        vec![
            (Change::Modified, key(1), row(1, "one", 10), row(1, "uno", 10)),
            (Change::Removed, key(2), row(2, "two", 20), None),
            (Change::Added, key(4), None, row(4, "four", 40)),
        ]
    );
    assert_eq!(engine.changed_rows(db.id, &to, &to, "t", &page).unwrap(), ChangedRows::default());
    let gone = engine.changed_rows(db.id, &from, &to, "gone", &page);
    assert!(matches!(gone, Err(EngineError::NoSuchTable(_))), "{gone:?}");
    assert!(matches!(engine.changed_tables(db.id, &no_commit(), &to), Err(EngineError::NoSuchCommit(_))));
}

/// Checks the pages of changed rows.
pub fn diff_pages(engine: &dyn Engine) {
    let (db, from) = Db::with_rows(engine);
    let to = db.write(&from, 2, "INSERT INTO t VALUES (7,'g',1),(5,'e',1),(6,'f',1); DELETE FROM t WHERE id = 2");
    // Limited by rows, by bytes (every row has more than one), and not at all.
    for (limit, bytes, expected) in [(2, 1 << 20, vec![2, 2]), (10, 1, vec![1, 1, 1, 1]), (10, 1 << 20, vec![4])] {
        let mut keys = Vec::new();
        let mut sizes = Vec::new();
        let mut page = RowPage { after: None, limit, bytes };
        loop {
            let found = engine.changed_rows(db.id, &from, &to, "t", &page).unwrap();
            let Some(last) = found.rows.last() else { break };
            sizes.push(found.rows.len());
            page.after = Some(last.primary_key.iter().map(|(_, cell)| cell.clone()).collect());
            keys.extend(found.rows.into_iter().map(|row| row.primary_key));
            if !found.more {
                break;
            }
        }
        assert_eq!(keys, [2, 5, 6, 7].map(key));
        assert_eq!(sizes, expected);
    }
}

/// Checks the definitions of tables at a commit.
pub fn schemas(engine: &dyn Engine) {
    let (db, from) = Db::with_rows(engine);
    let to = db.write(&from, 2, "CREATE TABLE a(id INTEGER PRIMARY KEY, name TEXT NOT NULL, size REAL)");
    let tables = engine.tables(db.id, &to).unwrap();
    assert_eq!(tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["a", "t"]);
    let table = &tables[0];
    assert_eq!(table.primary_key, ["id"]);
    let columns: Vec<_> =
        table.columns.iter().map(|c| (c.name.as_str(), c.declared_type.as_str(), c.in_primary_key)).collect();
    assert_eq!(columns, [("id", "INTEGER", true), ("name", "TEXT", false), ("size", "REAL", false)]);
    assert_eq!((table.columns[1].nullable, table.columns[2].nullable), (false, true));
    assert!(table.create_statement.to_ascii_uppercase().starts_with("CREATE TABLE "));
    assert_eq!(engine.tables(db.id, &from).unwrap().len(), 1);
    assert!(matches!(engine.tables(db.id, &no_commit()), Err(EngineError::NoSuchCommit(_))));
}

/// Checks that triggers belong to the schema of their table, and that a changed trigger counts as a change of the
/// table.
pub fn objects(engine: &dyn Engine) {
    let (db, from) = Db::with_rows(engine);
    assert_eq!(engine.objects(db.id, &from).unwrap(), []);
    let create = |b| format!("CREATE TRIGGER zero AFTER INSERT ON t BEGIN UPDATE t SET b = {b} WHERE id = 1; END");
    let to = db.write(&from, 2, &create(0));
    let found = engine.objects(db.id, &to).unwrap();
    let [object] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((object.kind, object.name.as_str(), object.owner.as_str()), (ObjectKind::Trigger, "zero", "t"));
    let triggers = &engine.tables(db.id, &to).unwrap()[0].triggers;
    let [trigger] = triggers.as_slice() else { panic!("{triggers:?}") };
    assert_eq!((&trigger.name, &trigger.create_statement), (&object.name, &object.create_statement));
    assert!(trigger.create_statement.contains("SET b = 0"), "{trigger:?}");

    let changes = |from: &CommitHash, to: &CommitHash| -> Vec<(Change, Option<String>, Option<String>)> {
        let changed = engine.changed_tables(db.id, from, to).unwrap();
        let [table] = changed.as_slice() else { panic!("{changed:?}") };
        assert_eq!((table.table.as_str(), table.change, table.rows), ("t", Change::Modified, Some((0, 0, 0))));
        assert!(table.schema_changed);
        let told = |change: &ObjectChange| {
            assert_eq!((change.kind, change.name.as_str()), (ObjectKind::Trigger, "zero"));
            (change.change, change.from.clone(), change.to.clone())
        };
        table.objects.iter().map(told).collect()
    };
    let statement = Some(trigger.create_statement.clone());
    assert_eq!(changes(&from, &to), [(Change::Added, None, statement.clone())]);
    assert_eq!(changes(&to, &from), [(Change::Removed, statement.clone(), None)]);
    let other = db.write(&to, 3, &format!("DROP TRIGGER zero; {}", create(1)));
    let modified = changes(&to, &other);
    assert!(
        matches!(modified.as_slice(), [(Change::Modified, Some(old), Some(new))]
        if Some(old) == statement.as_ref() && new.contains("SET b = 1")),
        "{modified:?}"
    );
    let same = db.write(&to, 4, &format!("DROP TRIGGER zero; {}", create(0)));
    assert_eq!(engine.changed_tables(db.id, &to, &same).unwrap(), []);
    assert!(matches!(engine.objects(db.id, &no_commit()), Err(EngineError::NoSuchCommit(_))));
}
