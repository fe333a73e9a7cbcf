//! Pushes through several nodes, of which one leads the database, and calls that no node has made.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_remote_protocol::{Hash, MOST_HASHES};
use branchyard_testkit::{AMPLE, Actor, ServerProcess, create_user, run_with_input, succeed, wait_for};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use crate::faults::postgres::Postgres;
use crate::fixtures::make::{Browser, PASSWORD};
use crate::process::program;
use crate::pushes::client::{Refused, Remote};
use crate::pushes::mutations::Chunks;

/// `cluster.lease`, in seconds.
const LEASE: u64 = 3;
/// Megabytes that are pushed. `NODE_CALLS_MB` sets another number.
const MEGABYTES: usize = 12;

/// The nodes of a cluster over one Postgres, one store and one master key.
pub(crate) struct Nodes {
    postgres: Postgres,
    pub(crate) dir: tempfile::TempDir,
    url: String,
    /// The file with the master key of the store, if what is in it is encrypted.
    encryption_key: Option<PathBuf>,
}

impl Nodes {
    pub(crate) fn new(name: &str) -> Option<Self> {
        let postgres = Postgres::start()?;
        let url = postgres.fresh(name);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("master"), [7; 32]).unwrap();
        Some(Self { postgres, dir, url, encryption_key: None })
    }

    /// Has what is in the store encrypted.
    pub(crate) fn encrypted(mut self) -> Self {
        let path = self.dir.path().join("encryption");
        std::fs::write(&path, [9; 32]).unwrap();
        self.encryption_key = Some(path);
        self
    }

    pub(crate) fn command(&self, node: &str, args: &[&str]) -> Command {
        let mut command = program().on(&self.dir.path().join(node), args);
        command.env("BRANCHYARD_METADATA_URL", &self.url);
        command.env("BRANCHYARD_STORE_URL", format!("file://{}", self.dir.path().join("store").display()));
        command.env("BRANCHYARD_SERVER_KEY_FILE", self.dir.path().join("master"));
        command.env("BRANCHYARD_NODE_ID", node);
        if let Some(path) = &self.encryption_key {
            command.env("BRANCHYARD_STORE__ENCRYPTION_KEY_FILE", path);
        }
        command.env("BRANCHYARD_CLUSTER__LEASE", format!("{LEASE}s"));
        command
    }

    pub(crate) fn start(&self, node: &str) -> ServerProcess {
        self.start_with(node, |_| {})
    }

    pub(crate) fn start_with(&self, node: &str, change: impl FnOnce(&mut Command)) -> ServerProcess {
        let mut command = self.command(node, &["serve", "--listen", "127.0.0.1:0"]);
        change(&mut command);
        let log = std::fs::File::options().create(true).append(true).open(self.log(node)).unwrap();
        ServerProcess::try_start(command.stderr(log)).unwrap()
    }

    fn log(&self, node: &str) -> PathBuf {
        self.dir.path().join(format!("{node}.log"))
    }

    /// Returns the node that leads a database.
    fn leader(&self, cluster: &str, database: &str) -> String {
        let leader = format!(
            "SELECT f.owner_node FROM files AS f JOIN databases AS d ON d.id = f.database_id WHERE d.name = '{database}'"
        );
        self.postgres.ask(cluster, &leader)
    }
}

/// Creates a database with random content. Returns its head and its chunks.
fn source(actor: &Actor, name: &str) -> (Hash, Chunks) {
    let megabytes = std::env::var("NODE_CALLS_MB").map_or(MEGABYTES, |text| text.parse().unwrap());
    actor.database(name);
    let database = format!("ada/{name}");
    actor.write(&database, "main", "create table t (n integer primary key, v text)");
    for part in 0..megabytes {
        let rows = format!(
            "with recursive c(n) as (select {part} * 1000 union all select n + 1 from c where n + 1 < ({part} + 1) * 1000) \
             insert into t select n, hex(randomblob(500)) from c"
        );
        actor.write(&database, "main", &rows);
    }
    let remote = Remote::new(actor, &database);
    let head = remote.head("main");
    (head, remote.history(head))
}

