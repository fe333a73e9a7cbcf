//! Sessions of deployment clients on real files.

use std::time::Duration;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    Arguments, BranchHead, CancellationToken, CollectedRows, EngineError, SessionCaller, SessionEngine, SessionError,
    SessionRequest, SqlPower, SqlSession, StatementBounds, StatementReport,
};
use branchyard_domain_testing::Watchdog;

use crate::support::{EngineHarness, LONG, ada, id, text};

fn bounds() -> StatementBounds {
    StatementBounds {
        timeout: LONG,
        canceled: CancellationToken::default(),
        has_turn: true,
        commits_transactions: false,
    }
}

fn request(power: SqlPower) -> SessionRequest {
    SessionRequest {
        database: id(9),
        branch: None,
        power,
        caller: SessionCaller { name: "bob".into(), email: "bob@example.test".into() },
        foreign_keys: true,
    }
}

/// Returns a harness with a served database.
fn served() -> EngineHarness {
    let harness = EngineHarness::new();
    harness.engine.create_served(id(9), &ada(), "Create database").unwrap();
    harness
}

fn open(harness: &EngineHarness, power: SqlPower) -> Box<dyn SqlSession> {
    harness.engine.session(&request(power)).unwrap()
}

fn on_branch(harness: &EngineHarness, power: SqlPower, branch: &str) -> Result<Box<dyn SqlSession>, SessionError> {
    harness.engine.session(&SessionRequest { branch: Some(branch.into()), ..request(power) })
}

fn try_run(session: &mut dyn SqlSession, sql: &str) -> Result<(CollectedRows, StatementReport), SessionError> {
    let mut taken = CollectedRows::default();
    let report = session.run(sql, &Arguments::None, &bounds(), &mut taken)?;
    Ok((taken, report))
}

fn run(session: &mut dyn SqlSession, sql: &str) -> Vec<Vec<Cell>> {
    try_run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}")).0.rows
}

/// Returns the code and the message of a statement that fails.
fn fails(session: &mut dyn SqlSession, sql: &str) -> (&'static str, String) {
    match try_run(session, sql) {
        Err(SessionError::Statement { code, message }) => (code, message),
        other => panic!("{sql}: {other:?}"),
    }
}

fn one_text(session: &mut dyn SqlSession, sql: &str) -> String {
    match &run(session, sql)[..] {
        [row] => match &row[..] {
            [Cell::Text(bytes)] => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("{sql}: {other:?}"),
        },
        other => panic!("{sql}: {other:?}"),
    }
}

