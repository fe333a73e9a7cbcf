//! Eight abusive callers, half of them anonymous, against the real binary with default settings and little memory for statements.
//! Meanwhile, well-behaved callers read and write, and should hardly be affected. Afterwards the server must become idle.
//!
//! `cargo test` runs each attack once and asserts everything that does not depend on the speed of the machine. `cargo xtask
//! outage` runs for longer with the release binary and also checks times (docs/testing.md).
#![cfg(target_os = "linux")]

mod attacks;
mod caller;
mod harness;
mod statements;
mod victim;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use attacks::{ATTACKS, Attack};
use caller::{Caller, Tally};
use harness::{ACCOUNTS, Measures, OutageHarness, Size};
use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use victim::{READS, Times, WRITES};

const CALLERS: usize = 2 * ACCOUNTS;
/// The limits promised to well-behaved callers (docs/testing.md).
const READS_P99: Duration = Duration::from_millis(50);
const WRITES_MOST: Duration = Duration::from_secs(1);
const MEMORY_MIB: u64 = 512;
const CALM: Duration = Duration::from_secs(2);
/// Limit of the short run, which must pass on any machine.
const CALM_AT_LAST: Duration = Duration::from_secs(120);
/// Number of additional sockets and threads allowed after an attack: connections of the measurement itself, and idle pool
/// threads.
const MORE_SOCKETS: u64 = 20;
const MORE_THREADS: u64 = 64;

const SHORT: Size = Size { rows: 500, connections: 12, file: 100 << 10, patience: Duration::from_millis(1_500) };
const LONG: Size = Size { rows: 20_000, connections: 200, file: 8 << 20, patience: Duration::from_secs(3) };

/// Returns the attacks of this run: all, or those whose name contains `OUTAGE_ATTACK`.
fn chosen() -> Vec<&'static Attack> {
    let part = std::env::var("OUTAGE_ATTACK").unwrap_or_default();
    let chosen: Vec<&Attack> = ATTACKS.iter().filter(|attack| attack.name.contains(&part)).collect();
    assert!(!chosen.is_empty(), "no attack is named {part}");
    chosen
}

/// Observations of a run.
struct Seen {
    before: Times,
    during: Times,
    after: Times,
    tally: Tally,
    findings: Vec<String>,
    idle: Measures,
    end: Measures,
    calm_after: Duration,
}

#[test]
fn the_worst_callers_do_not_hold_up_others() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("OUTAGE_SEED").unwrap_or(1);
    let seconds = number("OUTAGE_SECONDS").map(Duration::from_secs);
    let size = if seconds.is_some() { LONG } else { SHORT };
    if seconds.is_some() {
        // Eight callers need more connections than the default limit on open files.
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let harness = OutageHarness::start(dir.path(), size);
    let seen = play(&harness, seed, seconds);
    report(&seen, seconds);
    let log = harness.stop();
    let mut findings = seen.findings.clone();
    let is_fault = |line: &&str| line.contains("panicked") || (seconds.is_some() && line.contains("ERROR"));
    let faults = log.lines().filter(is_fault);
    findings.extend(faults.map(|line| format!("in the log: {line:.1000}")));
    for times in [&seen.before, &seen.during, &seen.after] {
        findings.extend(times.failures.iter().map(|failure| format!("to others: {failure}")));
    }
    for attack in chosen().iter().filter(|attack| !seen.tally.contains_key(attack.name)) {
        findings.push(format!("{}: not tried", attack.name));
    }
    if seen.end.peak_mib > MEMORY_MIB {
        findings.push(format!("{} MiB of memory", seen.end.peak_mib));
    }
    let limit = if seconds.is_some() { CALM } else { CALM_AT_LAST };
    if seen.calm_after > limit {
        findings.push(format!("calm after {:?}: {}", seen.calm_after, left_behind(&seen.idle, &seen.end).join("; ")));
    }
    if seconds.is_some() {
        findings.extend(late(&seen.during));
        findings.extend(late(&seen.after));
    }
    assert!(findings.is_empty(), "{} findings with seed {seed}:\n{}", findings.len(), findings.join("\n"));
}

/// Returns the kinds of requests that exceeded their time limit.
fn late(times: &Times) -> Vec<String> {
    let reads = READS.iter().map(|kind| (kind, "p99", times.quantile(kind, 990), READS_P99));
    let writes = WRITES.iter().map(|kind| (kind, "slowest", times.quantile(kind, 1000), WRITES_MOST));
    let late = reads.chain(writes).filter(|(.., took, limit)| took > limit);
    late.map(|(kind, what, took, limit)| format!("{kind}: {what} {took:?}, at most {limit:?}")).collect()
}

