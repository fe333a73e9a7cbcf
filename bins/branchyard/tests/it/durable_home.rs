//! Servers whose databases are in a store of objects: what a lost machine costs, and backups between stores and folders.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use branchyard_testkit::{AMPLE, Actor, Program, ServerProcess, files_below, succeed, wait_until};
use serde_json::json;

use crate::faults::postgres::{Postgres, Stop};
use crate::process::program;

/// A store of objects with its Postgres, and folders of servers.
pub(crate) struct Home {
    pub(crate) postgres: Postgres,
    pub(crate) dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Option<Self> {
        Some(Self { postgres: Postgres::start()?, dir: tempfile::tempdir().unwrap() })
    }

    /// Returns a new cluster.
    pub(crate) fn cluster(&self, name: &str) -> Cluster {
        let (store, folders) = (self.dir.path().join(format!("store-{name}")), self.dir.path().join(name));
        Cluster { url: self.postgres.fresh(name), store, program: program(), folders, settings: Vec::new() }
    }
}

pub(crate) struct Cluster {
    url: String,
    pub(crate) store: PathBuf,
    program: Program,
    folders: PathBuf,
    /// Further variables of the environment.
    pub(crate) settings: Vec<(&'static str, String)>,
}

impl Cluster {
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.folders.join(name)
    }

