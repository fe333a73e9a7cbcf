//! Definitions that are longer than a connection can read are refused. With such a definition, a database could not be
//! opened for writing any more.

use branchyard_domain::ports::{Engine, EngineError, FormatError, MergeJob, ScriptJob};
use branchyard_domain::values::CommitHash;

use crate::support::{EngineHarness, LONG, ada, id};

const MOST: usize = 1 << 20;

/// Returns the definition of a view whose stored form has this many bytes.
fn view(name: &str, bytes: usize) -> String {
    // The definition is stored as written, except for its first words.
    let (head, tail) = (format!("CREATE VIEW {name} AS SELECT '"), "' AS a");
    format!("{head}{}{tail}", "x".repeat(bytes - head.len() - tail.len()))
}

fn script(harness: &EngineHarness, base: &CommitHash, text: &str) -> Result<CommitHash, EngineError> {
    let author = ada();
    let job = ScriptJob { base, target: None, statement_bytes: 16 << 20, message: "m", author: &author, timeout: LONG };
    harness.engine.run_script(id(1), &job, &mut text.as_bytes())
}

fn blamed(refused: Result<CommitHash, EngineError>) -> (u64, String) {
    match refused {
        Err(EngineError::Import(FormatError::Rows(rows))) => (rows[0].line, rows[0].detail.clone()),
        other => panic!("{:?}", other.map_err(|error| error.to_string())),
    }
}

#[test]
fn scripts_may_hold_long_statements_but_no_long_definitions() {
    let harness = EngineHarness::new();
    let long = format!("create table t(a);\ninsert into t values ('{}');\n{};", "v".repeat(3 << 20), view("v", MOST));
    let at = script(&harness, &harness.base, &long).unwrap();
    // The database still works, also on other connections.
    let at = harness.write(&at, "insert into t values (1)");
    assert_eq!(harness.read(&at, "select count(*), (select length(a) > 1000000 from v) from t").len(), 1);
    harness.engine.copy(id(1), id(2)).unwrap();
    harness.write_to(id(2), &at, "insert into t values (2)");

    for (statement, name) in [
        (view("w", MOST + 1), "view 'w'"),
        (format!("create table w(a default '{}')", "d".repeat(MOST)), "table 'w'"),
        (format!("create trigger w after insert on t begin select '{}'; end", "d".repeat(MOST)), "trigger 'w'"),
        (format!("create index w on t(a) where a <> '{}'", "d".repeat(MOST)), "index 'w'"),
        (format!("alter table t add column b default '{}'", "d".repeat(MOST)), "table 't'"),
    ] {
        let (line, detail) = blamed(script(&harness, &at, &format!("select 1;\n\n{statement};\nselect 2;")));
        assert_eq!(line, 3, "{name}");
        assert_eq!(detail, format!("query error: the definition of the {name} would have more than 1048576 bytes"));
    }
    assert_eq!(harness.write(&at, "select 1"), at);
}

#[test]
fn definitions_do_not_grow_past_it_either() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, &format!("create table t(a, b default '{}')", "d".repeat(MOST / 2)));
    let grow = format!("alter table t add column c default '{}'", "d".repeat(MOST / 2));
    let (text, statement) = harness.write_failure(&at, &format!("select 1; {grow}"));
    assert_eq!(text, "query error: the definition of the table 't' would have more than 1048576 bytes");
    assert_eq!(statement, 2);
    let named = format!("create table u as select 1 as \"{0}a\", 2 as \"{0}b\", 3 as \"{0}c\"", "n".repeat(MOST / 4));
    assert_eq!(harness.write(&at, "select 1"), at);
    let quoted = harness.try_write(id(1), &at, &format!("{named}; select 1"), LONG);
    assert!(quoted.is_ok(), "{quoted:?}");

    // Each side alone is short enough.
    let base = harness.write(&harness.base, "create table t(a)");
    let half = |column: &str| format!("alter table t add column {column} default '{}'", column.repeat(MOST * 2 / 3));
    let (ours, theirs) = (harness.write(&base, &half("c")), harness.write(&base, &half("d")));
    let (author, resolve) = (ada(), std::collections::BTreeMap::new());
    let job = MergeJob {
        ours: &ours,
        theirs: &theirs,
        message: "m",
        author: &author,
        resolve: &resolve,
        rows: &[],
        fast_forward: true,
        timeout: LONG,
    };
    let merged = harness.engine.merge(id(1), &job);
    assert!(matches!(merged, Err(EngineError::CannotMerge(_))), "{merged:?}");
    assert_eq!(harness.write(&ours, "select 1"), ours);
}
