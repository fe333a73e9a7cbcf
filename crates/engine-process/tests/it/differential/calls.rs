//! Generated calls of the engine port.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use branchyard_domain::entities::{Cell, ImportMode, LogPosition, RowProblem, Side};
use branchyard_domain::ports::{
    CancellationToken, Engine, EngineError, FormatError, ImportColumn, ImportJob, ImportTarget, MergeJob, MergeOutcome,
    PreviewJob, PreviewPlace, PreviewRefusal, Previewed, ReadQuery, RowOrder, RowPage, RowSource, RowTest, ScriptJob,
    Selection, TableScan, Test, WriteJob,
};
use branchyard_domain::values::CommitHash;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;

use super::answers::{Answer, Rows};
use crate::hidden::QUESTIONS;
use crate::hostile::grammar::{Grammar, Words};
use crate::support::{ada, id};

/// A call of the engine port.
#[derive(Debug)]
pub(super) enum Call {
    Read {
        at: CommitHash,
        sql: String,
        /// Number of rows after which the receiver wants no more.
        most: usize,
    },
    Write {
        at: CommitHash,
        sql: String,
        merge: Option<CommitHash>,
    },
    Preview {
        at: CommitHash,
        sql: String,
        place: PreviewPlace,
    },
    Rows {
        at: CommitHash,
        table: String,
        tests: Vec<RowTest>,
        order: Option<(String, bool)>,
        backwards: bool,
        after: Option<Vec<Cell>>,
        skip: u64,
        limit: u64,
        most: usize,
    },
    Count {
        at: CommitHash,
        table: String,
        tests: Vec<RowTest>,
    },
    Scan {
        at: CommitHash,
        table: String,
        most: usize,
    },
    Merge {
        ours: CommitHash,
        theirs: CommitHash,
        resolve: BTreeMap<String, Side>,
    },
    Conflicts {
        ours: CommitHash,
        theirs: CommitHash,
        table: Option<String>,
        skip: usize,
        limit: usize,
    },
    Import {
        at: CommitHash,
        table: String,
        target: ImportTarget,
        columns: Vec<ImportColumn>,
        rows: Vec<Vec<Cell>>,
        /// The row in whose place the source fails.
        fails: Option<(usize, u8)>,
    },
    Script {
        at: CommitHash,
        target: Option<(String, ImportMode)>,
        text: String,
        piece: usize,
        statement_bytes: usize,
    },
    ChangedTables(CommitHash, CommitHash),
    ChangedRows {
        from: CommitHash,
        to: CommitHash,
        table: String,
        page: RowPage,
    },
    Schema(CommitHash),
    History {
        a: CommitHash,
        b: CommitHash,
        limit: usize,
    },
    Verify(Vec<CommitHash>),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// Rows that may fail.
struct Source<'a> {
    rows: &'a [Vec<Cell>],
    at: usize,
    fails: Option<(usize, u8)>,
}

impl RowSource for Source<'_> {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        if let Some((_, how)) = self.fails.filter(|(at, _)| *at == self.at) {
            self.at = self.rows.len();
            self.fails = None;
            return Err(match how {
                0 => FormatError::File("the file ends within a quoted value".into()),
                1 => FormatError::Rows(vec![RowProblem {
                    line: 7,
                    column: Some("v".into()),
                    detail: "it has 3 fields instead of 2".into(),
                }]),
                _ => FormatError::Io(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the upload ended early")),
            });
        }
        let Some(next) = self.rows.get(self.at) else { return Ok(None) };
        self.at += 1;
        row.clone_from(next);
        Ok(Some(self.at as u64 + 1))
    }
}

/// A text that comes in short pieces.
struct Pieces<'a>(&'a [u8], usize);

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let length = self.0.len().min(into.len()).min(self.1);
        let (piece, rest) = self.0.split_at(length);
        into[..length].copy_from_slice(piece);
        self.0 = rest;
        Ok(length)
    }
}

