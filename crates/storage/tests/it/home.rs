//! A temporary location for the store of one test.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use branchyard_domain::values::Timestamp;
use branchyard_storage::{Store, StoreOptions};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;

pub(crate) enum Home {
    Sqlite(tempfile::TempDir),
    Postgres { admin: String, url: String, name: String, is_created: Once },
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_seconds(1_800_000_000)
}

impl Home {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// Returns the home of a database of this test, which its first use creates. Returns `None` if there is no Postgres server.
    pub(crate) fn postgres() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Ok(admin) = std::env::var("BRANCHYARD_TEST_POSTGRES_URL") else {
            let required = std::env::var("BRANCHYARD_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
            assert!(!required, "BRANCHYARD_TEST_POSTGRES_URL is not set, and BRANCHYARD_TEST_REQUIRE_POSTGRES=1");
            eprintln!("skipped: BRANCHYARD_TEST_POSTGRES_URL is not set");
            return None;
        };
        let name = format!("branchyard_test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let url = url_of(&admin, &name);
        Some(Self::Postgres { admin, url, name, is_created: Once::new() })
    }

    /// Creates the database, as a copy of `template` if there is one.
    fn create(&self, template: impl FnOnce(&str) -> String) {
        let Self::Postgres { admin, name, is_created, .. } = self else { return };
        is_created.call_once(|| {
            let from = template(admin);
            let mut conn = PgConnection::establish(admin).unwrap();
            conn.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).unwrap();
            conn.batch_execute(&format!("CREATE DATABASE {name} {from}")).unwrap();
        });
    }

    /// Returns a home on each available engine.
    pub(crate) fn each() -> Vec<Self> {
        std::iter::once(Self::sqlite()).chain(Self::postgres()).collect()
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite://{}", self.path(folder)),
            Self::Postgres { url, .. } => {
                self.create(|_| String::new());
                url.clone()
            }
        }
    }

    fn path(&self, folder: &tempfile::TempDir) -> String {
        folder.path().join("meta.sqlite").to_str().unwrap().to_owned()
    }

    /// Opens the store without migrating it.
    pub(crate) fn open(&self) -> Store {
        Store::open(&self.url(), &StoreOptions { readers: 9, ..StoreOptions::default() }).unwrap()
    }

    /// Opens and migrates the store.
    pub(crate) fn ready(&self) -> Store {
        self.create(template);
        let store = self.open();
        store.migrate(now()).unwrap();
        store
    }

    /// Runs SQL on a separate connection.
    pub(crate) fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(folder) => {
                let mut conn = SqliteConnection::establish(&self.path(folder)).unwrap();
                conn.batch_execute("PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON").unwrap();
                conn.batch_execute(sql).unwrap();
            }
            Self::Postgres { .. } => PgConnection::establish(&self.url()).unwrap().batch_execute(sql).unwrap(),
        }
    }

    /// Returns the text column `line` of a query on a separate connection.
    pub(crate) fn lines(&self, sql: &str) -> Vec<String> {
        let rows: Vec<Line> = match self {
            Self::Sqlite(folder) => {
                let mut conn = SqliteConnection::establish(&self.path(folder)).unwrap();
                conn.batch_execute("PRAGMA busy_timeout = 5000").unwrap();
                diesel::sql_query(sql).load(&mut conn).unwrap()
            }
            Self::Postgres { .. } => {
                diesel::sql_query(sql).load(&mut PgConnection::establish(&self.url()).unwrap()).unwrap()
            }
        };
        rows.into_iter().map(|row| row.line).collect()
    }
}

/// Returns the URL of another database of the server.
fn url_of(admin: &str, name: &str) -> String {
    let (before, parameters) = admin.split_once('?').unwrap_or((admin, ""));
    let (server, _) = before.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{name}?{parameters}")
}

/// Returns what makes a new database a copy of one with all tables, which takes a fifth of the time of the migrations. That one stays on
/// the server for the next run, until a migration changes.
fn template(admin: &str) -> String {
    static CREATED: OnceLock<String> = OnceLock::new();
    let created = CREATED.get_or_init(|| {
        let name = "branchyard_test_template";
        let mut conn = PgConnection::establish(admin).unwrap();
        let line = |sql: String, conn: &mut PgConnection| {
            let rows: Vec<Line> = diesel::sql_query(sql).load(conn).unwrap();
            rows.into_iter().next().map(|row| row.line)
        };
        // One process creates it, and others wait.
        conn.batch_execute("SELECT pg_advisory_lock(hashtext('branchyard_test_template'))").unwrap();
        let wanted = format!("{:016x}", hash_of_migrations());
        let of = "SELECT coalesce(shobj_description(oid, 'pg_database'), '') AS line FROM pg_database WHERE datname";
        if line(format!("{of} = '{name}'"), &mut conn) != Some(wanted.clone()) {
            conn.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).unwrap();
            conn.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
            Store::open(&url_of(admin, name), &StoreOptions::default()).unwrap().migrate(now()).unwrap();
            conn.batch_execute(&format!("COMMENT ON DATABASE {name} IS '{wanted}'")).unwrap();
        }
        let version = line("SELECT current_setting('server_version_num') AS line".to_owned(), &mut conn);
        // Older servers know no other strategy.
        let version: u32 = version.unwrap().parse().unwrap();
        let strategy = if version >= 150_000 { "STRATEGY FILE_COPY" } else { "" };
        format!("TEMPLATE {name} {strategy}")
    });
    created.clone()
}

fn hash_of_migrations() -> u64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/postgres");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files.iter().map(|folder| folder.join("up.sql")) {
        (file.to_string_lossy(), std::fs::read(&file).ok()).hash(&mut hasher);
    }
    hasher.finish()
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = diesel::sql_types::Text)]
    line: String,
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Self::Postgres { admin, name, is_created, .. } = self
            && is_created.is_completed()
        {
            let dropped = PgConnection::establish(admin).map_err(|error| error.to_string()).and_then(|mut conn| {
                conn.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).map_err(|error| error.to_string())
            });
            if let Err(error) = dropped {
                eprintln!("{name} stays: {error}");
            }
        }
    }
}
