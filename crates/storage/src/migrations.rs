//! Migrations: what was applied, whether it is what this program knows, and applying the rest.
//!
//! diesel applies and records them. What it does not notice is a migration that was edited after it ran somewhere, so the
//! SHA-256 of each `up.sql` is kept beside, in `branchyard_migrations`, written in the transaction of the migration.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use diesel::connection::{SimpleConnection, TransactionManager};
use diesel::migration::{Migration, MigrationConnection, MigrationSource, MigrationVersion};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use sha2::{Digest, Sha256};

use crate::connection::{AnyConnection, PooledConnection, begin};
use crate::error::MigrationError;
use crate::schema::branchyard_migrations as applied;
use crate::store::Store;

const POSTGRES: EmbeddedMigrations = embed_migrations!("../../migrations/postgres");
const SQLITE: EmbeddedMigrations = embed_migrations!("../../migrations/sqlite");

/// A migration's folder and what its `up.sql` says on each engine; diesel does not give back what it embeds.
struct MigrationText {
    name: &'static str,
    postgres: &'static str,
    sqlite: &'static str,
}

macro_rules! texts {
    ($($name:literal),+ $(,)?) => {
        &[$(MigrationText {
            name: $name,
            postgres: include_str!(concat!("../../../migrations/postgres/", $name, "/up.sql")),
            sqlite: include_str!(concat!("../../../migrations/sqlite/", $name, "/up.sql")),
        }),+]
    };
}

/// All folders, oldest first.
const TEXTS: &[MigrationText] =
    texts!["2026-11-21-000001_start", "2026-11-23-000001_pull_content", "2026-11-23-000002_operation_turns"];

const LOG: &str = "CREATE TABLE IF NOT EXISTS branchyard_migrations (
    version TEXT NOT NULL PRIMARY KEY, hash TEXT NOT NULL, applied_at BIGINT NOT NULL)";

/// "branchym": held by a process while it migrates, for its session.
const LOCK: &str = "SELECT pg_try_advisory_lock(7093839489804040557) AS held";
const UNLOCK: &str = "SELECT pg_advisory_unlock(7093839489804040557)";

/// How far a store is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Migrations applied, oldest first; all of them known and unchanged.
    pub applied: Vec<String>,
    /// Migrations still to be applied, oldest first.
    pub pending: Vec<String>,
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(doing: &'static str) -> impl FnOnce(E) -> MigrationError {
    move |error| MigrationError::Store { doing, source: error.into() }
}

/// How diesel reads the version from the folder's name.
fn version(name: &str) -> String {
    name.split('_').next().unwrap_or_default().replace('-', "")
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Version → hash, for the engine of the connection.
fn known(conn: &AnyConnection) -> BTreeMap<String, String> {
    TEXTS
        .iter()
        .map(|text| {
            let sql = match conn {
                AnyConnection::Pg(_) => text.postgres,
                AnyConnection::Sqlite(_) => text.sqlite,
            };
            (version(text.name), hash(sql))
        })
        .collect()
}

/// What the store says about itself, compared with what this program knows. Writes nothing.
fn status(conn: &mut AnyConnection) -> Result<Status, MigrationError> {
    const DOING: &str = "being read";
    if !has_log(conn).map_err(failed(DOING))? {
        return Ok(Status { applied: Vec::new(), pending: known(conn).into_keys().collect() });
    }
    let by_diesel: Vec<MigrationVersion<'static>> = match conn {
        AnyConnection::Pg(conn) => conn.applied_migrations(),
        AnyConnection::Sqlite(conn) => conn.applied_migrations(),
    }
    .map_err(failed(DOING))?;
    let mut versions: BTreeSet<String> = by_diesel.iter().map(ToString::to_string).collect();
    let hashes: BTreeMap<String, String> = applied::table
        .select((applied::version, applied::hash))
        .load::<(String, String)>(conn)
        .map_err(failed(DOING))?
        .into_iter()
        .collect();
    versions.extend(hashes.keys().cloned());
    let known = known(conn);
    for version in &versions {
        match (known.get(version), hashes.get(version)) {
            (None, _) => return Err(MigrationError::Unknown { version: version.clone() }),
            (Some(expected), Some(found)) if expected == found => {}
            _ => return Err(MigrationError::Altered { version: version.clone() }),
        }
    }
    let pending = known.into_keys().filter(|version| !versions.contains(version)).collect();
    Ok(Status { applied: versions.into_iter().collect(), pending })
}

/// Whether any migration ever began here.
fn has_log(conn: &mut AnyConnection) -> QueryResult<bool> {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = BigInt)]
        tables: i64,
    }
    let query = match conn {
        AnyConnection::Pg(_) => {
            "SELECT count(*) AS tables FROM information_schema.tables \
             WHERE table_schema = current_schema() AND table_name = 'branchyard_migrations'"
        }
        AnyConnection::Sqlite(_) => {
            "SELECT count(*) AS tables FROM sqlite_schema WHERE type = 'table' AND name = 'branchyard_migrations'"
        }
    };
    Ok(diesel::sql_query(query).get_result::<Row>(conn)?.tables > 0)
}

/// Applies one migration and notes its hash, in the transaction that is open.
fn apply(conn: &mut AnyConnection, next: &str, hash: &str, now: i64) -> Result<(), MigrationError> {
    let fail = |source| MigrationError::Failed { version: next.to_owned(), source };
    match conn {
        AnyConnection::Pg(conn) => run(conn, &POSTGRES, next),
        AnyConnection::Sqlite(conn) => run(conn, &SQLITE, next),
    }
    .map_err(fail)?;
    diesel::insert_into(applied::table)
        .values((applied::version.eq(next), applied::hash.eq(hash), applied::applied_at.eq(now)))
        .execute(conn)
        .map_err(|error| fail(Box::new(error)))?;
    Ok(())
}