impl Call {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Preview { .. } => "preview",
            Self::Rows { .. } => "rows",
            Self::Count { .. } => "count",
            Self::Scan { .. } => "scan",
            Self::Merge { .. } => "merge",
            Self::Conflicts { .. } => "conflicts",
            Self::Import { .. } => "import",
            Self::Script { .. } => "script",
            Self::ChangedTables(..) => "changed tables",
            Self::ChangedRows { .. } => "changed rows",
            Self::Schema(_) => "schema",
            Self::History { .. } => "history",
            Self::Verify(_) => "verify",
        }
    }

    /// Returns `true` if the text of the call holds one of these words. Tables and views may hold them too, which a
    /// write stored.
    pub(super) fn depends_on(&self, words: &[&str]) -> bool {
        let text = match self {
            Self::Read { sql, .. } | Self::Write { sql, .. } | Self::Preview { sql, .. } => sql.to_lowercase(),
            Self::Script { text, .. } => text.to_lowercase(),
            _ => return false,
        };
        words.iter().any(|word| text.contains(word))
    }

    /// Makes the call.
    pub(super) fn run(&self, engine: &dyn Engine, timeout: Duration) -> Answer {
        let (database, author, canceled) = (id(1), ada(), CancellationToken::default());
        match self {
            Self::Read { at, sql, most } => {
                let mut rows = Rows::at_most(*most);
                let report = engine.read(database, at, &ReadQuery::new(sql, timeout), &mut rows);
                let deterministic = report.as_ref().ok().map(|report| report.deterministic);
                Answer { deterministic, ..Answer::of(report.map(drop)) }.with_rows(rows)
            }
            Self::Write { at, sql, merge } => {
                let then_merge = merge.as_ref().map(|commit| (commit, "Merge"));
                let job = WriteJob { base: at, statements: sql, message: "Run", then_merge, author: &author, timeout };
                let written = engine.write(database, &job);
                let head = match &written {
                    Ok(written) => head(&written.outcome),
                    Err(_) => None,
                };
                Answer { head, ..Answer::of(written) }
            }
            Self::Preview { at, sql, place } => {
                let job = PreviewJob { base: at, statements: sql, timeout, rows: 20, bytes: 1 << 16, place: *place };
                let previewed = engine.preview_write(database, &job);
                Answer::of(previewed.and_then(|previewed| match previewed {
                    Previewed::Refused(PreviewRefusal::TooLong) => Err(EngineError::TimedOut(0)),
                    previewed => Ok(previewed),
                }))
            }
            Self::Rows { at, table, tests, order, backwards, after, skip, limit, most } => {
                let mut rows = Rows::at_most(*most);
                let wanted = Selection {
                    table,
                    tests,
                    order: order.as_ref().map(|(column, descending)| RowOrder { column, descending: *descending }),
                    backwards: *backwards,
                    after: after.as_deref(),
                    skip: *skip,
                    limit: *limit,
                    timeout,
                    canceled,
                };
                let selected = engine.rows(database, at, &wanted, &mut rows);
                let cursor = selected.as_ref().ok().and_then(|selected| selected.last.clone());
                Answer { cursor, ..Answer::of(selected) }.with_rows(rows)
            }
            Self::Count { at, table, tests } => Answer::of(engine.count(database, at, table, tests, timeout)),
            Self::Scan { at, table, most } => {
                let mut rows = Rows::at_most(*most);
                let scan = TableScan { table, timeout, canceled };
                // The time that is left differs.
                Answer::of(engine.scan(database, at, &scan, &mut rows).map(drop)).with_rows(rows)
            }
            Self::Merge { ours, theirs, resolve } => {
                let job = MergeJob {
                    ours,
                    theirs,
                    message: "Merge",
                    author: &author,
                    resolve,
                    rows: &[],
                    fast_forward: true,
                    timeout,
                };
                let merged = engine.merge(database, &job);
                let head = merged.as_ref().ok().and_then(head);
                Answer { head, ..Answer::of(merged) }
            }
            Self::Conflicts { ours, theirs, table, skip, limit } => {
                Answer::of(engine.conflicts(database, ours, theirs, table.as_deref(), *skip, *limit))
            }
            Self::Import { at, table, target, columns, rows, fails } => {
                let job = ImportJob { base: at, table, target, columns, message: "Import", author: &author, timeout };
                let imported = engine.import(database, &job, &mut Source { rows, at: 0, fails: *fails });
                Answer { head: imported.as_ref().ok().cloned(), ..Answer::of(imported) }
            }
            Self::Script { at, target, text, piece, statement_bytes } => {
                let job = ScriptJob {
                    base: at,
                    target: target.as_ref().map(|(table, mode)| (table.as_str(), *mode)),
                    statement_bytes: *statement_bytes,
                    message: "Script",
                    author: &author,
                    timeout,
                };
                let ran = engine.run_script(database, &job, &mut Pieces(text.as_bytes(), *piece));
                Answer { head: ran.as_ref().ok().cloned(), ..Answer::of(ran) }
            }
            Self::ChangedTables(from, to) => Answer::of(engine.changed_tables(database, from, to)),
            Self::ChangedRows { from, to, table, page } => {
                let changed = engine.changed_rows(database, from, to, table, page);
                let cursor = changed
                    .as_ref()
                    .ok()
                    .and_then(|changed| changed.rows.last())
                    .map(|row| row.primary_key.iter().map(|(_, cell)| cell.clone()).collect());
                Answer { cursor, ..Answer::of(changed) }
            }
            Self::Schema(at) => {
                let (tables, objects) = (engine.tables(database, at), engine.objects(database, at));
                Answer::of(tables.and_then(|tables| Ok((tables, objects?))))
            }
            Self::History { a, b, limit } => {
                let position = LogPosition { from: a.clone(), after: (limit % 2 == 0).then(|| b.clone()) };
                let log = Answer::of(engine.log(database, &position, *limit)).text;
                let base = Answer::of(engine.merge_base(database, a, b)).text;
                let is = Answer::of(engine.is_ancestor(database, a, b)).text;
                let descends = Answer::of(engine.descends(database, &[a.clone(), b.clone()], b)).text;
                let commit = Answer::of(engine.commit(database, a)).text;
                Answer::of(Ok((log, base, is, descends, commit)))
            }
            Self::Verify(heads) => Answer::of(engine.verify(database, heads)),
        }
    }
}

