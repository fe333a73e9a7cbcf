//! The one branch of a file, whose name nobody can guess.
//!
//! It stands at whatever was written last, also when no ref of the user's names that any more, and the engine's SQL functions take
//! the name of a branch wherever they take a commit. So the name is a secret of the file: drawn anew for each file, a copy as well, told by nothing
//! that strangers may use (`guard/lists.rs`), and looked up here by whoever needs it.

use rusqlite::Connection;

/// Gives the one branch of a file a new name: 128 random bits in hex.
pub(crate) fn rename(file: &Connection) -> rusqlite::Result<()> {
    let (old, new) = (name(file)?, format!("work-{:032x}", rand::random::<u128>()));
    file.query_row("SELECT dolt_branch('-m', ?, ?)", [old, new], |_| Ok(()))
}

/// The name of the one branch of a file.
pub(crate) fn name(file: &Connection) -> rusqlite::Result<String> {
    file.query_row("SELECT name FROM dolt_branches", [], |row| row.get(0))
}
