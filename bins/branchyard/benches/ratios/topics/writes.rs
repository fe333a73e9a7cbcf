//! SQL writes, measured until their operations have succeeded: one caller compared with the engine alone, and many databases
//! compared with one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::flags::Flags;
use crate::harness::{BenchHarness, Caller, Server, write};
use crate::raw::Raw;
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let table = Table::new(1_000, flags.count("--columns"));
    let (databases, seconds, slices) = (flags.count("--databases"), flags.number("--seconds"), flags.count("--slices"));
    let harness = BenchHarness::new();
    let server = harness.start();
    let names: Vec<String> = (0..databases).map(|number| format!("bench{number}")).collect();
    names.iter().for_each(|name| server.database(&harness.token, name, table));
    // Every insert uses its own row id.
    let next = AtomicU64::new(table.rows + 1);
    let insert = || {
        let id = next.fetch_add(1, Ordering::Relaxed);
        format!("insert into t (id, name, value) values ({id}, 'row number {id}', {id} / 7.0)")
    };

    let one = || rate(&server, &harness.token, &names[..1], seconds, &insert);
    let mut raw = Raw::with(table);
    let alone = || {
        let began = Instant::now();
        let mut done = 0_u32;
        while began.elapsed() < Duration::from_secs_f64(seconds) {
            raw.write(&insert());
            done += 1;
        }
        f64::from(done) / began.elapsed().as_secs_f64()
    };
    let done = alternate(slices, one, alone);
    let what = "sql-writes to one database, one caller, until succeeded".to_owned();
    let row = done.row("write", what, "engine alone, insert and commit", "/s", Aim::AtLeast(0.5));

    let done = alternate(slices, || rate(&server, &harness.token, &names, seconds, &insert), one);
    let what = format!("sql-writes to {databases} databases, {databases} callers");
    vec![row, done.row("write, many", what, "one database, one caller", "/s", Aim::AtLeast(1.5))]
}

/// Measures the number of completed writes per second, with one caller per database.
fn rate(
    server: &Server,
    token: &str,
    databases: &[String],
    seconds: f64,
    insert: &(impl Fn() -> String + Sync),
) -> f64 {
    let done = AtomicU64::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for database in databases {
            let done = &done;
            scope.spawn(move || {
                let mut caller = Caller::new(server.address, token);
                while began.elapsed() < Duration::from_secs_f64(seconds) {
                    caller.finish(&format!("/databases/bench/{database}/sql-writes"), &write(&insert()).to_string());
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "a count of writes is far below 2^53")]
    let done = done.load(Ordering::Relaxed) as f64;
    done / began.elapsed().as_secs_f64()
}