fn count(session: &mut dyn SqlSession, sql: &str) -> i64 {
    match run(session, sql)[0][0] {
        Cell::Integer(n) => n,
        ref other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn a_writer_commits_branches_merges_and_tags_as_itself() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    assert_eq!(one_text(&mut *session, "select active_branch()"), "main");
    run(&mut *session, "create table t(id integer primary key, v text)");
    let (_, report) = try_run(&mut *session, "insert into t values (1, 'a'), (2, 'b')").unwrap();
    assert_eq!((report.rows_affected, report.last_insert_rowid, report.wrote), (2, Some(2), true));
    run(&mut *session, "select dolt_commit('-A', '-m', 'first')");
    run(&mut *session, "select dolt_checkout('-b', 'work')");
    assert!(!session.is_clean(), "it is on another branch");
    run(&mut *session, "insert into t values (3, 'c')");
    run(&mut *session, "select dolt_commit('-am', 'second')");
    run(&mut *session, "select dolt_checkout('main')");
    assert!(session.is_clean());
    run(&mut *session, "select dolt_merge('--no-ff', 'work')");
    run(&mut *session, "select dolt_tag('v1', '-m', 'tagged')");
    assert_eq!(count(&mut *session, "select count(*) from t"), 3);
    let committers =
        run(&mut *session, "select distinct committer, email from dolt_log where message <> 'Create database'");
    assert_eq!(committers, [[text("bob"), text("bob@example.test")]]);
    assert_eq!(one_text(&mut *session, "select tagger from dolt_tags"), "bob");
    let names: Vec<String> = harness.engine.heads(id(9)).unwrap().into_iter().map(|head| head.branch).collect();
    assert_eq!(names, ["main", "work"]);

    let mut there = on_branch(&harness, SqlPower::Read, "work").unwrap();
    assert_eq!(one_text(&mut *there, "select active_branch()"), "work");
    drop(there);
    // Tags, commits and expressions are not branches.
    for name in ["v1", "nope", "HEAD~1", &harness.engine.heads(id(9)).unwrap()[0].commit.to_string()] {
        let refused = on_branch(&harness, SqlPower::Write, name).err();
        assert!(matches!(refused, Some(SessionError::NoSuchBranch(_))), "{name}: {refused:?}");
    }
    // An idle session on the branch does not prevent its deletion.
    run(&mut *session, "select dolt_branch('-d', 'work')");
    assert_eq!(fails(&mut *session, "select dolt_branch('-D', 'main')").0, "ERROR");
}

#[test]
fn a_reader_changes_nothing() {
    let harness = served();
    let mut writer = open(&harness, SqlPower::Write);
    run(&mut *writer, "create table t(id integer primary key, v text)");
    run(&mut *writer, "insert into t values (1, 'a')");
    run(&mut *writer, "select dolt_commit('-A', '-m', 'first')");
    run(&mut *writer, "select dolt_branch('work')");
    let before = harness.engine.heads(id(9)).unwrap();

    let mut reader = open(&harness, SqlPower::Read);
    for sql in [
        "insert into t values (2, 'b')",
        "update t set v = 'x'",
        "delete from t",
        "drop table t",
        "alter table t add column w",
        "create table u(a)",
        "create temp table u(a)",
        "pragma user_version = 7",
        "insert into dolt_ignore values ('x', 1)",
    ] {
        assert_eq!(fails(&mut *reader, sql).0, "READONLY", "{sql}");
    }
    for sql in [
        "select dolt_commit('-A', '-m', 'x')",
        "select DOLT_BRANCH('x')",
        "select dolt_checkout('work')",
        "select dolt_merge('work')",
        "select dolt_reset('--hard')",
        "select dolt_tag('x')",
        "select dolt_gc()",
        "pragma query_only = off",
    ] {
        assert_eq!(fails(&mut *reader, sql).0, "AUTH", "{sql}");
    }
    assert_eq!(harness.engine.heads(id(9)).unwrap(), before);
    assert_eq!(count(&mut *reader, "select count(*) from t"), 1);
    for sql in [
        "select * from dolt_log",
        "select * from dolt_branches",
        "select * from dolt_tags",
        "select * from dolt_status",
        "select * from dolt_schemas",
        "select * from dolt_diff",
        "select * from dolt_diff_t",
        "select * from dolt_diff_stat('main', 'work')",
        "select * from dolt_diff_summary('main', 'work')",
        "select * from dolt_schema_diff('main', 'work')",
        "select * from dolt_history_t",
        "select * from dolt_at_t('work')",
        "select * from dolt_blame_t",
        "select * from dolt_conflicts",
        "select * from dolt_constraint_violations",
        "select active_branch(), dolt_version(), dolt_hashof('HEAD'), dolt_hashof_table('t'), dolt_hashof_db(), dolt_config('user.name')",
        "select dolt_merge_base('main', 'work')",
        "begin",
        "commit",
        "savepoint s",
        "release s",
        "pragma foreign_keys = off",
        "pragma table_info(t)",
        "pragma integrity_check",
        "select * from pragma_table_info('t')",
        "select * from json_each('[1]')",
        "explain query plan select * from t",
    ] {
        try_run(&mut *reader, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert!(!reader.is_clean(), "a setting was changed");
}

#[test]
fn nobody_leaves_the_database() {
    let harness = served();
    let outside = harness.folder.path().join("outside.db");
    let mut session = open(&harness, SqlPower::Admin);
    run(&mut *session, "create table t(id integer primary key, v text)");
    for sql in [
        format!("attach '{}' as o", outside.display()),
        "detach main".to_owned(),
        format!("vacuum into '{}'", outside.display()),
        " /* x */ vacuum".to_owned(),
        "select load_extension('x')".to_owned(),
        "select dolt_clone('file:///tmp/x')".to_owned(),
        "select dolt_fetch('origin')".to_owned(),
        "select dolt_pull('origin')".to_owned(),
        "select dolt_push('origin', 'main')".to_owned(),
        "select dolt_remote('add', 'o', 'file:///tmp/x')".to_owned(),
        "select dolt_config('user.name', 'mallory')".to_owned(),
        "select dolt_default_branch('work')".to_owned(),
        "select dolt_dump('--file-name', '/tmp/x')".to_owned(),
        "select * from dolt_nonlocal_tables".to_owned(),
        "select * from dolt_remotes".to_owned(),
        "insert into sqlite_sequence values ('t', 7)".to_owned(),
        "update sqlite_master set sql = ''".to_owned(),
        "pragma writable_schema = on".to_owned(),
        "pragma journal_mode = delete".to_owned(),
        "pragma hard_heap_limit = 1".to_owned(),
        "pragma temp_store_directory = '/tmp'".to_owned(),
        "create virtual table x using dbstat".to_owned(),
        "select * from pragma_database_list".to_owned(),
    ] {
        let (code, message) = fails(&mut *session, &sql);
        assert!(code == "AUTH" || message.contains("no such table: sqlite_sequence"), "{sql}: {code} {message}");
    }
    assert!(!outside.exists());
    assert_eq!(run(&mut *session, "pragma database_list")[0][2], text(""));
    assert_eq!(one_text(&mut *session, "select dolt_config('user.name')"), "bob");
    for sql in [
        "pragma journal_mode",
        "pragma synchronous",
        "pragma encoding",
        "pragma schema_version",
        "pragma user_version = 3",
    ] {
        run(&mut *session, sql);
    }
    run(&mut *session, "create virtual table f using fts5(a)");
    run(&mut *session, "insert into f values ('hello world')");
    assert_eq!(count(&mut *session, "select count(*) from f('hello')"), 1);
    assert_eq!(fails(&mut *session, "pragma page_size").0, "AUTH");
    assert_eq!(fails(&mut *session, "create table p as select * from pragma_page_size").0, "AUTH");
    run(&mut *session, "create table auto(id integer primary key autoincrement)");
    run(&mut *session, "insert into auto default values");
    run(&mut *session, "drop table auto");
    run(&mut *session, "analyze");
}

#[test]
fn boxes_are_indexed_committed_and_branched() {
    let harness = served();
    for module in ["rtree", "rtree_i32"] {
        let mut session = open(&harness, SqlPower::Write);
        let near = |session: &mut dyn SqlSession| {
            count(session, &format!("select count(*) from {module}_boxes where x0 <= 20 and x1 >= 10"))
        };
        run(&mut *session, &format!("create virtual table {module}_boxes using {module}(id, x0, x1, y0, y1)"));
        run(
            &mut *session,
            &format!("insert into {module}_boxes select value, value, value + 1, 0, 1 from generate_series(1, 500)"),
        );
        assert_eq!(near(&mut *session), 12);
        run(&mut *session, "select dolt_commit('-A', '-m', 'boxes')");
        run(&mut *session, &format!("select dolt_branch('{module}')"));
        run(&mut *session, &format!("delete from {module}_boxes where id > 15"));
        assert_eq!(near(&mut *session), 7);
        run(&mut *session, "select dolt_commit('-A', '-m', 'fewer')");
        drop(session);
        let mut reader = open(&harness, SqlPower::Read);
        assert_eq!(near(&mut *reader), 7);
        assert_eq!(fails(&mut *reader, &format!("delete from {module}_boxes")).0, "READONLY");
        let mut before = on_branch(&harness, SqlPower::Read, module).unwrap();
        assert_eq!(near(&mut *before), 12);
        assert_eq!(one_text(&mut *before, &format!("select rtreecheck('{module}_boxes')")), "ok");
        let mut session = open(&harness, SqlPower::Write);
        run(&mut *session, &format!("drop table {module}_boxes"));
    }
}

#[test]
fn series_are_generated_for_every_role_and_cut_off_in_time() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Read);
    assert_eq!(count(&mut *session, "select sum(value) from generate_series(1, 100)"), 5_050);
    let endless = "select count(*) from generate_series(1, 9223372036854775807)";
    let short = StatementBounds { timeout: Duration::from_millis(200), ..bounds() };
    let ended = session.run(endless, &Arguments::None, &short, &mut CollectedRows::default());
    assert!(matches!(ended, Err(SessionError::TimedOut(200))), "{ended:?}");
    assert_eq!(fails(&mut *session, "select * from generate_series").0, "ERROR");
    let mut session = open(&harness, SqlPower::Write);
    assert_eq!(fails(&mut *session, "create virtual table s using generate_series").0, "AUTH");
    run(&mut *session, "create view tens as select value from generate_series(10, 50, 10)");
    assert_eq!(count(&mut *session, "select count(*) from tens"), 5);
}

#[test]
fn transactions_last_until_they_end_and_a_dropped_session_rolls_back() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    run(&mut *session, "create table t(id integer primary key)");
    run(&mut *session, "begin");
    assert!(!session.is_autocommit() && !session.is_clean());
    run(&mut *session, "insert into t values (1)");
    drop(session);
    let mut session = open(&harness, SqlPower::Write);
    assert_eq!(count(&mut *session, "select count(*) from t"), 0);
    run(&mut *session, "begin immediate");
    run(&mut *session, "insert into t values (1)");
    run(&mut *session, "commit");
    assert!(session.is_autocommit() && session.is_clean());

    run(&mut *session, "BEGIN TRANSACTION READONLY;");
    assert_eq!(fails(&mut *session, "insert into t values (2)").0, "READONLY");
    assert_eq!(count(&mut *session, "select count(*) from t"), 1);
    run(&mut *session, "commit");
    run(&mut *session, "insert into t values (2)");

    run(&mut *session, "create temp table mine(a)");
    run(&mut *session, "insert into mine values (1)");
    assert_eq!(count(&mut *session, "select count(*) from mine"), 1);
    assert!(!session.is_clean());
    drop(session);
    let mut session = open(&harness, SqlPower::Write);
    assert_eq!(fails(&mut *session, "select * from mine").1, "no such table: mine");
}

