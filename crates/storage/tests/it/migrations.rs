//! Migrations: applying, reverting, comparing, and the errors.

use branchyard_domain::ports::Metadata;
use branchyard_domain_testing::suites::metadata;
use branchyard_storage::{MigrationError, Store, StoreOptions, check_unopened};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_migrations::{FileBasedMigrations, MigrationHarness};

use crate::home::{Home, now};

/// Returns the schema as comparable lines.
fn schema(home: &Home) -> Vec<String> {
    match home {
        Home::Sqlite(_) => home.lines(
            "SELECT type || ' ' || name || ' ' || coalesce(sql, '') AS line FROM sqlite_schema
             WHERE name NOT LIKE '%migrations%' AND name NOT LIKE 'sqlite_sequence' ORDER BY line",
        ),
        Home::Postgres { .. } => home.lines(
            "SELECT line FROM (
                SELECT 'column ' || table_name || ' ' || ordinal_position || ' ' || column_name || ' ' || data_type || ' '
                    || is_nullable || ' ' || coalesce(collation_name, '') || ' ' || coalesce(column_default, '') AS line
                    FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE '%migrations%'
                UNION ALL
                SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename NOT LIKE '%migrations%'
                UNION ALL
                SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
                    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
                    AND conrelid::regclass::text NOT LIKE '%migrations%'
             ) AS lines ORDER BY line",
        ),
    }
}

/// Runs `step` with diesel's own harness on the migration folders.
macro_rules! with_harness {
    ($home:expr, |$conn:ident, $source:ident| $step:expr) => {{
        let folder = |engine: &str| {
            FileBasedMigrations::from_path(format!("{}/../../migrations/{engine}", env!("CARGO_MANIFEST_DIR"))).unwrap()
        };
        match $home {
            Home::Sqlite(_) => {
                let path = $home.url().trim_start_matches("sqlite://").to_owned();
                let mut connection = SqliteConnection::establish(&path).unwrap();
                connection.batch_execute("PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON").unwrap();
                let ($conn, $source) = (&mut connection, folder("sqlite"));
                $step
            }
            Home::Postgres { .. } => {
                let mut connection = PgConnection::establish(&$home.url()).unwrap();
                let ($conn, $source) = (&mut connection, folder("postgres"));
                $step
            }
        }
    }};
}

#[test]
fn each_migration_reverts_to_what_was_before() {
    for home in Home::each() {
        drop(home.open());
        // Applies each migration and records the schema before it.
        let mut before = Vec::new();
        loop {
            before.push(schema(&home));
            let more = with_harness!(&home, |conn, source| {
                let more = conn.has_pending_migration(source.clone()).unwrap();
                if more {
                    conn.run_next_migration(source).unwrap();
                }
                more
            });
            if !more {
                break;
            }
        }
        let full = before.pop().unwrap();
        assert!(full.len() > 50);
        // Reverts each migration and compares the schema.
        while let Some(expected) = before.pop() {
            with_harness!(&home, |conn, source| {
                conn.revert_last_migration(source).unwrap();
            });
            assert_eq!(schema(&home), expected);
        }
        // Applies all migrations again through the store.
        let store = home.open();
        home.execute("DROP TABLE IF EXISTS branchyard_migrations");
        store.migrate(now()).unwrap();
        assert_eq!(schema(&home), full);
    }
}

#[test]
fn running_twice_changes_nothing_and_keeps_what_is_there() {
    for home in Home::each() {
        let store = home.open();
        let pending = store.pending().unwrap();
        assert!(!pending.is_empty());
        assert!(matches!(store.require_current(), Err(MigrationError::Pending { versions }) if versions == pending));
        assert!(schema(&home).is_empty(), "to look is not to touch");
        assert_eq!(store.migrate(now()).unwrap(), pending);
        metadata::accounts(&store);
        let full = schema(&home);
        assert!(store.migrate(now()).unwrap().is_empty());
        assert_eq!(schema(&home), full);
        let status = store.check().unwrap();
        assert_eq!((status.applied, status.pending), (pending, Vec::new()));
        store.require_current().unwrap();
        drop(store);
        let store = home.open();
        assert!(store.migrate(now()).unwrap().is_empty());
        let found =
            store.read().unwrap().accounts().by_name(&branchyard_domain::values::OwnerName::parse("ann").unwrap());
        assert!(found.unwrap().is_some());
    }
}

