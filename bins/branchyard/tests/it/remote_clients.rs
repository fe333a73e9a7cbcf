//! The unmodified client, with a home of its own and over TLS: each of its runs is a process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server};
use rcgen::{CertificateParams, KeyPair, SanType};
use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;
use serde_json::{Value, json};

/// The environment of a client process: its file, and its statements as a JSON array.
const FILE: &str = "REMOTE_CLIENT_FILE";
const STATEMENTS: &str = "REMOTE_CLIENT_STATEMENTS";
/// What the line with its result begins with.
const RESULT: &str = "result of the client: ";

/// Not a test of its own: what a client process runs.
#[test]
fn process_of_a_client() {
    let (Ok(file), Ok(statements)) = (std::env::var(FILE), std::env::var(STATEMENTS)) else { return };
    let statements: Vec<String> = serde_json::from_str(&statements).unwrap();
    println!("\n{RESULT}{}", run(&Connection::open(file).unwrap(), &statements));
}

fn run(client: &Connection, statements: &[String]) -> Value {
    let mut rows = Vec::new();
    for statement in statements {
        match rows_of(client, statement) {
            Ok(found) => rows = found,
            Err(error) => {
                let code = error.sqlite_error().map_or(0, |error| error.extended_code);
                return json!({"statement": statement, "code": code, "error": error.to_string()});
            }
        }
    }
    json!({ "rows": rows })
}

fn rows_of(client: &Connection, statement: &str) -> rusqlite::Result<Vec<String>> {
    let mut prepared = client.prepare(statement)?;
    let found = prepared.query_map([], |row| {
        Ok(match row.get(0)? {
            SqlValue::Null => "NULL".to_owned(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Real(number) => number.to_string(),
            SqlValue::Text(text) => text,
            SqlValue::Blob(bytes) => format!("{bytes:?}"),
        })
    })?;
    found.collect()
}

/// An error of a client.
#[derive(Debug)]
struct Failed {
    code: i64,
    error: String,
}

/// A server with TLS, and the authority that its clients trust.
pub(crate) struct SecureServer {
    server: Server,
    authority: PathBuf,
}

impl SecureServer {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    fn start_with(change: impl FnOnce(&mut branchyard::config::Config)) -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let certificate = parameters.self_signed(&key).unwrap();
        let authority = dir.join("cert.pem");
        std::fs::write(&authority, certificate.pem()).unwrap();
        std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
        let server = Server::start_with(|config| {
            config.tls.cert = Some(dir.join("cert.pem"));
            config.tls.key = Some(dir.join("key.pem"));
            change(config);
        });
        Self { server, authority }
    }

    pub(crate) fn user(&self, name: &str) -> Actor {
        let root = reqwest::Certificate::from_pem(&std::fs::read(&self.authority).unwrap()).unwrap();
        let client = reqwest::blocking::Client::builder().no_proxy().add_root_certificate(root).build().unwrap();
        self.server.user(name).with_client(client)
    }

    /// Returns a machine with a key that is registered for a user.
    fn machine(&self, user: &Actor) -> Machine<'_> {
        let machine = Machine { server: self, home: tempfile::tempdir().unwrap() };
        let public_key = machine.new_key();
        user.post("/user/keys", &json!({"name": "laptop", "public_key": public_key})).expect(201);
        machine
    }

    /// Returns the file with the certificate that clients have to trust.
    pub(crate) fn authority(&self) -> &Path {
        &self.authority
    }

    pub(crate) fn address(&self, database: &str) -> String {
        format!("{}/{database}", self.server.address())
    }
}

impl Drop for SecureServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.authority.parent().unwrap());
    }
}

/// A machine on which clients run, with a home.
struct Machine<'a> {
    server: &'a SecureServer,
    home: tempfile::TempDir,
}

