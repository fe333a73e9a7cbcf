//! `backup` beside a running server, `restore` into new stores, and the cases that both reject.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use branchyard_testkit::{AMPLE, Actor, ServerProcess, files_below, wait_until};

use crate::process::program;

fn start(dir: &Path) -> (ServerProcess, Actor) {
    let server = program().start(dir);
    let token = program().user(dir, "ada");
    let ada = Actor::new(server.origin.clone(), Some(token), "ada");
    ada.database("lakes");
    ada.database("rivers");
    write(&ada, "create table t (n integer primary key)");
    (server, ada)
}

fn write(ada: &Actor, statements: &str) {
    ada.write("ada/rivers", "main", statements);
}

fn refused(dir: &Path, args: &[&str]) -> String {
    let output = program().run(dir, args);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_backup_taken_under_writes_is_restored_whole() {
    let home = tempfile::tempdir().unwrap();
    let (dir, to) = (home.path().join("data"), home.path().join("backup"));
    let (server, ada) = start(&dir);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..200 {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                write(&ada, &format!("insert into t values ({n})"));
            }
        });
        // Waits until there is a row to restore.
        let count = || ada.read("ada/rivers", "main", "select count(*) from t");
        wait_until("a row", AMPLE, || count() != serde_json::json!([["0"]]));
        let said = program().succeed(&dir, &["backup", "--to", to.to_str().unwrap()]);
        assert!(said.starts_with("2 databases, "), "{said}");
        stop.store(true, Ordering::Relaxed);
    });
    assert!(refused(&dir, &["backup", "--to", to.to_str().unwrap()]).contains("not empty"));
    assert!(refused(&dir, &["restore", "--from", to.to_str().unwrap()]).contains("another server"));
    server.terminate();
    assert!(refused(&dir, &["restore", "--from", to.to_str().unwrap()]).contains("restore into a new data folder"));

    let back = home.path().join("back");
    let said = program().succeed(&back, &["restore", "--from", to.to_str().unwrap()]);
    assert!(said.ends_with("\nrestored 2 databases; everything is in order"), "{said}");
    let server = program().start(&back);
    let ada = Actor::new(server.origin.clone(), ada.token().map(str::to_owned), "ada");
    let found = ada.read("ada/rivers", "main", "select count(*), max(n) from t")[0].clone();
    let count: i64 = found[0].as_str().unwrap().parse().unwrap();
    assert!(count > 0 && found[1] == (count - 1).to_string().as_str(), "{found}");
    write(&ada, "insert into t values (1000)");
    server.terminate();
    assert_eq!(program().succeed(&back, &["doctor"]), "everything is in order");
}

#[test]
fn a_damaged_or_incomplete_backup_is_refused_before_anything_is_written() {
    let home = tempfile::tempdir().unwrap();
    let (dir, to) = (home.path().join("data"), home.path().join("backup"));
    let (server, _) = start(&dir);
    program().succeed(&dir, &["backup", "--to", to.to_str().unwrap()]);
    server.terminate();
    let restore = |expected: &str| {
        let back = tempfile::tempdir().unwrap();
        let said = refused(back.path(), &["restore", "--from", to.to_str().unwrap()]);
        assert!(said.contains(expected), "{said}");
        assert!(!back.path().join("databases").exists());
    };
    let file = fs::read_dir(to.join("databases")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    restore("damaged");
    fs::remove_file(&file).unwrap();
    restore("cannot read databases/");
    fs::write(&file, &whole).unwrap();
    fs::rename(to.join("manifest.json"), to.join("m")).unwrap();
    restore("not a complete backup");
}

/// With the wrong metadata store, all database files would look unreferenced and would be deleted.
#[test]
fn a_server_on_the_wrong_metadata_store_does_not_start() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let (server, _) = start(&dir);
    server.terminate();
    let files = || fs::read_dir(dir.join("databases")).unwrap().count();
    let before = files();
    let wrong = home.path().join("other.sqlite");
    program().succeed(&dir, &["migrate", "--metadata-url", wrong.to_str().unwrap()]);
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["doctor"], &["backup", "--to", "x"]] {
        let output = program().on(&dir, command).arg("--metadata-url").arg(&wrong).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("another metadata store"), "{command:?}: {said}");
    }
    assert_eq!(files(), before);
    assert_eq!(program().succeed(&dir, &["doctor"]), "everything is in order");
}