#[test]
fn two_processes_migrate_one_after_the_other() {
    for home in Home::each() {
        let stores: Vec<Store> = (0..4).map(|_| home.open()).collect();
        let applied: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                stores.iter().map(|store| scope.spawn(|| store.migrate(now()).unwrap().len())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(applied, stores[0].check().unwrap().applied.len());
    }
}

#[test]
fn a_store_is_checked_before_it_is_opened_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metadata.sqlite");
    let url = path.to_str().unwrap();
    let files = || {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        names.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect::<std::collections::BTreeMap<_, _>>()
    };
    check_unopened(url).unwrap();
    assert!(files().is_empty(), "there is no store");
    let store = Store::open(url, &StoreOptions::default()).unwrap();
    store.migrate(now()).unwrap();
    drop(store);
    let before = files();
    assert_eq!(before.len(), 1, "{:?}", before.keys());
    check_unopened(url).unwrap();
    assert_eq!(files(), before);
    let mut connection = SqliteConnection::establish(url).unwrap();
    let newer = "INSERT INTO branchyard_migrations (version, hash, applied_at) VALUES ('29990101000001', 'x', 1)";
    connection.batch_execute(newer).unwrap();
    drop(connection);
    let before = files();
    assert_eq!(before.len(), 1, "{:?}", before.keys());
    let error = check_unopened(url).unwrap_err();
    assert!(matches!(&error, MigrationError::Unknown { version } if version == "29990101000001"), "{error}");
    assert_eq!(files(), before);
    // What is no store is reported when it is opened.
    std::fs::write(&path, "text").unwrap();
    check_unopened(url).unwrap();
    for url in ["", "ftp://x", "postgres://127.0.0.1:1/none"] {
        check_unopened(url).unwrap();
    }
}

#[test]
fn what_is_unknown_or_altered_is_refused() {
    for home in Home::each() {
        let store = home.ready();
        home.execute("UPDATE branchyard_migrations SET hash = 'x'");
        for result in [store.check().map(drop), store.migrate(now()).map(drop), store.require_current()] {
            let error = result.unwrap_err();
            assert!(matches!(&error, MigrationError::Altered { version } if version == "20261121000001"), "{error}");
            assert!(error.to_string().contains("new migration"), "{error}");
        }
    }
    for home in Home::each() {
        let store = home.ready();
        home.execute("INSERT INTO branchyard_migrations (version, hash, applied_at) VALUES ('29990101000001', 'x', 1)");
        let error = store.check().unwrap_err();
        assert!(matches!(&error, MigrationError::Unknown { version } if version == "29990101000001"), "{error}");
        assert!(matches!(store.migrate(now()), Err(MigrationError::Unknown { .. })));
        // The log of an open store is read as well.
        assert!(matches!(check_unopened(&home.url()), Err(MigrationError::Unknown { .. })));
    }
    for home in Home::each() {
        // The migrations were applied by diesel's own tool and have no hash, so their text is unknown.
        let store = home.ready();
        home.execute("DELETE FROM branchyard_migrations");
        assert!(matches!(store.check(), Err(MigrationError::Altered { .. })));
        home.execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('29990101000001')");
        assert!(store.check().is_err());
    }
}

#[test]
fn every_foreign_key_has_an_index() {
    for home in Home::each() {
        let _store = home.ready();
        let bare = match &home {
            // Finds foreign keys whose columns are not the leading columns of any non-partial index.
            Home::Sqlite(_) => home.lines(
                "SELECT k.table_name || ' (' || k.columns || ')' AS line FROM (
                    SELECT t.name AS table_name, f.id, group_concat(f.\"from\", ',') AS columns
                    FROM sqlite_schema AS t JOIN pragma_foreign_key_list(t.name) AS f
                    WHERE t.type = 'table' GROUP BY t.name, f.id
                 ) AS k WHERE NOT EXISTS (
                    SELECT 1 FROM pragma_index_list(k.table_name) AS l
                    WHERE l.partial = 0 AND (
                        SELECT group_concat(i.name, ',') FROM (
                            SELECT name FROM pragma_index_info(l.name) ORDER BY seqno) AS i) || ',' LIKE k.columns || ',%')",
            ),
            Home::Postgres { .. } => home.lines(
                "SELECT conrelid::regclass || ' ' || conname AS line FROM pg_constraint AS k
                 WHERE contype = 'f' AND NOT EXISTS (
                    SELECT 1 FROM pg_index AS i WHERE i.indrelid = k.conrelid AND i.indpred IS NULL
                    AND (i.indkey::smallint[])[0:cardinality(k.conkey) - 1] = k.conkey)",
            ),
        };
        assert!(bare.is_empty(), "without an index: {bare:?}");
    }
}