#[test]
fn writes_wait_for_their_turn_and_reads_do_not() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    run(&mut *session, "create table t(id integer primary key)");
    let without = StatementBounds { has_turn: false, ..bounds() };
    for (sql, waits) in [
        ("select 1", false),
        ("begin", false),
        ("select * from t", false),
        ("rollback", false),
        ("pragma journal_mode", false),
        ("pragma foreign_keys = on", false),
        ("insert into t values (1)", true),
        ("begin immediate", true),
        ("select dolt_commit('-A', '-m', 'x')", true),
        ("create table u(a)", true),
        ("pragma user_version = 1", true),
    ] {
        let needs = match session.run(sql, &Arguments::None, &without, &mut CollectedRows::default()) {
            Err(SessionError::NeedsTurn { .. }) => true,
            Ok(_) => false,
            Err(error) => panic!("{sql}: {error}"),
        };
        assert_eq!(needs, waits, "{sql}");
    }
    assert_eq!(count(&mut *session, "select count(*) from t"), 0);
}

#[test]
fn what_waits_for_its_turn_says_whether_it_frees_space() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Admin);
    for sql in [
        "create table t(id integer primary key, a)",
        "create table u(a)",
        "create index i on t(a)",
        "create view v as select 1",
        "create trigger r after insert on t begin select 1; end",
        "create virtual table f using fts5(a)",
    ] {
        run(&mut *session, sql);
    }
    let without = StatementBounds { has_turn: false, ..bounds() };
    for (sql, expected) in [
        ("drop table u", true),
        ("/* app */ DROP INDEX i", true),
        ("drop view v", true),
        ("drop trigger r", true),
        ("drop table f", true),
        ("select dolt_gc()", true),
        ("insert into t values (1, 'dolt_gc')", false),
        ("insert into t values (1, 2) -- dolt_gc", false),
        ("insert into t select 1, dolt_gc()", false),
        ("delete from t", false),
        ("alter table t drop column a", false),
        ("create table dropped(a)", false),
        ("select dolt_commit('-A', '-m', 'drop table t; dolt_gc')", false),
    ] {
        match session.run(sql, &Arguments::None, &without, &mut CollectedRows::default()) {
            Err(SessionError::NeedsTurn { frees_space }) => assert_eq!(frees_space, expected, "{sql}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[test]
fn transactions_become_commits_when_that_is_set() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    let commits = StatementBounds { commits_transactions: true, ..bounds() };
    let mut go = |sql: &str| session.run(sql, &Arguments::None, &commits, &mut CollectedRows::default()).map(drop);
    go("create table t(id integer primary key)").unwrap();
    go("insert into t values (1)").unwrap();
    go("insert into t values (1)").unwrap_err();
    go("select * from t").unwrap();
    for sql in ["begin", "insert into t values (2)", "insert into t values (3)", "commit", "begin", "rollback"] {
        go(sql).unwrap();
    }
    go("insert into t select 9 where false").unwrap();
    assert_eq!(count(&mut *session, "select count(*) from dolt_log where message = 'SQL transaction'"), 3);
    assert_eq!(count(&mut *session, "select count(*) from dolt_status"), 0);
    assert_eq!(one_text(&mut *session, "select committer from dolt_log limit 1"), "bob");
}

#[test]
fn arguments_fit_or_are_refused() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Read);
    let named = |pairs: &[(&str, i64)]| {
        Arguments::Named(pairs.iter().map(|(name, n)| ((*name).to_owned(), Cell::Integer(*n))).collect())
    };
    let positional = |values: &[i64]| Arguments::Positional(values.iter().map(|n| Cell::Integer(*n)).collect());
    for (sql, arguments, expected) in [
        ("select ? + ?", positional(&[1, 2]), Some(3)),
        ("select :a + @b + $c", named(&[("a", 1), ("@b", 2), ("c", 3)]), Some(6)),
        ("select ?2 - ?1", positional(&[1, 2]), Some(1)),
        ("select :a", positional(&[4]), Some(4)),
        ("select ?", positional(&[]), None),
        ("select 1", positional(&[1]), None),
        ("select :a", named(&[("b", 1)]), None),
        ("select :a", named(&[]), None),
        ("select ?", Arguments::None, None),
    ] {
        let mut taken = CollectedRows::default();
        let ran = session.run(sql, &arguments, &bounds(), &mut taken);
        match expected {
            Some(n) => assert_eq!(ran.map(|_| taken.rows).unwrap(), [[Cell::Integer(n)]], "{sql}"),
            None => assert!(matches!(ran, Err(SessionError::Arguments(_))), "{sql}: {ran:?}"),
        }
    }
}

