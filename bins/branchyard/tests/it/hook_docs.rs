//! Runs the receivers and examples of `docs/hooks.md` as they are printed there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, Receiver, Server, ServerProcess, wait_for};
use serde_json::{Value, json};

use crate::process::program;

#[path = "../../../../docs/hooks/receiver.rs"]
#[expect(clippy::expect_used, unreachable_pub, reason = "an example that people copy")]
mod receiver;

const DB: &str = "/databases/ada/rivers";

fn start() -> (Server, Actor) {
    let server = Server::start_with(|config| {
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
        config.hooks.retry_delays_ms = vec![0; 50];
    });
    let ada = server.user("ada");
    ada.database("rivers");
    ada.write("ada/rivers", "main", "create table t (x)");
    (server, ada)
}

fn register(ada: &Actor, port: u16) -> (String, String) {
    let events = json!(["on_push", "on_pull_request", "on_branch"]);
    let body = json!({"url": format!("http://127.0.0.1:{port}/"), "events": events});
    let hook = ada.post(&format!("{DB}/hooks"), &body).expect(201).data();
    let text = |name: &str| hook[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

fn ping(ada: &Actor, hook: &str) -> Value {
    let path = format!("{DB}/hooks/{hook}");
    let id = ada.post(&format!("{path}/ping"), &json!({})).expect(201).data()["id"].as_str().unwrap().to_owned();
    wait_for("the end of the delivery", AMPLE, || {
        let delivery = ada.get(&format!("{path}/deliveries/{id}")).expect(200).data();
        if delivery["status"] == "pending" { Err(delivery) } else { Ok(delivery) }
    })
}

#[test]
fn the_receiver_in_rust() {
    let (_server, ada) = start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (hook, secret) = register(&ada, listener.local_addr().unwrap().port());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || receiver::serve(&listener, &secret, |body| tell.send(body).unwrap()));
    let delivery = ping(&ada, &hook);
    assert_eq!(delivery["status"], "delivered", "{delivery}");
    let body = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(delivery["request"]["body"], String::from_utf8(body).unwrap());
    // The receiver accepts a redelivery and drops it as a duplicate.
    let again = format!("{DB}/hooks/{hook}/deliveries/{}/redeliver", delivery["id"].as_str().unwrap());
    ada.post(&again, &json!({})).expect(200);
    ada.write("ada/rivers", "main", "insert into t values (1)");
    let next: Value = serde_json::from_slice(&told.recv_timeout(Duration::from_secs(60)).unwrap()).unwrap();
    assert_eq!(next["event_name"], "push");
    // After two rotations, the receiver's secret no longer matches the signature.
    ada.post(&format!("{DB}/hooks/{hook}/rotate-secret"), &json!({})).expect(200);
    ada.post(&format!("{DB}/hooks/{hook}/rotate-secret"), &json!({})).expect(200);
    assert_eq!(ping(&ada, &hook)["attempts"][0]["response_status"], 401);
}

/// A process that is killed when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command that runs a program of `docs/hooks`.
fn python(program: &str, secret: &str, port: u16) -> Command {
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hooks").join(program));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.envs([("HOOK_SECRET", secret.to_owned()), ("PORT", port.to_string())]);
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Sends a request and returns the status of the answer.
fn status_of(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn the_receiver_in_python_runs_by_itself() {
    let (_server, ada) = start();
    let port = free_port();
    let (hook, secret) = register(&ada, port);
    let mut child = python("receiver.py", &secret, port).stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
    let _running = Running(child);
    wait_for("the receiver", AMPLE, || TcpStream::connect(("127.0.0.1", port)));
    let delivery = ping(&ada, &hook);
    assert_eq!(delivery["attempts"][0]["response_status"], 204, "{delivery}");
    let event: Value = serde_json::from_str(&printed.next().unwrap().unwrap()).unwrap();
    assert_eq!((&event["event_name"], &event["hook_id"]), (&json!("ping"), &json!(hook)));
    // What is not signed is answered 401, however it is malformed.
    for headers in [
        "",
        "Content-Length: 2\r\n",
        "Content-Length: two\r\n",
        "Content-Length: 20481\r\n",
        "Content-Length: 2\r\nwebhook-timestamp: \u{b2}\r\n",
        "Content-Length: 2\r\nwebhook-timestamp: 0\r\nwebhook-signature: v1,x\r\n",
    ] {
        assert_eq!(status_of(port, &format!("POST / HTTP/1.1\r\nHost: x\r\n{headers}\r\n{{}}")), "401", "{headers}");
    }
    assert_eq!(ping(&ada, &hook)["status"], "delivered");
}

#[test]
fn the_receiver_in_python_and_the_three_examples() {
    let (server, ada) = start();
    // The examples read private branches with their token.
    ada.patch(DB, &json!({"visibility": "private"})).expect(200);
    let port = free_port();
    let (hook, secret) = register(&ada, port);
    // The first ticket fails.
    let tracker = Receiver::with(|n| Some(if n == 0 { 500 } else { 204 }));
    let log = server.dir.path().join("ci.log");
    let child = python("examples.py", &secret, port)
        .env("TRACKER", tracker.url())
        .env("CI_COMMAND", format!("echo $BRANCH $PREV $HEAD >> {}", log.display()))
        .envs([("YARD", server.address()), ("YARD_TOKEN", ada.token().unwrap().to_owned())])
        .spawn()
        .unwrap();
    let _running = Running(child);
    wait_for("the receiver", AMPLE, || TcpStream::connect(("127.0.0.1", port)));
    assert_eq!(ping(&ada, &hook)["status"], "delivered");

    let before = ada.get(&format!("{DB}/branches/main")).expect(200).data()["head_commit_sha"].clone();
    let head = ada.write("ada/rivers", "main", "insert into t values (1)");
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    let line =
        wait_for("a line of the log", AMPLE, || Some(read()).filter(|text| text.ends_with('\n')).ok_or_else(read));
    assert_eq!(line.trim(), format!("main {} {head}", before.as_str().unwrap()), "CI ran");

    let body = json!({"from_branch": "main", "to_branch": "fix", "q": "insert into t values (2)"});
    ada.finish(&ada.post(&format!("{DB}/sql-writes"), &body));
    let place = |branch: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": branch});
    let pull = json!({"title": "Fix", "from_branch": place("fix"), "to_branch": place("main")});
    ada.post(&format!("{DB}/pulls"), &pull).expect(201);
    let ticket = tracker.wait_for(1).pop().unwrap().json();
    assert_eq!(ticket["title"], "Review pull request 1 of ada: fix to main");
    // The worker goes on after an event whose work failed.
    ada.patch(&format!("{DB}/pulls/1"), &json!({"state": "closed"})).expect(200);
    ada.post(&format!("{DB}/pulls"), &pull).expect(201);
    let ticket = tracker.wait_for(2).pop().unwrap().json();
    assert_eq!(ticket["title"], "Review pull request 2 of ada: fix to main");

    let merged = ada.finish(&ada.post(&format!("{DB}/pulls/2/merge"), &json!({})));
    let release = wait_for("the release", AMPLE, || {
        let answer = ada.get(&format!("{DB}/releases/pull-2"));
        if answer.status == 200 { Ok(answer.data()) } else { Err(answer.text) }
    });
    assert_eq!(release["commit_sha"], merged["result"]["commit_sha"], "released");

    ada.post(&format!("{DB}/hooks/{hook}/rotate-secret"), &json!({})).expect(200);
    ada.post(&format!("{DB}/hooks/{hook}/rotate-secret"), &json!({})).expect(200);
    assert_eq!(ping(&ada, &hook)["attempts"][0]["response_status"], 401, "signed with a secret it does not know");
}

#[test]
fn the_demo_tells_a_receiver_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    let mut demo = program().on(dir.path(), &["demo", "--listen", "127.0.0.1:0", "--hook", &receiver.url()]);
    let server = ServerProcess::start(&mut demo);
    assert!(server.greeting.contains("whsec_"), "{}", server.greeting);
    assert_eq!(receiver.wait_for(1)[0].json()["event_name"], "ping");
    server.terminate();
    // The second run replaces the hook of the first, whose secret cannot be shown again.
    let server = ServerProcess::start(&mut demo);
    receiver.wait_for(2);
    let token = server.greeting.lines().find_map(|line| line.trim().strip_prefix("token")).unwrap().trim().to_owned();
    let demo = Actor::new(server.origin.clone(), Some(token), "demo");
    let hooks = demo.get("/databases/demo/atlas/hooks").expect(200).data();
    assert_eq!(hooks.as_array().unwrap().len(), 1, "{hooks}");
    server.terminate();
}
