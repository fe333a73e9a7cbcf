//! Expressions that users stored in a schema (generated columns, checks, defaults, indexes, views, triggers) have the
//! limits of a statement, no matter which call evaluates them. Diffs and merges are in `limits.rs`.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use branchyard_domain::entities::{Cell, ImportMode};
use branchyard_domain::ports::{
    CancellationToken, CollectedRows, Engine as _, EngineError, FormatError, ImportColumn, ImportJob, ImportTarget,
    RowSource, ScriptJob, Selection, SqlFailure, TableScan,
};
use branchyard_domain::values::CommitHash;
use branchyard_domain_testing::AMPLE;

use crate::limits::{GREEDY, SHORT, SLOW, confine, rows};
use crate::support::{EngineHarness, LONG, ada, id};

/// Runs a call that may never end if a limit does not work, and fails the test if it does not end.
fn ends<T: Send + 'static>(
    what: &str,
    harness: &Arc<EngineHarness>,
    call: impl FnOnce(&EngineHarness) -> T + Send + 'static,
) -> T {
    let (harness, (give, take)) = (Arc::clone(harness), mpsc::channel());
    thread::spawn(move || {
        let result = call(&harness);
        // The caller may unwrap the harness once it has the result.
        drop(harness);
        drop(give.send(result));
    });
    take.recv_timeout(4 * AMPLE).unwrap_or_else(|_| panic!("{what} does not end"))
}

/// Returns views that would take unboundedly long to prepare: each view reads the previous one twice.
fn nested_views() -> String {
    let views = (1..60).map(|n| format!("create view v{n} as select a.x from v{} a, v{} b", n - 1, n - 1));
    let views: Vec<String> = ["create view v0 as select 1 as x".to_owned()].into_iter().chain(views).collect();
    views.join("; ")
}

/// Returns schemas with a table `t` whose rows take long to compute, each through another kind of expression.
fn slow_schemas() -> Vec<(&'static str, String)> {
    let trigger = |body: &str| {
        format!(
            "create table t(id integer primary key, a); create table log(x);
             create trigger g after insert on t begin insert into log {body}; end;
             create trigger h after delete on t begin insert into log {body}; end;
             create trigger i after update on t begin insert into log {body}; end"
        )
    };
    let slow = SLOW.replace("a %", "random() %");
    vec![
        ("a stored column", format!("create table t(id integer primary key, a, slow as ({SLOW}) stored)")),
        ("a check", format!("create table t(id integer primary key, a, check ({SLOW} > 0))")),
        ("a default", format!("create table t(id integer primary key, a, slow default ({slow}))")),
        ("an index", format!("create table t(id integer primary key, a); create index i on t({SLOW})")),
        (
            "a partial index",
            format!("create table t(id integer primary key, a); create index i on t(a) where {SLOW} > 0"),
        ),
        ("a trigger", trigger(&format!("select {slow}"))),
        ("a trigger on a nested view", format!("{}; {}", nested_views(), trigger("select x from v59"))),
    ]
}

struct Numbers(i64, i64);

impl RowSource for Numbers {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        if self.0 > self.1 {
            return Ok(None);
        }
        *row = vec![Cell::Integer(self.0), Cell::Integer(self.0)];
        self.0 += 1;
        Ok(Some(u64::try_from(self.0).unwrap()))
    }
}

fn import(
    harness: &EngineHarness,
    base: &CommitHash,
    target: &ImportTarget,
    (rows, timeout): (i64, Duration),
) -> Result<CommitHash, EngineError> {
    let author = ada();
    let columns = ["id", "a"].map(|name| ImportColumn { name: name.to_owned(), declared_type: String::new() });
    let job = ImportJob { base, table: "t", target, columns: &columns, message: "Import", author: &author, timeout };
    harness.engine.import(id(1), &job, &mut Numbers(1, rows))
}

fn script(
    harness: &EngineHarness,
    base: &CommitHash,
    mode: ImportMode,
    text: &str,
    timeout: Duration,
) -> Result<CommitHash, EngineError> {
    let author = ada();
    let target = Some(("t", mode));
    let job = ScriptJob { base, target, statement_bytes: 16 << 20, message: "m", author: &author, timeout };
    harness.engine.run_script(id(1), &job, &mut text.as_bytes())
}

