//! The store in a folder.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use branchyard_domain::ports::{DatabaseStore, StoreError};
use branchyard_domain_testing::suites;
use branchyard_object_store::{StoreOptions, StoreUrl, open};

use crate::key;

/// Names the folder of a process that stores objects under `strace`.
const TRACED: &str = "BRANCHYARD_TEST_TRACED_STORE";

fn store(folder: &Path) -> Arc<dyn DatabaseStore> {
    let url = StoreUrl::parse(&format!("file://{}", folder.display())).unwrap();
    open(&url, &StoreOptions::default()).unwrap()
}

#[test]
fn a_folder_keeps_every_promise() {
    let dir = tempfile::tempdir().unwrap();
    suites::database_store::run_all(&*store(&dir.path().join("not/there/yet")));
    assert_eq!(fs::read_dir(dir.path().join("not/there/yet/.incoming")).unwrap().count(), 0);
}

#[test]
fn of_threads_that_put_one_key_exactly_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    suites::database_store::races(&*store(dir.path()), 100);
}

#[test]
fn objects_are_there_for_the_next_process_and_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (store(dir.path()), store(dir.path()));
    one.put(&key("a/b"), b"1").unwrap();
    assert_eq!(other.read_small(&key("a/b"), 10).unwrap(), b"1");
    other.put(&key("a/c"), b"2").unwrap();
    one.remove(&[key("a/b")]).unwrap();
    drop((one, other));
    let found = store(dir.path()).list(None, None, 10).unwrap();
    assert_eq!(found.iter().map(|info| info.key.as_str()).collect::<Vec<_>>(), ["a/c"]);
    assert!(found[0].modified.as_seconds() > 1_700_000_000);
}

#[test]
fn only_old_files_of_killed_processes_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    drop(store(dir.path()));
    let incoming = dir.path().join(".incoming");
    for name in ["old", "new"] {
        fs::write(incoming.join(name), "half an object").unwrap();
    }
    let now = fs::metadata(incoming.join("new")).unwrap().modified().unwrap();
    let old = fs::File::options().write(true).open(incoming.join("old")).unwrap();
    old.set_modified(now - Duration::from_secs(25 * 60 * 60)).unwrap();
    let store = store(dir.path());
    assert_eq!(store.list(None, None, 10).unwrap(), []);
    let left: Vec<_> = fs::read_dir(&incoming).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["new"]);
}

#[test]
fn foreign_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for name in [".hidden", "with space", "é"] {
        fs::write(dir.path().join(name), "").unwrap();
        fs::create_dir(dir.path().join(format!("{name}.d"))).unwrap();
        fs::write(dir.path().join(format!("{name}.d/x")), "").unwrap();
    }
    store.put(&key("own"), b"").unwrap();
    assert_eq!(store.list(None, None, 10).unwrap().len(), 1);
}

#[test]
fn a_folder_that_goes_and_comes_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.put(&key("a/b/c"), b"1").unwrap();
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    assert!(matches!(store.info(&key("a/b/c")), Err(StoreError::NotFound(_))));
    store.put(&key("a/b/c"), b"2").unwrap();
    assert_eq!(store.read_small(&key("a/b/c"), 10).unwrap(), b"2");
}

#[test]
fn unusable_folders_are_reported_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let url = StoreUrl::parse(&format!("file://{}/below", file.display())).unwrap();
    let error = open(&url, &StoreOptions::default()).err().unwrap();
    assert!(matches!(error, StoreError::Rejected { .. }), "{error:?}");
    assert!(error.to_string().contains("a file has the name of a folder of the store"), "{error}");

    let store = store(dir.path());
    let error = store.put(&key("file/below"), b"").unwrap_err();
    assert!(matches!(error, StoreError::Rejected { .. }), "{error:?}");
    assert!(matches!(store.info(&key("file/below")), Err(StoreError::NotFound(_))));
}

#[test]
fn a_full_disk_is_reported_as_such() {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    assert!(StoreError::unavailable("cannot write object a", full).is_full());
    assert!(!StoreError::unavailable("cannot write object a", std::io::Error::other("x")).is_full());
    assert!(StoreError::Io(std::io::ErrorKind::StorageFull.into()).is_full());
}

