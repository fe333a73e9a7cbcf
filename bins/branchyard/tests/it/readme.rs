//! Runs the commands of the README as written, against the demo.

use std::process::Command;

use branchyard_testkit::ServerProcess;

use crate::process::program;

#[test]
fn the_curls_of_the_readme_and_of_the_demo_work_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let server =
        ServerProcess::start(&mut program().on(&dir.path().join("demo"), &["demo", "--listen", "127.0.0.1:0"]));
    let token = server.greeting.split_whitespace().find(|word| word.starts_with("hsat.v1.")).unwrap().to_owned();

    let printed: Vec<&str> = server.greeting.lines().map(str::trim).filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(printed.len(), 5, "{}", server.greeting);
    for line in printed {
        succeeds(line);
    }

    let readme = include_str!("../../../../README.md");
    let script =
        readme.split("<!-- readme-test").nth(1).unwrap().split("```sh").nth(1).unwrap().split("```").next().unwrap();
    let script = script.replace("hsat.v1.…", &token).replace("http://127.0.0.1:8080", &server.origin);
    let script =
        script.replace("\"mine\"", "\"readme\"").replace("ref=mine", "ref=readme").replace("to=mine", "to=readme");
    let said = succeeds(&script);
    assert!(said.contains("\"India\""), "{said}");
    assert!(said.contains("\"type\":\"sql_write\",\"status\":\"succeeded\""), "{said}");
    assert!(said.contains("\"change\":\"modified\""), "{said}");
    server.terminate();
}

/// Runs a shell script, asserts that each of its `curl` calls succeeds, and returns its output.
fn succeeds(script: &str) -> String {
    let script =
        format!("set -eu\ncurl() {{ command curl --silent --show-error --fail-with-body \"$@\"; echo; }}\n{script}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}