fn scan(
    harness: &EngineHarness,
    at: &CommitHash,
    table: &str,
    timeout: Duration,
) -> Result<CollectedRows, EngineError> {
    let mut taken = CollectedRows::default();
    let scan = TableScan { table, timeout, canceled: CancellationToken::default() };
    harness.engine.scan(id(1), at, &scan, &mut taken).map(|_| taken)
}

fn look(
    harness: &EngineHarness,
    at: &CommitHash,
    table: &str,
    timeout: Duration,
) -> Result<CollectedRows, EngineError> {
    let mut taken = CollectedRows::default();
    let (tests, order, after) = (&[][..], None, None);
    let canceled = CancellationToken::default();
    let (backwards, skip, limit) = (false, 0, 1_000);
    let wanted = Selection { table, tests, order, backwards, after, skip, limit, timeout, canceled };
    harness.engine.rows(id(1), at, &wanted, &mut taken).map(|_| taken)
}

#[track_caller]
fn too_slow<T: std::fmt::Debug>(what: &str, ended: Result<T, EngineError>) {
    let is_late = match &ended {
        Err(EngineError::TimedOut(30)) => true,
        Err(EngineError::Sql { failure: SqlFailure::TimedOut(ms), .. }) => *ms <= 30,
        _ => false,
    };
    assert!(is_late, "{what}: {ended:?}");
}

#[test]
fn imports_and_scripts_have_the_time_of_the_job() {
    for (what, schema) in slow_schemas() {
        let harness = EngineHarness::new();
        let empty = harness.write(&harness.base, &schema);
        let harness = Arc::new(harness);
        let insert = format!("insert into t(id, a) {}", rows(1, 20));
        for target in [ImportTarget::Replace, ImportTarget::Update] {
            let (base, name) = (empty.clone(), format!("an import, {what}, {target:?}"));
            too_slow(&name, ends(&name, &harness, move |harness| import(harness, &base, &target, (20, SHORT))));
        }
        let (base, name) = (empty.clone(), format!("a script, {what}"));
        too_slow(
            &name,
            ends(&name, &harness, move |harness| script(harness, &base, ImportMode::Update, &insert, SHORT)),
        );
    }
}

#[test]
fn what_is_replaced_has_the_time_of_the_job() {
    let mut harness = EngineHarness::new();
    let nested = format!(
        "{}; create table t(id integer primary key, a); create table log(x);
         insert into t(id, a) {};
         create trigger h after delete on t begin insert into log select x from v59; end",
        nested_views(),
        rows(1, 20)
    );
    let slow = format!(
        "create table t(id integer primary key, a); create table log(x); insert into t(id, a) {};
         create trigger h after delete on t begin insert into log select {}; end",
        rows(1, 20),
        SLOW.replace("a %", "old.a %")
    );
    let (nested, slow) = (harness.write(&harness.base, &nested), harness.write(&harness.base, &slow));
    confine(&mut harness, SHORT, 256 << 20);
    let harness = Arc::new(harness);
    for (what, base) in [("nested", nested), ("slow", slow)] {
        let (at, name) = (base.clone(), format!("an import, {what}"));
        too_slow(
            &name,
            ends(&name, &harness, move |harness| import(harness, &at, &ImportTarget::Replace, (20, SHORT))),
        );
        let (at, name) = (base.clone(), format!("a script, {what}"));
        too_slow(
            &name,
            ends(&name, &harness, move |harness| script(harness, &at, ImportMode::Replace, "select 1", SHORT)),
        );
    }
}

#[test]
fn reading_a_table_or_view_has_the_time_of_the_call() {
    let mut harness = EngineHarness::new();
    let schema = format!(
        "create table t(id integer primary key, a, slow as ({SLOW})); insert into t(id, a) {};
         create view w as select slow from t where slow > 0; {}",
        rows(1, 20),
        nested_views()
    );
    let at = harness.write(&harness.base, &schema);
    confine(&mut harness, SHORT, 256 << 20);
    let harness = Arc::new(harness);
    let (base, at_table) = (harness.base.clone(), at.clone());
    too_slow("an export", ends("an export", &harness, move |harness| scan(harness, &at_table, "t", SHORT)));
    for table in ["t", "w", "v59"] {
        let (name, at_rows) = (format!("rows of {table}"), at.clone());
        too_slow(&name, ends(&name, &harness, move |harness| look(harness, &at_rows, table, SHORT)));
    }
    for table in ["w", "v59"] {
        let (name, at_count) = (format!("the count of {table}"), at.clone());
        too_slow(
            &name,
            ends(&name, &harness, move |harness| harness.engine.count(id(1), &at_count, table, &[], SHORT)),
        );
    }
    // If the definition of a view takes too long, it is left out, or the whole call ends.
    let at_tables = at.clone();
    let _ = ends("the definitions", &harness, move |harness| harness.engine.tables(id(1), &at_tables).map(drop));
    let at_objects = at.clone();
    ends("the objects", &harness, move |harness| harness.engine.objects(id(1), &at_objects)).unwrap();
    let _ = ends("the counts", &harness, move |harness| harness.engine.changed_tables(id(1), &base, &at).map(drop));
}

