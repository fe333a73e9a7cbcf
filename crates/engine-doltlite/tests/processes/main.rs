//! Several processes use the same database files at once: many readers, one writer, and one that copies files.
//!
//! A round has a folder of its own. Readers compare everything they read with the values that belong to each commit,
//! which the writer sends along with the commit. `cargo test` runs one short round of each kind with a fixed seed.
//! `PROCESSES_READS=1000000 PROCESSES_SEED=1` continues with further rounds until there were that many reads, and
//! `PROCESSES_SECONDS=10` measures latencies for that long (docs/testing.md).
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests, too")]
#![expect(clippy::expect_used, reason = "helpers of tests are tests, too")]

mod child;
mod children;
mod copier;
mod histogram;
mod known;
mod latency;
mod reader;
mod round;
mod stopped;
mod writer;

use round::{Plan, Tally};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The test that the children of the others run; see `children.rs`.
#[test]
fn child_process() {
    child::run();
}

#[test]
fn no_read_is_wrong_and_no_commit_is_lost_among_processes() {
    let seed = number("PROCESSES_SEED").unwrap_or(1);
    let reads = number("PROCESSES_READS");
    let mut tally = Tally::default();
    for round in 0.. {
        if reads.map_or(round > 1, |reads| tally.reads >= reads) {
            break;
        }
        let plan = Plan::new(seed + round, reads.is_some());
        println!("{plan}");
        round::run(&plan, &mut tally);
        println!("{tally}");
    }
}

#[test]
fn a_stopped_process_blocks_others_only_until_it_ends() {
    let (reader, writer) = stopped::run();
    println!("a write ended {reader:?} after the end of a stopped reader that blocked it (`None`: none did)");
    println!("a read ended {writer:?} after the end of a stopped writer that blocked it");
}

#[test]
fn latencies_in_one_process_and_across_processes() {
    latency::run(number("PROCESSES_SECONDS").map(std::time::Duration::from_secs), |line| println!("{line}"));
}
