//! The key ring of a cluster: one master key for all nodes, and the ring in the metadata store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{
    AMPLE, Actor, Program, Receiver, ServerProcess, create_user, files_below, succeed, wait_until,
};
use serde_json::{Value, json};

use crate::faults::postgres::Postgres;
use crate::process::program;

/// How soon each node is to know of a change.
const SOON: Duration = Duration::from_secs(10);

struct Cluster {
    url: String,
    program: Program,
    folders: PathBuf,
    /// The value of `server_key_file`.
    master: Option<PathBuf>,
}

impl Cluster {
    fn new(postgres: &Postgres, folder: &Path, name: &str) -> Self {
        let folders = folder.join(name);
        fs::create_dir_all(&folders).unwrap();
        let master = Some(master_key(&folders.join("master"), 1));
        Self { url: postgres.fresh(name), program: program(), folders, master }
    }

    fn folder(&self, node: &str) -> PathBuf {
        self.folders.join(node)
    }

    fn command(&self, node: &str, args: &[&str]) -> Command {
        let mut command = self.program.on(&self.folder(node), args);
        command.env("BRANCHYARD_METADATA_URL", &self.url);
        command.env("BRANCHYARD_STORE_URL", format!("file://{}", self.folders.join("store").display()));
        command.env("BRANCHYARD_CLUSTER__LEASE", "2s");
        command.env("BRANCHYARD_HOOKS__ALLOWED_CIDRS", "127.0.0.0/8,::1/128");
        command.env("BRANCHYARD_HOOKS__MAX_PER_DATABASE", "10000");
        if let Some(master) = &self.master {
            command.env("BRANCHYARD_SERVER_KEY_FILE", master);
        }
        command
    }

    fn start(&self, node: &str) -> ServerProcess {
        let log = fs::File::options().create(true).append(true).open(self.log_file(node)).unwrap();
        // `ServerProcess::start` would discard the log.
        ServerProcess::try_start(self.command(node, &["serve", "--listen", "127.0.0.1:0"]).stderr(log)).unwrap()
    }

    fn log_file(&self, node: &str) -> PathBuf {
        self.folders.join(format!("{node}.log"))
    }

    fn log(&self, node: &str) -> String {
        fs::read_to_string(self.log_file(node)).unwrap()
    }

    fn succeed(&self, node: &str, args: &[&str]) -> String {
        succeed(&mut self.command(node, args))
    }

