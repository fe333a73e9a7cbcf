//! SQL writes, measured until their operations have succeeded: one caller and many compared with the engine alone, and many
//! databases compared with one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cost::cost_rows;
use crate::flags::Flags;
use crate::harness::{BenchHarness, Caller, NO_RESULTS, ONE_CALLER, Server, write};
use crate::raw::Raw;
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;

/// Number of callers that write to one database.
const CALLERS: usize = 16;
const ALONE: &str = "engine alone, insert and commit";
const ONE: &str = "one database, one caller";

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let mut rows = WriteBench::start(flags, "process").judged();
    rows.extend(WriteBench::start(flags, "thread").shown());
    rows
}

/// A server with databases to write to, and the engine alone.
struct WriteBench {
    harness: BenchHarness,
    server: Server,
    names: Vec<String>,
    raw: Raw,
    /// Every insert uses its own row id.
    next: AtomicU64,
    done: AtomicU64,
    seconds: f64,
    slices: u64,
}

/// How a caller waits for its write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requests {
    /// In the request that writes, with `Prefer: wait`.
    One,
    /// In a second request, which reads the operation.
    Two,
}

impl WriteBench {
    fn start(flags: &Flags, isolation: &'static str) -> Self {
        let table = Table::new(1_000, flags.count("--columns"));
        let harness = BenchHarness::new();
        let server = harness.start_with(&[ONE_CALLER, &[NO_RESULTS, ("SQL__ISOLATION", isolation)]].concat());
        let names: Vec<String> = (0..flags.count("--databases")).map(|number| format!("bench{number}")).collect();
        names.iter().for_each(|name| server.database(&harness.token, name, table));
        Self {
            harness,
            server,
            names,
            raw: Raw::with(table),
            next: AtomicU64::new(table.rows + 1),
            done: AtomicU64::new(0),
            seconds: flags.number("--seconds"),
            slices: flags.count("--slices"),
        }
    }

    fn insert(&self) -> String {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        format!("insert into t (id, name, value) values ({id}, 'row number {id}', {id} / 7.0)")
    }

    fn goes_on(&self, began: Instant) -> bool {
        began.elapsed() < Duration::from_secs_f64(self.seconds)
    }

    /// Returns the number of completed writes per second, with `callers` callers, each of which writes to one database.
    fn rate(&self, callers: usize, databases: usize, requests: Requests) -> f64 {
        let done = AtomicU64::new(0);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for database in self.names[..databases].iter().cycle().take(callers) {
                let done = &done;
                scope.spawn(move || {
                    let mut caller = Caller::new(self.server.address, &self.harness.token);
                    let path = format!("/databases/bench/{database}/sql-writes");
                    while self.goes_on(began) {
                        let body = write(&self.insert()).to_string();
                        match requests {
                            Requests::One => caller.finish_in_one(&path, &body),
                            Requests::Two => caller.finish(&path, &body),
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let done = done.into_inner();
        self.done.fetch_add(done, Ordering::Relaxed);
        as_float(done) / began.elapsed().as_secs_f64()
    }

    /// Returns the number of writes per second of the engine alone.
    fn raw(&mut self) -> f64 {
        let began = Instant::now();
        let mut done = 0;
        while self.goes_on(began) {
            let insert = self.insert();
            self.raw.write(&insert);
            done += 1;
        }
        as_float(done) / began.elapsed().as_secs_f64()
    }

    /// Measures callers on one database beside the engine alone. Returns the row, and those of what a write costs.
    fn beside_raw(&mut self, callers: usize, requests: Requests, row: &WriteRow) -> Vec<Row> {
        let (slices, this) = (self.slices, std::cell::RefCell::new(self));
        let done = alternate(slices, || this.borrow().rate(callers, 1, requests), || this.borrow_mut().raw());
        let this = this.into_inner();
        let mut rows = vec![done.row(row.name, row.what.to_owned(), ALONE, "/s", row.aim)];
        if let Some((names, aim)) = row.cost {
            let work = || {
                let before = this.done.load(Ordering::Relaxed);
                this.rate(callers, 1, requests);
                as_float(this.done.load(Ordering::Relaxed) - before)
            };
            rows.extend(cost_rows(&this.server, work, names, "such a write", aim));
        }
        rows
    }

    fn many(&self, name: &'static str, aim: Aim) -> Row {
        let databases = self.names.len();
        let many = || self.rate(databases, databases, Requests::One);
        let done = alternate(self.slices, many, || self.rate(1, 1, Requests::One));
        done.row(name, format!("sql-writes to {databases} databases, {databases} callers"), ONE, "/s", aim)
    }

    fn judged(mut self) -> Vec<Row> {
        let one = WriteRow {
            name: "write",
            what: "sql-writes to one database, one caller, one request that waits for the end",
            aim: Aim::AtLeast(0.6),
            cost: Some((("write, processor", "write, switches"), Aim::AtMost(1.2))),
        };
        let queued = WriteRow {
            name: "write, queued",
            what: "the same in two requests: the operation is queued, then waited for",
            aim: Aim::AtLeast(0.5),
            cost: None,
        };
        let callers = WriteRow {
            name: "write, 16 callers",
            what: "16 callers write to one database, one request each",
            aim: Aim::AtLeast(0.9),
            cost: Some((("write, 16, processor", "write, 16, switches"), Aim::AtMost(0.8))),
        };
        let mut rows = self.beside_raw(1, Requests::One, &one);
        rows.extend(self.beside_raw(1, Requests::Two, &queued));
        rows.extend(self.beside_raw(CALLERS, Requests::One, &callers));
        rows.push(self.many("write, many", Aim::AtLeast(4.0)));
        rows
    }

    /// Measures the same on a server with `sql.isolation = "thread"`.
    fn shown(mut self) -> Vec<Row> {
        let row = |name, what| WriteRow { name, what, aim: Aim::None, cost: None };
        let mut rows =
            self.beside_raw(1, Requests::One, &row("write, thread", "one caller, sql.isolation = \"thread\""));
        let callers = row("write, 16, thread", "16 callers, one database, sql.isolation = \"thread\"");
        rows.extend(self.beside_raw(CALLERS, Requests::One, &callers));
        rows.push(self.many("write, many, thread", Aim::None));
        rows
    }
}

/// A row about callers that write to one database.
struct WriteRow {
    name: &'static str,
    what: &'static str,
    aim: Aim,
    /// Names and aim of the rows about what a write costs.
    cost: Option<((&'static str, &'static str), Aim)>,
}

#[expect(clippy::cast_precision_loss, reason = "a count of writes is far below 2^53")]
fn as_float(count: u64) -> f64 {
    count as f64
}