#[test]
fn descriptions_run_nothing() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    run(&mut *session, "create table t(id integer primary key, v varchar(9))");
    let told = session.describe("select id, v, 1 + :x from t where id = ?; select 2").unwrap();
    assert_eq!(told.parameters, [Some(":x".to_owned()), None]);
    let columns: Vec<(&str, Option<&str>)> =
        told.columns.iter().map(|(name, declared)| (&**name, declared.as_deref())).collect();
    assert_eq!(columns, [("id", Some("INTEGER")), ("v", Some("varchar(9)")), ("1 + :x", None)]);
    assert!(told.is_readonly && !told.is_explain);
    assert!(!session.describe("select dolt_branch('x')").unwrap().is_readonly);
    assert!(!session.describe("delete from t").unwrap().is_readonly);
    assert!(session.describe("explain delete from t").unwrap().is_explain);
    assert!(matches!(session.describe(" -- nothing"), Err(SessionError::NoStatement)));
    assert_eq!(harness.engine.heads(id(9)).unwrap().len(), 1);
}

#[test]
fn texts_hold_one_statement_and_sequences_any_number() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    assert!(matches!(try_run(&mut *session, " ; -- x"), Err(SessionError::NoStatement)));
    for sql in ["select 1; select 2", "select 1; nonsense"] {
        assert!(matches!(try_run(&mut *session, sql), Err(SessionError::SeveralStatements)), "{sql}");
    }
    run(&mut *session, "select 1; -- that is all\n ;");
    assert_eq!(fails(&mut *session, "select '\0'").0, "ERROR");
    let script = "create table t(a); insert into t values (';');; create trigger x after insert on t begin delete from t where a = 2; end;\n insert into t values (2) -- end";
    let (mut at, mut steps) = (0, 0);
    while at < script.len() {
        let (done, _) = session.step(&script[at..], &bounds()).unwrap();
        assert!(done > 0);
        at += done;
        steps += 1;
    }
    assert_eq!((steps, count(&mut *session, "select count(*) from t")), (4, 1));
    assert_eq!(session.step("  ", &bounds()).unwrap().0, 2);
}

