//! Measures how the time of one call grows with the length, depth and number of its arguments.
//!
//! Neither a progress handler nor an interrupt is checked within one call of a function, so a call whose time grows
//! faster than its arguments can block a thread for hours. `growth.txt` has a row for every function, operator and
//! module table that user statements may use.
//!
//! A default run ends a row with the first growth that is measured above the noise. `GROWTH_SIZES=all` goes on to the
//! largest arguments of each row, which takes minutes.

use std::collections::BTreeSet;
use std::time::Duration;

use branchyard_domain::ports::{CollectedRows, Engine as _, EngineError, ReadQuery, SqlFailure};
use branchyard_domain::values::CommitHash;

use super::Computing;
use crate::guard::{FUNCTIONS, MODULES};
use crate::support::{EngineHarness, LONG, id};
use crate::tested::RUNS_IN_THREAD;

const TABLE: &str = include_str!("growth.txt");
/// Shorter times cannot be distinguished from noise.
const FLOOR: Duration = Duration::from_millis(40);
/// Maximum factor by which the time may grow when the arguments grow fourfold. A sort takes a little more than four
/// times as long, a quadratic call sixteen times.
const GROWTH: f64 = 9.0;
/// Operators that need a row. Other operators are covered by the functions that implement them.
const OPERATORS: &[&str] = &["||", "+", "and", "case", "in", "(,)", "union all", "collate", "cast"];

struct Row {
    names: Vec<String>,
    stops: bool,
    fails: bool,
    what: String,
    from: usize,
    to: usize,
    sql: String,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.starts_with("none ") && !line.is_empty());
    let row = |line: &str| {
        // The operator `||` is a name as well.
        let parts: Vec<&str> = line.splitn(5, " | ").collect();
        let [names, what, from, to, sql] = parts[..] else { panic!("{line}") };
        let (stops, names) = names.strip_prefix("stops ").map_or((false, names), |names| (true, names));
        let (fails, names) = names.strip_prefix("fails ").map_or((false, names), |names| (true, names));
        let names = if names == "(,)" { vec![names.into()] } else { names.split(',').map(str::to_owned).collect() };
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{line}"));
        Row { names, stops, fails, what: what.into(), from: number(from), to: number(to), sql: sql.into() }
    };
    lines.map(row).collect()
}

/// Builds the statement of a row for one argument size.
fn statement(row: &Row, name: &str, n: usize) -> String {
    let repeated = |item: &dyn Fn(usize) -> String, separator: &str, count: usize| {
        (1..=count).map(item).collect::<Vec<_>>().join(separator)
    };
    // Some operators are functions whose names need quotes.
    let name = if name.starts_with("->") { format!("\"{name}\"") } else { name.to_owned() };
    let mut sql = row.sql.replace("{f}", &name);
    for (mark, text) in [
        ("{list1000}", "'[' || substr(replace(printf('%.*c', 1000, '0'), '0', '0,'), 1, 1999) || ']'".to_owned()),
        ("{list}", "'[' || substr(replace(printf('%.*c', {n}, '0'), '0', '0,'), 1, 2 * {n} - 1) || ']'".to_owned()),
        ("{deep}", "printf('%.*c', {n}, '[') || printf('%.*c', {n}, ']')".to_owned()),
        (
            "{object}",
            "(with recursive c(x) as (select 1 union all select x + 1 from c where x < {n}) \
             select '{' || group_concat('\"k' || x || '\":1') || '}' from c)"
                .to_owned(),
        ),
        (
            "{rows}",
            "(with recursive c(x) as (select 1 union all select x + 1 from c where x < {n}) select x from c)".into(),
        ),
        ("{text2}", "printf('%.*c', {n} * 2, 'a')".to_owned()),
        ("{text}", "printf('%.*c', {n}, 'a')".to_owned()),
        ("{digits}", "printf('%.*c', {n}, '7')".to_owned()),
        ("{other}", "printf('%.*c', {n}, 'z')".to_owned()),
    ] {
        sql = sql.replace(mark, &text);
    }
    if sql.contains("{args}") {
        sql = sql.replace("{args}", &repeated(&|n| n.to_string(), ", ", n));
    }
    for (mark, item, separator) in [
        ("{items}", (&|n: usize| n.to_string()) as &dyn Fn(usize) -> String, ", "),
        ("{paths}", &|n| format!("'$[{n}]'"), ", "),
        ("{labels}", &|n| format!("'k{n}', {n}"), ", "),
        ("{pairs}", &|n| format!("'$[{n}]', {n}"), ", "),
        ("{modifiers}", &|_| "'+1 day'".to_owned(), ", "),
        ("{chain}", &|n| n.to_string(), " + "),
        ("{ands}", &|n| n.to_string(), " and "),
        ("{whens}", &|n| format!("when {n} + 1 then 0"), " "),
        ("{unions}", &|n| format!("select {n}"), " union all "),
    ] {
        if sql.contains(mark) {
            sql = sql.replace(mark, &repeated(item, separator, n));
        }
    }
    sql.replace("{n}", &n.to_string())
}

