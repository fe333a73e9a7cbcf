//! Untrusted input: all of it is answered in time, and never with an internal error (docs/ARCHITECTURE.md).
//!
//! Each target gets inputs from its own strategy, and from a mutator that starts from good inputs. A default run takes seconds.
//! `cargo xtask fuzz --target sql --minutes 60 --seed 2` runs for an hour (docs/testing.md). `FUZZ_INPUT=<file>` repeats one input
//! that failed.

mod coverage;
mod files;
mod fuzz;
mod inputs;
mod remotes;
mod requests;
mod targets;

use std::time::Duration;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use targets::{HostileHarness, TARGETS, Target};

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no target is called {name}"))
}

/// Tries inputs from the strategy of a target. The panic shows the smallest input that fails.
fn property(name: &str, cases: u32) {
    let (server, target) = (branchyard_testkit::Server::start(), target(name));
    let harness = HostileHarness::new(&server);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tried = runner.run(&inputs::of(name, &harness), |input| {
        fuzz::attempt(&harness, target, &input).map(drop).map_err(TestCaseError::fail)
    });
    tried.unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn cursors() {
    property("cursor", 150);
}

#[test]
fn tokens() {
    property("token", 150);
}

#[test]
fn ref_names() {
    property("ref", 60);
}

#[test]
fn operation_ids() {
    property("operation", 150);
}

#[test]
fn completions_of_uploads() {
    property("completion", 100);
}

#[test]
fn imports_of_csv() {
    property("csv", 400);
    property("import-csv", 15);
}

#[test]
fn imports_of_json() {
    property("json", 400);
    property("import-json", 15);
}

#[test]
fn statements() {
    property("sql", 60);
    property("sql-write", 25);
}

#[test]
fn fuzz() {
    fuzz::run();
}

#[test]
fn a_fault_a_panic_and_a_delay_are_reported() {
    let server = branchyard_testkit::Server::start();
    let harness = HostileHarness::new(&server);
    let outcome = |attempt: fn(&HostileHarness, &[u8]) -> Result<String, String>| {
        let target =
            Target { name: "test", limit: Duration::from_millis(50), rounds: 1, seeds: |_| Vec::new(), attempt };
        fuzz::attempt(&harness, &target, b"x").unwrap_or_default()
    };
    assert_eq!(outcome(|_, _| Ok("fine".to_owned())), "fine");
    assert_eq!(outcome(|_, _| Err("500".to_owned())), "");
    assert_eq!(outcome(|_, _| panic!("expected by the test")), "");
    let slow = |_: &HostileHarness, _: &[u8]| {
        let watch = branchyard_testkit::Stopwatch::of_this_process();
        while watch.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
        Ok("late".to_owned())
    };
    assert_eq!(outcome(slow), "");
}
