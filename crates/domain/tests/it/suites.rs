//! The contract suites of the ports, run on the fakes.

use branchyard_domain_testing::fakes::{MemoryEngine, MemoryMetadata};
use branchyard_domain_testing::suites;

#[test]
fn the_metadata_in_memory_keeps_every_promise() {
    suites::metadata::run_all(&|| Box::new(MemoryMetadata::default()));
}

#[test]
fn the_engine_in_memory_keeps_every_promise() {
    suites::engine::run_all(&MemoryEngine::default());
}
