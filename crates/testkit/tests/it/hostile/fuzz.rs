//! The fuzzing loop: mutates an input, tries it, and keeps it if it reached new code or had a new outcome.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use branchyard_testkit::{Mutator, Server, Stopwatch};
use parking_lot::Mutex;

use super::coverage::Coverage;
use super::targets::{HostileHarness, TARGETS, Target};

/// The most bytes of inputs that are kept.
const KEPT: usize = 64 << 20;
/// An attempt that takes this much elapsed time hangs. A busy machine does not slow an attempt this much.
const HUNG: Duration = Duration::from_secs(300);

/// How long to fuzz one target.
enum Budget {
    Rounds(usize),
    Until(Instant),
}

pub(super) fn run() {
    let variable = |name: &str| std::env::var(name).ok();
    let number = |name: &str| variable(name).map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let only = variable("FUZZ_TARGET");
    let chosen = TARGETS.iter().filter(|target| only.as_deref().is_none_or(|name| name == target.name));
    let chosen: Vec<&Target> = chosen.collect();
    assert!(
        !chosen.is_empty(),
        "FUZZ_TARGET is none of {:?}",
        TARGETS.iter().map(|target| target.name).collect::<Vec<_>>()
    );
    let server = Server::start();
    let harness = HostileHarness::new(&server);
    for target in chosen {
        if let Some(file) = variable("FUZZ_INPUT") {
            let input = std::fs::read(file).expect("the input can be read");
            println!("{}: {:?}", target.name, attempt(&harness, target, &input));
            continue;
        }
        let budget = match number("FUZZ_SECONDS") {
            Some(seconds) => Budget::Until(Instant::now() + Duration::from_secs(seconds)),
            None => Budget::Rounds(target.rounds),
        };
        let watch = Stopwatch::of_this_process();
        let Tried { inputs, outcomes, kept, edges } = fuzz(&harness, target, seed, &budget);
        let seconds = watch.elapsed().as_secs();
        println!(
            "{}: {inputs} inputs, {outcomes} outcomes, {edges} edges, {kept} kept, {seconds} s of processor time",
            target.name
        );
        assert!(outcomes > 1, "{}: every input had the same outcome, so nothing was tried", target.name);
    }
}

/// How often an input is tried that takes too long. Other tests of this process use processor time as well, but not each time.
const MEASURED: usize = 3;

/// Tries one input. Returns an error if the attempt panics, takes too long, or has an outcome that must not happen.
pub(super) fn attempt(harness: &HostileHarness, target: &Target, input: &[u8]) -> Result<String, String> {
    // `cargo xtask sanitize` sets it: instrumented code is slower.
    let slowdown = std::env::var("FUZZ_SLOWDOWN").map_or(1, |factor| factor.parse().expect("a number"));
    let limit = target.limit * slowdown;
    let (mut took, mut outcome) = measured(harness, target, input);
    for _ in 1..MEASURED {
        if took <= limit || outcome.is_err() {
            break;
        }
        (took, outcome) = measured(harness, target, input);
    }
    if took > limit { Err(format!("took {took:?}: {outcome:?}")) } else { outcome }
}

/// Tries one input. Returns the processor time with the outcome.
fn measured(harness: &HostileHarness, target: &Target, input: &[u8]) -> (Duration, Result<String, String>) {
    // Client and server both run in this process.
    let watch = Stopwatch::of_this_process();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.attempt)(harness, input))).unwrap_or_else(|panic| {
        let text =
            panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    });
    (watch.elapsed(), outcome)
}

/// The progress on a target.
#[derive(Clone, Copy, Default)]
struct Tried {
    inputs: usize,
    /// The number of different outcomes.
    outcomes: usize,
    /// The number of inputs that new ones are made from, including the seeds.
    kept: usize,
    /// The number of edges of the control flow that were reached; 0 in a build without counters.
    edges: usize,
}

fn fuzz(harness: &HostileHarness, target: &Target, seed: u64, budget: &Budget) -> Tried {
    let trying: Mutex<Vec<u8>> = Mutex::default();
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let done = done;
            let (mut mutator, mut corpus) = (Mutator::new(seed), (target.seeds)(harness));
            let (seeds, mut outcomes, mut round) = (corpus.len(), BTreeSet::new(), 0);
            let (mut coverage, mut bytes) = (Coverage::new(), 0);
            loop {
                let over = match budget {
                    Budget::Rounds(rounds) => round >= seeds + rounds,
                    Budget::Until(end) => round >= seeds && Instant::now() >= *end,
                };
                if over {
                    break;
                }
                let input = if round < seeds { corpus[round].clone() } else { mutator.mutant(&corpus) };
                trying.lock().clone_from(&input);
                let outcome = attempt(harness, target, &input);
                let failed = outcome.as_ref().err().cloned();
                let new = coverage.grew() | outcomes.insert(outcome.unwrap_or_default());
                if new && round >= seeds && bytes + input.len() <= KEPT {
                    bytes += input.len();
                    corpus.push(input);
                }
                round += 1;
                let last = failed.is_some();
                let tried =
                    Tried { inputs: round, outcomes: outcomes.len(), kept: corpus.len(), edges: coverage.edges() };
                if done.send((tried, failed)).is_err() || last {
                    break;
                }
            }
        });
        // An attempt that hangs cannot be stopped, but it can be reported.
        let mut last = Tried::default();
        loop {
            match finished.recv_timeout(HUNG) {
                Ok((tried, None)) => last = tried,
                Ok((Tried { inputs, .. }, Some(fault))) => {
                    let kept = keep(target, &trying.lock());
                    panic!(
                        "{} fails at input {inputs} of seed {seed}, kept as {}: {fault}",
                        target.name,
                        kept.display()
                    );
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return last,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let kept = keep(target, &trying.lock());
                    eprintln!("{} hangs at seed {seed}; the input is kept as {}", target.name, kept.display());
                    std::process::abort();
                }
            }
        }
    })
}

fn keep(target: &Target, input: &[u8]) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}.input", target.name));
    std::fs::write(&file, input).unwrap();
    file
}
