//! The commands of the client, each a process with a home of its own, against a server with TLS.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use branchyard_testkit::Actor;
use serde_json::json;

use crate::remote_clients::SecureServer;

const TABLE: &str =
    "create table trees (id integer primary key, name text); insert into trees values (1, 'oak'), (2, 'ash')";

/// A folder in which a user works.
struct Desk<'a> {
    secure: &'a SecureServer,
    home: tempfile::TempDir,
}

impl<'a> Desk<'a> {
    fn new(secure: &'a SecureServer) -> Self {
        Self { secure, home: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_branchyard"))
            .args(arguments)
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env("DOLTLITE_CA_FILE", self.secure.authority())
            .output()
            .unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    /// Makes a key, and adds it to a user.
    fn key(&self, user: &Actor) {
        let made = self.succeeds(&["key", "new"]);
        let public_key = made.lines().find_map(|line| line.strip_prefix("public key ")).unwrap();
        user.post("/user/keys", &json!({"name": "desk", "public_key": public_key})).expect(201);
    }

    /// Runs statements of the owner of the file.
    fn sql(&self, name: &str, statements: &[&str]) -> Vec<String> {
        let file = rusqlite::Connection::open(self.path(name)).unwrap();
        let (last, before) = statements.split_last().unwrap();
        for statement in before {
            let mut prepared = file.prepare(statement).unwrap();
            let mut rows = prepared.raw_query();
            while rows.next().unwrap().is_some() {}
        }
        let mut prepared = file.prepare(last).unwrap();
        prepared.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }
}

fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}

#[test]
fn a_private_database_is_cloned_changed_pushed_and_pulled() {
    let secure = SecureServer::start();
    let ada = secure.user("ada");
    ada.post("/databases", &json!({"owner": "ada", "name": "trees", "visibility": "private"})).expect(201);
    ada.write("ada/trees", "main", TABLE);
    ada.post("/databases/ada/trees/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.post("/databases/ada/trees/tags", &json!({"name": "v1", "from": {"branch": "main"}})).expect(201);
    let address = secure.address("ada/trees");
    let desk = Desk::new(&secure);
    let refused = desk.fails(&["clone", &address]);
    assert!(refused.contains("cannot clone") && refused.contains("404"), "{refused}");
    desk.key(&ada);
    let cloned = desk.succeeds(&["clone", &address]);
    assert_eq!(cloned, format!("trees.db has 2 branches and 1 tag of {address}\n"));
    assert!(!exists(&desk.path("trees.db.part")) && !exists(&desk.path("trees.db.new")));
    assert_eq!(desk.succeeds(&["remote", "list"]), format!("origin\t{address}\n"));
    assert_eq!(desk.sql("trees.db", &["select name from trees order by id"]), ["oak", "ash"]);
    assert_eq!(desk.sql("trees.db", &["pragma integrity_check"]), ["ok"]);
    assert_eq!(
        desk.sql("trees.db", &["select name from dolt_remote_branches order by name"]),
        ["remotes/origin/main", "remotes/origin/side"]
    );
    assert_eq!(desk.sql("trees.db", &["select tag_name from dolt_tags"]), ["v1"]);
    let exists_already = desk.fails(&["clone", &address]);
    assert!(exists_already.contains("trees.db exists"), "{exists_already}");

    desk.sql("trees.db", &["insert into trees values (3, 'elm')", "select dolt_commit('-A', '-m', 'an elm')"]);
    assert_eq!(desk.succeeds(&["push"]), "origin has main\n");
    let names = "select name from trees order by id";
    assert_eq!(ada.read("ada/trees", "main", names), json!([["oak"], ["ash"], ["elm"]]));
    ada.write("ada/trees", "main", "insert into trees values (4, 'yew')");
    desk.succeeds(&["pull"]);
    assert_eq!(desk.sql("trees.db", &[names]), ["oak", "ash", "elm", "yew"]);
    desk.succeeds(&["push", "main:new"]);
    ada.get("/databases/ada/trees/branches/new").expect(200);
    desk.succeeds(&["push", ":new"]);
    ada.get("/databases/ada/trees/branches/new").expect(404);

    ada.write("ada/trees", "main", "insert into trees values (5, 'fir')");
    desk.sql("trees.db", &["insert into trees values (6, 'box')", "select dolt_commit('-A', '-m', 'a box')"]);
    let behind = desk.fails(&["push"]);
    assert!(behind.contains("`branchyard pull` merges what is there"), "{behind}");
    desk.succeeds(&["push", "--force"]);
    assert_eq!(ada.read("ada/trees", "main", names), json!([["oak"], ["ash"], ["elm"], ["yew"], ["box"]]));
}

#[test]
fn a_clone_that_was_cut_goes_on() {
    let secure = SecureServer::start();
    let ada = secure.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    let many = "with recursive n(x) as (select 10 union all select x + 1 from n where x < 20000)
        insert into trees select x, hex(randomblob(20)) from n";
    ada.write("ada/trees", "main", many);
    let address = secure.address("ada/trees");
    let desk = Desk::new(&secure);
    // What is in the way of the new file ends the clone after everything was received.
    std::fs::create_dir(desk.path("trees.db.new")).unwrap();
    assert!(desk.fails(&["clone", &address]).contains("cannot remove trees.db.new"));
    std::fs::remove_dir(desk.path("trees.db.new")).unwrap();
    let part = std::fs::OpenOptions::new().write(true).open(desk.path("trees.db.part")).unwrap();
    let length = part.metadata().unwrap().len();
    part.set_len(length * 3 / 4).unwrap();
    drop(part);
    let output = desk.run(&["clone", &address]);
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && note.contains(" objects were there"), "{note}");
    let numbers: Vec<u64> = note.split(|c: char| !c.is_ascii_digit()).filter_map(|text| text.parse().ok()).collect();
    assert!(numbers[0] < *numbers.last().unwrap(), "most were there: {note}");
    assert_eq!(desk.sql("trees.db", &["select count(*) || '' from trees"]), ["19993"]);
    assert_eq!(desk.sql("trees.db", &["pragma integrity_check"]), ["ok"]);
}

#[test]
fn files_remotes_and_keys_are_named_in_errors() {
    let secure = SecureServer::start();
    let desk = Desk::new(&secure);
    assert!(desk.fails(&["pull"]).contains("there is no file that ends in .db"));
    assert!(desk.fails(&["push", "--file", "none.db"]).contains("cannot open none.db"));
    assert!(desk.fails(&["clone", "trees"]).contains("must be an absolute URL"));
    assert!(desk.fails(&["clone", "https://127.0.0.1:9/ada/trees"]).contains("refuses connections"));
    assert!(!exists(&desk.path("trees.db.part")), "nothing arrived");
    desk.sql("own.db", &["create table t (id integer primary key)", "select dolt_commit('-A', '-m', 'one')"]);
    assert_eq!(desk.succeeds(&["remote", "list"]), "");
    desk.succeeds(&["remote", "add", "origin", &secure.address("ada/none")]);
    assert!(desk.fails(&["remote", "add", "origin", &secure.address("ada/none")]).contains("already exists"));
    assert!(desk.fails(&["remote", "add", "other", "ftp://yard.example/a/b"]).contains("must be an absolute URL"));
    let unsigned = desk.fails(&["push"]);
    assert!(unsigned.contains("credential"), "{unsigned}");
    desk.succeeds(&["remote", "remove", "origin"]);
    assert!(desk.fails(&["remote", "remove", "origin"]).contains("remote"));
    desk.sql("second.db", &["select 1 || ''"]);
    assert!(desk.fails(&["pull"]).contains("there are 2 files"));
    assert_eq!(desk.succeeds(&["key", "list"]), "");
    desk.succeeds(&["key", "new"]);
    let listed = desk.succeeds(&["key", "list"]);
    assert!(listed.starts_with("* ") && listed.lines().count() == 1, "{listed}");
}

#[test]
fn an_existing_file_fills_a_new_database() {
    let secure = SecureServer::start();
    let ada = secure.user("ada");
    ada.database("own");
    let desk = Desk::new(&secure);
    desk.key(&ada);
    desk.sql(
        "own.db",
        &[
            "create table t (id integer primary key)",
            "insert into t values (7)",
            "select dolt_commit('-A', '-m', 'one')",
        ],
    );
    desk.succeeds(&["remote", "add", "origin", &secure.address("ada/own")]);
    desk.succeeds(&["push"]);
    assert_eq!(ada.read("ada/own", "main", "select id from t"), json!([["7"]]));
}
