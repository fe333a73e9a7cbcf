//! Commits that the database does not show count as absent, no matter how a statement names them.

use std::sync::Arc;
use std::time::Instant;

use branchyard_domain::ports::{CollectedRows, Engine, EngineError, MergeOutcome, Reachability};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_domain_testing::Watchdog;
use parking_lot::Mutex;

use crate::guard::{FUNCTIONS, MODULES};
use crate::hostile::Computing;
use crate::support::{EngineHarness, LONG, id};
use crate::tested::RUNS_IN_THREAD;

/// A [`Reachability`] whose heads are the commits in the list.
pub(crate) struct Heads(pub(crate) Mutex<Vec<CommitHash>>);

impl Reachability for Heads {
    fn reaches(
        &self,
        _: DatabaseId,
        _: &CommitHash,
        descends: &mut dyn FnMut(&[CommitHash]) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError> {
        descends(&self.0.lock())
    }
}

/// All ways to name a commit, written as `$`. The text before the bar is the function or table of the engine.
pub(crate) const QUESTIONS: &[&str] = &[
    "dolt_hashof|select dolt_hashof('$')",
    "dolt_hashof|select dolt_hashof(upper('$') || '~0')",
    "dolt_hashof|select dolt_hashof(cast('$' as blob))",
    "dolt_hashof_db|select dolt_hashof_db('$')",
    "dolt_hashof_catalog|select dolt_hashof_catalog('$')",
    "dolt_hashof_table|select dolt_hashof_table('t', '$')",
    "dolt_hashof_index|select dolt_hashof_index('by_v', '$')",
    "dolt_merge_base|select dolt_merge_base('HEAD', '$')",
    "dolt_merge_base|select dolt_merge_base('$', 'HEAD')",
    "dolt_log|select * from dolt_log('$')",
    "dolt_log|select * from DOLT_LOG('$~1')",
    "dolt_log|select message from dolt_log where revision = '$' order by 1 limit 3",
    "dolt_log|select * from dolt_log('HEAD..$')",
    "dolt_log|select * from dolt_log('$...HEAD')",
    "dolt_log|select l.message, x.h from (select '$' as h) x join dolt_log(x.h) l",
    "dolt_at_t|select * from dolt_at_t('$')",
    "dolt_at_t|select * from dolt_at_t('$') limit 0",
    "dolt_at_t|select * from main.[DOLT_AT_T]('$') where id = 1",
    "dolt_at_t|select * from dolt_at_t(lower(hex(x'' || unhex('$'))))",
    "dolt_at_t|select * from dolt_at_t where commit_ref = '$' and id > 0",
    "dolt_at_t|select a.* from (select '$' as h union all select 'HEAD') x join dolt_at_t(x.h) a",
    "dolt_at_t|with r(h) as (values ('$')) select (select count(*) from dolt_at_t(r.h)) from r",
    "dolt_at_t|select v from t where v in (select v from dolt_at_t('$~0'))",
    "dolt_history_t|select * from dolt_history_t('$')",
    "dolt_history_t|select * from dolt_history_t where commit_hash = '$'",
    "dolt_history_t|select * from dolt_history_t where commit_hash = '$' and id = 1",
    "dolt_history_t|select h.* from (select '$' as h) x join dolt_history_t h on h.commit_hash = x.h",
    "dolt_diff_t|select * from dolt_diff_t('$', 'HEAD')",
    "dolt_diff_t|select * from dolt_diff_t('HEAD', '$')",
    "dolt_diff_t|select * from dolt_diff_t('HEAD...$')",
    "dolt_diff_t|select * from dolt_diff_t('$..HEAD')",
    "dolt_diff_t|select * from dolt_diff_t where to_commit = '$'",
    "dolt_diff_t|select * from dolt_diff_t where from_commit = '$'",
    "dolt_diff|select * from dolt_diff where commit_hash = '$'",
    "dolt_diff|select d.* from (select '$' as h) x join dolt_diff d on d.commit_hash = x.h",
    "dolt_diff_stat|select * from dolt_diff_stat('HEAD', '$')",
    "dolt_diff_stat|select * from dolt_diff_stat('$', 'HEAD', 't')",
    "dolt_diff_stat|select * from dolt_diff_stat('$..HEAD')",
    "dolt_diff_summary|select * from dolt_diff_summary('HEAD', '$')",
    "dolt_diff_summary|select * from dolt_diff_summary where from_ref = '$' and to_ref = 'HEAD'",
    "dolt_schema_diff|select * from dolt_schema_diff('HEAD', '$')",
    "dolt_schema_diff|select * from dolt_schema_diff('$...HEAD')",
    "dolt_patch|select statement from dolt_patch('HEAD', '$')",
    "dolt_patch|select statement from dolt_patch('$', 'HEAD', 't')",
    "dolt_patch|select statement from dolt_patch('$..HEAD')",
];

/// Allowed names that take no commit.
const WITHOUT: &[&str] = &["dolt_version", "dolt_docs", "dolt_schemas", "dolt_status", "dolt_blame_t"];

struct HiddenHarness {
    inner: EngineHarness,
    /// The commit that is read.
    at: CommitHash,
    /// Commits that the database shows: one in the history that is read, and one of another branch.
    shown: [CommitHash; 2],
    /// Commits that the database does not show, and hashes that are no commit.
    absent: Vec<String>,
    heads: Vec<CommitHash>,
}

fn harness() -> HiddenHarness {
    let harness = EngineHarness::new();
    let first = harness.write(
        &harness.base,
        "create table t(id integer primary key, v text); create index by_v on t(v); insert into t values (1, 'a')",
    );
    let at = harness.write(&first, "insert into t values (2, 'b')");
    let kept = harness.write(&first, "insert into t values (3, 'KEPT')");
    let hidden = harness.write(
        &first,
        "insert into t values (7, 'SECRET'); alter table t add column SECRET_COLUMN; create table SECRET_TABLE(SECRET_FIELD)",
    );
    let below = harness.write(&hidden, "update t set v = 'SECRET 2' where id = 7");
    let text = |sql: &str| match harness.read(&hidden, sql).remove(0).remove(0) {
        branchyard_domain::entities::Cell::Text(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut absent: Vec<String> = [&hidden, &below].map(ToString::to_string).into();
    for sql in ["select dolt_hashof_db()", "select dolt_hashof_catalog()", "select dolt_hashof_table('t')"] {
        absent.push(text(sql));
    }
    absent.push("0123456789abcdef0123456789abcdef01234567".into());
    absent.push("0".repeat(40));
    let heads = vec![at.clone(), kept.clone()];
    HiddenHarness { inner: harness, at, shown: [first, kept], absent, heads }
}

impl HiddenHarness {
    fn limit(&self) {
        self.inner.engine.limit_history(Arc::new(Heads(Mutex::new(self.heads.clone()))));
    }

    fn ask(&self, question: &str, commit: &str) -> Result<CollectedRows, String> {
        let sql = question.split_once('|').unwrap().1.replace('$', commit);
        let mut taken = self.inner.try_read(&self.at, &sql, LONG).map_err(|failure| failure.to_string())?;
        taken.rows.sort_by_key(|row| format!("{row:?}"));
        Ok(taken)
    }
}

#[test]
fn everything_that_takes_a_commit_is_asked_about() {
    let allowed = FUNCTIONS.split_whitespace().chain(MODULES.split_whitespace());
    for name in allowed.filter(|name| name.starts_with("dolt_")) {
        let asked = QUESTIONS.iter().any(|question| question.split('|').next() == Some(name));
        assert!(asked != WITHOUT.contains(&name), "{name} needs its questions here, and a place in guard/lists.rs");
    }
}

#[test]
fn commits_the_database_shows_are_found_as_before() {
    let harness = harness();
    let ask = || -> Vec<_> {
        let asked = harness.shown.iter().flat_map(|commit| QUESTIONS.iter().map(move |question| (question, commit)));
        asked.map(|(question, commit)| (question, commit, harness.ask(question, commit.as_str()))).collect()
    };
    let before = ask();
    harness.limit();
    for ((question, commit, before), (_, _, after)) in before.into_iter().zip(ask()) {
        let before = before.unwrap_or_else(|text| panic!("{question} of {commit}: {text}"));
        let after = after.unwrap_or_else(|text| panic!("{question} of {commit}: {text}"));
        assert_eq!(before, after, "{question} of {commit}");
    }
}

/// Checks the answer for an absent commit: no rows, or an error text that is the same for all absent commits.
fn check(question: &str, commit: &str, answer: Result<String, String>) -> String {
    let text = match answer {
        Ok(rows) => rows,
        Err(text) => {
            assert!(text.starts_with("query error: "), "{question} of {commit}: {text}");
            text
        }
    };
    assert!(!text.to_lowercase().contains("secret"), "{question} of {commit}: {text}");
    text.replace(commit, "$")
}

#[test]
fn other_commits_and_what_is_no_commit_are_absent() {
    let harness = harness();
    harness.limit();
    for question in QUESTIONS {
        let mut answers: Vec<String> = Vec::new();
        for commit in &harness.absent {
            let answer = harness.ask(question, commit);
            answers.push(check(question, commit, answer.map(|taken| format!("{:?} {:?}", taken.columns, taken.rows))));
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{question}: {answers:?}");
    }
}

#[test]
fn writes_find_no_other_commits_either() {
    let harness = harness();
    harness.limit();
    for (n, question) in QUESTIONS.iter().enumerate() {
        let sql = question.split_once('|').unwrap().1;
        let kept = |commit: &str| format!("create table kept{n} as {}", sql.replace('$', commit));
        let [shown, _] = &harness.shown;
        let written = harness.inner.try_write(id(1), &harness.at, &kept(shown.as_str()), LONG);
        assert!(matches!(written, Ok(MergeOutcome::Head(_))), "{question}: {written:?}");
        for commit in &harness.absent[..3] {
            let answer = match harness.inner.try_write(id(1), &harness.at, &kept(commit), LONG) {
                Ok(MergeOutcome::Head(head)) => {
                    Ok(format!("{:?}", harness.inner.read(&head, &format!("select * from kept{n}"))))
                }
                Err(EngineError::Sql { failure, .. }) => Err(failure.to_string()),
                other => panic!("{question} of {commit}: {other:?}"),
            };
            check(question, commit, answer);
        }
    }
}

#[test]
fn views_and_triggers_find_no_other_commits() {
    let harness = harness();
    harness.limit();
    let hidden = &harness.absent[0];
    let [shown, _] = &harness.shown;
    let make = format!(
        "create view of_shown as select * from dolt_at_t('{shown}');
         create view of_hidden as select * from dolt_at_t('{hidden}');
         create view logged as select message from dolt_log('{hidden}');
         create table log(v text);
         create trigger tells after insert on log begin
             insert into log select v from dolt_at_t(new.v) where new.v like '%0%'; end"
    );
    let at = harness.inner.write(&harness.at, &make);
    assert_eq!(harness.inner.read(&at, "select id from of_shown").len(), 1);
    for sql in ["select * from of_hidden", "select count(*) from of_hidden", "select * from logged"] {
        let text = harness.inner.read_failure(&at, sql);
        assert!(text.starts_with("query error: no such commit: "), "{sql}: {text}");
    }
    let (text, _) = harness.inner.write_failure(&at, &format!("insert into log values ('{hidden}')"));
    assert!(text.starts_with("query error: no such commit: "), "{text}");
    let told = harness.inner.write(&at, &format!("insert into log values ('{shown}')"));
    assert_eq!(
        harness.inner.read(&told, "select count(*) from log"),
        [[branchyard_domain::entities::Cell::Integer(2)]]
    );
}

/// The columns of a table never come from the last written commit if no branch has that commit.
#[test]
fn tables_of_other_commits_are_no_tables() {
    let harness = harness();
    let mut left = harness.inner.write(&harness.at, "create table SECRET_TABLE(SECRET_FIELD text)");
    left = harness.inner.write(&left, "insert into SECRET_TABLE values ('x')");
    let dropped = harness.inner.write(&harness.at, "drop table t");
    let _ = left;
    harness.limit();
    for prefix in ["dolt_at_", "dolt_history_", "dolt_diff_"] {
        let text = harness.inner.read_failure(&harness.at, &format!("select * from {prefix}secret_table limit 0"));
        assert!(!text.contains("FIELD"), "{text}");
        for asked in [
            format!("pragma table_info({prefix}secret_table)"),
            format!("select * from pragma_table_info('{prefix}secret_table')"),
            format!("select * from t join pragma_table_xinfo('{prefix}SECRET_TABLE')"),
        ] {
            let told = harness.inner.try_read(&harness.at, &asked, LONG);
            assert!(!format!("{told:?}").contains("FIELD"), "{asked}: {told:?}");
        }
    }
    assert!(!harness.inner.read(&harness.at, "pragma table_info(dolt_at_t)").is_empty());
    assert!(
        !harness.inner.read(&dropped, "select * from dolt_history_t").is_empty(),
        "it was in the history that is read"
    );
}

/// Guessing columns reveals nothing: for a hidden commit, no error names a missing column.
#[test]
fn columns_of_other_commits_are_not_told() {
    let harness = harness();
    harness.limit();
    for column in ["SECRET_COLUMN", "elsewhere"] {
        for commit in &harness.absent {
            let text = harness.inner.read_failure(&harness.at, &format!("select {column} from dolt_at_t('{commit}')"));
            assert_eq!(text, format!("query error: no such commit: {commit}"));
        }
    }
}

/// Results that depend on refs are not cached, because refs may be deleted.
#[test]
fn what_names_other_commits_is_not_kept() {
    let harness = harness();
    harness.limit();
    let kept = |sql: &str| {
        let query = branchyard_domain::ports::ReadQuery::new(sql, LONG);
        harness.inner.engine.read(id(1), &harness.at, &query, &mut CollectedRows::default()).unwrap().deterministic
    };
    let [_, shown] = &harness.shown;
    for sql in ["select * from dolt_at_t('$')", "select dolt_hashof('$')", "select * from dolt_diff_stat('HEAD', '$')"]
    {
        assert!(!kept(&sql.replace('$', shown.as_str())), "{sql}");
        assert!(kept(&sql.replace('$', "HEAD~1")), "{sql}");
        assert!(kept(&sql.replace('$', harness.at.as_str())), "{sql}");
    }
    assert!(kept("select * from dolt_log"));
    assert!(kept("select * from dolt_history_t where id = 1"));
}

/// Internal statements, and other readers of the same commit, are not affected by wrapped connections.
#[test]
fn connections_serve_strangers_and_us_in_turn() {
    let harness = harness();
    harness.limit();
    let [shown, _] = &harness.shown;
    for _ in 0..3 {
        for question in QUESTIONS {
            harness.ask(question, shown.as_str()).unwrap();
        }
        assert_eq!(harness.inner.engine.changed_tables(id(1), shown, &harness.at).unwrap().len(), 1);
        assert_eq!(harness.inner.engine.tables(id(1), &harness.at).unwrap().len(), 1);
        assert_eq!(harness.inner.engine.merge_base(id(1), shown, &harness.at).unwrap().as_ref(), Some(shown));
        let next = harness.inner.write(&harness.at, "insert into t select 9, dolt_hashof('HEAD')");
        let value = harness.inner.read(&next, "select v from t where id = 9").remove(0).remove(0);
        assert_eq!(value, crate::support::text(harness.at.as_str()));
    }
}

#[test]
fn what_is_read_elsewhere_ends_with_the_time_of_the_statement() {
    let _watchdog = Watchdog::start();
    let harness = harness();
    harness.limit();
    let sql = "with recursive n(i) as (select 1 union all select i + 1 from n)
        select count(*) from n join dolt_log('HEAD') l where n.i + length(l.message) < 0";
    let failure = harness.inner.try_read(&harness.at, sql, std::time::Duration::from_millis(300)).unwrap_err();
    assert_eq!(failure.to_string(), "query error: query timed out after 300 ms");
    harness.inner.read(&harness.at, "select * from dolt_log");
}

/// Prints the cost of the check. For a history of 10,000 commits, run `HISTORY_COMMITS=10000 cargo test -p
/// branchyard-engine-doltlite --release --test it -- --nocapture the_check_costs`.
#[test]
fn the_check_costs_little() {
    let length = std::env::var("HISTORY_COMMITS").map_or(300, |commits| commits.parse().unwrap());
    let harness = EngineHarness::new();
    let mut at = harness.write(&harness.base, "create table t(id integer primary key)");
    let mut commits = vec![at.clone()];
    for n in 0..length {
        at = harness.write(&at, &format!("insert into t values ({n})"));
        commits.push(at.clone());
    }
    let unknown = CommitHash::parse("0123456789abcdef0123456789abcdef01234567").unwrap();
    let heads = [at.clone()];
    let timed = |what: &str, commit: &CommitHash, rounds: u32| {
        let computing = Computing::now();
        for _ in 0..rounds {
            harness.engine.descends(id(1), &heads, commit).unwrap();
        }
        let micros = computing.elapsed().as_micros() / u128::from(rounds);
        eprintln!("{what}: {micros} µs");
        micros
    };
    timed("the commit before, first time", &commits[length - 1], 1);
    let recent = timed("the commit before, again", &commits[length - 1], 1_000);
    timed("100 commits back, first time", &commits[length - 100], 1);
    let back = timed("100 commits back, again", &commits[length - 100], 1_000);
    timed("the first commit, first time", &commits[0], 1);
    timed("the first commit, again", &commits[0], 100);
    timed("no commit", &unknown, 100);
    // The cost of what the domain caches for a pull request. Without the cache, each view of the pull request would pay
    // it.
    let theirs = harness.write(&commits[length - 100], "create trigger g after insert on t begin select 1; end");
    let started = Instant::now();
    let parted = harness.engine.merge_base(id(1), &at, &theirs).unwrap();
    eprintln!("where a pull parted, 100 commits back: {} µs", started.elapsed().as_micros());
    assert_eq!(parted.as_ref(), Some(&commits[length - 100]));
    let started = Instant::now();
    for commit in [&commits[length - 100], &theirs] {
        harness.engine.objects(id(1), commit).unwrap();
    }
    eprintln!("the objects of both sides: {} µs", started.elapsed().as_micros());
    // The target is 0.1 ms; a debug build may take ten times as long.
    let is_short = recent <= 1_000 && back <= 1_000;
    assert!(is_short || !RUNS_IN_THREAD, "a commit of a branch's recent history took {recent} µs, {back} µs");
}

/// A view is part of a shown commit, but may name a hidden one. The engine takes the columns of the view from the
/// hidden commit.
#[test]
fn a_view_over_a_hidden_commit_shows_no_name_of_a_column() {
    let mut harness = harness();
    let hidden = harness.absent[0].clone();
    let shown = harness.shown[0].clone();
    harness.at = harness.inner.write(
        &harness.at,
        &format!(
            "create view peek as select * from dolt_at_t('{hidden}'); create view over as select * from peek;
             create view fine as select * from dolt_at_t('{shown}')"
        ),
    );
    harness.heads.push(harness.at.clone());
    let columns = |harness: &HiddenHarness| -> Vec<(String, usize)> {
        let tables = harness.inner.engine.tables(id(1), &harness.at).unwrap();
        tables.into_iter().map(|table| (table.name, table.columns.len())).collect()
    };
    let counted = |counts: [(&str, usize); 4]| counts.map(|(name, count)| (name.to_owned(), count)).to_vec();
    assert_eq!(columns(&harness), counted([("fine", 2), ("over", 3), ("peek", 3), ("t", 2)]));
    harness.limit();
    assert_eq!(columns(&harness), counted([("fine", 2), ("over", 0), ("peek", 0), ("t", 2)]));
    let ask = |sql: &str| harness.inner.try_read(&harness.at, sql, LONG).map_err(|failure| failure.to_string());
    for view in ["peek", "over", "[PEEK]"] {
        for sql in [
            format!("select * from {view} limit 0"),
            format!("select * from {view}"),
            format!("select SECRET_COLUMN from {view} limit 0"),
            format!("select NO_COLUMN from {view} limit 0"),
            format!("with x as (select * from {view}) select * from x limit 0"),
            format!("select * from t left join {view} on 0 limit 0"),
        ] {
            let answer = ask(&sql);
            assert!(matches!(&answer, Err(text) if text.contains("no such commit")), "{sql}: {answer:?}");
        }
    }
    for view in ["peek", "over"] {
        for sql in ["table_info", "table_xinfo"].map(|info| format!("select name from pragma_{info}('{view}')")) {
            let answer = ask(&sql);
            assert!(!format!("{answer:?}").contains("SECRET"), "{sql}: {answer:?}");
        }
    }
    assert_eq!(ask("select * from fine").unwrap().rows.len(), 1);
    assert!(!ask("select * from dolt_log").unwrap().rows.is_empty(), "what uses no view is as before");
    // A writer cannot copy the columns either.
    let (failure, _) = harness.inner.write_failure(&harness.at, "create table taken as select * from peek limit 0");
    assert!(failure.contains("no such commit"), "{failure}");
}
