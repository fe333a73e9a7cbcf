//! Forks whose files are written before their first use, through the real binary: what becomes of the bytes that they share with
//! their source meanwhile.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use branchyard_testkit::{Actor, ServerProcess, files_below};
use serde_json::{Value, json};

use crate::process::program;

/// A word of a branch that is deleted before the fork.
const PLANTED: &str = "planted-7c1e9a44-on-a-branch";

/// A server on which `ada/d` has a table with a row, and had a branch with another one.
struct Yard {
    folder: tempfile::TempDir,
    ada: Actor,
    bob: Actor,
    server: ServerProcess,
}

impl Yard {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [ada, bob] = ["ada", "bob"].map(|name| program().user(folder.path(), name));
        let server = program().start(folder.path());
        let actor = |token, name| Actor::new(server.origin.clone(), Some(token), name);
        let yard = Self { ada: actor(ada, "ada"), bob: actor(bob, "bob"), folder, server };
        let ada = &yard.ada;
        ada.database("d");
        ada.write("ada/d", "main", "create table t (id integer primary key, v text); insert into t values (1, 'kept')");
        ada.post("/databases/ada/d/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
        ada.write("ada/d", "side", &format!("insert into t values (2, '{PLANTED}')"));
        ada.delete("/databases/ada/d/branches/side").expect(200);
        yard
    }

    fn restart(mut self) -> Self {
        self.server.kill();
        self.server = program().start(self.folder.path());
        let again =
            |actor: &Actor| Actor::new(self.server.origin.clone(), actor.token().map(str::to_owned), actor.name());
        (self.ada, self.bob) = (again(&self.ada), again(&self.bob));
        self
    }

    /// Returns the files of databases with this suffix.
    fn files(&self, suffix: &str) -> Vec<PathBuf> {
        let mut files = files_below(&self.folder.path().join("databases"));
        files.retain(|path| path.extension().is_some_and(|found| found == suffix));
        files
    }
}

fn has_planted(path: &Path) -> bool {
    fs::read(path).unwrap().windows(PLANTED.len()).any(|part| part == PLANTED.as_bytes())
}

fn fork(actor: &Actor, source: &str) -> Value {
    let operation = actor.finish(&actor.post(&format!("/databases/{source}/forks"), &json!({"owner": actor.name()})));
    assert_eq!(operation["status"], "succeeded", "{operation}");
    operation
}

fn rows(actor: &Actor, database: &str) -> Value {
    actor.read(database, "main", "select v from t order by id")
}

#[test]
fn a_fork_shares_the_file_of_its_source_until_it_is_used() {
    let yard = Yard::new();
    fork(&yard.bob, "ada/d");
    let shared = yard.files("source");
    assert_eq!((yard.files("db").len(), shared.len()), (1, 1));
    assert_eq!(fs::metadata(&shared[0]).unwrap().nlink(), 2);
    assert!(has_planted(&shared[0]), "the bytes are those of the source");
    let size = |yard: &Yard| yard.bob.get("/databases/bob/d").expect(200).data()["size_bytes"].as_u64().unwrap();
    assert_eq!(size(&yard), shared[0].metadata().unwrap().len());

    // Nothing that becomes of the source matters.
    let later = yard.ada.write("ada/d", "main", "insert into t values (3, 'later')");
    let yard = yard.restart();
    yard.ada.delete("/databases/ada/d").expect(200);
    let yard = yard.restart();
    assert_eq!(yard.files("source").len(), 1);
    assert_eq!(rows(&yard.bob, "bob/d"), json!([["kept"]]));
    yard.bob.get(&format!("/databases/bob/d/commits?ref={later}")).expect(404);
    assert_eq!(yard.files("source"), Vec::<PathBuf>::new());
    assert!(!yard.files("db").iter().any(|path| has_planted(path)), "the fork has what its refs reach only");
    yard.bob.write("bob/d", "main", "insert into t values (4, 'own')");
    assert_eq!(rows(&yard.bob, "bob/d"), json!([["kept"], ["own"]]));
}

#[test]
fn a_purge_leaves_nothing_in_forks_that_were_not_used() {
    let yard = Yard::new();
    fork(&yard.bob, "ada/d");
    let operation = yard.ada.finish(&yard.ada.post("/databases/ada/d/purge", &json!({})));
    assert_eq!(operation["status"], "succeeded", "{operation}");
    assert_eq!(operation["result"]["kept_by_forks"], json!([]), "{operation}");
    assert_eq!(yard.files("source"), Vec::<PathBuf>::new());
    assert!(!files_below(&yard.folder.path().join("databases")).iter().any(|path| has_planted(path)));
    assert_eq!(rows(&yard.bob, "bob/d"), json!([["kept"]]));
}

#[test]
fn a_fork_that_was_not_used_is_backed_up_checked_and_deleted() {
    let yard = Yard::new();
    fork(&yard.bob, "ada/d");
    let target = yard.folder.path().join("backup");
    program().succeed(yard.folder.path(), &["backup", "--to", &target.display().to_string()]);
    let restored = tempfile::tempdir().unwrap();
    program().succeed(restored.path(), &["restore", "--from", &target.display().to_string()]);
    let server = program().start(restored.path());
    let bob = Actor::new(server.origin.clone(), yard.bob.token().map(str::to_owned), "bob");
    assert_eq!(rows(&bob, "bob/d"), json!([["kept"]]));

    yard.bob.delete("/databases/bob/d").expect(200);
    fork(&yard.bob, "ada/d");
    assert_eq!(yard.files("source").len(), 1);
    yard.bob.delete("/databases/bob/d").expect(200);
    assert_eq!((yard.files("db").len(), yard.files("source").len()), (1, 0));
    let said = program().succeed(yard.folder.path(), &["doctor"]);
    assert!(said.contains("everything is in order"), "{said}");
}
