//! The contract suite of [`Engine`], in the SQL that [`crate::fakes::MemoryEngine`] supports too.
//!
//! Each check creates its own databases. Checks may run in any order, concurrently, and on an engine that holds other
//! databases.

mod builders;
mod collections;
mod files;
mod history;
mod imports;
mod merges;
mod previews;
mod put_off_copies;
mod reads;
mod row_history;
mod writes;

use branchyard_domain::ports::Engine;

pub use collections::{collections, collections_beside_writes, collections_given_up, readers_beside_a_collection};
pub use files::{at_once, chunks, fetch_and_copy, files};
pub use history::{commits_with_prefix, diff, diff_pages, log_and_ancestry, objects, schemas};
pub use imports::{imports, refused_imports, refused_scripts, scripts};
pub use merges::{conflicts, merge_commits, merges, resolved_conflicts, resolved_rows};
pub use previews::{preview_pages, previews, previews_in_copies, refused_previews};
pub use put_off_copies::{put_off_copies, put_off_copies_used_at_once};
pub use reads::{column_values, reads, scans, selections, selections_by_place, sqlite_exports};
pub use row_history::{row_history, row_history_of_merges, row_history_pages};
pub use writes::{beside_a_long_write, failed_writes, write_then_merge, writes};

/// A check of one part of the contract.
pub type EngineCheck = fn(&dyn Engine);

/// Every check with its name.
pub const ALL: &[(&str, EngineCheck)] = &[
    ("files", files),
    ("writes", writes),
    ("failed_writes", failed_writes),
    ("reads", reads),
    ("scans", scans),
    ("sqlite_exports", sqlite_exports),
    ("selections", selections),
    ("selections_by_place", selections_by_place),
    ("column_values", column_values),
    ("log_and_ancestry", log_and_ancestry),
    ("commits_with_prefix", commits_with_prefix),
    ("diff", diff),
    ("diff_pages", diff_pages),
    ("row_history", row_history),
    ("row_history_pages", row_history_pages),
    ("row_history_of_merges", row_history_of_merges),
    ("schemas", schemas),
    ("objects", objects),
    ("merges", merges),
    ("conflicts", conflicts),
    ("resolved_conflicts", resolved_conflicts),
    ("resolved_rows", resolved_rows),
    ("merge_commits", merge_commits),
    ("previews", previews),
    ("preview_pages", preview_pages),
    ("previews_in_copies", previews_in_copies),
    ("refused_previews", refused_previews),
    ("write_then_merge", write_then_merge),
    ("fetch_and_copy", fetch_and_copy),
    ("put_off_copies", put_off_copies),
    ("put_off_copies_used_at_once", put_off_copies_used_at_once),
    ("chunks", chunks),
    ("beside_a_long_write", beside_a_long_write),
    ("imports", imports),
    ("refused_imports", refused_imports),
    ("scripts", scripts),
    ("refused_scripts", refused_scripts),
    ("at_once", at_once),
    ("collections", collections),
    ("collections_beside_writes", collections_beside_writes),
    ("collections_given_up", collections_given_up),
    ("readers_beside_a_collection", readers_beside_a_collection),
];

/// Runs every check in sequence on one engine.
pub fn run_all(engine: &dyn Engine) {
    for (_, check) in ALL {
        check(engine);
    }
}