/// Open pull requests from databases that are not public were opened without the consent that showing them needs.
#[test]
fn the_upgrade_hides_what_open_pulls_show_of_private_databases() {
    const PULL: &str = "INSERT INTO pulls (database_id, number, title, search_key, state, closed_at, creator_id, from_database_id, from_owner,
        from_name, from_branch, to_branch, created_at, updated_at, version) VALUES";
    let account = "0199c3a2-0000-7000-8000-000000000001";
    let [base, public, private, deleted] = [2, 3, 4, 5].map(|n| format!("0199c3a2-0000-7000-8000-00000000000{n}"));
    for home in Home::each() {
        drop(home.open());
        with_harness!(&home, |conn, source| {
            conn.run_next_migration(source).unwrap();
        });
        home.execute(&format!(
            "INSERT INTO accounts (id, name, name_key, kind, created_at) VALUES ('{account}', 'ann', 'ann', 'user', 1)"
        ));
        let databases = [
            (&base, "base", "public", "NULL"),
            (&public, "public", "public", "NULL"),
            (&private, "private", "private", "NULL"),
            (&deleted, "deleted", "public", "7"),
        ];
        for (id, name, visibility, deleted_at) in databases {
            home.execute(&format!(
                "INSERT INTO databases (id, owner_id, owner_name, owner_key, name, name_key, search_key, visibility, default_branch, network_id,
                    created_at, size_bytes, star_count, version, deleted_at)
                 VALUES ('{id}', '{account}', 'ann', 'ann', '{name}', '{name}', '', '{visibility}', 'main', '{base}', 1, 1, 0, 1, {deleted_at})"
            ));
        }
        let pulls = [
            (1, &base, "'open', NULL"),
            (2, &public, "'open', NULL"),
            (3, &private, "'open', NULL"),
            (4, &deleted, "'open', NULL"),
            (5, &private, "'closed', 9"),
        ];
        for (number, source, state) in pulls {
            home.execute(&format!(
                "{PULL} ('{base}', {number}, 't', 't', {state}, '{account}', '{source}', 'ann', 'x', 'work', 'main', 1, 1, 1)"
            ));
        }
        with_harness!(&home, |conn, source| {
            conn.run_next_migration(source).unwrap();
        });
        let lines = home.lines(
            "SELECT number || ' ' || state || ' ' || coalesce(hidden, '-') || ' ' || coalesce(CAST(fetch_due_at AS TEXT), '-') AS line
             FROM pulls ORDER BY number",
        );
        assert_eq!(lines, ["1 open - 0", "2 open - 0", "3 closed source -", "4 closed source -", "5 closed - -"]);
    }
}

/// Earlier releases copied the whole file of a source to a fork, with all that nothing reached any more.
#[test]
fn the_upgrade_has_existing_forks_collected() {
    let account = "0199c3a2-0000-7000-8000-000000000001";
    let [root, fork, deleted] = [2, 3, 4].map(|n| format!("0199c3a2-0000-7000-8000-00000000000{n}"));
    for home in Home::each() {
        drop(home.open());
        with_harness!(&home, |conn, source| {
            while conn.pending_migrations(source.clone()).unwrap()[0].name().version().to_string() != "20261124000011" {
                conn.run_next_migration(source.clone()).unwrap();
            }
        });
        home.execute(&format!(
            "INSERT INTO accounts (id, name, name_key, kind, created_at) VALUES ('{account}', 'ann', 'ann', 'user', 1)"
        ));
        for (id, parent, deleted_at) in
            [(&root, "NULL", "NULL"), (&fork, root.as_str(), "NULL"), (&deleted, &root, "7")]
        {
            let parent = if parent == "NULL" { parent.to_owned() } else { format!("'{parent}'") };
            home.execute(&format!(
                "INSERT INTO databases (id, owner_id, owner_name, owner_key, name, name_key, search_key, visibility, default_branch, network_id,
                    parent_id, created_at, size_bytes, star_count, version, deleted_at)
                 VALUES ('{id}', '{account}', 'ann', 'ann', '{id}', '{id}', '', 'public', 'main', '{root}', {parent}, 5, 4096, 0, 1, {deleted_at})"
            ));
        }
        with_harness!(&home, |conn, source| {
            conn.run_next_migration(source).unwrap();
        });
        let due = home.lines("SELECT database_id || ' ' || due_at || ' ' || requests AS line FROM collections");
        assert_eq!(due, [format!("{fork} 5 1")]);
        assert_eq!(home.lines("SELECT DISTINCT '' || live_bytes AS line FROM databases"), ["4096"]);
        with_harness!(&home, |conn, source| {
            conn.run_pending_migrations(source).unwrap();
        });
        let formats = home.lines("SELECT DISTINCT '' || engine_format AS line FROM databases");
        assert_eq!(formats, ["12"], "the format of all earlier releases");
    }
}