#[test]
fn overdue_statements_are_cut_and_the_session_goes_on() {
    let _watchdog = Watchdog::start();
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    run(&mut *session, "create table t(a)");
    let short = StatementBounds { timeout: Duration::from_millis(100), ..bounds() };
    let endless = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c";
    let cut = session.run(endless, &Arguments::None, &short, &mut CollectedRows::default());
    assert!(matches!(cut, Err(SessionError::TimedOut(100))), "{cut:?}");
    run(&mut *session, "begin immediate");
    run(&mut *session, "insert into t values (1)");
    let insert = "insert into t with recursive c(n) as (select 1 union all select n + 1 from c) select n from c";
    let cut = session.run(insert, &Arguments::None, &short, &mut CollectedRows::default());
    assert!(matches!(cut, Err(SessionError::TimedOut(100))), "{cut:?}");
    session.roll_back().unwrap();
    assert_eq!(count(&mut *session, "select count(*) from t"), 0);
}

#[test]
fn one_statement_cannot_take_all_memory() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Read);
    let greedy = "with recursive c(n) as (select 1 union all select n + 1 from c limit 100) select group_concat(hex(zeroblob(4000000 + n))) from c";
    assert!(matches!(fails(&mut *session, greedy).0, "NOMEM" | "TOOBIG"));
    let sorting = "with recursive c(n) as (select 1 union all select n + 1 from c limit 1000) select randomblob(1000000) x from c order by x";
    assert_eq!(fails(&mut *session, sorting).0, "NOMEM");
    assert_eq!(count(&mut *session, "select 1"), 1);
}