/// Returns the processor time of the statement, the smaller of two measurements. Returns an error if the statement
/// fails for a reason other than its time limit, or does not fail although it should.
fn measured(
    harness: &EngineHarness,
    at: &CommitHash,
    sql: &str,
    timeout: Duration,
    fails: bool,
) -> Result<Duration, String> {
    let once = || {
        let computing = Computing::now();
        let query = ReadQuery::new(sql, timeout);
        match harness.engine.read(id(1), at, &query, &mut CollectedRows::default()) {
            Ok(_) if !fails => Ok(computing.elapsed()),
            Err(EngineError::Sql { failure: SqlFailure::TimedOut(_), .. }) => Ok(computing.elapsed()),
            Err(EngineError::Sql { .. }) if fails => Ok(computing.elapsed()),
            other => Err(format!("{sql:.300}: {other:?}")),
        }
    };
    let first = once()?;
    // Short times are within the noise, and long ones are expensive to repeat.
    if first < FLOOR / 4 || first > FLOOR * 50 { Ok(first) } else { Ok(first.min(once()?)) }
}

fn all_sizes() -> bool {
    std::env::var("GROWTH_SIZES").is_ok_and(|sizes| sizes == "all")
}

/// Returns `true` if this build of the engine has what a row is about.
fn is_there(name: &str) -> bool {
    let plain = rusqlite::Connection::open_in_memory().unwrap();
    let sql = "select ?1 not in (select value from json_each(?2)) or exists (select 1 from pragma_function_list where name = ?1)";
    let functions: Vec<String> = FUNCTIONS.split_whitespace().map(|name| format!("{name:?}")).collect();
    plain.query_row(sql, [name, &format!("[{}]", functions.join(","))], |row| row.get(0)).unwrap()
}

/// Creates the tables that the rows of `growth.txt` use.
fn tables(harness: &EngineHarness) -> CommitHash {
    let numbers =
        |n: usize| format!("with recursive c(x) as (select 1 union all select x + 1 from c where x < {n}) select");
    let mut sql =
        "create table t(id integer primary key, v text); create virtual table documents using fts5(body);".to_owned();
    for n in [1024, 4096, 16_384, 65_536] {
        sql += &format!(
            "insert into documents(rowid, body) values ({n}, replace(printf('%.*c', {n}, 'a'), 'a', 'word '));"
        );
        sql += &format!("create table r{n}(id integer primary key, v text); create index ir{n} on r{n}(v);");
        sql += &format!("insert into r{n} {} x, 'value ' || x from c;", numbers(n));
    }
    sql += "insert into documents(rowid, body) values (262144, replace(printf('%.*c', 262144, 'a'), 'a', 'word '));";
    for n in [60, 240, 960] {
        let columns: Vec<String> = (0..n).map(|k| format!("c{k} references t(id)")).collect();
        let names: Vec<String> = (0..n).map(|k| format!("c{k}")).collect();
        sql += &format!(
            "create table wide{n}({}); create index iwide{n} on wide{n}({});",
            columns.join(","),
            names.join(",")
        );
    }
    for module in ["rtree", "rtree_i32"] {
        let refused = format!("create virtual table boxes using {module}(id, a, b)");
        assert!(harness.try_write(id(1), &harness.base, &refused, LONG).is_err(), "{module} needs rows in growth.txt");
    }
    let first = harness.write(&harness.base, &sql);
    let changed = [1024, 4096, 16_384, 65_536].map(|n| format!("update r{n} set v = v || '!' where id % 2;"));
    harness.write(&first, &changed.concat())
}

