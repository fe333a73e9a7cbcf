//! OAuth: applications, grants with their tokens, codes, and devices.

mod applications;
mod codes;
mod devices;
mod grants;

pub(crate) use applications::remove_applications;
pub(crate) use grants::remove_grants;

use branchyard_domain::ports::MetadataError;
use branchyard_domain::values::Timestamp;
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::error::StoreError;
use crate::prepared::{Parameter, PreparedSql};

type Result<T> = std::result::Result<T, MetadataError>;

/// Statements that remove up to 100 expired rows, for each engine. The parameter is the time. In Postgres, rows that another transaction
/// works on are left.
struct Purge {
    postgres: &'static str,
    sqlite: &'static str,
}

macro_rules! purge {
    ($table:literal, $key:literal) => {
        Purge {
            postgres: concat!(
                "DELETE FROM ",
                $table,
                " WHERE ",
                $key,
                " IN (SELECT ",
                $key,
                " FROM ",
                $table,
                " WHERE expires_at <= ? ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)"
            ),
            sqlite: concat!(
                "DELETE FROM ",
                $table,
                " WHERE ",
                $key,
                " IN (SELECT ",
                $key,
                " FROM ",
                $table,
                " WHERE expires_at <= ? ORDER BY expires_at LIMIT 100)"
            ),
        }
    };
}
use purge;

impl Purge {
    fn run(&self, conn: &mut AnyConnection, now: Timestamp) -> std::result::Result<(), StoreError> {
        let text = match conn {
            AnyConnection::Pg(_) => self.postgres,
            AnyConnection::Sqlite(_) => self.sqlite,
        };
        PreparedSql::<()>::new(text, vec![Parameter::Number(now.as_micros())]).execute(conn)?;
        Ok(())
    }
}
