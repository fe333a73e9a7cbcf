//! User statements reach nothing but their own database.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use branchyard_domain::ports::{Engine, EngineError, MergeOutcome, SqlFailure};
use branchyard_domain::values::CommitHash;
use branchyard_domain_testing::Watchdog;

use crate::hostile::Computing;
use crate::support::{EngineHarness, LONG, id, text};

const T: &str = "create table t(id integer primary key, v text); insert into t values (1, 'a'), (2, 'b');
    create table wide(a text primary key, b int)";

fn files(folder: &Path) -> BTreeSet<String> {
    fn walk(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.insert(path.display().to_string());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(folder, &mut found);
    found
}

fn plain() -> rusqlite::Connection {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.execute_batch("create table t(id integer primary key, v text)").unwrap();
    connection
}

fn names(sql: &str) -> Vec<String> {
    let connection = plain();
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// The allow-lists of the guard, repeated independently.
pub(crate) const FUNCTIONS: &str = "-> ->> abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil ceiling char coalesce concat concat_ws cos cosh count
    cume_dist current_date current_time current_timestamp date datetime degrees dense_rank dolt_hashof dolt_hashof_catalog dolt_hashof_db
    dolt_hashof_index dolt_hashof_table dolt_merge_base dolt_version doltlite_engine exp first_value floor format fts5_get_locale
    fts5_insttoken fts5_locale glob group_concat hex highlight if ifnull iif instr json json_array json_array_insert json_array_length
    json_error_position json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote
    json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array
    jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid
    last_value lead length like likelihood likely ln log log10 log2 lower ltrim match max median min mod nth_value ntile nullif
    octet_length percent_rank percentile percentile_cont percentile_disc pi pow power printf quote radians random randomblob rank
    replace round row_number rtreecheck rtreedepth rtreenode rtrim sign sin sinh soundex sqlite_source_id sqlite_version sqrt
    strftime string_agg substr substring subtype sum tan tanh time timediff total total_changes changes trim trunc typeof unhex unicode
    unistr unistr_quote unixepoch unlikely upper zeroblob";

pub(crate) const MODULES: &str = "dolt_diff dolt_diff_stat dolt_diff_summary dolt_docs dolt_log dolt_patch dolt_schema_diff
    dolt_schemas dolt_status dolt_at_t dolt_blame_t dolt_diff_t dolt_history_t fts5 json_each json_tree jsonb_each jsonb_tree rtree
    rtree_i32 pragma_foreign_key_list pragma_index_info pragma_index_list pragma_index_xinfo pragma_table_info pragma_table_list
    pragma_table_xinfo";

const PRAGMAS: &str = "foreign_key_list index_info index_list index_xinfo table_info table_list table_xinfo data_version encoding user_version";

fn is_refusal(text: &str) -> bool {
    text.starts_with("query error: statement not allowed")
        || text.starts_with("query error: only read statements")
        || text.contains("is not available in SQL")
}

#[test]
fn every_function_that_is_not_listed_is_refused() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let allowed: BTreeSet<&str> = FUNCTIONS.split_whitespace().collect();
    let before = files(harness.folder.path());
    let mut refused = Vec::new();
    let connection = plain();
    let mut statement =
        connection.prepare("select distinct lower(name), narg from pragma_function_list order by 1").unwrap();
    let all: Vec<(String, i64)> = statement
        .query_map([], |row| Ok((row.get(0).unwrap(), row.get(1).unwrap())))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(all.len() > 200);
    for (name, arguments) in all {
        if allowed.contains(name.as_str()) || name.starts_with("->") {
            continue;
        }
        let arguments = vec!["'x'"; usize::try_from(arguments.max(0)).unwrap()].join(", ");
        for sql in
            [format!("select \"{name}\"({arguments})"), format!("select {}({arguments}) from t", name.to_uppercase())]
        {
            // The engine itself reserves some functions for its own use or for windows.
            let texts = [harness.read_failure(&at, &sql), harness.write_failure(&at, &sql).0];
            for text in texts {
                let own = text.contains("unsafe use of")
                    || text.contains("no such function")
                    || text.contains("syntax error");
                assert!(is_refusal(&text) || own, "{sql}: {text}");
            }
        }
        refused.push(name);
    }
    for name in [
        "dolt_commit",
        "dolt_merge",
        "dolt_branch",
        "dolt_clone",
        "dolt_dump",
        "load_extension",
        "active_branch",
        "dolt_gc",
    ] {
        assert!(refused.iter().any(|refused| refused == name), "{name}");
    }
    assert_eq!(files(harness.folder.path()), before);
}

#[test]
fn every_module_that_is_not_listed_is_refused() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let allowed: BTreeSet<&str> = MODULES.split_whitespace().collect();
    let mut all = names("select lower(name) from pragma_module_list");
    all.extend(names("select 'pragma_' || name from pragma_pragma_list"));
    assert!(all.len() > 90, "{}", all.len());
    for name in all.iter().filter(|name| !allowed.contains(name.as_str())) {
        for sql in [format!("select * from {}", name.to_uppercase()), format!("select count(*) from main.[{name}]")] {
            for failure in [harness.read_failure(&at, &sql), harness.write_failure(&at, &sql).0] {
                let absent = failure.contains("table not found") || failure.contains("no such");
                assert!(is_refusal(&failure) || absent, "{sql}: {failure}");
            }
        }
        for sql in [format!("insert into {name} default values"), format!("create virtual table temp.x using {name}")] {
            assert!(harness.try_write(id(1), &at, &sql, LONG).is_err(), "{sql}");
        }
        let sql = format!("create virtual table x using {name}");
        assert!(harness.try_write(id(1), &at, &sql, LONG).is_err(), "{sql}");
    }
    for name in allowed.iter().filter(|name| name.starts_with("dolt_")) {
        let _ = harness.try_read(&at, &format!("select * from {name}"), LONG);
        let sql = format!("delete from {name}");
        assert!(harness.try_write(id(1), &at, &sql, LONG).is_err(), "{sql}");
    }
}

