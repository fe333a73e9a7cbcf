//! The server beside other servers that keep rows behind a network protocol, each by the fastest way that its documentation describes:
//! reads and writes of one row by its key, loading a file, and memory afterwards. `--peers DIR` names a folder with their programs.

mod dolt;
mod http;
mod mysql;
mod ours;
mod pocketbase;
mod rqlite;

use std::any::Any;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::flags::Flags;
use crate::load::Ids;
use crate::memory;
use crate::report::{Aim, Row};
use crate::slices::median;
use crate::table::Table;

/// Connections of the rows with many.
const MANY: u64 = 16;

/// A server with the table `t`, which is read and written.
pub(super) struct Peer {
    /// The name, the version and what a write guarantees.
    about: String,
    /// The time that loading the table took, in milliseconds.
    load_millis: f64,
    /// Its first process.
    process: u32,
    /// Makes a connection.
    open: Box<dyn Fn() -> Box<dyn Session> + Send + Sync>,
    /// What ends the processes and removes the files when it is dropped.
    _held: Box<dyn Any + Send + Sync>,
}

/// A peer that was started, or the reason why not.
pub(super) type PeerStart = Result<Peer, String>;

/// A connection to a peer. Every answer is checked.
pub(super) trait Session {
    /// Reads the row with this key.
    fn read(&mut self, id: u64);

    /// Adds a row with this key.
    fn write(&mut self, id: u64);
}

/// A peer and the names and aims of its rows.
struct Comparison {
    program: &'static str,
    rows: [&'static str; 6],
    aims: [Aim; 6],
    start: fn(&Path, Table) -> PeerStart,
}

/// What is compared: a description, the number of connections, and whether they write.
const WORKS: [(&str, u64, bool); 4] = [
    ("a row by its key, 1 connection", 1, false),
    ("a row by its key, 16 connections", MANY, false),
    ("one row written to its end, 1 caller", 1, true),
    ("one row written to its end, 16 callers of one table", MANY, true),
];

const NO_AIM: Aim = Aim::None;
const TWICE: Aim = Aim::AtLeast(2.0);

/// The aims are about reads on 1 and 16 connections, writes of 1 and 16 callers, loading, and memory.
const COMPARISONS: &[Comparison] = &[
    Comparison {
        program: "rqlited",
        rows: [
            "rqlite, read",
            "rqlite, 16 reads",
            "rqlite, write",
            "rqlite, 16 writes",
            "rqlite, load",
            "rqlite, memory",
        ],
        aims: [Aim::AtLeast(1.1), TWICE, NO_AIM, NO_AIM, NO_AIM, NO_AIM],
        start: rqlite::start,
    },
    Comparison {
        program: "pocketbase",
        rows: [
            "PocketBase, read",
            "PocketBase, 16 reads",
            "PocketBase, write",
            "PocketBase, 16 writes",
            "PocketBase, load",
            "PocketBase, memory",
        ],
        aims: [NO_AIM, TWICE, NO_AIM, NO_AIM, NO_AIM, NO_AIM],
        start: pocketbase::start,
    },
    Comparison {
        program: "dolt",
        rows: ["Dolt, read", "Dolt, 16 reads", "Dolt, write", "Dolt, 16 writes", "Dolt, load", "Dolt, memory"],
        aims: [NO_AIM, TWICE, Aim::AtLeast(1.5), Aim::AtLeast(3.0), NO_AIM, NO_AIM],
        start: dolt::start,
    },
];

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let table = Table::new(flags.count("--peer-rows"), 5);
    let mut rows = vec![memory_afterwards(flags, table)];
    match &flags.peers {
        Some(folder) => {
            rows.extend(COMPARISONS.iter().flat_map(|comparison| compare(flags, folder, table, comparison)));
        }
        None => rows.push(Row::skipped("peers", "--peers DIR names a folder with programs to compare with".to_owned())),
    }
    rows
}

/// Measures the memory of this server alone after all that is compared.
fn memory_afterwards(flags: &Flags, table: Table) -> Row {
    let (ours, next) = (ours::start(table), AtomicU64::new(table.rows + 1));
    for (_, connections, writes) in WORKS {
        load(&ours, connections, flags.number("--seconds"), writes, table.rows, &next);
    }
    let what = format!("after an import of {} rows, reads and writes; workers included", table.rows);
    Row::alone("memory, afterwards", what, memory::of_all(ours.process), "MiB", Aim::AtMost(80.0))
}

