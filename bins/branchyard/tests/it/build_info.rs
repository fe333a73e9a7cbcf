//! What `branchyard --version` prints.

use std::process::{Command, Output};

use branchyard_engine_doltlite::EngineVersions;

fn branchyard(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_branchyard")).args(args).output().unwrap()
}

/// Returns the output of `branchyard --version --verbose`.
pub(crate) fn verbose() -> String {
    let output = branchyard(&["--version", "--verbose"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_version_is_one_line() {
    for flag in ["--version", "-V"] {
        let output = branchyard(&[flag]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, concat!("branchyard ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    }
}

#[test]
fn the_verbose_version_says_how_the_program_was_built() {
    let lines = verbose();
    let names: Vec<&str> = lines.lines().skip(1).map(|line| line.split_once(": ").unwrap().0).collect();
    let flags = ["-fstack-protector-strong", "-D_FORTIFY_SOURCE=3", "-ftrivial-auto-var-init=zero"];
    assert_eq!(lines.lines().next(), Some(concat!("branchyard ", env!("CARGO_PKG_VERSION"))));
    assert_eq!(names, [&["engine", "sqlite", "target", "profile", "c compiler"][..], &flags].concat());
    let engine = EngineVersions::linked();
    for line in [format!("engine: DoltLite {}", engine.doltlite), format!("sqlite: {}", engine.sqlite)] {
        assert!(lines.lines().any(|found| found == line), "{lines}");
    }
    assert!(lines.contains(&format!("target: {}-", std::env::consts::ARCH)), "{lines}");
    assert_eq!(branchyard(&["-V", "--verbose"]).stdout, lines.as_bytes());
}

#[test]
fn verbose_belongs_to_the_version() {
    for args in [&["--verbose"][..], &["--verbose", "doctor"], &["--version", "--verbose", "doctor", "--verbose"]] {
        let output = branchyard(args);
        assert!(!String::from_utf8(output.stdout).unwrap().contains("profile"), "{args:?}");
    }
    assert_eq!(branchyard(&["--verbose"]).status.code(), Some(2));
}
