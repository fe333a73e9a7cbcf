//! A temporary location for the store of one test.

use std::sync::atomic::{AtomicU32, Ordering};

use branchyard_domain::values::Timestamp;
use branchyard_storage::{Store, StoreOptions};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;

pub(crate) enum Home {
    Sqlite(tempfile::TempDir),
    Postgres { admin: String, url: String, name: String },
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_seconds(1_800_000_000)
}

impl Home {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// Creates a database for this test. Returns `None` if there is no Postgres server.
    pub(crate) fn postgres() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Ok(admin) = std::env::var("BRANCHYARD_TEST_POSTGRES_URL") else {
            let required = std::env::var("BRANCHYARD_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
            assert!(!required, "BRANCHYARD_TEST_POSTGRES_URL is not set, and BRANCHYARD_TEST_REQUIRE_POSTGRES=1");
            eprintln!("skipped: BRANCHYARD_TEST_POSTGRES_URL is not set");
            return None;
        };
        let name = format!("branchyard_test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut conn = PgConnection::establish(&admin).unwrap();
        conn.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).unwrap();
        conn.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        let (before, parameters) = admin.split_once('?').unwrap_or((&admin, ""));
        let (server, _) = before.rsplit_once('/').expect("a URL with a database");
        let url = format!("{server}/{name}?{parameters}");
        Some(Self::Postgres { admin, url, name })
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
            Self::Postgres { url, .. } => url.clone(),
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
            Self::Postgres { url, .. } => PgConnection::establish(url).unwrap().batch_execute(sql).unwrap(),
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
            Self::Postgres { url, .. } => {
                diesel::sql_query(sql).load(&mut PgConnection::establish(url).unwrap()).unwrap()
            }
        };
        rows.into_iter().map(|row| row.line).collect()
    }
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = diesel::sql_types::Text)]
    line: String,
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Self::Postgres { admin, name, .. } = self {
            let dropped = PgConnection::establish(admin).map_err(|error| error.to_string()).and_then(|mut conn| {
                conn.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).map_err(|error| error.to_string())
            });
            if let Err(error) = dropped {
                eprintln!("{name} stays: {error}");
            }
        }
    }
}
