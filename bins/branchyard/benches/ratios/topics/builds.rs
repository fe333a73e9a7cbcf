//! This build of the binary compared with another one, which `--other` names: a commit, a profile or compiler flags before and after a
//! change.

use crate::flags::Flags;
use crate::harness::BenchHarness;
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;
use crate::topics::sides::{PAGE, Side};

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let Some(other) = &flags.other else {
        return vec![Row::skipped("builds", "no other build is named; --other FILE names one".to_owned())];
    };
    let table = Table::new(flags.count("--small-rows"), flags.count("--columns"));
    let (seconds, slices) = (flags.number("--seconds"), flags.count("--slices"));
    let (statement, proof) = (flags.text("--statement").to_owned(), flags.text("--proof").to_owned());
    let ours = Side::start(BenchHarness::new(), &[]);
    let theirs = Side::start(BenchHarness::of_program(other), &[]);
    for side in [&ours, &theirs] {
        side.fill(table);
    }
    let name = other.display().to_string();
    let mut rows = Vec::new();
    let mut compare = |row, what: &str, measure: &dyn Fn(&Side) -> f64| {
        let done = alternate(slices, || measure(&ours), || measure(&theirs));
        rows.push(done.row(row, what.to_owned(), &name, "/s", Aim::None));
    };
    compare("builds, read", "read by primary key, signed in, 1 connection", &|side| {
        side.reads(&statement, &proof, 1, seconds, table.rows)
    });
    compare("builds, 16 reads", "read by primary key, signed in, 16 connections", &|side| {
        side.reads(&statement, &proof, 16, seconds, table.rows)
    });
    compare("builds, page", "1,000 rows as JSON, 1 connection", &|side| {
        side.reads(PAGE, "\"rows\"", 1, seconds, table.rows)
    });
    compare("builds, stream", "all rows as CSV", &Side::streams);
    compare("builds, write", "sql-writes, one caller", &|side| side.writes(seconds));
    rows
}