/// Two identity files and the recipient of the first.
fn identities(folder: &Path) -> ([String; 2], String) {
    use age::secrecy::ExposeSecret as _;
    let keys = [age::x25519::Identity::generate(), age::x25519::Identity::generate()];
    let files = ["mine", "other"].map(|name| folder.join(name).to_str().unwrap().to_owned());
    for (file, key) in files.iter().zip(&keys) {
        fs::write(file, format!("# an identity\n{}\n", key.to_string().expose_secret())).unwrap();
    }
    (files, keys[0].to_public().to_string())
}

#[test]
fn an_encrypted_backup_opens_with_its_identity_only_and_shows_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (dir, to) = (home.path().join("data"), home.path().join("backup"));
    let ([mine, other], recipient) = identities(home.path());
    let (server, ada) = start(&dir);
    write(&ada, "create table planted (t text); insert into planted values ('planted-in-rivers')");
    let wrong = ["backup", "--to", to.to_str().unwrap(), "--encrypt-to", "age1nonsense"];
    assert!(refused(&dir, &wrong).contains("number 1 is not an age recipient"));
    assert!(!to.exists());
    let args = ["backup", "--to", to.to_str().unwrap(), "--with-keys", "--encrypt-to", &recipient];
    program().succeed(&dir, &args);
    server.terminate();
    let ring = fs::read(dir.join("server.key")).unwrap();
    let found = files_below(&to);
    assert_eq!(found.len(), 6, "{found:?}");
    for path in &found {
        let is_manifest = path.ends_with("manifest.json");
        assert!(is_manifest || path.extension().is_some_and(|extension| extension == "age"), "{path:?}");
        let bytes = fs::read(path).unwrap();
        for plain in [&b"planted-in-rivers"[..], b"ada@example.test", &ring[20..]] {
            assert!(!bytes.windows(plain.len()).any(|window| window == plain), "{path:?}");
        }
    }
    #[cfg(unix)]
    assert_eq!(branchyard::private::readable_by_others(&to).unwrap(), (Vec::new(), 0));

    let restore = |flags: &[&str]| {
        let back = tempfile::tempdir().unwrap();
        let said = refused(back.path(), &[&["restore", "--from", to.to_str().unwrap()], flags].concat());
        assert_eq!(files_below(back.path()), Vec::<std::path::PathBuf>::new(), "nothing is written");
        said
    };
    assert!(restore(&[]).contains("--identity FILE"));
    assert!(restore(&["--identity", &other]).contains("encrypted to other recipients"));
    assert!(restore(&["--identity", "/nowhere"]).contains("cannot read the identity file"));
    let dump = to.join("metadata.ndjson.age");
    let whole = fs::read(&dump).unwrap();
    fs::write(&dump, &whole[..whole.len() - 1]).unwrap();
    assert!(restore(&["--identity", &mine]).contains("damaged"));
    fs::write(&dump, &whole).unwrap();

    let back = home.path().join("back");
    let said = program().succeed(&back, &["restore", "--from", to.to_str().unwrap(), "--identity", &mine]);
    assert_eq!(said, "restored 2 databases; everything is in order");
    assert_eq!(fs::read(back.join("server.key")).unwrap(), ring);
    assert!(!back.join("restored.tmp").exists());
    let server = program().start(&back);
    let ada = Actor::new(server.origin.clone(), ada.token().map(str::to_owned), "ada");
    assert_eq!(ada.read("ada/rivers", "main", "select t from planted"), serde_json::json!([["planted-in-rivers"]]));
    server.terminate();
}