#[test]
fn a_seeded_database_holds_one_branch_at_the_commit() {
    let harness = EngineHarness::new();
    let first = harness.write(&harness.base, "create table t(a); insert into t values (1)");
    let second = harness.write(&first, "insert into t values (2)");
    let from = harness.folder.path().join("hub.db");
    harness.engine.back_up(id(1), &from).unwrap();
    harness.engine.seed(id(9), &from, "release/1", &first).unwrap();
    let heads = harness.engine.heads(id(9)).unwrap();
    assert_eq!(heads, [BranchHead { branch: "release/1".into(), commit: first.clone() }]);
    let mut session = open(&harness, SqlPower::Write);
    assert_eq!(one_text(&mut *session, "select dolt_hashof('HEAD')"), first.to_string());
    assert_eq!(one_text(&mut *session, "select active_branch()"), "release/1");
    assert_eq!(count(&mut *session, "select count(*) from t"), 1);
    assert_eq!(count(&mut *session, "select count(*) from dolt_status"), 0);
    run(&mut *session, "insert into t values (3)");
    drop(session);
    assert!(harness.engine.check(id(9)).unwrap().is_empty());

    // Uncommitted changes are part of a copy.
    let copy = harness.folder.path().join("copy.db");
    assert_eq!(harness.engine.copy_out(id(9), &copy).unwrap(), harness.engine.served_size_bytes(id(9)).unwrap());
    harness.engine.put_back(id(8), &copy).unwrap();
    assert_eq!(harness.engine.heads(id(8)).unwrap(), harness.engine.heads(id(9)).unwrap());
    let mut restored = harness.engine.session(&SessionRequest { database: id(8), ..request(SqlPower::Read) }).unwrap();
    assert_eq!(count(&mut *restored, "select count(*) from t"), 2);

    let absent = branchyard_domain::values::CommitHash::parse(&"0".repeat(40)).unwrap();
    let refused = harness.engine.seed(id(7), &from, "main", &absent);
    assert!(matches!(refused, Err(EngineError::NoSuchCommit(_))), "{refused:?}");
    assert!(harness.engine.heads(id(7)).is_err());
    assert_ne!(first, second);
}

