//! The contract of the engine port.

use crate::support::Harness;

#[test]
fn the_engine_keeps_every_promise_of_the_port() {
    let harness = Harness::new();
    for (_, check) in branchyard_domain_testing::suites::engine::ALL {
        check(&harness.engine);
    }
}
