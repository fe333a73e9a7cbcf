//! Many schedules, each with its own seed.

use crate::schedule;
use crate::world::Counts;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// What a run of many schedules found.
struct Summary {
    fingerprints: HashSet<u64>,
    steps: u64,
    counts: Counts,
    /// The lowest seed whose schedule had a violation, as far as the run went.
    violation: Option<(u64, String)>,
}

/// Runs the schedules of `seeds` seeds from `first` on, on two threads, until one has a violation.
fn simulate(first: u64, seeds: u64) -> Summary {
    let next = AtomicU64::new(first);
    let end = AtomicU64::new(first + seeds);
    let work = || {
        let mut summary =
            Summary { fingerprints: HashSet::new(), steps: 0, counts: Counts::default(), violation: None };
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return summary;
            }
            let report = schedule::run(seed);
            summary.fingerprints.insert(report.fingerprint);
            summary.steps += report.steps;
            summary.counts.add(&report.counts);
            if let Some(violation) = report.violation {
                end.fetch_min(seed, Ordering::Relaxed);
                summary.violation = Some((seed, violation));
                return summary;
            }
        }
    };
    let parts: Vec<Summary> = thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    parts
        .into_iter()
        .reduce(|mut sum, part| {
            sum.fingerprints.extend(part.fingerprints);
            sum.steps += part.steps;
            sum.counts.add(&part.counts);
            sum.violation = match (sum.violation, part.violation) {
                (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
                (a, b) => a.or(b),
            };
            sum
        })
        .unwrap()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Runs `SCHEDULES` schedules from `SEED` on. `cargo xtask protocol` sets both.
#[test]
fn no_schedule_has_a_violation() {
    let (first, seeds) = (number("SEED", 1), number("SCHEDULES", 4_000));
    let started = Instant::now();
    let summary = simulate(first, seeds);
    let distinct = summary.fingerprints.len();
    println!("{distinct} distinct schedules of {seeds}, {} steps, {:.1?}", summary.steps, started.elapsed());
    let mut missing = Vec::new();
    for (name, count) in summary.counts.named() {
        println!("{count:>12} {name}");
        if count == 0 {
            missing.push(name);
        }
    }
    if let Some((seed, violation)) = summary.violation {
        panic!("violation in the schedule of seed {seed}: {violation}");
    }
    if seeds >= 1_000 {
        assert!(missing.is_empty(), "no schedule reached: {}", missing.join(", "));
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 1..50 {
        let [first, second] = [schedule::run(seed), schedule::run(seed)];
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed}");
        assert_eq!(first.counts.named(), second.counts.named(), "seed {seed}");
    }
}