fn compare(flags: &Flags, folder: &Path, table: Table, comparison: &Comparison) -> Vec<Row> {
    let skipped = |why| vec![Row::skipped(comparison.rows[0], why)];
    let program = folder.join(comparison.program);
    if !program.is_file() {
        return skipped(format!("there is no {} in {}", comparison.program, folder.display()));
    }
    let peer = match (comparison.start)(&program, table) {
        Ok(peer) => peer,
        Err(why) => return skipped(why),
    };
    // Each comparison has a server of its own, so that none has the memory of an earlier one.
    let ours = ours::start(table);
    let (about, slices, seconds) = (&peer.about, flags.count("--slices"), flags.number("--seconds"));
    let next = AtomicU64::new(table.rows + 1);
    let mut rows = Vec::new();
    for ((what, connections, writes), (name, aim)) in WORKS.iter().zip(comparison.rows.iter().zip(comparison.aims)) {
        let measure = |peer: &Peer| load(peer, *connections, seconds, *writes, table.rows, &next);
        let (mut product, mut baseline) = (Vec::new(), Vec::new());
        // The first slice of each does not count.
        for slice in 0..=slices {
            let (mine, theirs) = (measure(&ours), measure(&peer));
            if slice > 0 {
                product.push(mine);
                baseline.push(theirs);
            }
        }
        let ratio = product.iter().zip(&baseline).map(|(mine, theirs)| mine.per_second / theirs.per_second).collect();
        rows.push(Row {
            name,
            what: (*what).to_owned(),
            product: shown(&product),
            baseline: format!("{about}: {}", shown(&baseline)),
            value: Some(median(ratio)),
            unit: "",
            aim,
        });
    }
    let alone = [
        (format!("{} rows loaded, time", table.rows), "ms", ours.load_millis, peer.load_millis),
        ("memory after it all".to_owned(), "MiB", memory::of_all(ours.process), memory::of_all(peer.process)),
    ];
    for ((what, unit, mine, theirs), name) in alone.into_iter().zip(&comparison.rows[4..]) {
        rows.push(Row {
            name,
            what,
            product: format!("{mine:.0} {unit}"),
            baseline: format!("{about}: {theirs:.0} {unit}"),
            value: Some(mine / theirs),
            unit: "",
            aim: NO_AIM,
        });
    }
    rows
}

/// What a slice achieved.
struct Achieved {
    per_second: f64,
    p99_millis: f64,
}

fn shown(slices: &[Achieved]) -> String {
    let rate = median(slices.iter().map(|slice| slice.per_second).collect());
    let p99 = median(slices.iter().map(|slice| slice.p99_millis).collect());
    format!("{rate:.0} /s, p99 {p99:.1} ms")
}

fn load(peer: &Peer, connections: u64, seconds: f64, writes: bool, rows: u64, next: &AtomicU64) -> Achieved {
    let (stop, times) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let mut began = Instant::now();
    std::thread::scope(|scope| {
        let ready = std::sync::Barrier::new(usize::try_from(connections).unwrap() + 1);
        let ready = std::sync::Arc::new(ready);
        for number in 0..connections {
            let (stop, times, ready) = (&stop, &times, std::sync::Arc::clone(&ready));
            scope.spawn(move || {
                let mut session = (peer.open)();
                let (mut ids, mut took) = (Ids::new(number, rows), Vec::new());
                ready.wait();
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    if writes {
                        session.write(next.fetch_add(1, Ordering::Relaxed));
                    } else {
                        session.read(ids.next());
                    }
                    took.push(began.elapsed().as_secs_f64() * 1e3);
                }
                times.lock().unwrap().extend(took);
            });
        }
        ready.wait();
        began = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let per_second = began.elapsed().as_secs_f64().recip();
    let mut times = times.into_inner().unwrap();
    times.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "a count of requests is far below 2^53")]
    let per_second = times.len() as f64 * per_second;
    Achieved { per_second, p99_millis: times.get(times.len() * 99 / 100).copied().unwrap_or(f64::NAN) }
}

/// Returns the values of a row as SQL.
fn values(table: Table, id: u64) -> String {
    let texts: String = (4..=table.columns).map(|number| format!(", 'text {number} of {id}'")).collect();
    format!("{id}, 'row number {id}', {id} / 7.0{texts}")
}