#[test]
fn every_pragma_that_is_not_listed_is_refused() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let allowed: BTreeSet<&str> = PRAGMAS.split_whitespace().collect();
    let all = names("select lower(name) from pragma_pragma_list");
    assert!(all.len() > 50);
    for name in &all {
        let mut statements = vec![format!("PRAGMA {name} = 1"), format!("pragma temp.{name}(1)")];
        if !allowed.contains(name.as_str()) {
            statements.extend([format!("PRAGMA {name}"), format!("PRAGMA main.{name}"), format!("pragma {name}('x')")]);
        } else if name.contains("_list") || name.contains("info") {
            continue;
        }
        for sql in statements {
            for text in [harness.read_failure(&at, &sql), harness.write_failure(&at, &sql).0] {
                assert!(is_refusal(&text) || text.contains("unknown database"), "{sql}: {text}");
            }
        }
    }
    assert!(harness.read_failure(&at, "pragma no_such_pragma").contains("not allowed: pragma"));
}

#[test]
fn hostile_statements() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let out = harness.folder.path().join("out.db").display().to_string();
    let own = harness.folder.path().join("databases").display().to_string();
    let before = files(harness.folder.path());
    for sql in [
        "attach '$OUT' as x",
        "attach database ':memory:' as x",
        "attach '' as x",
        "ATTACH 'file:$OUT?mode=rwc' AS x",
        "detach main",
        "vacuum",
        "vacuum into '$OUT'",
        "VACUUM main INTO '$OUT'",
        "select load_extension('/lib/x.so')",
        "select dolt_dump('--file-name', '$OUT')",
        "select dolt_dump('$OUT')",
        "select DOLT_CLONE('http://127.0.0.1:1/x')",
        "select dolt_clone('file://$OWN', 'x')",
        "select \"dolt_remote\"('add', 'x', 'file://$OUT')",
        "select dolt_push('x', 'work')",
        "select dolt_pull('x')",
        "select dolt_fetch('x')",
        "select dolt_creds()",
        "select dolt_creds_new('x')",
        "select dolt_creds_export('$OUT')",
        "select dolt_creds_import('$OUT')",
        "select * from dolt_creds_ls",
        "select * from dolt_nonlocal_tables",
        "insert into dolt_nonlocal_tables values ('x', 'work', 'y', 'z')",
        "create table dolt_nonlocal_tables(a)",
        "insert into dolt_ignore values ('t', 1)",
        "insert into dolt_docs values ('x', 'y')",
        "insert into dolt_tests values ('x', 'y', 'z', 'a', 'b', 'c')",
        "select * from dolt_test_run('x')",
        "select * from dolt_workspace_t",
        "update dolt_workspace_t set staged = 1",
        "select * from dolt_conflicts",
        "select * from DOLT_CONFLICTS_t",
        "select * from dolt_remotes",
        "select * from dolt_remote_branches",
        "select * from dolt_branches",
        "select * from Dolt_Tags",
        "select active_branch()",
        "select dolt_commit('-A', '-m', 'x')",
        "select dolt_commit_all('x')",
        "select dolt_branch('x')",
        "select dolt_branch('-d', 'work')",
        "select dolt_checkout('-b', 'x')",
        "select dolt_connect_branch('x')",
        "select dolt_tag('x')",
        "select dolt_merge('x')",
        "select dolt_reset('--hard')",
        "select dolt_revert('HEAD')",
        "select dolt_cherry_pick('HEAD')",
        "select dolt_rebase('HEAD')",
        "select dolt_gc()",
        "select dolt_clean()",
        "select dolt_add('-A')",
        "select dolt_config('user.name', 'x')",
        "select dolt_default_branch('x')",
        "select dolt_verify_constraints()",
        "select dolt_conflicts_resolve('--ours', 't')",
        "begin",
        "begin immediate; commit",
        "commit",
        "end",
        "rollback",
        "savepoint x",
        "release x",
        "analyze",
        "reindex",
        "pragma writable_schema = 1",
        "pragma query_only = off",
        "pragma journal_mode = delete",
        "pragma hard_heap_limit = 1",
        "pragma temp_store_directory = '/tmp'",
        "pragma foreign_keys = off",
        "pragma database_list",
        "create temp table x(a)",
        "create temporary view x as select 1",
        "create temp trigger x after insert on t begin select 1; end",
        "create table temp.x(a)",
        "create table sqlite_x(a)",
        "drop table sqlite_master",
        "update sqlite_master set sql = ''",
        "delete from sqlite_schema",
        "insert into sqlite_stat1 values (1, 2, 3)",
        "create virtual table x using fts5vocab('y', 'row')",
        "create virtual table x using dbstat",
        "select * from dbstat",
        "select * from sqlite_dbpage",
        "select readfile('/etc/passwd')",
        "select writefile('$OUT', 'x')",
        "select edit('x')",
        "select fts3_tokenizer('x')",
        "select sqlite_compileoption_get(1)",
        "select sqlite_log(1, 'x')",
        "select * from pragma_database_list",
        "select * from 'dolt_nonlocal:work'.t",
        "create view x as select * from dolt_branches; select * from x",
        "create trigger x after insert on t begin select dolt_commit('-A', '-m', 'x'); end; insert into t values (7, 'x')",
        "create table x(a default (dolt_branch('q'))); insert into x default values",
        "create table x(a, check (load_extension('x'))); insert into x values (1)",
        "create index x on t(dolt_hashof('work'))",
        "select '\0'; select 1",
    ] {
        let sql = sql.replace("$OUT", &out).replace("$OWN", &own);
        assert!(harness.try_read(&at, &sql, LONG).is_err(), "read {sql}");
        assert!(harness.try_write(id(1), &at, &sql, LONG).is_err(), "write {sql}");
        assert_eq!(files(harness.folder.path()), before, "{sql}");
    }
    assert_eq!(harness.read(&at, "select v from t"), [[text("a")], [text("b")]]);
    assert_eq!(harness.write(&at, "select 1"), at);
}

