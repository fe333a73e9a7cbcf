//! Users' SQL in worker processes, compared with threads of the server: the same binary with `sql.isolation = "thread"`. And what
//! workers cost: the first read of a database without a worker, and memory.

use std::time::{Duration, Instant};

use branchyard_testkit::descendants;

use crate::flags::Flags;
use crate::harness::{BenchHarness, NO_RESULTS, ONE_CALLER, Server};
use crate::load::{Connection, encoded, get};
use crate::memory;
use crate::report::{Aim, Row};
use crate::slices::{alternate, median};
use crate::table::Table;
use crate::topics::sides::{PAGE, Side};

const THREAD: (&str, &str) = ("SQL__ISOLATION", "thread");
const PROCESS: (&str, &str) = ("SQL__ISOLATION", "process");
/// The name of the baseline.
const THREADS: &str = "sql.isolation = \"thread\"";
/// Pause between two first reads, so that workers are started off their path.
const PAUSE: Duration = Duration::from_millis(40);

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    if !cfg!(target_os = "linux") {
        return vec![Row::skipped("process", "worker processes run on Linux only".to_owned())];
    }
    let table = Table::new(flags.count("--small-rows"), flags.count("--columns"));
    let (seconds, slices) = (flags.number("--seconds"), flags.count("--slices"));
    let (statement, proof) = (flags.text("--statement").to_owned(), flags.text("--proof").to_owned());
    let (process, thread) = (Side::start(BenchHarness::new(), &[PROCESS]), Side::start(BenchHarness::new(), &[THREAD]));
    let mut rows = vec![idle_memory(&process.server)];
    for side in [&process, &thread] {
        side.fill(table);
    }
    for (name, connections) in [("process, read", 1), ("process, 16 reads", 16)] {
        let ask = |side: &Side| side.reads(&statement, &proof, connections, seconds, table.rows);
        let what = format!("read by primary key, signed in, {connections} connections");
        let done = alternate(slices, || ask(&process), || ask(&thread));
        rows.push(done.row(name, what, THREADS, "/s", Aim::AtLeast(0.85)));
    }
    let page = |side: &Side| side.reads(PAGE, "\"rows\"", 1, seconds, table.rows);
    let done = alternate(slices, || page(&process), || page(&thread));
    rows.push(done.row("process, page", "1,000 rows as JSON, 1 connection".into(), THREADS, "/s", Aim::AtLeast(0.95)));
    let done = alternate(slices, || process.streams(), || thread.streams());
    rows.push(done.row("process, stream", "all rows as CSV".into(), THREADS, "/s", Aim::AtLeast(0.95)));
    let done = alternate(slices, || process.writes(seconds), || thread.writes(seconds));
    rows.push(done.row("process, write", "sql-writes, one caller".into(), THREADS, "/s", Aim::AtLeast(0.95)));
    drop((process, thread));
    rows.extend(first_reads(flags, "first read", PROCESS, Aim::AtMost(10.0)));
    rows.extend(first_reads(flags, "first read, thread", THREAD, Aim::AtMost(3.0)));
    rows
}

/// Reads databases one after the other, each for the first time since it was last closed, and measures worker processes.
fn first_reads(flags: &Flags, name: &'static str, isolation: (&'static str, &'static str), aim: Aim) -> Vec<Row> {
    let databases = flags.count("--databases") * 6;
    let harness = BenchHarness::new();
    // With more databases than workers or idle connections, each read finds that its database has made room for another.
    let server = harness.start_with(&[ONE_CALLER, &[NO_RESULTS, isolation, ("SQL__WORKERS", "16")]].concat());
    for number in 0..databases {
        server.database(&harness.token, &format!("first{number}"), Table::new(10, 3));
    }
    let head = format!("Authorization: Bearer {}\r\n", harness.token);
    let mut connection = Connection::open(server.address);
    let mut read = |number: u64, statement: &str| {
        let mut request = Vec::new();
        get(&mut request, &format!("/api/v2/databases/bench/first{number}/sql?q={}", encoded(statement)), &head);
        let began = Instant::now();
        assert_eq!(connection.ask(&request).unwrap().status, 200);
        began.elapsed().as_secs_f64() * 1e3
    };
    let mut took = Vec::new();
    for round in 0..4 {
        for number in 0..databases {
            let millis = read(number, "select * from t where id = 3");
            if round > 0 {
                took.push(millis);
            }
            std::thread::sleep(PAUSE);
        }
    }
    took.sort_unstable_by(f64::total_cmp);
    let p99 = took[took.len() * 99 / 100];
    let what =
        format!("first read of a database that is not open, p99 of {}; median {:.1} ms", took.len(), median(took));
    let mut rows = vec![Row::alone(name, what, p99, "ms", aim)];
    if isolation == THREAD {
        return rows;
    }
    // Workers that have a database and have read no row.
    let before = workers(&server);
    for number in 0..8 {
        read(number, "select 1 from t where id < 0");
    }
    let bound: Vec<f64> = workers(&server).into_iter().filter(|pid| !before.contains(pid)).map(memory::own).collect();
    let what = format!("memory of its own of a worker that has a database, median of {}", bound.len());
    rows.push(Row::alone("worker, memory", what, median(bound), "MiB", Aim::AtMost(4.0)));
    rows
}

fn idle_memory(server: &Server) -> Row {
    std::thread::sleep(Duration::from_millis(1_500));
    let pids: Vec<u32> = std::iter::once(server.id()).chain(descendants(server.id())).collect();
    let (all, server_alone) = (memory::of_all(server.id()), memory::proportional(server.id()));
    let what = format!(
        "idle server, its launcher and {} blank workers; the server alone {server_alone:.1} MiB",
        pids.len() - 2
    );
    Row::alone("idle, memory", what, all, "MiB", Aim::AtMost(60.0))
}

/// Returns the processes of workers.
fn workers(server: &Server) -> Vec<u32> {
    descendants(server.id()).into_iter().skip(1).collect()
}
