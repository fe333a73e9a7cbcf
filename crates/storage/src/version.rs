//! Whether anything has changed: SQLite counts the changes of others in `PRAGMA data_version`.

use std::sync::{Mutex, PoisonError};

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::Integer;
use diesel::sqlite::Sqlite;

use crate::error::OpenError;
use crate::file;

/// A connection that never writes, so that whoever writes is somebody else. It is never replaced by another: the numbers of two connections
/// have nothing to do with each other.
pub(crate) struct Version(Mutex<SqliteConnection>);

impl Version {
    pub(crate) fn open(path: &str) -> Result<Self, OpenError> {
        let failed = |reason: String| OpenError::Connect { reason };
        let mut conn = SqliteConnection::establish(&file::uri(path)).map_err(|error| failed(error.to_string()))?;
        conn.batch_execute("PRAGMA query_only = ON").map_err(|error| failed(error.to_string()))?;
        Ok(Self(Mutex::new(conn)))
    }

    /// `None` when it cannot be told just now; whoever wants to know then looks.
    pub(crate) fn now(&self) -> Option<u64> {
        let mut conn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let version: i32 = DataVersion.get_result(&mut *conn).ok()?;
        u64::try_from(version).ok()
    }
}

/// As a query of its own kind and not as text, so that it is prepared once.
#[derive(QueryId)]
struct DataVersion;

impl Query for DataVersion {
    type SqlType = Integer;
}

impl RunQueryDsl<SqliteConnection> for DataVersion {}

impl QueryFragment<Sqlite> for DataVersion {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("PRAGMA data_version");
        Ok(())
    }
}