fn head(outcome: &MergeOutcome) -> Option<CommitHash> {
    match outcome {
        MergeOutcome::Head(head) => Some(head.clone()),
        MergeOutcome::Conflicts(_) => None,
    }
}

const TABLES: &[&str] = &[
    "t",
    "wide",
    "vals",
    "many",
    "large",
    "columns",
    "strict",
    "log",
    "v1",
    "child",
    "nothing_in",
    "T",
    "Many",
    "absent",
    "secret",
    "sqlite_schema",
    "dolt_log",
    "x",
    "new1",
    "new2",
];
const COLUMNS: &[&str] = &["id", "v", "a", "b", "k", "n", "r", "u", "g", "c0", "c299", "absent"];

/// Statements besides those of the grammar. `$` is a commit, and `#` a small number.
const READS: &[&str] = &[
    "select * from vals order by id",
    "select typeof(v), quote(v), v, n, r from vals where id > #",
    "select * from large where id <= #",
    "select * from columns",
    "select * from columns, vals limit #",
    "select * from nothing_in",
    "select * from many limit 250 offset #",
    "select k, count(*), sum(v), avg(n), group_concat(n) from many group by k having count(*) > #",
    "select * from t natural join vals",
    "select *, rowid from t where v is null or id = #",
    "with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000) select x, x * 0.5, 'row ' || x from c",
    "select zeroblob(#00000), hex(zeroblob(#0000))",
    "select 9e999, -9e999, 0.0, -0.0, 1e-320, 1.7976931348623157e308, 9e999 - 9e999",
    "select cast(x'c3' as text), cast(x'ff' as text) || 'a', char(0), x''",
    "select json_extract('{\"a\":[#]}', '$.a[0]'), json('not json')",
    "select v, abs(-9223372036854775808 + (id < #)) from vals",
    "select id, case when id > # then abs(-9223372036854775808) else v end from vals",
    "select n, case when n > #00 then json('x') else n end from many order by n",
    "select * from t where v like '%#%' and 'abcdefghij' like '%j'",
    "select 'a' like 'LONG'",
    "select v from vals where v glob '*LONG*'",
    "select id as a, id as a, v \"a b\" from t",
    "select nonsense from t",
    "select * from t where",
    "select 1; select 2",
    "select ?1, :a",
    "insert into t values (100, 'x')",
    "pragma table_info(vals)",
    "pragma foreign_key_list(child)",
    "pragma user_version",
    "explain select * from t",
    "explain query plan select * from t where v = 'a'",
    "show tables",
    "show create table t",
    "describe t",
    "attach 'x' as y",
    "select load_extension('x')",
    "select dolt_commit('-m', 'x')",
    "select * from dolt_branches",
    "select * from dolt_status",
    "select * from dolt_log limit #",
    "select * from dolt_history_t order by 1, 2 limit 50",
    "select * from dolt_blame_t",
    "select count(*) from many a, many b, many c where a.n * b.n = -c.n",
    "",
    "  -- nothing",
    ";",
];