#[test]
fn a_name_that_is_no_text_is_refused_and_the_next_statement_runs() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    for sql in ["select * from pragma_table_info(x'ff')", "select * from pragma_index_list(unhex('c328'))"] {
        assert!(harness.try_read(&at, sql, LONG).is_err(), "{sql}");
        assert_eq!(harness.read(&at, "select v from t"), [[text("a")], [text("b")]]);
        assert!(harness.try_write(id(1), &at, sql, LONG).is_err(), "{sql}");
        assert_eq!(harness.write(&at, "select 1"), at);
    }
}

#[test]
fn a_write_whose_time_ends_before_its_first_statement_is_told_so() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    // Each write moves the branch away from the previous position.
    let ends = (0..40)
        .map(|n| harness.try_write(id(1), if n % 2 == 0 { &harness.base } else { &at }, "select 1", Duration::ZERO));
    let mut timed_out = 0;
    for ended in ends {
        match ended {
            Err(EngineError::TimedOut(_) | EngineError::Sql { failure: SqlFailure::TimedOut(_), .. }) => timed_out += 1,
            Ok(_) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(timed_out > 0, "no time ended");
}

#[test]
fn texts_of_failures() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let syntax = |position: usize, near: &str| {
        format!("query error: Error parsing SQL: syntax error at position {position} near '{near}'.")
    };
    for (sql, expected) in [
        ("selct 1", syntax(6, "selct")),
        ("select 1 from from t", syntax(19, "from")),
        ("  selct 1", syntax(8, "selct")),
        ("select 'é' frm t t", syntax(18, "t")),
        ("select", syntax(7, "")),
        ("", syntax(1, "")),
        ("  -- nothing", syntax(13, "")),
        (";", syntax(2, "")),
        ("select (1", syntax(10, "")),
        ("select 'open", syntax(13, "'open")),
        ("select 1 @ 2", syntax(11, "@")),
        ("select 1; select 2", "query error: Error parsing SQL: one statement at a time".into()),
        ("select * from nope", "query error: table not found: nope".into()),
        ("select * from main.nope", "query error: table not found: nope".into()),
        ("delete from t", "query error: only read statements are allowed here".into()),
        ("delete from nope", "query error: only read statements are allowed here".into()),
        ("/* x */ Insert into t values (1, 2)", "query error: only read statements are allowed here".into()),
        ("with x as (select 1) delete from t", "query error: only read statements are allowed here".into()),
        ("explain delete from t", "query error: only read statements are allowed here".into()),
        ("create table x(a)", "query error: only read statements are allowed here".into()),
        ("drop table t", "query error: only read statements are allowed here".into()),
        ("alter table t add column x", "query error: only read statements are allowed here".into()),
        ("Begin", "query error: statement not allowed: Begin".into()),
        ("-- c\n ATTACH 'x' as y", "query error: statement not allowed: ATTACH".into()),
        ("vacuum", "query error: statement not allowed: vacuum".into()),
        ("PRAGMA journal_mode", "query error: statement not allowed: PRAGMA".into()),
        ("select dolt_commit('x')", "query error: statement not allowed: select".into()),
        ("select nope from t", "query error: no such column: nope".into()),
        ("select nope(1)", "query error: no such function: nope".into()),
        (
            "select * from dolt_branches",
            "query error: dolt_branches is not available in SQL; list branches through the API".into(),
        ),
        (
            "select * from dolt_commit_ancestors",
            "query error: dolt_commit_ancestors is not available in SQL; list commits through the API".into(),
        ),
    ] {
        assert_eq!(harness.read_failure(&at, sql), expected, "{sql}");
    }
    for (sql, expected) in [
        ("selct 1", (syntax(6, "selct"), 1)),
        ("", (syntax(1, ""), 1)),
        ("-- x", (syntax(5, ""), 1)),
        ("select 1; selct 2", (syntax(16, "selct"), 2)),
        ("select 1;\nselect (", (syntax(19, ""), 2)),
        ("select 1;; ;/* x */ update nope set a = 1; select", ("query error: table not found: nope".into(), 2)),
        ("select 1; Commit; select 1", ("query error: statement not allowed: Commit".into(), 2)),
        ("insert into t values (1, 'again')", ("query error: UNIQUE constraint failed: t.id".into(), 1)),
        ("insert into t values (5, 'x'); drop table nope", ("query error: table not found: nope".into(), 2)),
        ("ANALYZE t", ("query error: statement not allowed: ANALYZE".into(), 1)),
    ] {
        assert_eq!(harness.write_failure(&at, sql), expected, "{sql}");
    }
    // A failed write leaves nothing behind.
    assert_eq!(harness.write(&at, "select 1"), at);
}