fn play(harness: &OutageHarness, seed: u64, seconds: Option<Duration>) -> Seen {
    // Minimum number of measured requests of each kind.
    let least = if seconds.is_some() { 50 } else { 5 };
    let calm = || victim::run(harness, &AtomicBool::new(true), least);
    // The first requests fill caches.
    calm();
    let before = calm();
    let idle = harness.measures();
    let (plan, stop) = (Plan::new(seed), AtomicBool::new(false));
    let mut tally = Tally::new();
    let mut findings = Vec::new();
    let during = thread::scope(|scope| {
        let victims = scope.spawn(|| victim::run(harness, &stop, least));
        let until = seconds.map(|seconds| Instant::now() + seconds);
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let plan = &plan;
                scope.spawn(move || {
                    let account = (number % 2 == 0).then_some(number / 2);
                    let mut caller = Caller::new(harness, u8::try_from(number).unwrap(), account, seed);
                    while let Some(attack) = plan.next(&mut caller, until) {
                        attack.run(&mut caller);
                    }
                    (caller.tally, caller.findings)
                })
            })
            .collect();
        for caller in callers {
            let (counted, found) = caller.join().unwrap();
            for (attack, outcomes) in counted {
                let sums = tally.entry(attack).or_default();
                outcomes.into_iter().for_each(|(what, times)| *sums.entry(what).or_default() += times);
            }
            findings.extend(found);
        }
        stop.store(true, Ordering::Relaxed);
        victims.join().unwrap()
    });
    let over = Instant::now();
    let mut end = harness.measures();
    while !left_behind(&idle, &end).is_empty() && over.elapsed() < CALM_AT_LAST + Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(20));
        end = harness.measures();
    }
    let calm_after = over.elapsed();
    let after = calm();
    Seen { before, during, after, tally, findings, idle, end, calm_after }
}

/// Returns what remains of the requests: running or waiting calls, buffered bodies, connections, and threads.
fn left_behind(idle: &Measures, now: &Measures) -> Vec<String> {
    let mut left = Vec::new();
    let mut look = |what: String, value: f64, most: f64| {
        if value > most {
            left.push(format!("{what} {value}, at most {most}"));
        }
    };
    for pool in ["reads", "writes", "uploads", "sql"] {
        for series in [
            format!("branchyard_pool_places{{pool=\"{pool}\",state=\"busy\"}}"),
            format!("branchyard_pool_queued{{pool=\"{pool}\"}}"),
        ] {
            let value = now.value(&series);
            look(series, value, 0.0);
        }
    }
    look("bytes of bodies".to_owned(), now.value("branchyard_http_bodies_in_flight_bytes"), 0.0);
    look("sockets".to_owned(), now.sockets as f64, (idle.sockets + MORE_SOCKETS) as f64);
    look("threads".to_owned(), now.threads as f64, (idle.threads + MORE_THREADS) as f64);
    left
}

/// The order of attacks: each attack once, in an order drawn from the seed, then random attacks until the time is over.
struct Plan(Mutex<VecDeque<&'static Attack>>);

impl Plan {
    fn new(seed: u64) -> Self {
        let mut all = chosen();
        all.shuffle(&mut StdRng::seed_from_u64(seed));
        Self(Mutex::new(all.into()))
    }

    fn next(&self, caller: &mut Caller, until: Option<Instant>) -> Option<&'static Attack> {
        let is_able = |attack: &Attack| attack.by.includes(caller.account);
        let mut first = self.0.lock();
        if let Some(place) = first.iter().position(|attack| is_able(attack)) {
            return first.remove(place);
        }
        drop(first);
        let able: Vec<&Attack> = chosen().into_iter().filter(|attack| is_able(attack)).collect();
        let goes_on = !able.is_empty() && until.is_some_and(|until| Instant::now() < until);
        goes_on.then(|| caller.one_of(&able))
    }
}

#[expect(clippy::print_stdout, reason = "the table is what a long run is for")]
fn report(seen: &Seen, seconds: Option<Duration>) {
    println!("{CALLERS} callers, {seconds:?}");
    println!("| attack | requests | outcomes |");
    for (attack, outcomes) in &seen.tally {
        let all: usize = outcomes.values().sum();
        let each: Vec<String> = outcomes.iter().map(|(what, times)| format!("{what}: {times}")).collect();
        println!("| {attack} | {all} | {} |", each.join(", "));
    }
    println!("| others | requests | before: p50, p99, slowest (ms) | during | after |");
    for kind in READS.iter().chain(WRITES) {
        let brief = |times: &Times| {
            let ms = |per_mille| format!("{:.1}", times.quantile(kind, per_mille).as_secs_f64() * 1e3);
            format!("{}, {}, {}", ms(500), ms(990), ms(1000))
        };
        let during = seen.during.count(kind);
        println!("| {kind} | {during} | {} | {} | {} |", brief(&seen.before), brief(&seen.during), brief(&seen.after));
    }
    let Seen { idle, end, calm_after, .. } = seen;
    println!("memory: {} MiB before, {} MiB at most", idle.peak_mib, end.peak_mib);
    println!(
        "calm after {calm_after:?}: {} threads ({} before), {} sockets ({})",
        end.threads, idle.threads, end.sockets, idle.sockets
    );
    for state in ["running", "queued"] {
        let left = end.value(&format!("branchyard_operations{{state=\"{state}\"}}"));
        println!("operations of the attackers that are {state}: {left}");
    }
}
