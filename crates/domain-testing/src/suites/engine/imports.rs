//! Checks of imports and scripts.

use super::builders::{Db, Given, LONG, author, int, text};
use branchyard_domain::entities::{Cell, ImportMode, RowProblem};
use branchyard_domain::ports::{Engine, EngineError, FormatError, ImportColumn, ImportJob, ImportTarget};

/// Checks every mode of imports.
pub fn imports(engine: &dyn Engine) {
    let db = Db::new(engine);
    let all = ["id", "a", "b"];
    let new = |overwrite| ImportTarget::New { primary_key: vec!["id".to_owned()], overwrite };
    let rows: [&[Cell]; 2] = [&[int(2), text("two"), int(20)], &[int(1), text("one"), Cell::Null]];
    let made = db.import(&db.first, &new(false), &all, &rows).unwrap();
    assert_eq!(db.lines(&made), ["1|one|NULL", "2|two|20"]);
    let table = &engine.tables(db.id, &made).unwrap()[0];
    assert_eq!((table.primary_key.clone(), table.columns[0].nullable), (vec!["id".to_owned()], false));
    let commit = engine.commit(db.id, &made).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.parents), ("import", vec![db.first.clone()]));
    assert!(matches!(db.import(&made, &new(false), &all, &rows), Err(EngineError::TableExists(_))));

    let updated =
        db.import(&made, &ImportTarget::Update, &["id", "b"], &[&[int(2), int(21)], &[int(3), int(31)]]).unwrap();
    assert_eq!(db.lines(&updated), ["1|one|NULL", "2|two|21", "3|NULL|31"], "other columns stay");
    let same = db.import(&updated, &ImportTarget::Update, &["id", "b"], &[&[int(2), int(21)]]).unwrap();
    assert_eq!(same, updated, "nothing changed, so there is no commit");
    let replaced = db.import(&updated, &ImportTarget::Replace, &all, &[&[int(9), text("nine"), int(90)]]).unwrap();
    assert_eq!(db.lines(&replaced), ["9|nine|90"]);
    let again = db.import(&replaced, &new(true), &["id", "b"], &[&[int(1), int(10)]]).unwrap();
    assert_eq!(db.lines(&again), ["1|10"]);
}

/// Checks that failed imports name the invalid rows and change nothing.
pub fn refused_imports(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let twice: [&[Cell]; 2] = [&[int(7), int(1)], &[int(7), int(2)]];
    let refused = db.import(&base, &ImportTarget::Replace, &["id", "b"], &twice);
    let Err(EngineError::Import(FormatError::Rows(problems))) = refused else { panic!("{refused:?}") };
    assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [3]);

    let columns = [ImportColumn { name: "id".to_owned(), declared_type: "INTEGER".to_owned() }];
    let author = author(60);
    let target = ImportTarget::Update;
    let job = ImportJob {
        base: &base,
        table: "t",
        target: &target,
        columns: &columns,
        message: "m",
        author: &author,
        timeout: LONG,
    };
    let problem = RowProblem { line: 3, column: Some("id".to_owned()), detail: "no number".to_owned() };
    let mut rows = Given { rows: vec![vec![int(8)]], at: 0, fault: Some(FormatError::Rows(vec![problem.clone()])) };
    let refused = engine.import(db.id, &job, &mut rows);
    let Err(EngineError::Import(FormatError::Rows(problems))) = refused else { panic!("{refused:?}") };
    assert_eq!(problems, [problem]);
    assert_eq!(db.lines(&base).len(), 3);
    let next = db.write(&base, 61, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|one|10", "2|two|20"], "the failures left nothing behind");
}

/// Checks that a script runs as one commit on a table prepared for its mode.
pub fn scripts(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let run = |mode, script: &str| db.script(&base, Some(("T", mode)), script).unwrap();
    let updated = run(ImportMode::Update, "\nINSERT INTO t VALUES (4,'four',40);\nDELETE FROM t WHERE id = 1");
    assert_eq!(db.lines(&updated), ["2|two|20", "3|three|30", "4|four|40"]);
    let commit = engine.commit(db.id, &updated).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.parents), ("script", vec![base.clone()]));
    assert_eq!(db.lines(&run(ImportMode::Replace, "INSERT INTO t VALUES (1,'only',1);")), ["1|only|1"]);
    let again = "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT); INSERT INTO t VALUES (1,'new')";
    assert_eq!(db.lines(&run(ImportMode::Overwrite, again)), ["1|new"]);
    let made = db.script(&db.first, Some(("t", ImportMode::Create)), again).unwrap();
    assert_eq!(db.lines(&made), ["1|new"]);
    let made = db.script(&db.first, Some(("t", ImportMode::Overwrite)), again).unwrap();
    assert_eq!(db.lines(&made), ["1|new"]);
    let any = db.script(&base, None, "DELETE FROM t WHERE id = 1; CREATE TABLE u(a TEXT)").unwrap();
    assert_eq!((db.lines(&any).len(), engine.tables(db.id, &any).unwrap().len()), (2, 2));
    assert_eq!(db.script(&base, None, "UPDATE t SET a = 'one' WHERE id = 1").unwrap(), base, "nothing changed");
}

/// Checks that a failed script names the line of the failed statement and changes nothing.
pub fn refused_scripts(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let told = |script: &str| match db.script(&base, Some(("t", ImportMode::Update)), script) {
        Err(EngineError::Import(FormatError::Rows(problems))) => {
            problems.into_iter().map(|problem| (problem.line, problem.detail)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let gone = "query error: table not found: gone".to_owned();
    assert_eq!(told("DELETE FROM t WHERE id = 1;\n\n  DELETE FROM gone\nWHERE id = 1;"), [(3, gone)]);
    let word = "query error: statement not allowed: COMMIT".to_owned();
    assert_eq!(told("DELETE FROM t WHERE id = 1;\nCOMMIT;"), [(2, word)]);
    let taken = "query error: UNIQUE constraint failed: t.id".to_owned();
    assert_eq!(told("INSERT INTO t VALUES (1,'again',0)"), [(1, taken)]);

    let script = "DELETE FROM t WHERE id = 1";
    assert!(matches!(db.script(&base, Some(("t", ImportMode::Create)), script), Err(EngineError::TableExists(_))));
    for mode in [ImportMode::Update, ImportMode::Replace] {
        assert!(matches!(db.script(&base, Some(("u", mode)), script), Err(EngineError::NoSuchTable(_))));
    }
    let left = db.script(&base, Some(("u", ImportMode::Create)), script);
    assert!(matches!(left, Err(EngineError::Import(FormatError::File(_)))), "{left:?}");
    assert_eq!(db.lines(&base).len(), 3);
    let next = db.write(&base, 61, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|one|10", "2|two|20"], "the failures left nothing behind");
}