#[test]
fn writes_can_do_what_the_contract_allows() {
    let harness = EngineHarness::new();
    let mut at = harness.write(&harness.base, T);
    for sql in [
        "replace into t values (1, 'r')",
        "insert into t values (5, 'x') on conflict do nothing returning id",
        "with x as (select 1) insert into t select 77, 'w' from x",
        "create table if not exists n as select * from t",
        "create unique index i on t(v)",
        "create view w as select * from t where v <> ''",
        "create trigger g after insert on t when new.id > 5 begin update t set v = case when 1 then 'g' end where id = new.id; end;",
        "insert into t values (6, 'x6')",
        "alter table t rename to tt",
        "alter table tt rename column v to vv",
        "alter table tt add column more text default 'm'",
        "alter table tt drop column more",
        "drop trigger g",
        "drop view w",
        "drop index i",
        "drop table n",
        "create table auto(id integer primary key autoincrement, a unique, b generated always as (a || 'x')); insert into auto(a) values (1)",
        "drop table auto",
        "create virtual table f using fts5(body); insert into f values ('some words')",
        "update tt set vv = replace(trim(vv), 'x', 'y') where instr(vv, 'x')",
        "pragma table_info(tt)",
    ] {
        at = harness.write(&at, sql);
    }
    let tables = harness.engine.tables(id(1), &at).unwrap();
    assert_eq!(tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["f", "tt", "wide"]);
    assert_eq!(harness.read(&at, "select body from f where f match 'words'"), [[text("some words")]]);
    assert_eq!(harness.read(&at, "select vv from tt where id in (1, 6)"), [[text("r")], [text("g")]]);
}