#[test]
fn garbage_is_collected_between_sessions() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Admin);
    run(&mut *session, "create table t(id integer primary key, v)");
    for _ in 0..5 {
        run(&mut *session, "insert into t(v) select randomblob(20000) from json_each('[1,2,3,4,5,6,7,8,9]')");
        run(&mut *session, "delete from t");
    }
    run(&mut *session, "insert into t(v) values ('kept')");
    let before = harness.engine.served_size_bytes(id(9)).unwrap();
    drop(session);
    harness.engine.collect_garbage(id(9)).unwrap();
    let after = harness.engine.served_size_bytes(id(9)).unwrap();
    assert!(after < before / 2, "{before} {after}");
    let mut session = open(&harness, SqlPower::Admin);
    assert_eq!(one_text(&mut *session, "select v from t"), "kept");
    run(&mut *session, "select dolt_gc()");
}

/// Maximum length of a definition in bytes.
const MOST: usize = 1 << 20;

/// Returns the definition of a view whose stored form has this many bytes.
fn view(name: &str, bytes: usize) -> String {
    let (head, tail) = (format!("CREATE VIEW {name} AS SELECT '"), "' AS a");
    format!("{head}{}{tail}", "x".repeat(bytes - head.len() - tail.len()))
}

#[test]
fn no_definition_is_longer_than_all_connections_read() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    run(&mut *session, "create table t(a)");
    run(&mut *session, &view("v", MOST));
    let too_long = |name: &str| format!("the definition of the {name} would have more than {MOST} bytes");
    let long = "d".repeat(MOST);
    for (statement, name) in [
        (view("w", MOST + 1), "view 'w'"),
        (format!("create table w(a default '{long}')"), "table 'w'"),
        (format!("create trigger w after insert on t begin select '{long}'; end"), "trigger 'w'"),
        (format!("alter table t add column b default '{long}'"), "table 't'"),
    ] {
        for in_transaction in [false, true] {
            if in_transaction {
                run(&mut *session, "begin");
                run(&mut *session, "insert into t values (1)");
            }
            assert_eq!(fails(&mut *session, &statement), ("TOOBIG", too_long(name)));
            assert_eq!(session.is_autocommit(), !in_transaction, "only the statement is undone");
            if in_transaction {
                run(&mut *session, "commit");
            }
        }
    }
    assert_eq!(count(&mut *session, "select count(*) from t"), 4);
    assert_eq!(count(&mut *session, "select count(*) from sqlite_schema"), 2);
    // A sequence of statements stops there too, also if transactions become commits.
    let bounds = StatementBounds { commits_transactions: true, ..bounds() };
    let stepped = session.step(&format!("{}; select 1", view("w", MOST + 1)), &bounds);
    assert!(matches!(stepped, Err(SessionError::Statement { code: "TOOBIG", .. })), "{stepped:?}");

    // Each side is short enough; the merged definition is not.
    run(&mut *session, "create table m(a)");
    run(&mut *session, "select dolt_commit('-A', '-m', 'base')");
    run(&mut *session, "select dolt_branch('work')");
    let half = |column: &str| format!("alter table m add column {column} default '{}'", column.repeat(MOST * 2 / 3));
    run(&mut *session, &half("c"));
    run(&mut *session, "select dolt_commit('-am', 'ours')");
    let mut there = on_branch(&harness, SqlPower::Write, "work").unwrap();
    run(&mut *there, &half("d"));
    run(&mut *there, "select dolt_commit('-am', 'theirs')");
    drop(there);
    let before = harness.engine.heads(id(9)).unwrap();
    assert_eq!(fails(&mut *session, "select dolt_merge('work')"), ("TOOBIG", too_long("table 'm'")));
    assert_eq!(harness.engine.heads(id(9)).unwrap(), before);
    assert_eq!(count(&mut *session, "select count(*) from dolt_status"), 0);
    drop(session);
    // All connections can still read the database.
    harness.engine.collect_garbage(id(9)).unwrap();
    assert_eq!(harness.engine.check(id(9)).unwrap(), Vec::<String>::new());
}

