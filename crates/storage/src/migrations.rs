//! Migrations: which are applied, whether this program knows them, and applying the pending ones.
//!
//! diesel applies and records migrations, but does not notice a migration that was edited after it was applied. The
//! SHA-256 of each `up.sql` is therefore stored in `branchyard_migrations`, in the transaction of the migration.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use diesel::connection::{SimpleConnection, TransactionManager};
use diesel::migration::{Migration, MigrationConnection, MigrationSource, MigrationVersion};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use sha2::{Digest, Sha256};

use crate::connection::{AnyConnection, PooledConnection, StoreTarget, begin};
use crate::error::{MigrationError, says};
use crate::file;
use crate::schema::branchyard_migrations as applied;
use crate::store::Store;

const POSTGRES: EmbeddedMigrations = embed_migrations!("migrations/postgres");
const SQLITE: EmbeddedMigrations = embed_migrations!("migrations/sqlite");

/// A migration: the name of its folder and its `up.sql` for each engine. diesel does not expose the text that it
/// embeds.
struct MigrationText {
    name: &'static str,
    postgres: &'static str,
    sqlite: &'static str,
}

macro_rules! texts {
    ($($name:literal),+ $(,)?) => {
        &[$(MigrationText {
            name: $name,
            postgres: include_str!(concat!("../migrations/postgres/", $name, "/up.sql")),
            sqlite: include_str!(concat!("../migrations/sqlite/", $name, "/up.sql")),
        }),+]
    };
}

/// All migrations, oldest first.
const TEXTS: &[MigrationText] = texts![
    "2026-11-21-000001_start",
    "2026-11-23-000001_pull_content",
    "2026-11-23-000002_operation_turns",
    "2026-11-24-000003_unverified_emails",
    "2026-11-24-000004_session_confirmation",
    "2026-11-24-000005_purge",
    "2026-11-24-000006_anonymous_sql",
    "2026-11-24-000008_operator",
    "2026-11-24-000009_operations_by_age",
    "2026-11-24-000010_deleted_names",
    "2026-11-24-000011_collections",
    "2026-11-25-000001_trace_context",
    "2026-11-25-000003_engine_format",
    "2026-11-26-000001_user_keys",
    "2026-11-26-000002_pushes",
    "2026-11-27-000001_mirrors",
    "2026-11-28-000001_server",
    "2026-11-30-000001_durable_files",
    "2026-12-01-000001_object_collection",
    "2026-12-01-000002_key_ring",
    "2026-12-01-000007_drained_nodes",
    "2026-12-01-000008_sign_in_attempts",
    "2026-12-02-000001_ref_log",
    "2026-12-03-000001_data_keys",
    "2026-12-03-000002_put_off_copies",
    "2026-12-03-000003_request_counts",
    "2026-12-03-000004_node_copies",
    "2026-12-04-000001_tsv_uploads",
    "2026-12-04-000002_edits",
    "2026-12-05-000001_former_names",
    "2026-12-05-000002_oauth"
];

const LOG: &str = "CREATE TABLE IF NOT EXISTS branchyard_migrations (
    version TEXT NOT NULL PRIMARY KEY, hash TEXT NOT NULL, applied_at BIGINT NOT NULL)";

/// The row that a process locks for the transaction that migrates. Not an advisory lock: a pooler may hand the session on, and not every
/// server has them.
const LOCK_TABLE: &str = "CREATE TABLE IF NOT EXISTS branchyard_migrations_lock (id INTEGER NOT NULL PRIMARY KEY);
INSERT INTO branchyard_migrations_lock (id) VALUES (1) ON CONFLICT DO NOTHING";
/// Building an index on a large table takes longer than any request may.
const BEGIN: &str =
    "BEGIN; SELECT 1 FROM branchyard_migrations_lock FOR UPDATE NOWAIT; SET LOCAL statement_timeout = 0";

/// The migration status of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Applied migrations, oldest first. All of them are known and unchanged.
    pub applied: Vec<String>,
    /// Pending migrations, oldest first.
    pub pending: Vec<String>,
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(doing: &'static str) -> impl FnOnce(E) -> MigrationError {
    move |error| MigrationError::Store { doing, source: error.into() }
}

/// Returns the version that diesel derives from the folder's name.
fn version(name: &str) -> String {
    name.split('_').next().unwrap_or_default().replace('-', "")
}