const WRITES: &[&str] = &[
    "insert into t values (1#0, 'w#')",
    "update t set v = 'w#' where id <= #",
    "delete from t where id = #",
    "update many set v = v + # where n % 3 = 0",
    "insert into vals select id + 1#00, v, n, r from vals",
    "insert into strict(id, n, u) values (1#, #, 'u#')",
    "insert into strict(id, n, u) values (1#, 0, 'u#')",
    "insert into child values (#, 12345)",
    "create table new1(id integer primary key, v text default 'd#', w)",
    "create table new2 as select * from many where n > #00",
    "drop table if exists wide",
    "alter table t add column c# text",
    "alter table vals rename to vals#",
    "alter table t rename column v to w",
    "create index by_n on many(v)",
    "create view v# as select k, count(*) from many group by k",
    "create trigger tr# after update on t begin insert into log values (new.id); end",
    "insert into t(v) select v from t",
    "insert or replace into wide values ('x', #)",
    "insert into wide values ('x', 5) on conflict (a) do update set b = b + #",
    "delete from many returning k",
    "update t set v = cast(x'ff' as text) where id = 2",
    "insert into large values (1#, zeroblob(#00000))",
    "insert into t select 1000 + n, k from many",
    "insert into t values (null, dolt_hashof('$'))",
    "select v from t where id = #",
    "nonsense",
    "insert into absent values (1)",
    "begin",
    "commit",
    "pragma user_version = #",
    "select dolt_commit('-Am', 'x')",
    "insert into t values (1, 'again')",
    "update vals set v = abs(-9223372036854775808)",
    "update strict set g = 1",
    "insert into t with recursive c(x) as (select 1#000 union all select x + 1 from c where x < 1#400) select x, 'r' || x from c",
];

