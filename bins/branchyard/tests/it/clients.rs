//! Client programs in other languages, written from the public documentation of v1alpha1, against a real server
//! (`tests/clients`).

use std::path::Path;
use std::process::Command;

use branchyard_testkit::Server;
use serde_json::json;

fn run(program: &str, script: &str) {
    let server = Server::start();
    let ana = server.user("ana");
    ana.post("/organizations", &json!({"name": "grove"})).expect(201);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients").join(script);
    let output = Command::new(program)
        .arg(file)
        .env("BRANCHYARD_URL", server.address())
        .env("BRANCHYARD_TOKEN", ana.token().unwrap())
        .env("BRANCHYARD_USER", "ana")
        .env("BRANCHYARD_GROUP", "grove")
        .env("NO_PROXY", "*")
        .env("no_proxy", "*")
        .output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed to run {script}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
}

#[test]
fn python_writes_merges_imports_and_downloads() {
    run("python3", "trees.py");
}

#[test]
fn the_shell_writes_merges_imports_and_downloads() {
    run("bash", "trees.sh");
}

#[test]
fn javascript_writes_forks_imports_and_downloads() {
    run("node", "trees.mjs");
}