const SOON: Duration = Duration::from_millis(300);
/// Tolerance beyond `SOON`, for the work of an engine without optimizations.
const GRACE: Duration = Duration::from_secs(3);

/// Checks that a statement ends, is refused or is ended by its time limit, with little processor time. Takes the best of
/// three runs, because other work on the machine also takes processor time from caches.
fn ends_in_time(harness: &EngineHarness, at: &CommitHash, sql: &str) {
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let computing = Computing::now();
        match harness.try_read(at, sql, SOON) {
            Ok(taken) => assert!(taken.rows.len() < 100, "{sql}"),
            Err(SqlFailure::TimedOut(300)) => {}
            Err(SqlFailure::Engine(text)) => assert_eq!(text, "LIKE or GLOB pattern too complex", "{sql}"),
            Err(other) => panic!("{sql}: {other:?}"),
        }
        shortest = shortest.min(computing.elapsed());
        if shortest < SOON + GRACE {
            return;
        }
    }
    panic!("{sql}: {shortest:?}");
}

#[test]
fn endless_statements_end() {
    let _watchdog = Watchdog::start();
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let at = harness.write(&at, "insert into wide with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000) select 'k' || x, x from n");
    for sql in [
        "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n",
        "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n order by x",
        "select count(*) from wide a, wide b, wide c where a.b + b.b = c.b",
        "select sum(length(dolt_merge_base('HEAD', 'HEAD~1'))) from wide a, wide b",
        "select count(*) from dolt_diff_wide a, dolt_diff_wide b",
        "select instr(printf('%.*c', 8000000, 'a'), printf('%.*c', 4000000, 'a') || 'b')",
        "select instr(cast(zeroblob(8000000) as text), cast(zeroblob(4000000) as text) || 'b')",
        "select length(replace(printf('%.*c', 8000000, 'a'), printf('%.*c', 4000000, 'a') || 'b', 'x'))",
        "select length(trim(printf('%.*c', 400000, 'a'), (select group_concat(char(x + 1000), '') from (select b as x from wide))))",
        "select length(ltrim(printf('%.*c', 4000000, 'a'), printf('%.*c', 4000000, 'ba')))",
        "select printf('%.*c', 1000000, 'a') like '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b'",
        "select printf('%.*c', 1000000, 'a') glob '*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b'",
        "select printf('%.*c', 100000, 'a') like printf('%.*c', 50000, '%a')",
        "select count(*) from wide a where exists (select 1 from wide b, wide c where b.b * c.b = -a.b)",
    ] {
        ends_in_time(&harness, &at, sql);
    }
    let computing = Computing::now();
    let sql = "with recursive n(x) as (select 10 union all select x + 1 from n) insert into t select x, 'x' from n";
    match harness.try_write(id(1), &at, sql, SOON) {
        Err(EngineError::Sql { failure: SqlFailure::TimedOut(300), statement: 1 }) => {}
        other => panic!("{other:?}"),
    }
    assert!(computing.elapsed() < SOON + GRACE);
    assert!(matches!(harness.try_write(id(1), &at, "select 1", LONG), Ok(MergeOutcome::Head(head)) if head == at));
}