fn run<C, DB>(conn: &mut C, source: &EmbeddedMigrations, next: &str) -> diesel::migration::Result<()>
where
    DB: diesel::backend::Backend,
    C: MigrationHarness<DB>,
    EmbeddedMigrations: MigrationSource<DB>,
{
    let migrations: Vec<Box<dyn Migration<DB>>> = source.migrations()?;
    let migration = migrations.iter().find(|migration| migration.name().version().to_string() == next);
    let migration = migration.ok_or("it is named, but not embedded")?;
    conn.run_migration(migration.as_ref())?;
    Ok(())
}

/// All that is pending, in one transaction: afterwards there is all of it or nothing.
fn apply_all(conn: &mut AnyConnection, now: i64) -> Result<Vec<String>, MigrationError> {
    const DOING: &str = "being prepared";
    begin(conn, "BEGIN", "BEGIN IMMEDIATE").map_err(failed(DOING))?;
    conn.setup().map_err(failed(DOING))?;
    conn.batch_execute(LOG).map_err(failed(DOING))?;
    let pending = status(conn)?.pending;
    let known = known(conn);
    for next in &pending {
        tracing::info!(migration = %next, "applying");
        apply(conn, next, known.get(next).map_or("", String::as_str), now)?;
    }
    <AnyConnection as Connection>::TransactionManager::commit_transaction(conn).map_err(failed("being saved"))?;
    Ok(pending)
}

/// Waits for the lock of migrations by asking again and again: a session that *blocks* on it holds a snapshot, for which a
/// concurrent index build waits, which the migrating session waits for in turn.
fn lock(conn: &mut AnyConnection, patience: Duration) -> Result<(), MigrationError> {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = Bool)]
        held: bool,
    }
    if let AnyConnection::Sqlite(_) = conn {
        return Ok(());
    }
    let begun = Instant::now();
    loop {
        if diesel::sql_query(LOCK).get_result::<Row>(conn).map_err(failed("being locked"))?.held {
            // Building an index on a grown table takes longer than any request may.
            return conn.batch_execute("SET statement_timeout = 0").map_err(failed("being locked"));
        }
        if begun.elapsed() >= patience {
            return Err(MigrationError::Locked(patience));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Store {
    fn for_migrations(&self) -> Result<PooledConnection, MigrationError> {
        self.writers.get().map_err(failed("being connected"))
    }

    /// Checks that nothing unknown or altered was applied, and tells what is applied and pending. Changes nothing.
    ///
    /// # Errors
    /// [`MigrationError`]; its text says what to do.
    pub fn check(&self) -> Result<Status, MigrationError> {
        status(&mut self.readers.get().map_err(failed("being connected"))?.any)
    }

    /// The migrations still to be applied, oldest first.
    ///
    /// # Errors
    /// As [`Store::check`].
    pub fn pending(&self) -> Result<Vec<String>, MigrationError> {
        Ok(self.check()?.pending)
    }

    /// Like [`Store::check`], and refuses a store that lacks a migration: for a start that must not migrate.
    ///
    /// # Errors
    /// [`MigrationError::Pending`], or as [`Store::check`].
    pub fn require_current(&self) -> Result<(), MigrationError> {
        match self.pending()? {
            versions if versions.is_empty() => Ok(()),
            versions => Err(MigrationError::Pending { versions }),
        }
    }

    /// Applies what is pending, all of it or, when something fails, nothing; gives what was applied. Processes that do this
    /// at the same time wait for each other.
    ///
    /// # Errors
    /// [`MigrationError`]; its text says what to do.
    pub fn migrate(&self, now: branchyard_domain::values::Timestamp) -> Result<Vec<String>, MigrationError> {
        let mut conn = self.for_migrations()?;
        // Until all went well: closing the connection undoes the transaction and frees the lock, whatever happened.
        conn.broken = true;
        lock(&mut conn.any, Duration::from_secs(60))?;
        let done = apply_all(&mut conn.any, now.as_micros())?;
        if let AnyConnection::Pg(pg) = &mut conn.any {
            pg.batch_execute(UNLOCK).map_err(failed("being unlocked"))?;
        }
        // On Postgres its settings are no longer those of the pool.
        conn.broken = matches!(conn.any, AnyConnection::Pg(_));
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diesel::pg::Pg;
    use diesel::sqlite::Sqlite;

    fn versions<DB: diesel::backend::Backend>(source: &EmbeddedMigrations) -> BTreeSet<String>
    where
        EmbeddedMigrations: MigrationSource<DB>,
    {
        let migrations: Vec<Box<dyn Migration<DB>>> = source.migrations().unwrap();
        migrations.iter().map(|migration| migration.name().version().to_string()).collect()
    }

    /// Fails when a folder is missing in `TEXTS`, or on one of the engines.
    #[test]
    fn every_migration_is_named_on_both_engines() {
        let named: BTreeSet<String> = TEXTS.iter().map(|text| version(text.name)).collect();
        assert_eq!(named, versions::<Pg>(&POSTGRES), "add the folder to TEXTS in migrations.rs");
        assert_eq!(named, versions::<Sqlite>(&SQLITE), "add the folder to TEXTS in migrations.rs");
        assert_eq!(named.len(), TEXTS.len());
        assert!(TEXTS.is_sorted_by_key(|text| text.name));
    }
}