fn hash(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

/// Returns the hash of each known version, for the engine of the connection.
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

/// Compares the migrations recorded in the store with those known to this program. Writes nothing.
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

/// Returns `true` if the store has ever been migrated.
fn has_log(conn: &mut AnyConnection) -> QueryResult<bool> {
    #[derive(QueryableByName)]
    struct TableCount {
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
    Ok(diesel::sql_query(query).get_result::<TableCount>(conn)?.tables > 0)
}

/// Applies one migration and records its hash, in the open transaction.
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

/// Applies all pending migrations in the open transaction, and commits it.
fn apply_all(conn: &mut AnyConnection, now: i64) -> Result<Vec<String>, MigrationError> {
    const DOING: &str = "being prepared";
    conn.setup().map_err(failed(DOING))?;
    conn.batch_execute(LOG).map_err(failed(DOING))?;
    let pending = status(conn)?.pending;
    let known = known(conn);
    for next in &pending {
        tracing::info!(migration = %next, "applying a migration");
        apply(conn, next, known.get(next).map_or("", String::as_str), now)?;
    }
    <AnyConnection as Connection>::TransactionManager::commit_transaction(conn).map_err(failed("being saved"))?;
    Ok(pending)
}

/// Begins the transaction that migrates, and waits by polling until no other one is open. A transaction that *blocks* on the lock would
/// hold a snapshot. A concurrent index build waits for that snapshot, and the migrating transaction waits for the index build.
fn begin_alone(conn: &mut AnyConnection, patience: Duration) -> Result<(), MigrationError> {
    const DOING: &str = "being locked";
    let begun = Instant::now();
    loop {
        let attempt = match conn {
            AnyConnection::Sqlite(_) => return begin(conn, "", "BEGIN IMMEDIATE").map_err(failed("being prepared")),
            AnyConnection::Pg(pg) => pg.batch_execute(LOCK_TABLE).and_then(|()| begin(conn, BEGIN, "")),
        };
        match attempt {
            Ok(()) => return Ok(()),
            Err(error) if !is_contended(&error) => return Err(failed(DOING)(error)),
            Err(_) if begun.elapsed() >= patience => return Err(MigrationError::Locked(patience)),
            Err(_) => {}
        }
        // Ends the transaction whose lock was refused.
        conn.batch_execute("ROLLBACK").map_err(failed(DOING))?;
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns whether another process migrates, or creates the table of the lock at this moment.
fn is_contended(error: &diesel::result::Error) -> bool {
    says(error, &["could not obtain lock", "lock timeout", "duplicate key", "already exists"])
}

/// Checks, before a store is opened, that no unknown or altered migration was applied to it. Creates and changes no file.
/// A store that cannot be read in this way passes: opening it reports why.
///
/// # Errors
/// [`MigrationError::Unknown`], [`MigrationError::Altered`].
pub fn check_unopened(url: &str) -> Result<(), MigrationError> {
    let connection = match StoreTarget::parse(url) {
        Ok(StoreTarget::Postgres(connector)) => connector.connect().ok().map(AnyConnection::Pg),
        Ok(StoreTarget::Sqlite { path }) => file::uri_for_a_look(&path)
            .and_then(|uri| SqliteConnection::establish(&uri).ok())
            .map(AnyConnection::Sqlite),
        Err(_) => None,
    };
    match connection.map(|mut connection| status(&mut connection)) {
        Some(Err(error @ (MigrationError::Unknown { .. } | MigrationError::Altered { .. }))) => Err(error),
        _ => Ok(()),
    }
}

impl Store {
    fn for_migrations(&self) -> Result<PooledConnection, MigrationError> {
        self.writers.get().map_err(failed("being connected"))
    }

    /// Checks that no unknown or altered migration was applied, and returns the status. Changes nothing.
    ///
    /// # Errors
    /// [`MigrationError`]; its text states what to do.
    pub fn check(&self) -> Result<Status, MigrationError> {
        status(&mut self.readers.get().map_err(failed("being connected"))?.any)
    }

    /// Returns the pending migrations, oldest first.
    ///
    /// # Errors
    /// As [`Store::check`].
    pub fn pending(&self) -> Result<Vec<String>, MigrationError> {
        Ok(self.check()?.pending)
    }

    /// Checks the store as [`Store::check`] does, and fails if a migration is pending. For a start that must not
    /// migrate.
    ///
    /// # Errors
    /// [`MigrationError::Pending`], or as [`Store::check`].
    pub fn require_current(&self) -> Result<(), MigrationError> {
        match self.pending()? {
            versions if versions.is_empty() => Ok(()),
            versions => Err(MigrationError::Pending { versions }),
        }
    }

    /// Applies all pending migrations atomically and returns them. Concurrent calls, also from other processes, wait
    /// for each other.
    ///
    /// # Errors
    /// [`MigrationError`]; its text states what to do.
    pub fn migrate(&self, now: branchyard_domain::values::Timestamp) -> Result<Vec<String>, MigrationError> {
        let mut conn = self.for_migrations()?;
        // Reset on success. After an error, closing the connection rolls the transaction back and releases the lock.
        conn.broken = true;
        begin_alone(&mut conn.any, Duration::from_secs(60))?;
        let done = apply_all(&mut conn.any, now.as_micros())?;
        conn.broken = false;
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

    /// Fails if a folder is missing in `TEXTS` or for one of the engines.
    #[test]
    fn every_migration_is_named_on_both_engines() {
        let named: BTreeSet<String> = TEXTS.iter().map(|text| version(text.name)).collect();
        assert_eq!(named, versions::<Pg>(&POSTGRES), "add the folder to TEXTS in migrations.rs");
        assert_eq!(named, versions::<Sqlite>(&SQLITE), "add the folder to TEXTS in migrations.rs");
        assert_eq!(named.len(), TEXTS.len());
        assert!(TEXTS.is_sorted_by_key(|text| text.name));
    }
}
