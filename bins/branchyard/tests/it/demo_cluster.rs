//! `branchyard demo --cluster`.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use branchyard_testkit::{AMPLE, Actor, ServerProcess, descendants, wait_until};
use reqwest::Method;

use crate::faults::postgres::Postgres;
use crate::process::program;

/// A node as the demo prints it.
struct PrintedNode {
    origin: String,
    process: u32,
}

fn printed_nodes(greeting: &str) -> Vec<PrintedNode> {
    let nodes = greeting.lines().filter_map(|line| {
        let (origin, process) =
            line.trim().strip_prefix("node-")?.split_once(' ')?.1.trim().split_once(", process ")?;
        Some(PrintedNode { origin: origin.to_owned(), process: process.parse().unwrap() })
    });
    nodes.collect()
}

fn is_running(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Returns a demo that starts its own Postgres. Postgres does not run as root, so the demo is another user's then.
fn demo_of_its_own(dir: &Path) -> Option<Command> {
    let arguments = ["demo", "--cluster", "3", "--listen", "127.0.0.1:0"];
    let demo = program().on(&dir.join("demo"), &arguments);
    if !Path::new("/usr/lib/postgresql").exists() {
        let required = std::env::var_os("BRANCHYARD_TEST_REQUIRE_POSTGRES").is_some();
        assert!(!required, "no Postgres server to make a cluster with");
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        return Some(demo);
    }
    assert!(Command::new("chown").arg("postgres").arg(dir).status().unwrap().success());
    let mut other = Command::new("setpriv");
    other.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(demo.get_program());
    other.args(demo.get_args()).current_dir(dir);
    for (name, value) in demo.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    Some(other)
}

#[test]
fn a_cluster_of_three_survives_the_loss_of_a_node_and_ends_as_a_whole() {
    let dir = tempfile::Builder::new().prefix("demo-cluster.").tempdir_in("/tmp").unwrap();
    let Some(mut command) = demo_of_its_own(dir.path()) else { return };
    let demo = ServerProcess::start(&mut command);
    let nodes = printed_nodes(&demo.greeting);
    assert_eq!(nodes.len(), 3, "{}", demo.greeting);
    assert_eq!(demo.origin, nodes[0].origin);
    let token = demo.greeting.split_whitespace().find(|word| word.starts_with("hsat.v1.")).unwrap().to_owned();
    let actors: Vec<Actor> =
        nodes.iter().map(|node| Actor::new(node.origin.clone(), Some(token.clone()), "demo")).collect();
    let count = |actor: &Actor| actor.read("demo/atlas", "main", "select count(*) from countries")[0][0].clone();
    let before = count(&actors[0]);
    for actor in &actors {
        let page = actor.plain(Method::GET, "/demo/atlas").send().unwrap();
        assert!(page.status() == 200 && page.text().unwrap().contains("countries"));
        assert_eq!(count(actor), before);
    }
    let add = |actor: &Actor, code: &str| {
        let columns = "code, alpha3, \"numeric\", name";
        let values = format!("'{code}', '{code}Z', '{code}', 'A country'");
        actor.write("demo/atlas", "main", &format!("insert into countries ({columns}) values ({values})"));
    };
    add(&actors[1], "X1");
    assert_ne!(count(&actors[2]), before);

    let process = rustix::process::Pid::from_raw(i32::try_from(nodes[0].process).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    add(&actors[1], "X2");
    add(&actors[2], "X3");
    let after = count(&actors[1]);
    assert_eq!(count(&actors[2]), after);

    let all: Vec<u32> = descendants(demo.id()).into_iter().filter(|&process| process != demo.id()).collect();
    assert!(all.iter().filter(|&&process| is_running(process)).count() >= 3, "two nodes and Postgres");
    demo.terminate();
    wait_until("the end of all processes", AMPLE, || !all.iter().any(|&process| is_running(process)));

    // The next start goes on from what there is.
    let demo = ServerProcess::start(&mut command);
    let token = demo.greeting.split_whitespace().find(|word| word.starts_with("hsat.v1.")).unwrap().to_owned();
    assert_eq!(count(&Actor::new(demo.origin.clone(), Some(token), "demo")), after);
    demo.terminate();
}

#[test]
fn a_node_that_cannot_start_ends_all() {
    let Some(postgres) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    // The second node finds its port in use.
    let (first, _second) = loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if let Some(second) = port.checked_add(1).and_then(|port| TcpListener::bind(("127.0.0.1", port)).ok()) {
            break (port, second);
        }
    };
    let mut demo = program().on(dir.path(), &["demo", "--cluster", "2", "--listen", &format!("127.0.0.1:{first}")]);
    let output = demo.args(["--metadata-url", &postgres.fresh("demo")]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    let log = dir.path().join("cluster/node-2.log");
    assert!(error.contains("node-2 does not start") && error.contains(log.to_str().unwrap()), "{error}");
    assert!(std::fs::read_to_string(log).unwrap().contains("cannot listen"), "{error}");
    let live = "SELECT count(*) FROM nodes WHERE id = 'node-1' AND alive_until > extract(epoch FROM now()) * 1e6";
    assert_eq!(postgres.ask("demo", live), "0", "its lease has ended with it");
    assert!(TcpListener::bind(("127.0.0.1", first)).is_ok(), "the first node has ended");
}

#[test]
fn what_a_demo_cannot_do_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let output = program().run(dir.path(), arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for nodes in ["0", "10", "-1", "three"] {
        assert!(refused(&["demo", &format!("--cluster={nodes}")]).contains("--cluster"));
    }
    assert!(refused(&["demo", "--cluster=10"]).contains("10 is not in 1..=9"));
    assert!(refused(&["demo", "--metadata-url", "postgres://h/d"]).contains("--cluster"));
    let sqlite = refused(&["demo", "--cluster", "2", "--metadata-url", "metadata.sqlite"]);
    assert!(sqlite.contains("metadata_url on Postgres"), "{sqlite}");
    assert!(refused(&["demo", "--cluster", "2", "--listen", "somewhere"]).contains("--listen is 'somewhere'"));
}
