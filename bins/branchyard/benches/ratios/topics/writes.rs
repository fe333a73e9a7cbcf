//! SQL writes, measured until their operations have succeeded: one caller and many compared with the engine alone, and many
//! databases compared with one.

use std::time::Instant;

use crate::cost::cost_rows;
use crate::flags::Flags;
use crate::harness::BenchHarness;
use crate::raw::Raw;
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;
use crate::topics::writers::{Requests, Writers, as_float};

/// Number of callers that write to one database.
const CALLERS: usize = 16;
const ALONE: &str = "engine alone, insert and commit";
pub(crate) const ONE: &str = "one database, one caller";

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let mut rows = WriteBench::start(flags, "process").judged();
    rows.extend(WriteBench::start(flags, "thread").shown());
    rows
}

/// A server with databases to write to, and the engine alone.
struct WriteBench {
    writers: Writers,
    raw: Raw,
    slices: u64,
}

impl WriteBench {
    fn start(flags: &Flags, isolation: &'static str) -> Self {
        let table = Table::new(1_000, flags.count("--columns"));
        let writers = Writers::start(BenchHarness::new(), &[("SQL__ISOLATION", isolation)], table, flags);
        Self { writers, raw: Raw::with(table), slices: flags.count("--slices") }
    }

    /// Returns the number of writes per second of the engine alone.
    fn raw(&mut self) -> f64 {
        let began = Instant::now();
        let mut done = 0;
        while self.writers.goes_on(began) {
            let insert = self.writers.insert();
            self.raw.write(&insert);
            done += 1;
        }
        as_float(done) / began.elapsed().as_secs_f64()
    }

    /// Measures callers on one database beside the engine alone. Returns the row, and those of what a write costs.
    fn beside_raw(&mut self, callers: usize, requests: Requests, row: &WriteRow) -> Vec<Row> {
        let (slices, this) = (self.slices, std::cell::RefCell::new(self));
        let done = alternate(slices, || this.borrow().writers.rate(callers, 1, requests), || this.borrow_mut().raw());
        let this = this.into_inner();
        let mut rows = vec![done.row(row.name, row.what.to_owned(), ALONE, "/s", row.aim)];
        if let Some((names, aim)) = row.cost {
            let work = || {
                let before = this.writers.done();
                this.writers.rate(callers, 1, requests);
                this.writers.done() - before
            };
            rows.extend(cost_rows(&this.writers.server, work, names, "such a write", aim));
        }
        rows
    }

    fn many(&self, name: &'static str, aim: Aim) -> Row {
        let databases = self.writers.databases();
        let many = || self.writers.rate(databases, databases, Requests::One);
        let done = alternate(self.slices, many, || self.writers.rate(1, 1, Requests::One));
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