    fn refused(&self, node: &str, args: &[&str]) -> String {
        let output = self.command(node, args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn listed(&self, node: &str) -> Value {
        serde_json::from_str(&self.succeed(node, &["keys", "list", "--json"])).unwrap()
    }

    fn newest(&self, node: &str) -> String {
        self.listed(node)["keys"][0]["id"].as_str().unwrap().to_owned()
    }

    fn user(&self, node: &str, server: &ServerProcess) -> Actor {
        Actor::new(server.origin.clone(), Some(create_user(|args| self.command(node, args), "ada")), "ada")
    }
}

fn master_key(path: &Path, byte: u8) -> PathBuf {
    fs::write(path, [byte; 32]).unwrap();
    path.to_owned()
}

fn at(actor: &Actor, server: &ServerProcess) -> Actor {
    Actor::new(server.origin.clone(), actor.token().map(str::to_owned), actor.name())
}

fn hook(ada: &Actor, receiver: &Receiver) -> String {
    let body = json!({"url": receiver.url(), "events": ["on_branch"]});
    ada.post("/databases/ada/rivers/hooks", &body).expect(201).data()["id"].as_str().unwrap().to_owned()
}

fn branch(ada: &Actor, name: &str) {
    ada.post("/databases/ada/rivers/branches", &json!({"name": name, "from": {"branch": "main"}})).expect(201);
}

/// Returns the path of the second page of branches, with the token of the first one.
fn second_page(ada: &Actor) -> String {
    let first = ada.get("/databases/ada/rivers/branches?page_size=1").expect(200).json();
    let token = first["meta"]["next_page_token"].as_str().unwrap().to_owned();
    format!("/databases/ada/rivers/branches?page_size=1&page_token={token}")
}

#[test]
fn all_nodes_have_the_ring_of_the_first_and_see_a_rotation() {
    let Some(postgres) = Postgres::start() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(&postgres, home.path(), "shared");
    // Before there was a cluster, the ring was in the data folder.
    let master = cluster.master.take();
    let server = cluster.start("first");
    let ada = cluster.user("first", &server);
    ada.database("rivers");
    branch(&ada, "a");
    let receiver = Receiver::start();
    hook(&ada, &receiver);
    let before = second_page(&ada);
    let old = cluster.newest("first");
    server.terminate();

    cluster.master = master;
    let first = cluster.start("first");
    let second = cluster.start("second");
    let (ada, there) = (at(&ada, &first), at(&ada, &second));
    assert_eq!(cluster.listed("second"), json!({"keys": [{"id": old, "newest": true, "hooks": 1}], "absent": []}));
    let log = cluster.log("first");
    assert!(log.contains("the key ring of the data folder is in the metadata store now"), "{log}");
    assert!(!cluster.folder("second").join("server.key").exists());
    for (asked, page) in
        [(&ada, &before), (&there, &before), (&ada, &second_page(&there)), (&there, &second_page(&ada))]
    {
        asked.get(page).expect(200);
    }

    let begun = Instant::now();
    cluster.succeed("second", &["keys", "rotate"]);
    let new = cluster.newest("first");
    assert_ne!(new, old);
    // While one node may not know of the key yet, the other one makes nothing that the first would refuse.
    while begun.elapsed() < Duration::from_secs(8) {
        there.get(&second_page(&ada)).expect(200);
        ada.get(&second_page(&there)).expect(200);
    }
    let has_seen = |node: &str| {
        cluster.log(node).lines().any(|line| line.contains("read the changed key ring") && line.contains(&new))
    };
    wait_until("both nodes have the new key", SOON.saturating_sub(begun.elapsed()), || {
        has_seen("first") && has_seen("second")
    });
    wait_until("the secret is sealed anew", AMPLE, || cluster.listed("first")["keys"][0]["hooks"] == 1);
    let under_new = second_page(&there);
    ada.get(&before).expect(200);

    let begun = Instant::now();
    cluster.succeed("first", &["keys", "remove", &old]);
    wait_until("the end of the old key", SOON, || [&ada, &there].iter().all(|asked| asked.get(&before).status == 400));
    assert!(begun.elapsed() < SOON);
    for asked in [&ada, &there] {
        asked.get(&under_new).expect(200);
    }
    // The hook of one node is delivered by the other one.
    first.terminate();
    branch(&there, "b");
    assert_eq!(receiver.wait_for(1).len(), 1);
    // A node whose folder is lost has lost no key.
    second.kill();
    fs::remove_dir_all(cluster.folder("second")).unwrap();
    let third = cluster.start("third");
    branch(&at(&ada, &third), "c");
    receiver.wait_for(2);
    third.terminate();
    assert_eq!(cluster.succeed("third", &["doctor"]), "everything is in order");
    assert!(cluster.refused("third", &["keys", "remove", &new]).contains("is the newest key"));
    // The first node still has the file of the key that was removed.
    let first = cluster.start("first");
    assert!(cluster.log("first").contains("has keys that the key ring in the metadata store lacks"));
    assert_eq!(cluster.newest("first"), new);
    first.terminate();
}

#[test]
fn another_master_key_and_none_are_refused() {
    let Some(postgres) = Postgres::start() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(&postgres, home.path(), "refused");
    // Nodes that start at once end with one ring.
    let nodes = ["one", "two", "three"];
    let servers: Vec<ServerProcess> = thread::scope(|scope| {
        let starts = nodes.map(|node| scope.spawn(|| cluster.start(node)));
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let rings = nodes.map(|node| cluster.listed(node));
    assert_eq!(rings[0]["keys"].as_array().unwrap().len(), 1);
    assert!(rings.iter().all(|ring| *ring == rings[0]), "{rings:?}");
    let ada = cluster.user("one", &servers[0]);
    ada.database("rivers");
    branch(&ada, "a");
    for server in &servers {
        at(&ada, server).get(&second_page(&ada)).expect(200);
    }

    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let (right, wrong) = ("the master key ", "holds the master key ");
    cluster.master = Some(master_key(&home.path().join("another"), 2));
    let said = cluster.refused("four", &serve);
    let id_after = |text: &str| said.split_once(text).unwrap().1[..16].to_owned();
    let (of_cluster, of_file) = (id_after(right), id_after(wrong));
    assert!(of_cluster != of_file && said.contains("server_key_file") && said.contains("another"), "{said}");
    assert_eq!(postgres.ask("refused", "SELECT master_id FROM key_ring"), of_cluster);
    assert_eq!(cluster.refused("one", &["keys", "rotate"]), said, "commands are refused too");
    cluster.master = None;
    let said = cluster.refused("five", &serve);
    assert!(said.contains("set server_key_file") && said.contains(&of_cluster), "{said}");
    assert!(!cluster.folder("five").join("server.key").exists());
    let short = home.path().join("short");
    fs::write(&short, [1; 31]).unwrap();
    cluster.master = Some(short);
    let said = cluster.refused("six", &serve);
    assert!(said.contains("must hold 32 random bytes and nothing else, and it holds 31"), "{said}");
    assert!(!cluster.folder("six").join("server.key").exists());
    assert_eq!(postgres.ask("refused", "SELECT count(*) FROM nodes"), "3", "none of them became a node");
}

#[test]
fn a_key_is_never_taken_from_a_secret_that_is_being_sealed() {
    let Some(postgres) = Postgres::start() else { return };
    let home = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(&postgres, home.path(), "sealing");
    let servers = ["one", "two"].map(|node| cluster.start(node));
    let ada = cluster.user("one", &servers[0]);
    ada.database("rivers");
    let receiver = Receiver::start();
    let ends = AtomicBool::new(false);
    let made: usize = thread::scope(|scope| {
        let makers = servers.each_ref().map(|server| {
            let (ada, receiver, ends) = (at(&ada, server), &receiver, &ends);
            scope.spawn(move || {
                let mut made = 0;
                while !ends.load(Ordering::Relaxed) {
                    hook(&ada, receiver);
                    made += 1;
                }
                made
            })
        });
        for _ in 0..5 {
            let old = cluster.newest("one");
            cluster.succeed("two", &["keys", "rotate"]);
            wait_until("the old key is removed", AMPLE, || {
                cluster.command("one", &["keys", "remove", &old]).output().unwrap().status.success()
            });
        }
        ends.store(true, Ordering::Relaxed);
        makers.into_iter().map(|maker| maker.join().unwrap()).sum()
    });
    wait_until("all secrets are under the newest key", AMPLE, || cluster.listed("one")["keys"][0]["hooks"] == made);
    assert_eq!(cluster.listed("two")["absent"], json!([]));
    assert_eq!(cluster.succeed("one", &["doctor"]), "everything is in order");
}

#[test]
fn the_master_key_is_exchanged() {
    let Some(postgres) = Postgres::start() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(&postgres, home.path(), "exchanged");
    let server = cluster.start("one");
    let ada = cluster.user("one", &server);
    ada.database("rivers");
    let receiver = Receiver::start();
    hook(&ada, &receiver);
    let doctor = cluster.command("one", &["doctor"]).output().unwrap();
    assert!(String::from_utf8_lossy(&doctor.stderr).contains("others can read the master key"), "{doctor:?}");
    let ring = cluster.listed("one");
    let next = master_key(&home.path().join("next"), 2);
    let said = cluster.succeed("one", &["keys", "rotate", "--master", next.to_str().unwrap()]);
    assert!(said.contains("set server_key_file to") && said.contains("restart"), "{said}");
    // The server has its keys, and cannot know which one seals.
    let body = json!({"url": receiver.url(), "events": ["on_branch"]});
    ada.post("/databases/ada/rivers/hooks", &body).expect(503);
    branch(&ada, "a");
    receiver.wait_for(1);
    wait_until("the reason is in the log", AMPLE, || cluster.log("one").contains("cannot read the key ring"));
    server.terminate();
    assert!(cluster.refused("one", &["keys", "list"]).contains("sealed under the master key"));
    cluster.master = Some(next);
    let server = cluster.start("one");
    assert_eq!(cluster.listed("one"), ring);
    let ada = at(&ada, &server);
    hook(&ada, &receiver);
    branch(&ada, "b");
    receiver.wait_for(3);
    server.terminate();
    let plain = home.path().join("plain");
    let output =
        program().run(&plain, &["keys", "rotate", "--master", cluster.master.as_ref().unwrap().to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("needs server_key_file"), "{output:?}");
}

#[test]
fn a_backup_has_the_ring_sealed_and_is_restored_under_the_master_key() {
    let Some(postgres) = Postgres::start() else { return };
    let home = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(&postgres, home.path(), "backed");
    let server = cluster.start("one");
    let ada = cluster.user("one", &server);
    ada.database("rivers");
    let receiver = Receiver::start();
    let hook = hook(&ada, &receiver);
    cluster.succeed("one", &["keys", "rotate"]);
    let ring = cluster.listed("one");
    let backup = |name: &str, flags: &[&str]| {
        let to = home.path().join(name);
        let output = cluster.command("one", &["backup"]).args(flags).arg("--to").arg(&to).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (to, String::from_utf8(output.stderr).unwrap())
    };
    let (sealed, note) = backup("sealed", &[]);
    assert!(note.contains("sealed under the master key") && note.contains("server_key_file"), "{note}");
    assert!(sealed.join("server.key.sealed").exists() && !sealed.join("server.key").exists());
    let (keyed, _) = backup("keyed", &["--with-keys"]);
    assert!(keyed.join("server.key").exists() && !keyed.join("server.key.sealed").exists());
    server.terminate();
    let ids = |ring: &Value| {
        let keys = ring["keys"].as_array().unwrap().iter();
        keys.map(|key| key["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    // Under the same master key, and under another one from a backup with keys.
    let same = Cluster::new(&postgres, home.path(), "same");
    let mut other = Cluster::new(&postgres, home.path(), "other");
    other.master = Some(master_key(&home.path().join("another"), 2));
    for (cluster, from) in [(&same, &sealed), (&other, &keyed)] {
        let said = cluster.succeed("new", &["restore", "--from", from.to_str().unwrap()]);
        assert_eq!(said, "restored 1 databases; everything is in order");
        assert_eq!(ids(&cluster.listed("new")), ids(&ring));
        assert_eq!(cluster.succeed("new", &["doctor"]), "everything is in order");
    }
    let server = same.start("new");
    branch(&at(&ada, &server), "a");
    receiver.wait_for(1);
    // A restore beside servers in use is refused, and changes nothing of theirs.
    let before = same.listed("new");
    let beside = same.command("beside", &["restore", "--from", keyed.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&beside.stderr);
    assert!(!beside.status.success() && said.contains("the metadata store contains databases"), "{said}");
    assert_eq!(same.listed("new"), before);
    server.terminate();
    // Into a data folder without a master key.
    let plain = home.path().join("plain");
    let said = program().succeed(&plain, &["restore", "--from", keyed.to_str().unwrap()]);
    assert_eq!(said, "restored 1 databases; everything is in order");
    assert!(!files_below(&plain).is_empty() && plain.join("server.key").exists());
    // Without the key of the backup, the secrets stay closed.
    let mut closed = Cluster::new(&postgres, home.path(), "closed");
    closed.master.clone_from(&other.master);
    let said = closed.succeed("new", &["restore", "--from", sealed.to_str().unwrap()]);
    assert!(said.contains("which server_key_file does not hold") && said.contains(&hook), "{said}");
    assert_eq!(closed.listed("new")["absent"][0]["hooks"], 1);
}