impl Machine<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn sql(&self, file: &Path, statements: &[&str]) -> Result<Vec<String>, Failed> {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "remote_clients::process_of_a_client", "--nocapture"])
            .env("HOME", self.home.path())
            .env("DOLTLITE_CA_FILE", &self.server.authority)
            .env(FILE, file)
            .env(STATEMENTS, serde_json::to_string(statements).unwrap())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let result = text.lines().find_map(|line| line.strip_prefix(RESULT));
        let result = result.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        let result: Value = serde_json::from_str(result).unwrap();
        match result["rows"].as_array() {
            Some(rows) => Ok(rows.iter().map(|row| row.as_str().unwrap().to_owned()).collect()),
            None => Err(Failed {
                code: result["code"].as_i64().unwrap(),
                error: format!("{}: {}", result["statement"], result["error"].as_str().unwrap()),
            }),
        }
    }

    /// Makes a key, and returns its public half.
    fn new_key(&self) -> String {
        let made = self.sql(&self.file("keys.db"), &["select dolt_creds_new()"]).unwrap().join(" ");
        let is_key = |word: &&str| word.len() == 52 && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
        made.split(|c: char| !c.is_ascii_alphanumeric()).find(is_key).unwrap_or_else(|| panic!("{made}")).to_owned()
    }
}

const TREES: &str = "create table trees (id integer primary key, name text, unique (name))";

fn names(actor: &Actor, database: &str, at: &str) -> Value {
    actor.read(database, at, "select name from trees order by id")
}

#[test]
fn a_file_is_pushed_cloned_changed_and_pulled_back() {
    let secure = SecureServer::start();
    let ada = secure.user("ada");
    let machine = secure.machine(&ada);
    ada.post("/databases", &json!({"owner": "ada", "name": "trees", "visibility": "private"})).expect(201);
    let address = secure.address("ada/trees");
    let (first, second) = (machine.file("first.db"), machine.file("second.db"));
    machine
        .sql(
            &first,
            &[
                TREES,
                "insert into trees values (1, 'oak'), (2, 'ash')",
                "select dolt_commit('-A', '-m', 'two trees')",
                &format!("select dolt_remote('add', 'origin', '{address}')"),
                "select dolt_push('origin', 'main')",
            ],
        )
        .unwrap();
    assert_eq!(names(&ada, "ada/trees", "main"), json!([["oak"], ["ash"]]));
    machine.sql(&second, &[&format!("select dolt_clone('{address}')")]).unwrap();
    let head = "select commit_hash from dolt_log limit 1";
    let all = "select group_concat(id || name) from trees";
    for statement in [head, all, "pragma integrity_check"] {
        let [mine, theirs] = [&first, &second].map(|file| machine.sql(file, &[statement]).unwrap());
        assert_eq!(mine, theirs, "{statement}");
    }
    machine
        .sql(
            &second,
            &[
                "insert into trees values (3, 'elm')",
                "select dolt_commit('-A', '-m', 'an elm')",
                "select dolt_push('origin', 'main')",
            ],
        )
        .unwrap();
    assert_eq!(names(&ada, "ada/trees", "main"), json!([["oak"], ["ash"], ["elm"]]));
    machine.sql(&first, &["select dolt_pull('origin', 'main')"]).unwrap();
    assert_eq!(machine.sql(&first, &[all]).unwrap(), ["1oak,2ash,3elm"]);
    let commits = ada.get("/databases/ada/trees/commits").expect(200).data();
    assert_eq!(commits[0]["message"], "an elm");
    let keys = ada.get("/user/keys").expect(200).data();
    assert!(keys[0]["last_used_at"].is_string(), "{keys}");
}