#[test]
fn the_check_of_a_file_has_a_time_for_each_step() {
    let mut harness = EngineHarness::new();
    let schema = format!(
        "create table t(id integer primary key, a, slow as ({SLOW}), check ({SLOW} > 0)); create index i on t(slow);
         insert into t(id, a) {}",
        rows(1, 20)
    );
    let at = harness.write(&harness.base, &schema);
    assert_eq!(harness.engine.verify(id(1), std::slice::from_ref(&at)).unwrap(), [""; 0]);
    confine(&mut harness, SHORT, 256 << 20);
    let harness = Arc::new(harness);
    let at_slow = at.clone();
    let found = ends("the check", &harness, move |harness| harness.engine.verify(id(1), &[at_slow])).unwrap();
    assert_eq!(found, ["the check did not end within 30 ms"]);
}

#[test]
fn conflicts_have_the_time_of_a_trial() {
    let mut harness = EngineHarness::new();
    let base = harness.write(
        &harness.base,
        &format!(
            "create table t(id integer primary key, a, slow as ({SLOW}) stored); insert into t(id, a) values (1, 1)"
        ),
    );
    let ours = harness.write(&base, "update t set a = 2");
    let theirs = harness.write(&base, &format!("update t set a = 3; insert into t(id, a) {}", rows(10, 30)));
    confine(&mut harness, SHORT, 256 << 20);
    let harness = Arc::new(harness);
    let find = |harness: &Arc<EngineHarness>| {
        let (ours, theirs) = (ours.clone(), theirs.clone());
        ends("a trial", harness, move |harness| harness.engine.conflicts(id(1), &ours, &theirs, None, 0, 10))
    };
    // The trial either computes everything in time or ends.
    let found = find(&harness);
    assert!(matches!(&found, Err(EngineError::TimedOut(30)) | Ok(_)), "{found:?}");
    let mut harness = Arc::into_inner(harness).unwrap();
    confine(&mut harness, LONG, 256 << 20);
    assert_eq!(harness.engine.conflicts(id(1), &ours, &theirs, None, 0, 10).unwrap().len(), 1);
}

/// The tables in which a module keeps its content are not listed as user tables; tables with similar names are.
#[test]
fn tables_of_modules_are_left_out_without_a_look_at_the_views() {
    let harness = EngineHarness::new();
    let schema = format!(
        "create virtual table words using fts5(text);
         create table words_of(id integer primary key); create table other_data(id integer primary key); {}",
        nested_views()
    );
    let at = harness.write(&harness.base, &schema);
    let harness = Arc::new(harness);
    let found = ends("finding a table", &harness, move |harness| {
        let changed = harness.write(&at, "insert into other_data values (1); insert into words values ('one')");
        assert!(scan(harness, &changed, "words_content", LONG).is_err());
        assert_eq!(scan(harness, &changed, "other_data", LONG).unwrap().rows.len(), 1);
        harness.engine.verify(id(1), &[changed]).unwrap()
    });
    assert_eq!(found, [""; 0]);
}

fn is_out_of_memory(error: &EngineError) -> bool {
    match error {
        EngineError::Import(FormatError::Rows(rows)) => rows[0].detail.contains("out of memory"),
        EngineError::Import(FormatError::File(detail)) => detail.contains("out of memory"),
        EngineError::Sql { failure, .. } => failure.to_string().contains("out of memory"),
        EngineError::Unavailable(text) => text.contains("out of memory"),
        _ => false,
    }
}

