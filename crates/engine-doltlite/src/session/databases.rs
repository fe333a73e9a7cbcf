//! Creates, seeds, copies and checks the database files of deployments.

use std::path::Path;

use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{
    BranchHead, Engine, EngineError, SessionEngine, SessionError, SessionRequest, SqlSession,
};
use branchyard_domain::values::{CommitHash, DatabaseId};
use rusqlite::OpenFlags;

use crate::commits;
use crate::connection::ConnectionUse;
use crate::engine::{DoltliteEngine, io_fault};
use crate::sql::errors;
use crate::versions;

impl SessionEngine for DoltliteEngine {
    fn create_served(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<(), EngineError> {
        // The branches belong to the clients, so the first branch keeps its name.
        commits::create_with(self, database, author, message, |_| Ok(())).map(drop)
    }

    fn seed(&self, database: DatabaseId, from: &Path, branch: &str, commit: &CommitHash) -> Result<(), EngineError> {
        let turn = self.queues.enter(database);
        let temporary = self.files.temporary();
        commits::copy_file(from, temporary.path()).map_err(|error| io_fault("copy a database", error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let raw = rusqlite::Connection::open_with_flags(temporary.path(), flags)
            .map_err(|error| errors::fault("open the copy", error))?;
        keep_one_branch(&raw, branch, commit)
            .map_err(|error| errors::fault_at("cut the copy down to a branch", commit, error))?;
        raw.close().map_err(|(_, error)| errors::fault("close the copy", error))?;
        self.install(&turn, temporary.path()).map_err(|error| io_fault("install the copy", error))
    }

    fn put_back(&self, database: DatabaseId, from: &Path) -> Result<(), EngineError> {
        // The copy keeps all its branches: [`DoltliteEngine::restore`] would rename one of them as the reserved branch.
        commits::install_copy(self, from, database, |_| Ok(()))
    }

    fn copy_out(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError> {
        self.back_up(database, to)
    }

    fn session(&self, request: &SessionRequest) -> Result<Box<dyn SqlSession>, SessionError> {
        super::open(self, request)
    }

    fn heads(&self, database: DatabaseId) -> Result<Vec<BranchHead>, EngineError> {
        self.reading_history(database, |connection| {
            let sql = "SELECT name, hash FROM dolt_branches ORDER BY name <> dolt_default_branch(), name";
            let read = || -> rusqlite::Result<Vec<(String, String)>> {
                connection.raw().prepare_cached(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            };
            read()
                .map_err(|error| errors::fault("list the branches", error))?
                .into_iter()
                .map(|(branch, hash)| Ok(BranchHead { branch, commit: commits::parse(&hash)? }))
                .collect()
        })
    }

    fn check(&self, database: DatabaseId) -> Result<Vec<String>, EngineError> {
        let heads: Vec<CommitHash> = match self.heads(database) {
            Ok(heads) => heads.into_iter().map(|head| head.commit).collect(),
            Err(EngineError::Damaged(why)) => return Ok(vec![why]),
            Err(error) => return Err(error),
        };
        self.verify(database, &heads)
    }

    fn served_size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError> {
        self.size_bytes(database)
    }

    fn drop_served(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.remove(database)
    }

    fn collect_garbage(&self, database: DatabaseId) -> Result<(), EngineError> {
        let turn = self.queues.enter(database);
        self.evict(database);
        let connection = self
            .open_file(&self.files.path(database), ConnectionUse::Write)
            .map_err(|error| errors::fault("open a database", error))?;
        let collected = connection.raw().query_row("SELECT dolt_gc()", [], |_| Ok(()));
        drop(connection);
        // A connection that was opened meanwhile still reads the old file. The second eviction closes it when it is
        // returned.
        self.evict(database);
        drop(turn);
        collected.map_err(|error| errors::fault("collect garbage", error))
    }

    fn version(&self) -> String {
        versions::doltlite()
    }
}

/// Moves the active branch to the commit, renames it to `branch`, and removes all other branches and all tags.
fn keep_one_branch(raw: &rusqlite::Connection, branch: &str, commit: &CommitHash) -> rusqlite::Result<()> {
    let done = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0).map(drop);
    raw.query_row("SELECT dolt_reset('--hard', ?)", [commit.as_str()], done)?;
    let names =
        |sql: &str| -> rusqlite::Result<Vec<String>> { raw.prepare(sql)?.query_map([], |row| row.get(0))?.collect() };
    let own: String = raw.query_row("SELECT active_branch()", [], |row| row.get(0))?;
    for other in names("SELECT name FROM dolt_branches WHERE name <> active_branch()")? {
        raw.query_row("SELECT dolt_branch('-D', ?)", [other], done)?;
    }
    for tag in names("SELECT tag_name FROM dolt_tags")? {
        raw.query_row("SELECT dolt_tag('-d', ?)", [tag], done)?;
    }
    if own != branch {
        raw.query_row("SELECT dolt_branch('-m', ?, ?)", [own.as_str(), branch], done)?;
    }
    raw.query_row("SELECT dolt_gc()", [], done)
}
