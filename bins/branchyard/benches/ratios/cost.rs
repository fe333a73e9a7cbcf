//! What work costs a server: processor time and hand-overs between threads, of the server and its worker processes.

use std::collections::BTreeMap;
use std::fs;

use branchyard_testkit::{descendants, processor_time};

use crate::harness::Server;
use crate::report::{Aim, Row};

/// How often work is done again if a process ended in it, which took what it had used with it.
const TRIES: usize = 5;

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    processor_millis: f64,
    /// How often a thread gave up the processor to wait.
    waits: f64,
}

/// Returns the rows of what a piece of `work` costs. `work` returns how many pieces it did.
pub(crate) fn cost_rows(
    server: &Server,
    mut work: impl FnMut() -> f64,
    (time, hand_overs): (&'static str, &'static str),
    what: &str,
    aim: Aim,
) -> Vec<Row> {
    for _ in 0..TRIES {
        let before = so_far(server);
        let count = work();
        let now = so_far(server);
        if before.keys().any(|process| !now.contains_key(process)) {
            continue;
        }
        let each = |of: fn(&Used) -> f64| {
            let used = now.iter().map(|(process, used)| of(used) - before.get(process).map_or(0.0, of));
            used.sum::<f64>() / count
        };
        let millis = each(|used| used.processor_millis);
        let time = Row {
            product: format!("{millis:.2} ms"),
            ..Row::alone(time, format!("processor time of {what}, workers included"), millis, "ms", aim)
        };
        let waits = each(|used| used.waits);
        return vec![
            time,
            Row::alone(hand_overs, format!("voluntary context switches of {what}"), waits, "", Aim::None),
        ];
    }
    vec![Row::skipped(time, format!("in each of {TRIES} tries a worker process ended"))]
}

fn so_far(server: &Server) -> BTreeMap<u32, Used> {
    let processes = std::iter::once(server.id()).chain(descendants(server.id()));
    // A process may end meanwhile.
    let running = processes.filter(|process| fs::exists(format!("/proc/{process}/task/{process}")).unwrap_or(false));
    running
        .map(|process| {
            let processor_millis = processor_time(process).as_secs_f64() * 1e3;
            (process, Used { processor_millis, waits: waits(process) })
        })
        .collect()
}

/// Returns the voluntary context switches of the threads that a process has now.
#[expect(clippy::cast_precision_loss, reason = "a count of context switches is far below 2^53")]
fn waits(process: u32) -> f64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return 0.0 };
    // A thread may end meanwhile.
    let of = |thread: fs::DirEntry| -> Option<u64> {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse().ok()
    };
    threads.flatten().filter_map(of).sum::<u64>() as f64
}
