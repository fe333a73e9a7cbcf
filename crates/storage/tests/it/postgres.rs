//! Failures that only Postgres can cause.

use branchyard_domain::ports::{Metadata, MetadataError, WriteKeys};
use branchyard_storage::{OpenError, Store, StoreOptions};

use crate::home::Home;

#[test]
fn connections_that_died_are_replaced() {
    let Some(home) = Home::postgres() else { return };
    let store = home.ready();
    drop(store.read().unwrap());
    drop(store.write(&WriteKeys::any()).unwrap());
    home.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    drop(store.read().unwrap());
    drop(store.write(&WriteKeys::any()).unwrap());
}

#[test]
fn a_connection_that_dies_in_a_unit_makes_it_unavailable() {
    let Some(home) = Home::postgres() else { return };
    let store = home.ready();
    let mut tx = store.write(&WriteKeys::any()).unwrap();
    home.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let result = tx.databases().ids(None, 1);
    assert!(matches!(result, Err(MetadataError::Unavailable(_))), "{result:?}");
    drop(tx);
    drop(store.write(&WriteKeys::any()).unwrap());
}

#[test]
fn waiting_for_another_node_ends() {
    let Some(home) = Home::postgres() else { return };
    home.ready();
    let options = StoreOptions { wait: std::time::Duration::from_millis(300), ..StoreOptions::default() };
    let here = Store::open(&home.url(), &options).unwrap();
    let there = Store::open(&home.url(), &options).unwrap();
    let tx = here.write(&WriteKeys::any()).unwrap();
    assert!(matches!(there.write(&WriteKeys::any()).err(), Some(MetadataError::Unavailable(_))));
    drop(there.read().unwrap());
    drop(tx);
    drop(there.write(&WriteKeys::any()).unwrap());
}

#[test]
fn a_server_that_is_away_is_said_so() {
    let options = StoreOptions { wait: std::time::Duration::from_millis(500), ..StoreOptions::default() };
    let error = Store::open("postgres://nobody:hidden@127.0.0.1:1/x", &options).err().unwrap();
    assert!(matches!(error, OpenError::Connect { .. }));
    assert!(!error.to_string().contains("hidden"), "{error}");
}

#[test]
fn a_server_that_cannot_lock_rows_is_refused_by_name() {
    let Some(home) = Home::postgres() else { return };
    let store = home.ready();
    store.check_locks().unwrap();
    // Rows of a view that counts cannot be locked.
    home.execute("DROP TABLE server; CREATE VIEW server AS SELECT count(*) AS id FROM accounts");
    let refused = store.check_locks().unwrap_err();
    assert!(matches!(&refused, OpenError::Locks { server, .. } if server.contains("PostgreSQL")), "{refused}");
    store.check_locks().unwrap_err();
}
