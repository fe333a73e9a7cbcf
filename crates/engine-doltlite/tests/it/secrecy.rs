//! A read reveals nothing about commits outside its history to users who do not know their hashes.

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{Engine, EngineError, MergeOutcome};
use branchyard_domain::values::DatabaseId;

use crate::support::{EngineHarness, LONG, id};

const LATER: &str = "insert into t values (3, 'LATER'); create table hidden(x)";

/// Returns the name of the one branch of a file. Only code with access to the file can query it.
fn branch(harness: &EngineHarness, database: DatabaseId) -> String {
    let name = database.to_string();
    let path = harness.folder.path().join("databases").join(&name[name.len() - 2..]).join(format!("{name}.db"));
    let file = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let names: Vec<String> = file
        .prepare("select name from dolt_branches union all select tag_name from dolt_tags")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    names.into_iter().next().unwrap()
}

#[test]
fn every_file_has_a_branch_of_its_own_name() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, "create table t(id integer primary key)");
    harness.engine.create(id(2), &crate::support::ada(), "x").unwrap();
    harness.engine.copy(id(1), id(3)).unwrap();
    harness.engine.copy(id(1), id(4)).unwrap();
    let written = harness.write_to(id(4), &at, "insert into t values (1)");
    harness.engine.fetch(id(1), id(4), &written).unwrap();
    let mut names: Vec<String> = [1, 2, 3, 4].map(|n| branch(&harness, id(n))).into();
    for name in &names {
        let digits = name.strip_prefix("work-").unwrap();
        assert!(digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4);
}

/// Returns queries of everything about history that user statements may use, in all forms that need no hash.
fn questions() -> Vec<String> {
    let tables = [
        "dolt_log",
        "dolt_commit_ancestors",
        "dolt_branches",
        "dolt_remote_branches",
        "dolt_remotes",
        "dolt_diff",
        "dolt_diff_t",
        "dolt_history_t",
        "dolt_blame_t",
        "dolt_at_t",
        "dolt_status",
        "dolt_schemas",
        "dolt_docs",
        "dolt_merge_status",
        "dolt_conflicts",
        "dolt_workspace_t",
        "pragma_table_list",
        "sqlite_schema",
    ];
    let refs = [
        "HEAD",
        "head",
        "WORKING",
        "STAGED",
        "main",
        "master",
        "work",
        "__branchyard__",
        "@",
        "-",
        "",
        "*",
        "%",
        "_%",
        "HEAD~1",
        "HEAD^",
        "HEAD@{1}",
        "@{-1}",
        "refs/heads",
        "refs/heads/",
        "heads/*",
        "refs/heads/main",
        "source/work",
        "origin/main",
        "--all",
        "--branches",
        "HEAD..WORKING",
        "..",
        "FETCH_HEAD",
        "MERGE_HEAD",
        "ORIG_HEAD",
        "0",
        "1",
    ];
    let of_refs = [
        "select dolt_hashof('$')",
        "select dolt_hashof_db('$')",
        "select dolt_hashof_catalog('$')",
        "select dolt_hashof_table('t', '$')",
        "select dolt_merge_base('HEAD', '$')",
        "select * from dolt_log('$')",
        "select * from dolt_at_t('$')",
        "select * from dolt_diff_t('HEAD', '$')",
        "select * from dolt_diff_stat('HEAD', '$')",
        "select * from dolt_diff_summary('HEAD', '$')",
        "select * from dolt_schema_diff('HEAD', '$')",
        "select * from dolt_patch('HEAD', '$')",
    ];
    let asked = tables.iter().map(|table| format!("select * from {table}"));
    let asked = asked.chain(refs.iter().flat_map(|name| of_refs.iter().map(|sql| sql.replace('$', name))));
    let alone = ["active_branch()", "dolt_hashof_db()", "dolt_default_branch()", "dolt_config('user.name')"];
    asked.chain(alone.iter().map(|call| format!("select {call}"))).collect()
}

fn told(rows: &[Vec<Cell>]) -> String {
    let cell = |cell: &Cell| match cell {
        Cell::Text(bytes) | Cell::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    rows.iter().flatten().map(cell).collect::<Vec<_>>().join("|")
}

#[test]
fn commits_beside_the_history_that_is_read_stay_unknown() {
    let harness = EngineHarness::new();
    let old =
        harness.write(&harness.base, "create table t(id integer primary key, v text); insert into t values (1, 'a')");
    let at = harness.write(&old, "insert into t values (2, 'b')");
    let beside = harness.write(&old, "insert into t values (7, 'BESIDE')");
    let later = harness.write(&at, LATER);
    let name = branch(&harness, id(1));
    let check = |sql: &str, text: &str| {
        for secret in [name.as_str(), beside.as_str(), later.as_str(), "BESIDE", "LATER", "hidden"] {
            assert!(!text.contains(secret), "{sql}: {text}");
        }
    };
    let mut answered = 0;
    for (n, sql) in questions().iter().enumerate() {
        match harness.try_read(&at, sql, LONG) {
            Ok(taken) => {
                answered += 1;
                check(sql, &told(&taken.rows));
            }
            Err(failure) => check(sql, &failure.to_string()),
        }
        // Writes leave the branch at their commit, so each write uses a table of its own.
        let kept = format!("create table kept{n} as {sql}");
        match harness.try_write(id(1), &at, &kept, LONG) {
            Ok(MergeOutcome::Head(head)) => {
                check(&kept, &told(&harness.read(&head, &format!("select * from kept{n}"))))
            }
            Err(EngineError::Sql { failure, .. }) => check(&kept, &failure.to_string()),
            other => panic!("{kept}: {other:?}"),
        }
        assert_eq!(harness.write(&at, LATER), later);
    }
    assert!(answered > 20, "{answered}");
}
