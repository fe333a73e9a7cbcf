//! Imports of rows.

use branchyard_domain::entities::{Cell, RowProblem};
use branchyard_domain::ports::{Engine, EngineError, FormatError, ImportColumn, ImportJob, ImportTarget, RowSource};
use branchyard_domain::values::CommitHash;

use crate::support::{EngineHarness, LONG, ada, id, text};

struct Rows(std::vec::IntoIter<Vec<Cell>>, u64);

impl RowSource for Rows {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        self.1 += 1;
        Ok(self.0.next().map(|next| {
            *row = next;
            self.1
        }))
    }
}

fn import(
    harness: &EngineHarness,
    base: &CommitHash,
    table: &str,
    target: &ImportTarget,
    columns: &[(&str, &str)],
    rows: Vec<Vec<Cell>>,
) -> Result<CommitHash, EngineError> {
    let author = ada();
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, kind)| ImportColumn { name: (*name).into(), declared_type: (*kind).into() })
        .collect();
    let job = ImportJob { base, table, target, columns: &columns, message: "Import", author: &author, timeout: LONG };
    harness.engine.import(id(1), &job, &mut Rows(rows.into_iter(), 1))
}

fn problems(result: Result<CommitHash, EngineError>) -> Vec<(u64, Option<String>, String)> {
    match result {
        Err(EngineError::Import(FormatError::Rows(problems))) => {
            problems.into_iter().map(|RowProblem { line, column, detail }| (line, column, detail)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn new(key: &[&str], overwrite: bool) -> ImportTarget {
    ImportTarget::New { primary_key: key.iter().map(|name| (*name).to_owned()).collect(), overwrite }
}

const PEOPLE: &[(&str, &str)] = &[("id", "INTEGER"), ("na\"me", "TEXT")];

fn person(id: i64, name: &str) -> Vec<Cell> {
    vec![Cell::Integer(id), text(name)]
}

#[test]
fn new_tables() {
    let harness = EngineHarness::new();
    let head =
        import(&harness, &harness.base, "pe\"ople", &new(&["id"], false), PEOPLE, vec![person(1, "A"), person(2, "B")])
            .unwrap();
    assert_eq!(harness.read(&head, "select \"na\"\"me\" from \"pe\"\"ople\""), [[text("A")], [text("B")]]);
    let table = harness.engine.tables(id(1), &head).unwrap().remove(0);
    assert_eq!(table.primary_key, ["id"]);
    assert!(table.create_statement.contains("NOT NULL"));
    let again = import(&harness, &head, "PE\"OPLE", &new(&["id"], false), PEOPLE, vec![]);
    assert!(matches!(again, Err(EngineError::TableExists(name)) if name == "pe\"ople"));
    let over =
        import(&harness, &head, "pe\"ople", &new(&[], true), &[("x", "")], vec![vec![Cell::Blob(vec![0])]]).unwrap();
    assert_eq!(
        harness.read(&over, "select x, count(*) from \"pe\"\"ople\""),
        [[Cell::Blob(vec![0]), Cell::Integer(1)]]
    );
    // Importing the same rows again changes nothing.
    assert_eq!(
        import(&harness, &over, "pe\"ople", &new(&[], true), &[("x", "")], vec![vec![Cell::Blob(vec![0])]]).unwrap(),
        over
    );
    let found = problems(import(
        &harness,
        &harness.base,
        "p",
        &new(&["id"], false),
        PEOPLE,
        vec![person(1, "A"), person(1, "B"), vec![Cell::Null, text("C")], person(4, "D")],
    ));
    assert_eq!(
        found,
        [
            (3, Some("id".into()), "UNIQUE constraint failed: p.id".into()),
            (4, Some("id".into()), "NOT NULL constraint failed: p.id".into()),
        ]
    );
    let many = (0..500).map(|_| person(1, "A")).collect();
    assert_eq!(problems(import(&harness, &harness.base, "p", &new(&["id"], false), PEOPLE, many)).len(), 100);
    assert_eq!(harness.engine.tables(id(1), &harness.base).unwrap(), []);
    assert!(import(&harness, &harness.base, "dolt_x", &new(&[], false), PEOPLE, vec![]).is_err());
    assert!(import(&harness, &harness.base, "sqlite_x", &new(&[], false), PEOPLE, vec![]).is_err());
}

#[test]
fn updates_and_replacements() {
    let harness = EngineHarness::new();
    let base = harness.write(
        &harness.base,
        "create table t(id integer primary key, a text not null, b text default 'd', c text not null default 'e', check (a <> 'bad'));
         insert into t values (1, 'x', 'keep', 'k'), (2, 'y', 'keep', 'k')",
    );
    let columns: &[(&str, &str)] = &[("id", "INTEGER"), ("a", "TEXT")];
    let head = import(
        &harness,
        &base,
        "T",
        &ImportTarget::Update,
        columns,
        vec![person(1, "X"), person(3, "Z"), person(3, "last")],
    )
    .unwrap();
    assert_eq!(
        harness.read(&head, "select * from t"),
        [
            [Cell::Integer(1), text("X"), text("keep"), text("k")],
            [Cell::Integer(2), text("y"), text("keep"), text("k")],
            [Cell::Integer(3), text("last"), text("d"), text("e")],
        ]
    );
    // Columns that are not in the file may be NOT NULL if the row exists.
    let head =
        import(&harness, &base, "t", &ImportTarget::Update, &[("id", ""), ("b", "")], vec![person(1, "new")]).unwrap();
    assert_eq!(harness.read(&head, "select b from t where id = 1"), [[text("new")]]);
    let found =
        problems(import(&harness, &base, "t", &ImportTarget::Update, &[("id", ""), ("b", "")], vec![person(7, "new")]));
    assert_eq!(found, [(2, None, "NOT NULL constraint failed: t.a".into())]);
    assert_eq!(
        import(&harness, &base, "t", &ImportTarget::Update, &[("id", "")], vec![vec![Cell::Integer(1)]]).unwrap(),
        base
    );
    let found = problems(import(
        &harness,
        &base,
        "t",
        &ImportTarget::Replace,
        columns,
        vec![person(1, "bad"), person(2, "ok")],
    ));
    assert_eq!(found, [(2, None, "CHECK constraint failed: a <> 'bad'".into())]);
    let head = import(&harness, &base, "t", &ImportTarget::Replace, columns, vec![person(5, "only")]).unwrap();
    assert_eq!(harness.read(&head, "select id, b from t"), [[Cell::Integer(5), text("d")]]);
    for target in [ImportTarget::Update, ImportTarget::Replace] {
        assert!(matches!(import(&harness, &base, "nope", &target, columns, vec![]), Err(EngineError::NoSuchTable(_))));
    }
    let file = |result| matches!(result, Err(EngineError::Import(FormatError::File(_))));
    assert!(file(import(&harness, &base, "t", &ImportTarget::Update, &[("a", "")], vec![])));
    assert!(file(import(&harness, &base, "t", &ImportTarget::Update, &[("id", ""), ("zz", "")], vec![])));
    let keyless = harness.write(&base, "create table k(a)");
    assert!(file(import(&harness, &keyless, "k", &ImportTarget::Update, &[("a", "")], vec![])));
}

#[test]
fn references_are_checked_at_the_end() {
    let harness = EngineHarness::new();
    let base = harness.write(
        &harness.base,
        "create table p(id integer primary key, up int references p); insert into p values (1, null), (2, 1);
         create table c(id integer primary key, p int references p); insert into c values (1, 2)",
    );
    let columns: &[(&str, &str)] = &[("id", ""), ("up", "")];
    let row = |id, up| vec![Cell::Integer(id), Cell::Integer(up)];
    // A row may refer to a later row.
    import(&harness, &base, "p", &ImportTarget::Replace, columns, vec![row(2, 3), row(3, 2)]).unwrap();
    let found = problems(import(&harness, &base, "p", &ImportTarget::Replace, columns, vec![row(2, 2), row(5, 6)]));
    assert_eq!(found, [(3, Some("up".into()), "FOREIGN KEY constraint failed: no such row in p".into())]);
    let found = problems(import(&harness, &base, "p", &ImportTarget::Replace, columns, vec![row(1, 1)]));
    assert_eq!(found.len(), 1);
    assert!(found[0].2.contains("table c"));
    // Foreign keys apply to statements too.
    assert!(harness.write_failure(&base, "delete from p where id = 2").0.contains("FOREIGN KEY"));
}

#[test]
fn triggers_of_the_table_stay_guarded() {
    let harness = EngineHarness::new();
    let base = harness.write(
        &harness.base,
        "create table t(id integer primary key, v); create table log(x);
         create trigger g after insert on t begin insert into log values (new.id); end;",
    );
    let head =
        import(&harness, &base, "t", &ImportTarget::Replace, &[("id", ""), ("v", "")], vec![person(1, "a")]).unwrap();
    assert_eq!(harness.read(&head, "select * from log"), [[Cell::Integer(1)]]);
}

#[test]
fn a_hundred_thousand_rows() {
    let harness = EngineHarness::new();
    let rows = (0..100_000).map(|n| person(n, "some name or other")).collect();
    let head = import(&harness, &harness.base, "t", &new(&["id"], false), PEOPLE, rows).unwrap();
    assert_eq!(harness.read(&head, "select count(*) from t"), [[Cell::Integer(100_000)]]);
}
