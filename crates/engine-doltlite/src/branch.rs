//! The one branch of a file, which has a secret name.
//!
//! The branch stands at the last written commit, even if no ref of the database names that commit any more, and the
//! engine's SQL functions accept a branch name wherever they accept a commit. The name is therefore a secret of the
//! file: it is drawn at random for each file and each copy, nothing that user statements may use reveals it
//! (`guard/lists.rs`), and code that needs it looks it up here.

use rusqlite::Connection;

/// Renames the one branch of a file to a random name: 128 random bits in hex.
pub(crate) fn rename(file: &Connection) -> rusqlite::Result<()> {
    let (old, new) = (name(file)?, format!("work-{:032x}", rand::random::<u128>()));
    file.query_row("SELECT dolt_branch('-m', ?, ?)", [old, new], |_| Ok(()))
}

/// Returns the name of the one branch of a file.
pub(crate) fn name(file: &Connection) -> rusqlite::Result<String> {
    file.query_row("SELECT name FROM dolt_branches", [], |row| row.get(0))
}