/// Pushes with a balancer in front that has each request go to the next node. What clients are to repeat is repeated; a node that is
/// gone is left out, as a balancer does. Calls `between` after each upload. Returns the number of repetitions.
fn push(remotes: &mut Vec<Remote<'_>>, head: Hash, chunks: &Chunks, mut between: impl FnMut(usize)) -> usize {
    let (mut turn, mut repeated, mut uploads) = (0, 0, 0);
    let mut next = |remotes: &[Remote<'_>]| {
        turn += 1;
        remotes[turn % remotes.len()].actor.clone()
    };
    let database = remotes[0].database;
    // As the client does: 5 repeats a request, 517 the push.
    let mut request = |run: &mut dyn FnMut(&Remote<'_>) -> Result<(), Refused>, repeated: &mut usize| -> bool {
        loop {
            let actor = next(remotes);
            match run(&Remote::new(&actor, database)) {
                Ok(()) => return true,
                Err(refused) if refused.sqlite == 517 => return false,
                Err(refused) if refused.sqlite == 5 => *repeated += 1,
                Err(refused) => panic!("{refused:?}"),
            }
            assert!(*repeated < 100, "the push goes on for ever");
        }
    };
    loop {
        let hashes: Vec<Hash> = chunks.keys().copied().collect();
        let mut wanted: Vec<&Vec<u8>> = Vec::new();
        for hashes in hashes.chunks(MOST_HASHES) {
            let mut has = Vec::new();
            assert!(request(
                &mut |remote| {
                    has = remote.has(hashes)?;
                    Ok(())
                },
                &mut repeated
            ));
            wanted.extend(hashes.iter().zip(has).filter(|(_, has)| !has).map(|(hash, _)| &chunks[hash]));
        }
        for wanted in wanted.chunks(300) {
            assert!(request(&mut |remote| remote.upload(wanted.iter().copied()), &mut repeated));
            uploads += 1;
            between(uploads);
        }
        if request(&mut |remote| remote.set("main", head, true), &mut repeated) {
            return repeated;
        }
        repeated += 1;
    }
}

fn count(actor: &Actor, database: &str) -> Value {
    actor.read(database, "main", "select count(*), sum(length(v)) from t")
}

#[test]
fn a_push_whose_requests_go_to_all_nodes_arrives_and_survives_the_loss_of_the_leader() {
    let Some(nodes) = Nodes::new("push") else { return };
    let mut servers = vec![nodes.start("a")];
    let token = create_user(|args| nodes.command("a", args), "ada");
    let on = |server: &ServerProcess| Actor::new(server.origin.clone(), Some(token.clone()), "ada");
    let first = on(&servers[0]);
    let (head, chunks) = source(&first, "source");
    first.database("copy");
    first.database("lost");
    servers.extend([nodes.start("b"), nodes.start("c")]);
    let actors: Vec<Actor> = servers.iter().map(on).collect();
    let expected = count(&first, "ada/source");
    let bytes: usize = chunks.values().map(Vec::len).sum();

    let began = Instant::now();
    let mut remotes: Vec<_> = actors.iter().map(|actor| Remote::new(actor, "ada/copy")).collect();
    assert_eq!(push(&mut remotes, head, &chunks, |_| {}), 0, "nothing has to be repeated while all nodes live");
    println!("{} MB through three nodes in {:?}", bytes >> 20, began.elapsed());
    assert_eq!(nodes.leader("push", "copy"), "a");
    for actor in &actors {
        assert_eq!(count(actor, "ada/copy"), expected);
        let cloned = Remote::new(actor, "ada/copy").history(head);
        assert!(cloned == chunks, "each node serves clones");
    }

    // The leader is killed in the middle of the uploads. What it kept of the push is gone with it.
    let mut killed = Some(servers.remove(0));
    let mut remotes: Vec<_> = actors[1..].iter().map(|actor| Remote::new(actor, "ada/lost")).collect();
    let began = Instant::now();
    let repeated = push(&mut remotes, head, &chunks, |uploads| {
        if uploads == 3 {
            assert_eq!(nodes.leader("push", "lost"), "a");
            if let Some(leader) = killed.take() {
                leader.kill();
            }
        }
    });
    println!("after the loss of the leader: {repeated} repetitions, {:?}", began.elapsed());
    assert!(killed.is_none() && repeated > 0);
    assert_ne!(nodes.leader("push", "lost"), "a");
    for actor in &actors[1..] {
        assert_eq!(count(actor, "ada/lost"), expected);
    }
    servers.into_iter().for_each(ServerProcess::terminate);
    assert_eq!(succeed(&mut nodes.command("b", &["doctor"])), "everything is in order");
}

/// The preview of a pull request from a fork needs the fork's commits in the base, which only the leader of the base can bring there.
#[test]
fn a_pull_request_from_a_fork_is_previewed_on_a_node_that_does_not_lead_its_base() {
    let Some(nodes) = Nodes::new("preview") else { return };
    let a = nodes.start("a");
    let account = |name: &str| {
        let email = format!("{name}@example.test");
        let args = ["user", "create", name, "--email", &email, "--password-stdin"];
        assert!(run_with_input(&mut nodes.command("a", &args), PASSWORD).status.success());
        succeed(&mut nodes.command("a", &["token", "create", "--user", name, "--name", "t", "--expires", "30d"]))
    };
    let ada = Actor::new(a.origin.clone(), Some(account("ada")), "ada");
    let token = account("bob");
    ada.database("base");
    ada.write("ada/base", "main", "create table t (n integer primary key)");
    let b = nodes.start("b");
    let bob = Actor::new(b.origin.clone(), Some(token), "bob");
    bob.finish(&bob.post("/databases/ada/base/forks", &json!({"owner": "bob"})));
    bob.write("bob/base", "main", "create table only_in_the_fork (n integer primary key)");
    assert_eq!(nodes.leader("preview", "base").lines().next(), Some("a"));

    let browser = Browser::sign_in(&b.origin, "bob");
    let page = "/ada/base/pulls/new?source=bob%2Fbase&from=main&to=main";
    assert!(!browser.page(page).contains("only_in_the_fork"));
    let fields = [("source", "bob/base"), ("from", "main"), ("to", "main")];
    browser.submit(page, "/ada/base/pulls/new/prepare", &fields);
    wait_for("the preview", AMPLE, || {
        if browser.page(page).contains("only_in_the_fork") { Ok(()) } else { Err("the table is not shown") }
    });
}

