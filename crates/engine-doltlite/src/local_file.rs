//! A database file of a user of this machine, outside a server: the engine's own commands on it.
//!
//! Nothing guards these connections. They are for the file's owner, never for the SQL of a caller.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Params};

/// The engine refused a command, or failed. The text is the engine's own.
#[derive(Debug)]
pub struct LocalFileError(String);

impl std::fmt::Display for LocalFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LocalFileError {}

impl From<rusqlite::Error> for LocalFileError {
    fn from(error: rusqlite::Error) -> Self {
        Self(match error {
            rusqlite::Error::SqliteFailure(_, Some(text)) => text,
            other => other.to_string(),
        })
    }
}

/// A credential of the engine's clients on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalKey {
    /// Id of the key.
    pub kid: String,
    /// Its public half.
    pub public_key: String,
    /// Whether it is the one that is used unless another is selected.
    pub is_active: bool,
}

/// An open database file.
pub struct LocalFile(Connection);

impl LocalFile {
    /// Opens a file that exists.
    ///
    /// # Errors
    /// [`LocalFileError`].
    pub fn open(path: &Path) -> Result<Self, LocalFileError> {
        Ok(Self(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?))
    }

    /// Creates a file as a clone of a remote, with all branches and tags, and its default branch checked out.
    ///
    /// # Errors
    /// [`LocalFileError`]; what there is of the file is of no use then.
    pub fn clone_from(path: &Path, url: &str) -> Result<Self, LocalFileError> {
        let file = Self(Connection::open(path)?);
        file.run("SELECT dolt_clone(?1)", [url])?;
        Ok(file)
    }

    /// Runs a statement, and returns the first value of its first row.
    fn run(&self, statement: &str, parameters: impl Params) -> Result<Value, LocalFileError> {
        Ok(self.0.query_row(statement, parameters, |row| row.get(0))?)
    }

    /// Returns the name of the branch that is checked out.
    ///
    /// # Errors
    /// [`LocalFileError`].
    pub fn branch(&self) -> Result<String, LocalFileError> {
        Ok(self.0.query_row("SELECT active_branch()", [], |row| row.get(0))?)
    }

    /// Lists the remotes by name, with their addresses.
    ///
    /// # Errors
    /// [`LocalFileError`].
    pub fn remotes(&self) -> Result<Vec<(String, String)>, LocalFileError> {
        let mut statement = self.0.prepare("SELECT name, url FROM dolt_remotes ORDER BY name")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Adds a remote.
    ///
    /// # Errors
    /// [`LocalFileError`], also if the name is taken.
    pub fn add_remote(&self, name: &str, url: &str) -> Result<(), LocalFileError> {
        self.run("SELECT dolt_remote('add', ?1, ?2)", [name, url]).map(drop)
    }

    /// Removes a remote, and what is known of its branches.
    ///
    /// # Errors
    /// [`LocalFileError`], also if there is none of this name.
    pub fn remove_remote(&self, name: &str) -> Result<(), LocalFileError> {
        self.run("SELECT dolt_remote('remove', ?1)", [name]).map(drop)
    }

    /// Fetches a branch of a remote, without changing a branch of the file.
    ///
    /// # Errors
    /// [`LocalFileError`].
    pub fn fetch(&self, remote: &str, branch: &str) -> Result<(), LocalFileError> {
        self.run("SELECT dolt_fetch(?1, ?2)", [remote, branch]).map(drop)
    }

    /// Fetches a branch of a remote, and merges it into the branch that is checked out.
    ///
    /// # Errors
    /// [`LocalFileError`].
    pub fn pull(&self, remote: &str, branch: &str) -> Result<(), LocalFileError> {
        self.run("SELECT dolt_pull(?1, ?2)", [remote, branch]).map(drop)
    }

    /// Pushes a branch or a tag to a remote. `is_forced` overwrites what the remote has.
    ///
    /// # Errors
    /// [`LocalFileError`].
    pub fn push(&self, remote: &str, refspec: &str, is_forced: bool) -> Result<(), LocalFileError> {
        let pushed = match is_forced {
            true => self.run("SELECT dolt_push(?1, ?2, '--force')", [remote, refspec]),
            false => self.run("SELECT dolt_push(?1, ?2)", [remote, refspec]),
        };
        pushed.map(drop)
    }
}

/// Makes a key for the engine's clients on this machine. Returns its id.
///
/// # Errors
/// [`LocalFileError`] if it cannot be stored.
pub fn new_local_key() -> Result<LocalKey, LocalFileError> {
    let before: Vec<String> = local_keys()?.into_iter().map(|key| key.kid).collect();
    let engine = LocalFile(Connection::open_in_memory()?);
    engine.run("SELECT dolt_creds_new()", [])?;
    let made = local_keys()?.into_iter().find(|key| !before.contains(&key.kid));
    made.ok_or_else(|| LocalFileError("the new key is not among the keys of this machine".to_owned()))
}

/// Lists the keys of the engine's clients on this machine.
///
/// # Errors
/// [`LocalFileError`] if they cannot be read.
pub fn local_keys() -> Result<Vec<LocalKey>, LocalFileError> {
    let connection = Connection::open_in_memory()?;
    let mut statement = connection
        .prepare("SELECT kid, coalesce(public_key, ''), coalesce(active, 0) FROM dolt_creds_ls ORDER BY kid")?;
    let rows = statement
        .query_map([], |row| Ok(LocalKey { kid: row.get(0)?, public_key: row.get(1)?, is_active: row.get(2)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