#[test]
fn another_pusher_is_refused_pushes_by_force_and_the_first_one_has_conflicts() {
    let secure = SecureServer::start();
    let (ada, bob) = (secure.user("ada"), secure.user("bob"));
    ada.database("trees");
    let request = ada.request(reqwest::Method::PUT, "/databases/ada/trees/collaborators/bob");
    ada.send(request.json(&json!({"role": "write"}))).expect(201);
    ada.write("ada/trees", "main", &format!("{TREES}; insert into trees values (1, 'oak')"));
    let (at_ada, at_bob) = (secure.machine(&ada), secure.machine(&bob));
    let clone = format!("select dolt_clone('{}')", secure.address("ada/trees"));
    let (mine, theirs) = (at_ada.file("trees.db"), at_bob.file("trees.db"));
    at_ada.sql(&mine, &[&clone]).unwrap();
    at_bob.sql(&theirs, &[&clone]).unwrap();
    let change = |name: &str| {
        vec![
            format!("update trees set name = '{name}' where id = 1"),
            format!("select dolt_commit('-A', '-m', '{name}')"),
        ]
    };
    let with = |name: &str, more: &str| {
        let mut all = change(name);
        all.push(more.to_owned());
        all
    };
    let run = |machine: &Machine<'_>, file: &Path, statements: Vec<String>| {
        machine.sql(file, &statements.iter().map(String::as_str).collect::<Vec<_>>())
    };
    run(&at_ada, &mine, with("red oak", "select dolt_push('origin', 'main')")).unwrap();
    let refused = run(&at_bob, &theirs, with("cork oak", "select dolt_push('origin', 'main')")).unwrap_err();
    assert!(refused.code == 19 && refused.error.contains("fast-forward"), "{refused:?}");
    assert_eq!(names(&ada, "ada/trees", "main"), json!([["red oak"]]));
    at_bob.sql(&theirs, &["select dolt_push('--force', 'origin', 'main')"]).unwrap();
    assert_eq!(names(&ada, "ada/trees", "main"), json!([["cork oak"]]));
    let conflict = at_ada.sql(&mine, &["select dolt_pull('origin', 'main')"]);
    let conflict = format!("{conflict:?}").to_lowercase();
    assert!(conflict.contains("conflict"), "{conflict}");
    let feed = ada.get("/databases/ada/trees/operations").expect(200).data();
    let pushers: Vec<_> = feed.as_array().unwrap().iter().filter(|one| one["type"] == "push").collect();
    assert_eq!(pushers.len(), 2, "{feed}");
    assert_eq!((&pushers[0]["created_by"], &pushers[1]["created_by"]), (&json!("bob"), &json!("ada")));
}

#[test]
fn tags_and_branches_are_pushed_and_deleted() {
    let secure = SecureServer::start();
    let ada = secure.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", &format!("{TREES}; insert into trees values (1, 'oak')"));
    let machine = secure.machine(&ada);
    let file = machine.file("trees.db");
    let clone = format!("select dolt_clone('{}')", secure.address("ada/trees"));
    machine.sql(&file, &[&clone, "select dolt_tag('-m', 'first', 'v1')", "select dolt_push('origin', 'v1')"]).unwrap();
    let tags = || ada.get("/databases/ada/trees/tags").expect(200).data();
    assert_eq!((&tags()[0]["name"], &tags()[0]["message"]), (&json!("v1"), &json!("first")));
    machine
        .sql(
            &file,
            &[
                "insert into trees values (2, 'ash')",
                "select dolt_commit('-A', '-m', 'an ash')",
                "select dolt_push('origin', 'HEAD:side')",
                "select dolt_tag('-d', 'v1')",
                "select dolt_tag('-m', 'second', 'v1')",
                "select dolt_push('origin', 'v1')",
            ],
        )
        .unwrap();
    assert_eq!(tags()[0]["message"], "second");
    assert_eq!(names(&ada, "ada/trees", "v1"), json!([["oak"], ["ash"]]));
    assert_eq!(names(&ada, "ada/trees", "side"), json!([["oak"], ["ash"]]));
    assert_eq!(names(&ada, "ada/trees", "main"), json!([["oak"]]));
    machine
        .sql(&file, &["select dolt_push('origin', ':side')", "select dolt_push('origin', ':refs/tags/v1')"])
        .unwrap();
    assert_eq!(tags(), json!([]));
    let branches = ada.get("/databases/ada/trees/branches").expect(200).data();
    assert_eq!(branches.as_array().unwrap().len(), 1);
    let refused = machine.sql(&file, &["select dolt_push('origin', ':main')"]).unwrap_err();
    assert!(refused.error.contains("default branch"), "{refused:?}");
}