/// Passes connections on to a node, and keeps what was sent to it.
struct Recorder {
    address: SocketAddr,
    to: Arc<OnceLock<SocketAddr>>,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let recorder = Self { address: listener.local_addr().unwrap(), to: Arc::default(), sent: Arc::default() };
        let (to, sent) = (Arc::clone(&recorder.to), Arc::clone(&recorder.sent));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(to.wait()) else { continue };
                let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut answers, &mut back));
                let (mut from, mut into, sent) = (client, server, Arc::clone(&sent));
                thread::spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(read @ 1..) = from.read(&mut buffer) {
                        sent.lock().extend_from_slice(&buffer[..read]);
                        if into.write_all(&buffer[..read]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        recorder
    }
}

/// Sends bytes, and returns the status line and the body of the answer.
fn send_raw(to: SocketAddr, bytes: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(AMPLE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).unwrap_or_default();
        answer.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let is_whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head
                .to_ascii_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            length.is_some_and(|length| body.len() >= length)
        });
        if read == 0 || is_whole {
            let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
            return (status, text.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned()));
        }
    }
}

#[test]
fn calls_that_no_node_has_made_or_that_were_made_before_are_refused() {
    let Some(nodes) = Nodes::new("calls") else { return };
    let recorder = Recorder::start();
    let advertise = format!("http://{}", recorder.address);
    let a = nodes.start_with("a", |command| {
        command.env("BRANCHYARD_CLUSTER__ADVERTISE", &advertise);
    });
    recorder.to.set(a.socket()).unwrap();
    let token = create_user(|args| nodes.command("a", args), "ada");
    let at_a = Actor::new(a.origin.clone(), Some(token.clone()), "ada");
    at_a.database("d");
    at_a.write("ada/d", "main", "create table t (n)");
    let b = nodes.start("b");
    let at_b = Actor::new(b.origin.clone(), Some(token.clone()), "ada");
    let remote = Remote::new(&at_b, "ada/d");
    let head = remote.head("main");
    assert_eq!(remote.has(&[head]).unwrap(), [true]);
    let call = recorder.sent.lock().clone();
    let text = String::from_utf8_lossy(&call).into_owned();
    assert!(text.starts_with("POST /_cluster/ada/d/has-chunks HTTP/1.1\r\n"), "{text}");
    assert!(text.to_ascii_lowercase().contains("\r\nbranchyard-call: v1 b "), "{text}");
    assert!(text.contains(" 127.0.0.1 "), "the address of the client is passed on: {text}");

    let refused = |bytes: &[u8], why: &str| {
        let (status, body) = send_raw(a.socket(), bytes);
        assert_eq!(status, 401, "{body}");
        assert!(body.contains(why), "{body}");
    };
    refused(&call, "counts once");
    let replace = |from: &str, to: &str| {
        let at = text.find(from).unwrap();
        [&call[..at], to.as_bytes(), &call[at + from.len()..]].concat()
    };
    for (from, to) in [
        ("POST /_cluster/ada/d/has", "POST /_cluster/ada/e/has"),
        ("v1 b ", "v1 c "),
        (" 127.0.0.1 ", " 127.0.0.2 "),
        ("Bearer hsat", "Bearer hsau"),
    ] {
        let from = if text.contains(from) { from.to_owned() } else { from.to_ascii_lowercase() };
        refused(&replace(&from, to), "has to be signed");
    }
    // Neither a user nor an administrator can make one.
    let unsigned = at_a.plain(Method::POST, "/_cluster/ada/d/has-chunks").bearer_auth(&token).body(vec![0; 20]);
    assert_eq!(unsigned.send().unwrap().status(), 401);
    let fetch = json!({"into": "x", "from": "y", "commit": "z"});
    assert_eq!(at_a.plain(Method::POST, "/_cluster/fetch").json(&fetch).send().unwrap().status(), 401);
    assert_eq!(at_a.plain(Method::GET, "/_cluster/anything").send().unwrap().status(), 401);
    assert!(std::fs::read_to_string(nodes.log("a")).unwrap().contains("refused a call"));

    // A node whose address does not answer any more: the client gets its answer within the time that another node needs to take over.
    drop(b);
    a.kill();
    let b = nodes.start("b");
    let at_b = Actor::new(b.origin.clone(), Some(token.clone()), "ada");
    let began = Instant::now();
    let has = wait_for("the lead of the lost node's database", AMPLE, || {
        Remote::new(&at_b, "ada/d").has(&[head]).map_err(|refused| format!("{refused:?}"))
    });
    assert_eq!(has, [true]);
    assert!(began.elapsed() < Duration::from_secs(LEASE + 5), "{:?}", began.elapsed());
}
