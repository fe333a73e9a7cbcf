//! Traffic of every kind through the real binary while it is killed, stopped, starved of disk space, and cut off from its store.
//! After each fault, an oracle outside the server compares the stored state with the acknowledged requests.
//!
//! A run is a sequence of *episodes*, each with its own data folder. The seed of an episode determines its plan: the kind of
//! store, the order of the faults, and the requests of each client thread. Only the timing differs between runs. The first
//! episode has the seed of the run, and each further episode has the next seed. To reproduce a finding, start a run with the seed
//! of its episode.
//!
//! `cargo test` runs a few faults with a fixed seed; `cargo xtask crash --seed N --minutes M` runs for longer (docs/testing.md).

mod check;
mod client;
mod clock;
pub(crate) mod disk;
mod expected_state;
mod harness;
mod inject;
mod plan;
pub(crate) mod postgres;
mod pushes;
mod receivers;
mod traffic;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use harness::FaultsHarness;
use plan::{Means, Plan, StoreKind};
use postgres::Postgres;

/// Number of faults per episode in a long run.
const LONG: usize = 12;
/// Number of faults per episode in a short run.
const SHORT: usize = 5;

/// Statistics of a run for its summary.
#[derive(Default)]
struct Tally {
    episodes: usize,
    faults: BTreeMap<&'static str, usize>,
    checks: usize,
    promises: usize,
    weather: BTreeMap<String, usize>,
}

#[test]
fn what_was_acknowledged_survives_every_fault() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("CRASH_SEED").unwrap_or(1);
    let minutes = number("CRASH_MINUTES");
    let postgres = Postgres::start();
    let means =
        Means { postgres: postgres.is_some(), small_disks: disk::small_disks(), clocks: clock::library().is_some() };
    if !means.clocks {
        println!("clocks do not jump: there is no libfaketime (Debian's package `faketime`)");
    }
    let until = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(0));
    let mut tally = Tally::default();
    // A short run has one episode per kind of store.
    let short = if postgres.is_some() { 2 } else { 1 };
    while match minutes {
        Some(_) => Instant::now() < until,
        None => tally.episodes < short,
    } {
        let seed = seed + tally.episodes as u64;
        let plan = Plan::new(seed, if minutes.is_some() { LONG } else { SHORT }, means);
        println!("seed {seed}: {plan}");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crash-{seed}"));
        let episode = catch_unwind(AssertUnwindSafe(|| episode(&plan, &folder, postgres.as_ref(), &mut tally)));
        if episode.is_err() {
            println!("{tally}");
            panic!(
                "a finding at seed {seed}; data and log are kept in {}. Again: cargo xtask crash --seed {seed} --minutes 1",
                folder.display()
            );
        }
        tally.episodes += 1;
    }
    println!("{tally}");
}

#[expect(clippy::print_stdout, reason = "a run of hours says how far it is")]
fn episode(plan: &Plan, folder: &Path, postgres: Option<&Postgres>, tally: &mut Tally) {
    let store = match plan.store {
        StoreKind::Sqlite => None,
        StoreKind::Postgres => postgres,
    };
    let mut harness = FaultsHarness::open(folder.to_owned(), plan, store);
    harness.prepare();
    let mut clients = traffic::Clients::new(plan.seed);
    for fault in &plan.faults {
        let began = Instant::now();
        let passed = || began.elapsed().as_secs_f32();
        clients.work_during(&harness.traffic(), || harness.strike(fault));
        *tally.faults.entry(fault.kind.name()).or_default() += 1;
        let struck = passed();
        harness.quiet();
        let quiet = passed();
        tally.checks += check::everything(&harness);
        println!("  {fault}: over after {struck:.1} s, quiet after {quiet:.1} s, all is well after {:.1} s", passed());
    }
    harness.end();
    tally.checks += check::at_rest(&harness);
    tally.promises += harness.book().promises();
    for (what, times) in harness.weather() {
        *tally.weather.entry(what).or_default() += times;
    }
    harness.remove();
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { episodes, checks, promises, .. } = self;
        let faults: usize = self.faults.values().sum();
        writeln!(f, "{episodes} episodes, {faults} faults, {checks} checks of {promises} promises")?;
        for (kind, times) in &self.faults {
            writeln!(f, "  {times:5} {kind}")?;
        }
        for (answer, times) in &self.weather {
            writeln!(f, "  {times:5} {answer}")?;
        }
        Ok(())
    }
}