#[test]
fn greedy_statements_fail() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let many = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 1000000)";
    for sql in [
        "select zeroblob(1000000000)".to_owned(),
        "select hex(zeroblob(60000000))".to_owned(),
        "select randomblob(2000000000)".to_owned(),
        "select printf('%.*c', 1000000000, 'x')".to_owned(),
        "select printf('%*d', 1000000000, 1)".to_owned(),
        "select replace(printf('%.*c', 1000000, 'x'), 'x', printf('%.*c', 1000000, 'y'))".to_owned(),
        "select quote(zeroblob(60000000))".to_owned(),
        format!("{many} select length(group_concat(printf('%.*c', 1000, 'x'))) from n"),
        format!(
            "{many} select count(*) from (select x, printf('%.*c', 1000, 'x') as y from n order by y, x desc) where y <> ''"
        ),
        format!("{many} select length(json_group_array(printf('%.*c', 1000, 'x'))) from n"),
        format!("{many} select count(distinct printf('%.*c%d', 1000, 'x', x)) from n"),
        format!("select {}", vec!["1"; 2500].join(", ")),
        format!("select {}1{}", "(".repeat(5000), ")".repeat(5000)),
        format!("select {}", vec!["1"; 5000].join("+")),
        vec!["select 1"; 1000].join(" union all "),
        format!("select '{}'", "x".repeat(1 << 20)),
        "x".repeat(1 << 20),
        "(".repeat(1 << 19),
    ] {
        let short = &sql[..sql.len().min(220)];
        let failed = harness.try_read(&at, &sql, Duration::from_secs(20));
        assert!(
            matches!(failed, Err(SqlFailure::Engine(_) | SqlFailure::Syntax { .. })),
            "{short}: {:?}",
            failed.err()
        );
    }
    assert_eq!(harness.read(&at, "select v from t"), [[text("a")], [text("b")]]);
    // The limit applies to one statement, and also to writes.
    for sql in [
        format!("{many} select count(distinct printf('%.*c%d', 1000, 'x', x)) from n"),
        format!("{many} select x from n order by printf('%.*c', 1000, 'x'), x desc"),
    ] {
        assert_eq!(harness.read_failure(&at, &sql), "query error: out of memory");
        let (text, statement) = harness.write_failure(&at, &sql);
        assert!(text.starts_with("query error: out of memory: the statement takes more than the 512 MiB"), "{text}");
        assert_eq!(statement, 1);
    }
    assert_eq!(harness.write(&at, "select 1"), at);
}
