//! Removal of rows that are past their time, some at once.

use branchyard_domain::values::Timestamp;
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::error::StoreError;
use crate::prepared::{Parameter, PreparedSql};

/// Statements that remove up to 100 rows, for each engine. The parameter is the time. In Postgres, rows that another transaction works on
/// are left.
pub(crate) struct Purge {
    pub(crate) postgres: &'static str,
    pub(crate) sqlite: &'static str,
}

/// Returns the statements that remove the rows of `$table`, with the primary key `$key`, whose `$time` is at or before the parameter.
macro_rules! purge {
    ($table:literal, $key:literal, $time:literal) => {
        $crate::purge::Purge {
            postgres: $crate::purge::purge!(@text $table, $key, $time, " FOR UPDATE SKIP LOCKED"),
            sqlite: $crate::purge::purge!(@text $table, $key, $time, ""),
        }
    };
    (@text $table:literal, $key:literal, $time:literal, $lock:literal) => {
        concat!(
            "DELETE FROM ", $table, " WHERE ", $key, " IN (SELECT ", $key, " FROM ", $table, " WHERE ", $time,
            " <= ? ORDER BY ", $time, " LIMIT 100", $lock, ")"
        )
    };
}
pub(crate) use purge;

impl Purge {
    pub(crate) fn run(&self, conn: &mut AnyConnection, at: Timestamp) -> Result<(), StoreError> {
        let text = match conn {
            AnyConnection::Pg(_) => self.postgres,
            AnyConnection::Sqlite(_) => self.sqlite,
        };
        PreparedSql::<()>::new(text, vec![Parameter::Number(at.as_micros())]).execute(conn)?;
        Ok(())
    }
}