    pub(crate) fn command(&self, folder: &str, args: &[&str]) -> Command {
        let mut command = self.program.on(&self.folder(folder), args);
        command.env("BRANCHYARD_METADATA_URL", &self.url);
        command.env("BRANCHYARD_STORE_URL", format!("file://{}", self.store.display()));
        command.env("BRANCHYARD_CLUSTER__LEASE", "2s");
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn start(&self, folder: &str) -> ServerProcess {
        ServerProcess::start(&mut self.command(folder, &["serve", "--listen", "127.0.0.1:0"]))
    }

    pub(crate) fn user(&self, folder: &str, server: &ServerProcess) -> Actor {
        let command = |args: &[&str]| self.command(folder, args);
        let token = branchyard_testkit::create_user(command, "ada");
        Actor::new(server.origin.clone(), Some(token), "ada")
    }

    fn segments(&self) -> usize {
        files_below(&self.store.join("segments")).len()
    }
}

pub(crate) fn again(actor: &Actor, server: &ServerProcess) -> Actor {
    Actor::new(server.origin.clone(), actor.token().map(str::to_owned), actor.name())
}

pub(crate) fn count(ada: &Actor, database: &str, at: &str) -> serde_json::Value {
    ada.read(database, at, "select count(*) from t")[0][0].clone()
}

#[test]
fn a_killed_server_whose_folder_is_lost_has_lost_nothing() {
    let Some(home) = Home::new() else { return };
    let cluster = home.cluster("lost");
    let mut folder = "first".to_owned();
    let mut server = cluster.start(&folder);
    let mut ada = cluster.user(&folder, &server);
    ada.database("d");
    ada.write("ada/d", "main", "create table t (n integer primary key, v text)");
    succeed(&mut cluster.command(&folder, &["org", "create", "forks", "--owner", "ada"]));
    ada.finish(&ada.post("/databases/ada/d/forks", &json!({"owner": "forks"})));
    for round in 0..3 {
        for n in 0..10 {
            ada.write("ada/d", "main", &format!("insert into t values ({}, 'x')", round * 10 + n));
        }
        server.kill();
        fs::remove_dir_all(cluster.folder(&folder).join("databases")).unwrap();
        if round == 1 {
            // Another folder is another node, which takes over once the lease of the first one has ended. The key ring goes with it.
            let key = fs::read(cluster.folder(&folder).join("server.key")).unwrap();
            fs::remove_dir_all(cluster.folder(&folder)).unwrap();
            folder = "second".to_owned();
            fs::create_dir_all(cluster.folder(&folder)).unwrap();
            fs::write(cluster.folder(&folder).join("server.key"), key).unwrap();
        }
        server = cluster.start(&folder);
        ada = again(&ada, &server);
        assert_eq!(count(&ada, "ada/d", "main"), ((round + 1) * 10).to_string());
    }
    let branch = json!({"name": "b", "from": {"branch": "main"}});
    ada.post("/databases/ada/d/branches", &branch).expect(201);
    ada.write("ada/d", "b", "update t set v = 'y' where n < 5");
    ada.write("forks/d", "main", "insert into t values (1, 'z')");
    assert_eq!(count(&ada, "forks/d", "main"), "1");
    server.terminate();
    assert_eq!(succeed(&mut cluster.command(&folder, &["doctor"])), "everything is in order");
    // A second server under the id of a live one does not start.
    let server = cluster.start(&folder);
    let node = fs::read_to_string(cluster.folder(&folder).join("node")).unwrap();
    let mut twin = cluster.command("twin", &["serve", "--listen", "127.0.0.1:0"]);
    let refused = twin.env("BRANCHYARD_NODE_ID", node.trim()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("another server runs under the node id"), "{said}");
    // A server that was frozen for so long that another one has its id stops when it goes on.
    let mut frozen = server;
    let signal = |signal: &str| succeed(Command::new("kill").args([signal, &frozen.id().to_string()]));
    signal("-STOP");
    let twin = ServerProcess::start(twin.env("BRANCHYARD_NODE_ID", node.trim()));
    signal("-CONT");
    let status = frozen.ended_within(AMPLE).expect("it goes on");
    assert_eq!(status.code(), Some(1));
    assert_eq!(count(&again(&ada, &twin), "ada/d", "main"), "30");
}

#[test]
fn a_backup_is_restored_between_stores_and_folders() {
    let Some(home) = Home::new() else { return };
    let cluster = home.cluster("backed");
    let server = cluster.start("first");
    let ada = cluster.user("first", &server);
    for name in ["d", "e"] {
        ada.database(name);
        ada.write(
            &format!("ada/{name}"),
            "main",
            "create table t (n integer primary key); insert into t values (1), (2)",
        );
    }
    let copies = cluster.folder("first").join("copies");
    let backup = |name: &str, command: &mut Command| {
        let to = home.dir.path().join(name);
        let said = succeed(command.arg("--to").arg(&to));
        assert!(said.starts_with("2 databases, "), "{said}");
        to
    };
    let to = backup("one", &mut cluster.command("first", &["backup", "--with-keys"]));
    assert!(files_below(&copies).is_empty(), "what the command brought here is gone");
    // From the store to a folder.
    let plain = home.dir.path().join("plain");
    let restored = program().succeed(&plain, &["restore", "--from", to.to_str().unwrap()]);
    assert!(restored.ends_with("restored 2 databases; everything is in order"), "{restored}");
    let alone = program().start(&plain);
    assert_eq!(count(&again(&ada, &alone), "ada/e", "main"), "2");
    again(&ada, &alone).write("ada/e", "main", "insert into t values (3)");
    // From the folder to another store.
    let to = backup("two", &mut program().on(&plain, &["backup", "--with-keys"]));
    alone.terminate();
    let other = home.cluster("other");
    let said = succeed(other.command("first", &["restore"]).arg("--from").arg(&to));
    assert!(said.ends_with("restored 2 databases; everything is in order"), "{said}");
    fs::remove_dir_all(other.folder("first").join("databases")).unwrap();
    let restored = other.start("first");
    assert_eq!(count(&again(&ada, &restored), "ada/e", "main"), "3");
    assert_eq!(count(&again(&ada, &restored), "ada/d", "main"), "2");
    drop((server, restored));
}

#[test]
fn a_collection_and_a_deletion_take_their_objects_out_of_use() {
    let Some(home) = Home::new() else { return };
    let cluster = home.cluster("collected");
    let server = cluster.start("first");
    let ada = cluster.user("first", &server);
    ada.database("d");
    ada.write("ada/d", "main", "create table t (n integer primary key, v text)");
    let branch = json!({"name": "b", "from": {"branch": "main"}});
    ada.post("/databases/ada/d/branches", &branch).expect(201);
    for n in 0..20 {
        ada.write("ada/d", "b", &format!("insert into t values ({n}, hex(randomblob(2000)))"));
    }
    ada.write("ada/d", "main", "insert into t values (1, 'kept')");
    ada.delete("/databases/ada/d/branches/b").expect(200);
    assert!(cluster.segments() > 20);
    server.terminate();
    let said = succeed(&mut cluster.command("first", &["gc", "ada/d"]));
    assert!(said.contains("bytes freed"), "{said}");
    fs::remove_dir_all(cluster.folder("first").join("databases")).unwrap();
    let server = cluster.start("first");
    let ada = again(&ada, &server);
    assert_eq!(count(&ada, "ada/d", "main"), "1");
    let named = "SELECT count(*) FROM segments";
    assert_eq!(home.postgres.ask("collected", named), "1", "the new generation");
    ada.delete("/databases/ada/d").expect(200);
    assert_eq!(home.postgres.ask("collected", named), "0");
}

#[test]
fn objects_that_nothing_refers_to_are_deleted_after_the_grace_time() {
    let Some(home) = Home::new() else { return };
    let cluster = home.cluster("garbage");
    let server = cluster.start("first");
    let ada = cluster.user("first", &server);
    for name in ["kept", "gone"] {
        ada.database(name);
        ada.write(&format!("ada/{name}"), "main", "create table t (n integer primary key); insert into t values (1)");
    }
    ada.delete("/databases/ada/gone").expect(200);
    let collect = |args: &[&str]| -> serde_json::Value {
        let args: Vec<&str> = ["store", "collect", "--json"].iter().chain(args).copied().collect();
        serde_json::from_str(&succeed(&mut cluster.command("first", &args))).unwrap()
    };
    let before = cluster.segments();
    let done = collect(&[]);
    assert_eq!((&done["deleted"], &done["more_to_delete"], cluster.segments()), (&json!(0), &json!(false), before));
    let pass = "WITH passed AS (UPDATE doomed_objects SET since = since - 86400000000 RETURNING 1) SELECT count(*) FROM passed";
    let due: usize = home.postgres.ask("garbage", pass).parse().unwrap();
    assert!(due > 0);
    assert_eq!(collect(&["--dry-run"])["deleted"], due);
    assert_eq!(cluster.segments(), before);
    assert_eq!(collect(&[])["deleted"], due);
    let named: usize = home.postgres.ask("garbage", "SELECT count(DISTINCT object) FROM segments").parse().unwrap();
    assert_eq!((cluster.segments(), before - due), (named, named));
    fs::remove_dir_all(cluster.folder("first").join("databases")).unwrap();
    server.terminate();
    let server = cluster.start("first");
    assert_eq!(count(&again(&ada, &server), "ada/kept", "main"), "1");
    // Without a store of objects there is nothing to collect.
    let refused = program().on(&home.dir.path().join("plain"), &["store", "collect"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("set store_url"), "{said}");
}

fn ready(server: &ServerProcess) -> (u16, String) {
    let answer = reqwest::blocking::get(format!("{}/readyz", server.origin)).unwrap();
    (answer.status().as_u16(), answer.text().unwrap())
}

/// Postgres is restored to an earlier time, once while the server is stopped, and once while it runs.
#[test]
fn metadata_that_are_older_than_the_store_are_noticed_and_change_nothing_until_that_is_accepted() {
    for is_running in [false, true] {
        let Some(home) = Home::new() else { return };
        let cluster = home.cluster("older");
        let server = cluster.start("first");
        let ada = cluster.user("first", &server);
        for name in ["d", "idle"] {
            ada.database(name);
            ada.write(
                &format!("ada/{name}"),
                "main",
                "create table t (n integer primary key); insert into t values (1)",
            );
        }
        server.terminate();
        home.postgres.copy("older", "saved");
        let server = cluster.start("first");
        let ada = again(&ada, &server);
        let lost = ada.write("ada/d", "main", "insert into t values (2)");
        ada.database("lost");
        let counter = home.postgres.ask("older", "SELECT max(write_number) FROM files");
        // The server notes what it saved every few seconds.
        let is_marked = || {
            let marks = files_below(&cluster.store.join("marks"));
            marks.iter().any(|mark| fs::read_to_string(mark).is_ok_and(|text| text == counter))
        };
        wait_until("the mark", AMPLE, is_marked);
        let server = match is_running {
            true => {
                home.postgres.copy("saved", "older");
                wait_until("the server notices", AMPLE, || ready(&server).1.contains("read-only"));
                server
            }
            false => {
                server.kill();
                home.postgres.copy("saved", "older");
                cluster.start("first")
            }
        };
        let ada = again(&ada, &server);
        assert_eq!(
            ready(&server),
            (200, "ready, read-only: the metadata are older than the store of databases\n".to_owned())
        );
        assert_eq!(count(&ada, "ada/d", "main"), "1");
        // What the node has and the metadata do not is not there.
        let of_lost = json!({"ref": lost, "q": "select count(*) from t"});
        ada.post("/databases/ada/d/sql", &of_lost).expect(404);
        ada.get(&format!("/databases/ada/d/commits/{lost}")).expect(404);
        assert_eq!(count(&ada, "ada/d", "main"), "1");
        let refused = ada.post("/databases/ada/idle/branches", &json!({"name": "b", "from": {"branch": "main"}}));
        assert!(refused.expect(503).json()["detail"].as_str().unwrap().contains("lost recent changes"));
        ada.delete("/databases/ada/idle").expect(503);
        let fails = |args: &[&str]| {
            let output = cluster.command("first", args).output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        assert!(fails(&["store", "collect"]).contains("older than the store"));
        assert!(fails(&["cluster", "accept"]).contains("stop all servers first"));
        server.terminate();
        let said = succeed(&mut cluster.command("first", &["cluster", "accept", "--json"]));
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let lost: Vec<_> = said["lost"].as_array().unwrap().iter().map(|lost| &lost["database"]).collect();
        assert!(lost.contains(&&json!("ada/d")) && lost.len() == 2, "{said}");
        let server = cluster.start("first");
        let ada = again(&ada, &server);
        assert_eq!(ready(&server), (200, "ready\n".to_owned()));
        assert_eq!(count(&ada, "ada/d", "main"), "1");
        ada.write("ada/d", "main", "insert into t values (3)");
        ada.database("lost");
        server.terminate();
        assert_eq!(succeed(&mut cluster.command("first", &["doctor"])), "everything is in order");
        succeed(&mut cluster.command("first", &["store", "collect"]));
    }
}

/// Returns the branches that `cluster recover` makes, as JSON.
fn recover(cluster: &Cluster, folder: &str, database: &str) -> serde_json::Value {
    let said = succeed(&mut cluster.command(folder, &["cluster", "recover", database, "--json"]));
    serde_json::from_str(&said).unwrap()
}

#[test]
fn what_a_restored_postgres_has_lost_comes_back_as_branches() {
    let Some(home) = Home::new() else { return };
    lost_changes_come_back(&home, home.cluster("forgotten"), &[]);
}

/// Writes are lost with Postgres, some of them compacted and some on another branch, and come back as branches. `settings` are in force
/// from when the state was saved that Postgres is restored to.
pub(crate) fn lost_changes_come_back(home: &Home, mut cluster: Cluster, settings: &[(&'static str, String)]) {
    let server = cluster.start("first");
    let ada = cluster.user("first", &server);
    for name in ["d", "idle"] {
        ada.database(name);
        ada.write(&format!("ada/{name}"), "main", "create table t (n integer primary key); insert into t values (1)");
    }
    server.terminate();
    home.postgres.copy("forgotten", "saved");
    cluster.settings.extend_from_slice(settings);
    let server = cluster.start("first");
    let ada = again(&ada, &server);
    ada.write("ada/d", "main", "insert into t values (2)");
    ada.post("/databases/ada/d/branches", &json!({"name": "b", "from": {"branch": "main"}})).expect(201);
    for n in 10..12 {
        ada.write("ada/d", "b", &format!("insert into t values ({n})"));
    }
    let heads =
        [("main", 3), ("b", 12)].map(|(branch, n)| ada.write("ada/d", branch, &format!("insert into t values ({n})")));
    let counter = home.postgres.ask("forgotten", "SELECT max(write_number) FROM files");
    let is_marked = || {
        let marks = files_below(&cluster.store.join("marks"));
        marks.iter().any(|mark| fs::read_to_string(mark).is_ok_and(|text| text == counter))
    };
    wait_until("the mark", AMPLE, is_marked);
    server.kill();
    home.postgres.copy("saved", "forgotten");
    // Before the loss is accepted, there is nothing to recover, and no database can be written.
    let early = recover(&cluster, "first", "ada/d");
    assert_eq!((&early["losses"], &early["branches"]), (&json!(0), &json!([])));
    let accepted = succeed(&mut cluster.command("first", &["cluster", "accept"]));
    assert!(accepted.contains("ada/d: ") && accepted.contains("cluster recover"), "{accepted}");
    assert!(!accepted.contains("ada/idle"), "{accepted}");
    // The servers run again, and the database is written to before.
    let server = cluster.start("first");
    let ada = again(&ada, &server);
    assert_eq!(count(&ada, "ada/d", "main"), "1");
    ada.write("ada/d", "main", "insert into t values (4)");

    let recovered = recover(&cluster, "second", "ada/d");
    let branches = recovered["branches"].as_array().unwrap().clone();
    assert_eq!((branches.len(), &recovered["left"], &recovered["gaps"]), (2, &json!(0), &json!([])), "{recovered}");
    for branch in &branches {
        let (name, head) = (branch["name"].as_str().unwrap(), branch["head"].as_str().unwrap());
        assert!(name.starts_with("recovered/20") && name.ends_with(&head[..10]), "{branch}");
        assert!(heads.iter().any(|lost| lost == head), "{head} of {heads:?}");
    }
    let [on_main, on_b] = heads.map(|head| {
        let branch = branches.iter().find(|branch| branch["head"] == head).unwrap();
        branch["name"].as_str().unwrap().to_owned()
    });
    let counts = |ada: &Actor| [&on_main, &on_b].map(|branch| count(ada, "ada/d", branch));
    assert_eq!(counts(&ada), ["3", "5"], "on the node that led the database before");
    assert_eq!(count(&ada, "ada/d", "main"), "2");
    ada.write("ada/d", &on_b, "insert into t values (99)");
    ada.write("ada/d", "main", "insert into t values (5)");
    assert!(!succeed(&mut cluster.command("first", &["node", "list"])).contains("cluster-recover"));
    // All of it is reachable now.
    let said = succeed(&mut cluster.command("second", &["cluster", "recover", "ada/d"]));
    assert!(said.contains("ada/d: nothing to recover: its branches, tags and pull requests reach all"), "{said}");
    let said = succeed(&mut cluster.command("second", &["cluster", "recover", "ada/idle"]));
    assert!(said.contains("ada/idle: nothing to recover: `branchyard cluster accept` has not recorded"), "{said}");
    let refused = cluster.command("second", &["cluster", "recover", "ada/none"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("there is no database ada/none"), "{said}");
    // What was recovered is in the store.
    server.terminate();
    fs::remove_dir_all(cluster.folder("first").join("databases")).unwrap();
    assert_eq!(succeed(&mut cluster.command("first", &["doctor"])), "everything is in order");
    let server = cluster.start("first");
    let ada = again(&ada, &server);
    assert_eq!(counts(&ada), ["3", "6"]);
    drop(server);
}

/// Sends the form for signing in. Returns the status.
fn sign_in(origin: &str, name: &str) -> u16 {
    let client = reqwest::blocking::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let page = client.get(format!("{origin}/sign-in")).send().unwrap();
    let cookie = |cookie: &reqwest::header::HeaderValue| cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
    let cookies: Vec<String> = page.headers().get_all("set-cookie").iter().map(cookie).collect();
    let text = page.text().unwrap();
    let form = text.split_once("action=\"/sign-in\"").unwrap().1;
    let csrf = form.split_once("name=\"csrf\" value=\"").unwrap().1.split('"').next().unwrap();
    let encoded: String = csrf.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let request =
        client.post(format!("{origin}/sign-in")).header("Origin", origin).header("Cookie", cookies.join("; "));
    let request = request.header("Content-Type", "application/x-www-form-urlencoded");
    request.body(format!("csrf={encoded}&next=%2F&name={name}&password=wrong+horse")).send().unwrap().status().as_u16()
}

#[test]
fn attempts_to_sign_in_are_counted_by_all_nodes_together() {
    let Some(home) = Home::new() else { return };
    let cluster = home.cluster("signing");
    let serve = |folder: &str| {
        let mut command = cluster.command(folder, &["serve", "--listen", "127.0.0.1:0"]);
        command.env("BRANCHYARD_WEB__SIGN_INS_PER_ACCOUNT", "5").env("BRANCHYARD_WEB__SIGN_INS_PER_ADDRESS", "9");
        ServerProcess::start(&mut command)
    };
    let first = serve("first");
    cluster.user("first", &first);
    fs::create_dir_all(cluster.folder("second")).unwrap();
    fs::copy(cluster.folder("first").join("server.key"), cluster.folder("second").join("server.key")).unwrap();
    let second = serve("second");
    let origin = |n: usize| if n.is_multiple_of(2) { &first.origin } else { &second.origin };
    let of_account: Vec<u16> = (0..7).map(|n| sign_in(origin(n), "ada")).collect();
    assert_eq!(of_account, [422, 422, 422, 422, 422, 429, 429], "web.sign_ins_per_account");
    // Seven attempts came from this address.
    let of_address: Vec<u16> = (0..4).map(|n| sign_in(origin(n), &format!("other{n}"))).collect();
    assert_eq!(of_address, [422, 422, 429, 429], "web.sign_ins_per_address");
    let count = home.postgres.ask("signing", "SELECT count(*) FROM sign_in_attempts");
    assert_eq!(count, "4", "the address, and three accounts");
}

#[test]
fn an_outage_of_postgres_does_not_fill_the_log() {
    let Some(home) = Home::new() else { return };
    let cluster = home.cluster("quiet");
    let log = home.dir.path().join("log");
    let mut command = cluster.command("first", &["serve", "--listen", "127.0.0.1:0"]);
    command.stderr(fs::File::create(&log).unwrap()).env_remove("RUST_LOG");
    let server = ServerProcess::try_start(&mut command).unwrap();
    home.postgres.stop(Stop::Fast);
    std::thread::sleep(std::time::Duration::from_secs(10));
    home.postgres.begin();
    let lines = || -> Vec<serde_json::Value> {
        let text = fs::read_to_string(&log).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        // Before the server logs, it says in plain text what it does.
        whole.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let is_back = |line: &serde_json::Value| {
        line["message"] == "the connection for notifications of the metadata store works again"
    };
    wait_until("the line that it is back", AMPLE, || lines().iter().any(is_back));
    wait_until("the node to be ready", AMPLE, || ready(&server).0 == 200);
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for mut line in lines() {
        if line["level"] == "WARN" || line["level"] == "ERROR" {
            line.as_object_mut().unwrap().remove("timestamp");
            *seen.entry(line.to_string()).or_default() += 1;
        }
    }
    assert!(!seen.is_empty());
    assert!(seen.values().all(|count| *count == 1), "{seen:#?}");
    assert!(seen.len() <= 30, "{seen:#?}");
    assert_eq!(lines().iter().filter(|line| is_back(line)).count(), 1);
}
