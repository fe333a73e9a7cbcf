//! Writes of many rows, and the error of those that do not fit into memory.

use branchyard_domain::entities::Cell;
use branchyard_engine_doltlite::EngineOptions;

use crate::support::{EngineHarness, LONG};

pub(crate) const DEFINE: &str = "create table t(id integer primary key, name text, level integer);
    create index by_name on t(name); create index by_level on t(level)";

/// A statement that inserts `rows` rows with names in no order.
pub(crate) fn insert(rows: u32) -> String {
    format!(
        "insert into t with recursive n(x) as (select 1 union all select x + 1 from n where x < {rows})
         select x, 'name ' || (x * 7919 % 10000019), x * 31 % 1000 from n"
    )
}

/// Rows of the smaller tests. Their changes take up more than a hundred MiB.
const ROWS: u32 = 200_000;

fn with_memory(mib: usize) -> EngineHarness {
    EngineHarness::with(EngineOptions { statement_memory: mib << 20, ..EngineOptions::default() })
}

fn counts(harness: &EngineHarness, at: &branchyard_domain::values::CommitHash) -> Vec<Vec<Cell>> {
    harness.read(
        at,
        "select (select count(*) from t), (select count(*) from t indexed by by_name where name >= ''),
                (select count(*) from t indexed by by_level where level >= 0)",
    )
}

fn all(rows: u32) -> Vec<Vec<Cell>> {
    vec![vec![Cell::Integer(rows.into()); 3]]
}

/// The limits are those of a server with default settings.
#[test]
fn a_million_rows_go_into_a_table_with_two_indexes() {
    let harness = EngineHarness::with(EngineOptions { total_memory: Some(1 << 30), ..EngineOptions::default() });
    let at = harness.write(&harness.base, DEFINE);
    let at = harness.write(&at, &insert(1_000_000));
    assert_eq!(counts(&harness, &at), all(1_000_000));
}

#[test]
fn a_write_that_needs_more_memory_than_a_statement_is_one_commit() {
    let harness = with_memory(128);
    let defined = harness.write(&harness.base, DEFINE);
    // Statements before and after the large one belong to the same commit.
    let script = format!("insert into t values (0, 'first', 0); {}; delete from t where id = 0", insert(ROWS));
    let at = harness.write(&defined, &script);
    assert_eq!(counts(&harness, &at), all(ROWS));
    let commits = |at| match harness.read(at, "select count(*) from dolt_log")[..] {
        [ref row] => row.clone(),
        _ => Vec::new(),
    };
    let (before, after) = (commits(&defined), commits(&at));
    assert!(
        matches!((&before[..], &after[..]), ([Cell::Integer(before)], [Cell::Integer(after)]) if *after == before + 1),
        "{before:?} {after:?}"
    );
    for sql in [
        "create index by_both on t(level, name)",
        "update t set level = level + 1, name = name || 'x'",
        "insert into t(name, level) select name, level from t",
        "delete from t where id >= 0",
    ] {
        harness.write(&at, sql);
    }
}

#[test]
fn a_failure_after_a_large_statement_leaves_nothing() {
    let harness = with_memory(128);
    let at = harness.write(&harness.base, DEFINE);
    let failed = harness.write_failure(&at, &format!("{}; insert into t(id) values (1)", insert(ROWS)));
    assert_eq!(failed, ("query error: UNIQUE constraint failed: t.id".to_owned(), 2));
    let at = harness.write(&at, "insert into t values (7, 'only', 7)");
    assert_eq!(counts(&harness, &at), all(1));
}

#[test]
fn a_write_that_does_not_fit_names_the_limit() {
    let harness = with_memory(16);
    let at = harness.write(&harness.base, DEFINE);
    let refused = |limit: &str| {
        let text =
            format!("query error: out of memory: the statement takes more than the {limit}; split it in smaller steps");
        (text, 2)
    };
    let script = format!("insert into t values (0, 'first', 0); {}", insert(ROWS));
    let failed = harness.write_failure(&at, &script);
    assert_eq!(failed, refused("32 MiB of a write (twice sql.max_memory_bytes)"));
    // The way out works.
    let mut steps = at.clone();
    for from in (0..ROWS).step_by(10_000) {
        let step = insert(ROWS) + &format!(" where x > {from} and x <= {}", from + 10_000);
        steps = harness.write(&steps, &step);
    }
    assert_eq!(counts(&harness, &steps), all(ROWS));

    let options = EngineOptions { total_memory: Some(32 << 20), ..EngineOptions::default() };
    let harness = EngineHarness::with(options);
    let at = harness.write(&harness.base, DEFINE);
    let failed = harness.write_failure(&at, &script);
    assert_eq!(failed, refused("28 MiB of a write (sql.memory_total_bytes)"));
    assert!(harness.try_write(crate::support::id(1), &at, "insert into t values (1, 'a', 1)", LONG).is_ok());
}