/// The part of the test below that runs under `strace`.
#[test]
fn traced_process() {
    let Some(folder) = std::env::var_os(TRACED) else { return };
    let store = store(Path::new(&folder));
    store.put(&key("deep/folder/one"), b"first").unwrap();
    store.put(&key("deep/folder/two"), b"second").unwrap();
    store.replace(&key("mark"), b"third").unwrap();
    store.put_from(&key("deep/other/large"), 3_000_000, &mut std::io::repeat(7)).unwrap();
    store.remove(&[key("deep/folder/one")]).unwrap();
}

#[test]
fn objects_and_their_names_are_synced_before_a_call_returns() {
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var_os("BRANCHYARD_TEST_REQUIRE_STRACE").is_none(), "strace is not installed");
        eprintln!("skipped: strace is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (root, log) = (dir.path().join("above/store"), dir.path().join("log"));
    let traced = Command::new("strace")
        .args([
            "-f",
            "-y",
            "-qq",
            "-e",
            "trace=write,fsync,fdatasync,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,unlink,unlinkat",
        ])
        .arg("-o")
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "folder::traced_process", "--test-threads", "1"])
        .env(TRACED, &root)
        .output()
        .unwrap();
    let log = fs::read_to_string(&log).unwrap_or_default();
    if !traced.status.success() && !log.contains("fsync") {
        // Some containers let no process trace another one.
        assert!(std::env::var_os("BRANCHYARD_TEST_REQUIRE_STRACE").is_none(), "{traced:?}");
        eprintln!("skipped: strace cannot trace here");
        return;
    }
    assert!(traced.status.success(), "{traced:?}");
    let root = root.canonicalize().unwrap();
    let synced_names = check_order(&log, &root);
    for name in [
        "deep/folder/one",
        "deep/folder/two",
        "mark",
        "deep/other/large",
        "deep",
        "deep/folder",
        "deep/other",
        ".",
        "..",
    ] {
        assert!(synced_names.contains_key(name), "{name} was not made durable:\n{log}");
    }
    assert_eq!(synced_names["deep/folder/one"], 2, "it was stored and removed:\n{log}");
}

/// Checks that files are synced after they were written and before they get their name. Returns which names below `root` were made
/// or removed, and how often their folders were synced after that.
fn check_order(log: &str, root: &Path) -> HashMap<String, u32> {
    let relative = |path: &str| match Path::new(path).strip_prefix(root) {
        Ok(inside) if inside == Path::new("") => ".".to_owned(),
        Ok(inside) => inside.to_str().unwrap().to_owned(),
        Err(_) if Some(Path::new(path)) == root.parent() => "..".to_owned(),
        Err(_) => path.to_owned(),
    };
    // Files with bytes that are not synced, and names whose folders are not synced.
    let (mut dirty, mut unsynced): (Vec<String>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    let mut durable: HashMap<String, u32> = HashMap::new();
    let strace = |line: &str, which: usize| line.split('"').nth(which * 2 + 1).unwrap_or_default().to_owned();
    let file = |line: &str| {
        line.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(path, _)| path).to_owned()
    };
    for line in log.lines().filter(|line| !line.contains(" = -1 ")) {
        let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        let name = call.split('(').next().unwrap_or_default();
        match name {
            "write" if file(call).contains("/.incoming/") => dirty.push(file(call)),
            "fsync" | "fdatasync" => {
                let synced = file(call);
                dirty.retain(|path| *path != synced);
                unsynced.retain(|(folder, made)| {
                    if *folder == synced {
                        *durable.entry(relative(made)).or_default() += 1;
                    }
                    *folder != synced
                });
            }
            "mkdir" | "mkdirat" | "rename" | "renameat" | "renameat2" | "link" | "linkat" | "unlink" | "unlinkat" => {
                let is_move = name.starts_with("rename") || name.starts_with("link");
                let (from, made) = (strace(call, 0), strace(call, usize::from(is_move)));
                assert!(!is_move || !dirty.contains(&from), "{from} got its name before it was synced:\n{log}");
                if !made.contains("/.incoming/") {
                    let folder = Path::new(&made).parent().unwrap().to_str().unwrap().to_owned();
                    unsynced.push((folder, made));
                }
            }
            _ => {}
        }
    }
    assert!(dirty.is_empty(), "{dirty:?} were not synced:\n{log}");
    assert!(unsynced.is_empty(), "{unsynced:?} were not made durable:\n{log}");
    durable
}

#[test]
fn times_before_the_epoch_are_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.put(&key("old"), b"").unwrap();
    let file = fs::File::options().write(true).open(dir.path().join("old")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH - Duration::from_secs(5)).unwrap();
    assert_eq!(store.info(&key("old")).unwrap().modified.as_seconds(), -5);
}
