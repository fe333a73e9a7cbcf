//! What work costs a server: processor time and hand-overs between threads, of the server and its worker processes.

use std::fs;

use branchyard_testkit::{descendants, processor_time};

use crate::harness::Server;
use crate::report::{Aim, Row};

/// The use of a server's processes so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    processor_millis: f64,
    /// How often a thread gave up the processor to wait.
    waits: f64,
}

impl Cost {
    pub(crate) fn so_far(server: &Server) -> Self {
        let processes: Vec<u32> = std::iter::once(server.id()).chain(descendants(server.id())).collect();
        let processor_millis = processes.iter().map(|process| processor_time(*process).as_secs_f64() * 1e3).sum();
        Self { processor_millis, waits: processes.iter().map(|process| waits(*process)).sum() }
    }

    /// Returns the rows of what `count` pieces of work have cost since, each.
    pub(crate) fn rows_since(
        self,
        server: &Server,
        count: f64,
        (time, hand_overs): (&'static str, &'static str),
        what: &str,
        aim: Aim,
    ) -> Vec<Row> {
        let now = Self::so_far(server);
        let each = |now: f64, before: f64| (now - before) / count;
        let millis = each(now.processor_millis, self.processor_millis);
        vec![
            Row::alone(time, format!("processor time of {what}, workers included"), millis, "ms", aim),
            Row::alone(
                hand_overs,
                format!("voluntary context switches of {what}"),
                each(now.waits, self.waits),
                "",
                Aim::None,
            ),
        ]
    }
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