#[test]
fn no_call_grows_faster_than_its_arguments() {
    if !RUNS_IN_THREAD {
        // Workers have the same functions, and their processor time is not measured here.
        return;
    }
    let harness = EngineHarness::new();
    let at = tables(&harness);
    let all_sizes = all_sizes();
    let mut faults = Vec::new();
    for row in rows() {
        // Some allowed names are missing from this build of the engine.
        for name in row.names.iter().filter(|name| is_there(name)) {
            let mut before = None;
            let mut n = row.from;
            loop {
                let sql = statement(&row, name, n);
                let timeout = if row.stops { super::TIME } else { LONG };
                let label = format!("{name}, {}, {n}", row.what);
                let took = match measured(&harness, &at, &sql, timeout, row.fails) {
                    Ok(took) => took,
                    Err(fault) => {
                        faults.push(format!("{label}: {fault}"));
                        break;
                    }
                };
                if row.stops && took > super::TIME + Duration::from_secs(2) {
                    faults.push(format!("{label}: did not end: {took:?}"));
                }
                let growth =
                    before.filter(|before| *before > FLOOR).map(|before: Duration| took.div_duration_f64(before));
                if !row.stops && growth.is_some_and(|growth| growth > GROWTH) {
                    faults.push(format!("{label}: four times the arguments took {growth:?} times as long, {took:?}"));
                    break;
                }
                if n >= row.to || (growth.is_some() && !row.stops && !all_sizes) {
                    println!("{label}: {took:?}, growth {growth:?}");
                    break;
                }
                before = Some(took);
                n = (n * 4).min(row.to);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each path searches the whole document, and a call cannot be interrupted, so the number of paths is limited.
#[test]
fn a_call_with_many_paths_into_a_long_document_is_short_and_one_with_more_is_refused() {
    const MOST: usize = 16;
    /// For a document of 8 million elements, the longest there can be.
    const LIMIT: Duration = Duration::from_secs(10);
    let part = if all_sizes() { 1 } else { 4 };
    let elements = 8_000_000 / part;
    let harness = EngineHarness::new();
    // Each null in an array takes one byte: no other document has more elements to search.
    let document =
        |elements: usize| format!("cast(x'eb' || unhex(printf('%08x', {elements})) || zeroblob({elements}) as blob)");
    for (name, value) in [
        ("json_extract", ""),
        ("json_remove", ""),
        ("json_set", ", 1"),
        ("\"jsonb_insert\"", ", 1"),
        ("json_replace", ", 'x'"),
    ] {
        let sql = |paths: usize, elements: usize| {
            let path = |n: usize| format!("'$[#-{}]'{value}", n + 1);
            let paths: Vec<String> = (0..paths).map(path).collect();
            format!("select length({name}({}, {}))", document(elements), paths.join(", "))
        };
        let read = |sql: &str| {
            harness.engine.read(id(1), &harness.base, &ReadQuery::new(sql, LONG), &mut CollectedRows::default())
        };
        for paths in [MOST + 1, if value.is_empty() { 126 } else { 63 }] {
            let refused = format!("{:?}", read(&sql(paths, 100)));
            assert!(refused.contains("a JSON function is called with more than 16 paths"), "{name}: {refused}");
            let written =
                harness.try_write(id(1), &harness.base, &format!("create view v as {}", sql(paths, 100)), LONG);
            assert!(format!("{written:?}").contains("more than 16 paths"), "{name} in a view: {written:?}");
        }
        let took = measured(&harness, &harness.base, &sql(MOST, elements), LONG, false).unwrap();
        println!("{name}: {took:?} with {MOST} paths");
        assert!(!RUNS_IN_THREAD || took * u32::try_from(part).unwrap() < LIMIT, "{name}: {took:?}");
    }
}

#[test]
fn the_table_of_growth_names_everything_that_may_be_used() {
    let rows = rows();
    // Names that are allowed but cannot be used have a row with the reason.
    let none = TABLE.lines().filter_map(|line| line.strip_prefix("none ")?.split_once(" | "));
    let measured: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| &row.names)
        .map(String::as_str)
        .chain(none.flat_map(|(names, _)| names.split(',')))
        .collect();
    let allowed: BTreeSet<&str> = FUNCTIONS.split_whitespace().chain(MODULES.split_whitespace()).collect();
    let missing: Vec<_> = allowed.iter().chain(OPERATORS).filter(|name| !measured.contains(*name)).collect();
    assert!(missing.is_empty(), "without a row in growth.txt: {missing:?}");
    let unknown: Vec<_> =
        measured.iter().filter(|name| !allowed.contains(*name) && !OPERATORS.contains(name)).collect();
    assert!(unknown.is_empty(), "in growth.txt, but not allowed: {unknown:?}");
}
