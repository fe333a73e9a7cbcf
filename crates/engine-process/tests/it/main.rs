//! Tests of the engine over real worker processes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests, too")]

mod contract;
mod differential;
mod fetches;
mod hogs;
mod support;
mod tested;

// The tests of the engine that workers run. They use `tested` and `support` of this crate.
#[path = "../../../engine-doltlite/tests/it/collections.rs"]
mod collections;
#[path = "../../../engine-doltlite/tests/it/definitions.rs"]
mod definitions;
#[path = "../../../engine-doltlite/tests/it/diffs.rs"]
mod diffs;
#[path = "../../../engine-doltlite/tests/it/flows.rs"]
mod flows;
#[path = "../../../engine-doltlite/tests/it/formats.rs"]
mod formats;
#[path = "../../../engine-doltlite/tests/it/guard.rs"]
mod guard;
#[path = "../../../engine-doltlite/tests/it/hidden.rs"]
mod hidden;
#[path = "../../../engine-doltlite/tests/it/hostile.rs"]
mod hostile;
#[path = "../../../engine-doltlite/tests/it/imports.rs"]
mod imports;
#[path = "../../../engine-doltlite/tests/it/large_writes.rs"]
mod large_writes;
#[path = "../../../engine-doltlite/tests/it/limits.rs"]
mod limits;
#[path = "../../../engine-doltlite/tests/it/merges.rs"]
mod merges;
#[path = "../../../engine-doltlite/tests/it/objects.rs"]
mod objects;
#[path = "../../../engine-doltlite/tests/it/previews.rs"]
mod previews;
#[path = "../../../engine-doltlite/tests/it/secrecy.rs"]
mod secrecy;
#[path = "../../../engine-doltlite/tests/it/selections.rs"]
mod selections;
#[path = "../../../engine-doltlite/tests/it/sqlite.rs"]
mod sqlite;
#[path = "../../../engine-doltlite/tests/it/stored.rs"]
mod stored;
#[path = "../../../engine-doltlite/tests/it/turns.rs"]
mod turns;