#[track_caller]
fn too_greedy<T: std::fmt::Debug>(what: &str, ended: Result<T, EngineError>) {
    assert!(matches!(&ended, Err(error) if is_out_of_memory(error)), "{what}: {ended:?}");
}

#[test]
fn what_is_stored_has_the_memory_of_a_statement() {
    let trigger = format!(
        "create table t(id integer primary key, a); create table log(x);
         create trigger g after insert on t begin insert into log select {}; end",
        GREEDY.replace("a %", "new.a %").replace("'a'", "'b'")
    );
    for (what, schema) in [
        ("a stored column", format!("create table t(id integer primary key, a, large as ({GREEDY}) stored)")),
        ("a check", format!("create table t(id integer primary key, a, check ({GREEDY} > 0))")),
        (
            "a default",
            format!("create table t(id integer primary key, a, d default ({}))", GREEDY.replace("a %", "random() %")),
        ),
        ("an index", format!("create table t(id integer primary key, a); create index i on t({GREEDY})")),
        ("a trigger", trigger),
    ] {
        let mut harness = EngineHarness::new();
        let empty = harness.write(&harness.base, &schema);
        import(&harness, &empty, &ImportTarget::Replace, (2, LONG)).unwrap();
        confine(&mut harness, LONG, 24 << 20);
        let insert = format!("insert into t(id, a) {}", rows(1, 2));
        too_greedy(what, import(&harness, &empty, &ImportTarget::Replace, (2, LONG)));
        too_greedy(what, script(&harness, &empty, ImportMode::Update, &insert, LONG));
    }
}

#[test]
fn what_is_read_has_the_memory_of_a_statement() {
    let mut harness = EngineHarness::new();
    let schema = format!(
        "create table t(id integer primary key, a, large as ({GREEDY})); insert into t(id, a) {}; create view w as select large from t where large > 0",
        rows(1, 2)
    );
    let at = harness.write(&harness.base, &schema);
    let checked =
        format!("create table c(id integer primary key, a, check ({GREEDY} > 0)); insert into c(id, a) values (1, 1)");
    let at = harness.write(&at, &checked);
    assert_eq!(scan(&harness, &at, "t", LONG).unwrap().rows.len(), 2);
    confine(&mut harness, LONG, 24 << 20);
    too_greedy("an export", scan(&harness, &at, "t", LONG));
    too_greedy("rows", look(&harness, &at, "t", LONG));
    too_greedy("rows of a view", look(&harness, &at, "w", LONG));
    too_greedy("a count", harness.engine.count(id(1), &at, "w", &[], LONG));
    harness.engine.tables(id(1), &at).unwrap();
    let found = harness.engine.verify(id(1), std::slice::from_ref(&at)).unwrap();
    assert_eq!(found, ["the check takes more memory than the 24 MiB of a statement"]);
}

/// The final `dolt_commit` of a write has no time limit. It evaluates no stored expression: the expressions here fail
/// whenever they are evaluated.
#[test]
fn committing_computes_nothing_that_is_stored() {
    const OVERFLOWS: &str = "abs(-9223372036854775807 - 1 + a * 0)";
    let harness = EngineHarness::new();
    let at = harness.write(
        &harness.base,
        &format!(
            "create table t(id integer primary key, a); insert into t values (1, 1), (2, 2);
             alter table t add column broken as ({OVERFLOWS});
             create table log(x); create view w as select broken from t;
             create trigger g after update on t begin insert into log select broken from t; end"
        ),
    );
    let failure = "query error: integer overflow";
    assert_eq!(harness.read_failure(&at, "select broken from t"), failure);
    assert_eq!(harness.read_failure(&at, "select * from w"), failure);
    assert_eq!(harness.write_failure(&at, "update t set a = 3"), (failure.to_owned(), 1));
    // A check that holds when each row is inserted, but would not hold after the rest is written.
    let at = harness.write(&at, "create table c(id integer primary key, check (changes() <> 7))");
    let seven = format!("insert into log select x from ({})", rows(1, 7).replace("select x, x", "select x"));
    let holds = format!("insert into log values (0); insert into c values (1); {seven}");
    harness.write(&at, &holds);
    let refused = harness.write_failure(&at, &format!("{holds}; insert into c values (2)"));
    assert_eq!(refused, ("query error: CHECK constraint failed: changes() <> 7".to_owned(), 4));
}