#[test]
fn keys_decide_who_reads_and_pushes() {
    let secure = SecureServer::start();
    let (ada, bob) = (secure.user("ada"), secure.user("bob"));
    ada.post("/databases", &json!({"owner": "ada", "name": "secret", "visibility": "private"})).expect(201);
    ada.database("open");
    for database in ["ada/secret", "ada/open"] {
        ada.write(database, "main", &format!("{TREES}; insert into trees values (1, 'oak')"));
    }
    let (at_ada, at_bob) = (secure.machine(&ada), secure.machine(&bob));
    let clone = |database: &str| format!("select dolt_clone('{}')", secure.address(database));
    at_ada.sql(&at_ada.file("secret.db"), &[&clone("ada/secret")]).unwrap();
    let refused = at_bob.sql(&at_bob.file("secret.db"), &[&clone("ada/secret")]).unwrap_err();
    assert!(refused.error.contains("no such repository"), "{refused:?}");
    let file = at_bob.file("open.db");
    at_bob.sql(&file, &[&clone("ada/open"), "insert into trees values (2, 'ash')"]).unwrap();
    let push = ["select dolt_commit('-A', '-m', 'x')", "select dolt_push('origin', 'main')"];
    let refused = at_bob.sql(&file, &push).unwrap_err();
    assert!(refused.code == 23 && refused.error.contains("write role"), "{refused:?}");

    let keys = ada.get("/user/keys").expect(200).data();
    ada.delete(&format!("/user/keys/{}", keys[0]["id"].as_str().unwrap())).expect(200);
    let refused = at_ada.sql(&at_ada.file("again.db"), &[&clone("ada/open")]).unwrap_err();
    assert!(refused.code == 23 && refused.error.contains("/settings/keys"), "{refused:?}");
    // Another name of this machine, for which the server takes no credential.
    let elsewhere = clone("ada/open").replace("127.0.0.1", "localhost");
    let refused = at_bob.sql(&at_bob.file("elsewhere.db"), &[&elsewhere]).unwrap_err();
    assert!(refused.code == 23 && refused.error.contains("public_url"), "{refused:?}");
}

