//! Arbitrary messages to both sides: `cargo xtask fuzz --target protocol-server` and `--target protocol-worker`.
//!
//! A seed and the number of an input make the input again.

mod server_side;
mod worker_side;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Tries an input. Returns a summary of the outcome.
type Attempt = Box<dyn FnMut(u64) -> String>;

/// A name, how the target is made, and the number of inputs of a default run.
type Target = (&'static str, fn() -> Attempt, u64);

const TARGETS: &[Target] =
    &[("protocol-server", server_side::target, 3000), ("protocol-worker", worker_side::target, 1500)];

/// An attempt that takes this long hangs.
const HUNG: Duration = Duration::from_secs(60);

#[test]
fn fuzz() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (seconds, seed) = (number("FUZZ_SECONDS"), number("FUZZ_SEED").unwrap_or(1));
    let only = std::env::var("FUZZ_TARGET").ok();
    let chosen: Vec<_> = TARGETS.iter().filter(|(name, ..)| only.as_deref().is_none_or(|only| only == *name)).collect();
    let names: Vec<_> = TARGETS.iter().map(|(name, ..)| name).collect();
    assert!(!chosen.is_empty(), "FUZZ_TARGET is none of {names:?}");
    for (name, make, inputs) in chosen {
        let (mut attempt, mut outcomes) = (make(), BTreeMap::<String, u64>::new());
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let start = Instant::now();
        let mut tried = 0;
        let count = Arc::new(AtomicU64::new(0));
        watch(Arc::downgrade(&count));
        while until.map_or(tried < *inputs, |until| Instant::now() < until) {
            let input = seed.wrapping_mul(0x1_0000_0000).wrapping_add(tried);
            let outcome = catch_unwind(AssertUnwindSafe(|| attempt(input)));
            let outcome = outcome.unwrap_or_else(|_| panic!("{name} fails at input {tried} of seed {seed}"));
            *outcomes.entry(outcome).or_default() += 1;
            tried += 1;
            count.fetch_add(1, Ordering::Relaxed);
        }
        println!("{name}: {tried} inputs in {:?}", start.elapsed());
        for (outcome, times) in &outcomes {
            println!("  {times:>8} {outcome}");
        }
        assert!(outcomes.len() > 3, "{name}: {outcomes:?}");
    }
}

/// Ends the process if an attempt hangs.
fn watch(count: Weak<AtomicU64>) {
    std::thread::spawn(move || {
        let now = || count.upgrade().map(|count| count.load(Ordering::Relaxed));
        while let Some(before) = now() {
            std::thread::sleep(HUNG);
            if now() == Some(before) {
                eprintln!("input {before} hangs");
                std::process::abort();
            }
        }
    });
}
