//! Encryption of what is in the store of databases.

use std::fs;
use std::path::{Path, PathBuf};

use branchyard_testkit::{ServerProcess, files_below, succeed};

use crate::durable_home::{Cluster, Home, again, count, lost_changes_come_back};

const KEY_FILE: &str = "BRANCHYARD_STORE__ENCRYPTION_KEY_FILE";
const KEY_COMMAND: &str = "BRANCHYARD_STORE__ENCRYPTION_KEY_COMMAND";
const PREVIOUS_KEY_FILE: &str = "BRANCHYARD_STORE__ENCRYPTION_PREVIOUS_KEY_FILE";

fn key_file(folder: &Path, byte: u8) -> String {
    let path = folder.join(format!("store-key-{byte}"));
    fs::write(&path, [byte; 32]).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the files below a folder of the store that have this text in them.
fn with_text(cluster: &Cluster, folder: &str, text: &str) -> Vec<PathBuf> {
    let has = |file: &PathBuf| {
        let bytes = fs::read(file).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    };
    files_below(&cluster.store.join(folder)).into_iter().filter(has).collect()
}

fn refused(cluster: &Cluster) -> String {
    let output = cluster.command("first", &["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts a server that has to bring each database from the store.
fn without_copies(cluster: &Cluster, server: ServerProcess) -> ServerProcess {
    server.terminate();
    fs::remove_dir_all(cluster.folder("first").join("databases")).unwrap();
    cluster.start("first")
}

#[test]
fn a_store_is_sealed_from_when_a_key_is_set_and_opens_with_that_key_only() {
    let Some(home) = Home::new() else { return };
    let mut cluster = home.cluster("sealed");
    let server = cluster.start("first");
    let ada = cluster.user("first", &server);
    ada.database("d");
    ada.write("ada/d", "main", "create table t (n integer primary key, v text)");
    ada.write("ada/d", "main", "insert into t values (1, 'in-clear-before')");
    assert!(!with_text(&cluster, "segments", "in-clear-before").is_empty(), "texts can be found");
    server.terminate();

    let (one, two) = (key_file(home.dir.path(), 1), key_file(home.dir.path(), 2));
    cluster.settings = vec![(KEY_FILE, one.clone())];
    let server = cluster.start("first");
    let ada = again(&ada, &server);
    ada.write("ada/d", "main", "insert into t values (2, 'sealed-of-old')");
    ada.database("e");
    ada.write("ada/e", "main", "create table t (n integer primary key, v text)");
    ada.write("ada/e", "main", "insert into t values (1, 'sealed-of-new'), (2, 'x')");
    for text in ["sealed-of-old", "sealed-of-new"] {
        assert_eq!(with_text(&cluster, "", text), Vec::<PathBuf>::new(), "{text}");
    }
    assert_eq!(files_below(&cluster.store.join("keys")).len(), 2, "each database has a key");
    let server = without_copies(&cluster, server);
    let ada = again(&ada, &server);
    assert_eq!((count(&ada, "ada/d", "main"), count(&ada, "ada/e", "main")), ("2".into(), "2".into()));
    server.terminate();
    assert_eq!(succeed(&mut cluster.command("first", &["doctor"])), "everything is in order");

    // Another key, and none.
    cluster.settings = vec![(KEY_FILE, two.clone())];
    let error = refused(&cluster);
    assert!(error.contains("is wrapped by master key") && error.contains("store.encryption_key_file"), "{error}");
    cluster.settings = Vec::new();
    let error = refused(&cluster);
    assert!(
        error.contains("sealed under keys of master key") && error.contains("store.encryption_key_file"),
        "{error}"
    );
    let error = cluster.command("first", &["store", "rewrap"]).output().unwrap();
    assert_eq!(error.status.code(), Some(1));

    // To another key.
    cluster.settings = vec![(KEY_FILE, two.clone()), (PREVIOUS_KEY_FILE, one.clone())];
    let server = cluster.start("first");
    assert_eq!(count(&again(&ada, &server), "ada/e", "main"), "2");
    let said = succeed(&mut cluster.command("second", &["store", "rewrap"]));
    assert!(said.starts_with("2 data keys were wrapped anew, and 0 already were"), "{said}");
    server.terminate();
    cluster.settings = vec![(KEY_FILE, two.clone())];
    let server = cluster.start("first");
    let server = without_copies(&cluster, server);
    let ada = again(&ada, &server);
    assert_eq!((count(&ada, "ada/d", "main"), count(&ada, "ada/e", "main")), ("2".into(), "2".into()));
    ada.write("ada/d", "main", "insert into t values (3, 'still-sealed')");
    assert_eq!(with_text(&cluster, "", "still-sealed"), Vec::<PathBuf>::new());
    server.terminate();
    cluster.settings = vec![(KEY_FILE, one)];
    assert!(refused(&cluster).contains("is wrapped by master key"));

    // Without a key for new objects.
    cluster.settings = vec![(PREVIOUS_KEY_FILE, two)];
    let server = cluster.start("first");
    let ada = again(&ada, &server);
    ada.write("ada/d", "main", "insert into t values (4, 'in-clear-after')");
    assert!(!with_text(&cluster, "segments", "in-clear-after").is_empty());
    let server = without_copies(&cluster, server);
    assert_eq!(count(&again(&ada, &server), "ada/d", "main"), "4");
}

#[test]
fn a_changed_object_is_not_served() {
    let Some(home) = Home::new() else { return };
    let mut cluster = home.cluster("changed");
    cluster.settings = vec![(KEY_FILE, key_file(home.dir.path(), 1))];
    let server = cluster.start("first");
    let ada = cluster.user("first", &server);
    ada.database("d");
    ada.write("ada/d", "main", "create table t (n integer primary key); insert into t values (1)");
    let server = without_copies(&cluster, server);
    server.terminate();
    fs::remove_dir_all(cluster.folder("first").join("databases")).unwrap();
    for file in files_below(&cluster.store.join("segments")) {
        let mut bytes = fs::read(&file).unwrap();
        bytes[40] ^= 1;
        fs::write(&file, bytes).unwrap();
    }
    let server = cluster.start("first");
    let ada = again(&ada, &server);
    let body = serde_json::json!({"ref": "main", "q": "select count(*) from t"});
    ada.post("/databases/ada/d/sql", &body).expect(500);
}

#[test]
fn a_command_has_the_master_key() {
    let Some(home) = Home::new() else { return };
    let mut cluster = home.cluster("command");
    let (script, fails) = (home.dir.path().join("kms"), home.dir.path().join("fails"));
    // Stands for a key service: it turns the bytes around, and may be away.
    let text = format!(
        "#!/bin/sh\nif [ -e {} ]; then echo 'the service is away' >&2; exit 7; fi\n\
         LC_ALL=C exec tr '\\000-\\377' '\\200-\\377\\000-\\177'\n",
        fails.display()
    );
    fs::write(&script, text).unwrap();
    let command = format!("[\"sh\", \"{}\", \"--key\", \"yard\"]", script.display());
    cluster.settings = vec![(KEY_COMMAND, command)];
    let server = cluster.start("first");
    let ada = cluster.user("first", &server);
    ada.database("d");
    ada.write("ada/d", "main", "create table t (n integer primary key, v text)");
    ada.write("ada/d", "main", "insert into t values (1, 'sealed-by-command')");
    assert_eq!(with_text(&cluster, "", "sealed-by-command"), Vec::<PathBuf>::new());
    let server = without_copies(&cluster, server);
    let ada = again(&ada, &server);
    assert_eq!(count(&ada, "ada/d", "main"), "1");
    // While the service is away, what was opened stays open, and a new database waits.
    fs::write(&fails, "").unwrap();
    ada.write("ada/d", "main", "insert into t values (2, 'x')");
    ada.post("/databases", &serde_json::json!({"name": "e", "owner": "ada", "visibility": "public"})).expect(503);
    server.terminate();
    assert!(refused(&cluster).contains("the service is away"));
    fs::remove_file(&fails).unwrap();
    let server = cluster.start("first");
    assert_eq!(count(&again(&ada, &server), "ada/d", "main"), "2");
}

/// The key was made after the state that Postgres is restored to, so only the store has it.
#[test]
fn what_a_restored_postgres_has_lost_is_opened_with_the_key_in_the_store() {
    let Some(home) = Home::new() else { return };
    let key = key_file(home.dir.path(), 1);
    lost_changes_come_back(&home, home.cluster("forgotten"), &[(KEY_FILE, key)]);
}