/// Without the workaround, the engine returns 5.
#[test]
fn rows_changed_before_an_alter_of_the_same_transaction_are_as_they_should() {
    let harness = served();
    let mut session = open(&harness, SqlPower::Write);
    for (name, columns) in [("plain", "(a text primary key, b)"), ("bare", "(a text primary key, b) without rowid")] {
        run(&mut *session, &format!("create table {name}{columns}"));
        run(&mut *session, &format!("insert into {name} values ('x', 1), ('y', 2)"));
        run(&mut *session, "begin");
        run(&mut *session, &format!("delete from {name} where a = 'x'"));
        run(&mut *session, &format!("alter table {name} add column c default 5"));
        run(&mut *session, &format!("insert into {name} values ('x', 1, null)"));
        run(&mut *session, "commit");
        let found = run(&mut *session, &format!("select c from {name} order by a"));
        assert_eq!(found, [[Cell::Null], [Cell::Integer(5)]], "{name}");
    }
}

#[test]
fn a_seeded_file_holds_only_what_its_branch_reaches() {
    let harness = EngineHarness::new();
    let kept = harness.write(
        &harness.base,
        "create table t(id integer primary key, v text); insert into t values (1, 'kept-in-history')",
    );
    let shown = harness.write(&kept, "update t set v = 'shown' where id = 1");
    // Commits that no branch of the seed reaches: a later one, and one on another line of history.
    harness.write(&shown, "insert into t values (2, 'hidden-later')");
    harness.write(&kept, "insert into t values (3, 'hidden-beside')");
    let export = harness.folder.path().join("export");
    harness.engine.back_up(id(1), &export).unwrap();
    let holds = |path: &std::path::Path, text: &str| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    for text in ["kept-in-history", "shown", "hidden-later", "hidden-beside"] {
        assert!(holds(&export, text), "{text}");
    }
    harness.engine.seed(id(9), &export, "main", &shown).unwrap();
    let out = harness.folder.path().join("out");
    harness.engine.copy_out(id(9), &out).unwrap();
    let found = ["kept-in-history", "shown", "hidden-later", "hidden-beside"].map(|text| holds(&out, text));
    assert_eq!(found, [true, true, false, false]);
}
