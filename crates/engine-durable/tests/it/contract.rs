//! The contract of the engine port.

use crate::yard::{LONG, Yard};

#[test]
fn the_engine_keeps_every_promise_of_the_port() {
    let yard = Yard::new();
    let node = yard.node("one", LONG);
    branchyard_domain_testing::suites::engine::run_all(&*node.engine);
}