/// A seeded source of calls.
pub(super) struct Calls<'a> {
    grammar: Grammar<'a>,
    /// The cursors of the last pages.
    cursors: Vec<Vec<Cell>>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(seed: u64, words: &'a Words) -> Self {
        Self { grammar: Grammar::new(seed, words), cursors: Vec::new() }
    }

    /// Keeps the cursor of a page for later calls.
    pub(super) fn keep(&mut self, cursor: Option<Vec<Cell>>) {
        self.cursors.extend(cursor);
        if self.cursors.len() > 6 {
            self.cursors.remove(0);
        }
    }

    fn number(&mut self, below: usize) -> usize {
        self.grammar.random.random_range(0..below)
    }

    fn one<'b>(&mut self, of: &[&'b str]) -> &'b str {
        of.choose(&mut self.grammar.random).copied().unwrap_or_default()
    }

    fn commit(&mut self, of: &[CommitHash]) -> CommitHash {
        of.choose(&mut self.grammar.random).cloned().unwrap()
    }

    /// Fills in the marks of a statement.
    fn filled(&mut self, sql: &str, commits: &[CommitHash], hidden: &[CommitHash]) -> String {
        let commit = match self.number(4) {
            0 => self.commit(hidden),
            1 => CommitHash::parse("0123456789abcdef0123456789abcdef01234567").unwrap(),
            _ => self.commit(commits),
        };
        let long = [90, 101, 500, 1000, 1001][self.number(5)];
        let (number, commit) = (self.number(9).to_string(), commit.to_string());
        sql.replace("LONG", &"a".repeat(long)).replace('#', &number).replace('$', &commit)
    }

    fn tests(&mut self) -> Vec<RowTest> {
        let kinds = [
            Test::Equals,
            Test::Differs,
            Test::Contains,
            Test::Less,
            Test::More,
            Test::IsNull,
            Test::IsNotNull,
            Test::AtMost,
            Test::AtLeast,
            Test::StartsWith,
            Test::OneOf,
        ];
        let count = [0, 0, 1, 1, 2][self.number(5)];
        let test = |calls: &mut Self| RowTest {
            column: calls.one(COLUMNS).to_owned(),
            test: kinds[calls.number(kinds.len())],
            value: calls.one(&["", "1", "a", "x", "2.5", "k3", "é", "9e999", "%", "'"]).to_owned(),
        };
        (0..count).map(|_| test(self)).collect()
    }

    fn cell(&mut self) -> Cell {
        match self.number(9) {
            0 => Cell::Null,
            1 => Cell::Integer(i64::MIN),
            2 => Cell::Real(f64::INFINITY),
            3 => Cell::Real(-0.5),
            4 => Cell::Text(vec![0xff, b'a']),
            5 => Cell::Text("é".into()),
            6 => Cell::Blob(vec![0, 255]),
            7 => Cell::Text(vec![b'x'; 3_000]),
            _ => Cell::Integer(i64::try_from(self.number(50)).unwrap()),
        }
    }

    fn cursor(&mut self) -> Option<Vec<Cell>> {
        match self.number(4) {
            0 | 1 => None,
            2 => self.cursors.choose(&mut self.grammar.random).cloned(),
            _ => Some((0..=self.number(3)).map(|_| self.cell()).collect()),
        }
    }

    fn sql_to_read(&mut self, commits: &[CommitHash], hidden: &[CommitHash]) -> String {
        match self.number(10) {
            0..6 => self.grammar.statement(),
            6..9 => {
                let sql = self.one(READS);
                self.filled(sql, commits, hidden)
            }
            _ => {
                let question = self.one(QUESTIONS).split_once('|').unwrap().1;
                self.filled(question, commits, hidden)
            }
        }
    }

    fn sql_to_write(&mut self, commits: &[CommitHash], hidden: &[CommitHash]) -> String {
        if self.number(4) == 0 {
            return self.grammar.statement();
        }
        let count = [1, 1, 1, 2, 3][self.number(5)];
        let one = |calls: &mut Self| {
            let sql = calls.one(WRITES);
            calls.filled(sql, commits, hidden)
        };
        (0..count).map(|_| one(self)).collect::<Vec<_>>().join("; ")
    }

    /// Returns the next call.
    pub(super) fn next(&mut self, commits: &[CommitHash], hidden: &[CommitHash]) -> Call {
        let at = match self.number(200) {
            0 => CommitHash::parse("0123456789abcdef0123456789abcdef01234567").unwrap(),
            1..6 => self.commit(hidden),
            _ => self.commit(commits),
        };
        let other = self.commit(commits);
        let table = self.one(TABLES).to_owned();
        let most = [usize::MAX, usize::MAX, usize::MAX, 0, 1, 3, 100][self.number(7)];
        match self.number(1000) {
            0..680 => Call::Read { at, sql: self.sql_to_read(commits, hidden), most },
            680..710 => {
                let place = [PreviewPlace::File, PreviewPlace::File, PreviewPlace::Copy][self.number(3)];
                Call::Preview { at, sql: self.sql_to_write(commits, hidden), place }
            }
            710..790 => {
                let merge = (self.number(6) == 0).then_some(other);
                Call::Write { at, sql: self.sql_to_write(commits, hidden), merge }
            }
            790..840 => Call::Rows {
                at,
                table,
                tests: self.tests(),
                order: (self.number(2) == 0).then(|| (self.one(COLUMNS).to_owned(), self.number(2) == 0)),
                backwards: self.number(3) == 0,
                after: self.cursor(),
                skip: [0, 0, 0, 3, 500][self.number(5)],
                limit: [0, 1, 10, 100][self.number(4)],
                most,
            },
            840..860 => Call::Count { at, table, tests: self.tests() },
            860..875 => Call::Scan { at, table, most },
            875..895 => {
                let sides = [Side::Ours, Side::Theirs];
                let resolve = (0..self.number(3)).map(|_| (self.one(TABLES).to_owned(), sides[self.number(2)]));
                Call::Merge { ours: at, theirs: other, resolve: resolve.collect::<Vec<_>>().into_iter().collect() }
            }
            895..905 => Call::Conflicts {
                ours: at,
                theirs: other,
                table: (self.number(2) == 0).then_some(table),
                skip: self.number(3),
                limit: [1, 10, 100][self.number(3)],
            },
            905..920 => self.import(at, table),
            920..935 => {
                let mode = match self.number(4) {
                    0 => ImportMode::Create,
                    1 => ImportMode::Overwrite,
                    2 => ImportMode::Update,
                    _ => ImportMode::Replace,
                };
                let text: Vec<String> = (0..=self.number(4)).map(|_| self.sql_to_write(commits, hidden)).collect();
                Call::Script {
                    at,
                    target: (self.number(3) == 0).then_some((table, mode)),
                    text: text.join(";\n"),
                    piece: [1, 7, 100_000][self.number(3)],
                    statement_bytes: [30, 1 << 20][usize::from(self.number(8) != 0)],
                }
            }
            935..945 => Call::ChangedTables(at, other),
            945..965 => {
                let page = RowPage {
                    after: self.cursor(),
                    limit: [1, 10, 1000][self.number(3)],
                    bytes: [100, 1 << 20][self.number(2)],
                };
                Call::ChangedRows { from: at, to: other, table, page }
            }
            965..980 => Call::Schema(at),
            980..998 => Call::History { a: at, b: other, limit: self.number(12) },
            _ => Call::Verify(vec![at, other]),
        }
    }

    fn import(&mut self, at: CommitHash, table: String) -> Call {
        let target = match self.number(4) {
            0 => ImportTarget::Update,
            1 => ImportTarget::Replace,
            _ => ImportTarget::New {
                primary_key: if self.number(2) == 0 { vec!["id".into()] } else { Vec::new() },
                overwrite: self.number(2) == 0,
            },
        };
        let names: &[&str] = [&["id", "v"][..], &["a", "b"], &["id", "v", "w"], &["id"]][self.number(4)];
        let column = |calls: &mut Self, name: &&str| ImportColumn {
            name: (*name).to_owned(),
            declared_type: calls.one(&["INTEGER", "REAL", "TEXT", ""]).to_owned(),
        };
        let columns: Vec<ImportColumn> = names.iter().map(|name| column(self, name)).collect();
        let count = [0, 1, 5, 600][self.number(4)];
        let repeats = self.number(5) == 0;
        let row = |calls: &mut Self, n: usize| {
            let key = if repeats { Cell::Integer(1) } else { Cell::Integer(i64::try_from(n).unwrap()) };
            let others = (1..names.len()).map(|_| calls.cell());
            std::iter::once(key).chain(others.collect::<Vec<_>>()).collect()
        };
        let rows: Vec<Vec<Cell>> = (0..count).map(|n| row(self, n)).collect();
        let fails = (self.number(4) == 0).then(|| (self.number(count + 1), u8::try_from(self.number(3)).unwrap()));
        Call::Import { at, table, target, columns, rows, fails }
    }
}