#[test]
fn what_sql_may_not_create_is_rejected() {
    let secure = SecureServer::start();
    let ada = secure.user("ada");
    let machine = secure.machine(&ada);
    for (number, (statements, reason)) in [
        (vec!["create virtual table sizes using dbstat"], "sizes"),
        (
            vec![
                "create table dolt_nonlocal_tables (table_name text not null, target_ref text, ref_table text, options text,
                    primary key (table_name))",
                "insert into dolt_nonlocal_tables values ('trees', 'main', 'trees', 'immediate')",
            ],
            "dolt_nonlocal_tables",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("t{number}");
        ada.database(&name);
        let file = machine.file(&format!("{name}.db"));
        machine.sql(&file, &[TREES, "insert into trees values (1, 'oak')"]).unwrap();
        machine.sql(&file, &statements).unwrap();
        let remote = format!("select dolt_remote('add', 'origin', '{}')", secure.address(&format!("ada/{name}")));
        let all = ["select dolt_commit('-A', '-m', 'x')", &remote, "select dolt_push('origin', 'main')"];
        let refused = machine.sql(&file, &all).unwrap_err();
        assert!(refused.code == 1 && refused.error.contains("not accepted"), "{reason}: {refused:?}");
        assert!(refused.error.contains(reason), "{reason}: {refused:?}");
        let branches = ada.get(&format!("/databases/ada/{name}/commits")).expect(200).data();
        assert_eq!(branches.as_array().unwrap().len(), 1, "the branch is where it was");
    }
    // What SQL may create is accepted.
    ada.database("good");
    let file = machine.file("good.db");
    let remote = format!("select dolt_remote('add', 'origin', '{}')", secure.address("ada/good"));
    machine
        .sql(
            &file,
            &[
                TREES,
                "create virtual table words using fts5(w)",
                "create table counted (id integer primary key autoincrement, name text collate nocase)",
                "create index partly on trees(name) where id > 3",
                "create view v as select name from trees",
                "create trigger t after insert on trees begin insert into counted(name) values (new.name); end",
                "alter table trees add column height real default 1.5",
                "insert into words values ('one two')",
                "insert into trees(id, name) values (1, 'oak'), (2, 'ash')",
                "select dolt_commit('-A', '-m', 'all kinds')",
                &remote,
                "select dolt_push('origin', 'main')",
            ],
        )
        .unwrap();
    let counts =
        "select (select count(*) from counted), (select count(*) from words('two')), (select height from trees)";
    assert_eq!(ada.read("ada/good", "main", counts), json!([["2", "1", "1.5"]]));
}

/// Pushes a file whose check takes about this long. Returns how long the whole push took.
fn push_with_long_check(secure: &SecureServer, long: Duration) -> Duration {
    let ada = secure.user("ada");
    ada.database("slow");
    let machine = secure.machine(&ada);
    // The check computes the key of each entry of the index anew.
    let slow = |id: &str| format!("length(replace(hex(zeroblob(400000 + {id} % 2)), '0', 'ab'))");
    let probe = Connection::open_in_memory().unwrap();
    let evaluate = format!(
        "with recursive n(x) as (select 1 union all select x + 1 from n where x < 50) select sum({}) from n",
        slow("x")
    );
    let computed = || probe.query_row(&evaluate, [], |row| row.get::<_, i64>(0)).unwrap();
    computed();
    let began = Instant::now();
    computed();
    let rows = long.as_micros() * 50 / began.elapsed().as_micros().max(1);
    let file = machine.file("slow.db");
    let fill = format!(
        "with recursive n(x) as (select 1 union all select x + 1 from n where x < {rows}) insert into t select x from n"
    );
    let remote = format!("select dolt_remote('add', 'origin', '{}')", secure.address("ada/slow"));
    let index = format!("create index i on t({})", slow("id"));
    let table = "create table t (id integer primary key)";
    machine.sql(&file, &[table, &index, &fill, "select dolt_commit('-A', '-m', 'slow')", &remote]).unwrap();
    let began = Instant::now();
    machine.sql(&file, &["select dolt_push('origin', 'main')"]).unwrap();
    let took = began.elapsed();
    assert_eq!(ada.read("ada/slow", "main", "select count(*) from t"), json!([[rows.to_string()]]));
    let operations = ada.get("/databases/ada/slow/operations?type=push").expect(200).data();
    assert_eq!(operations.as_array().unwrap().len(), 1, "{operations}");
    took
}

/// With `LONG_CHECK_SECONDS=45` the check takes 45 seconds, and answers are held back as by default.
#[test]
fn a_push_succeeds_whose_check_takes_longer_than_answers_are_held_back() {
    let seconds = std::env::var("LONG_CHECK_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let hold = Duration::from_secs(if seconds.is_some() { 20 } else { 1 });
    let secure = SecureServer::start_with(|config| config.remotes.hold_ms = hold.as_millis().try_into().unwrap());
    let took = push_with_long_check(&secure, Duration::from_secs(seconds.unwrap_or(1)));
    println!("the push took {took:?}");
    assert!(took > hold * 2, "it succeeded with the first answers: {took:?}");
}
