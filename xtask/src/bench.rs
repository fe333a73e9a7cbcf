//! Runs the benchmark and prints all its ratios in one table: `cargo xtask bench`.
//!
//! Each topic runs in its own process. A topic that fails loses only its own rows, and no topic measures the memory of another.

mod table;

use crate::workspace::{Workspace, cargo};
use crate::{process, python};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const REQUIREMENTS: &str = "xtask/bench/requirements.txt";

/// The environment variable that names a Datasette to compare with, instead of the one that is installed below `target`.
const VARIABLE: &str = "XTASK_DATASETTE";

/// All topics, in the order of the table.
const TOPICS: &[&str] = &[
    "start",
    "reads",
    "tokens",
    "pages",
    "isolation",
    "streams",
    "writes",
    "postgres",
    "nodes",
    "imports",
    "forks",
    "clones",
    "pushes",
    "merges",
    "lists",
    "web",
    "workbench",
    "hooks",
    "hrana",
    "overload",
    "scale",
    "builds",
    "peers",
];

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    quick: bool,
    help: bool,
    out: Option<&'a str>,
    topics: Vec<&'a str>,
    /// Flags that are passed on to the benchmark.
    flags: Vec<&'a str>,
    /// Flags that name a file or folder, which the benchmark would look for in the folder of its package.
    paths: Vec<(&'a str, PathBuf)>,
}

pub(crate) fn run(workspace: &Workspace, more: &[&str]) -> Result<()> {
    let asked = parse(more)?;
    let profile = if asked.quick { "dev" } else { "bench" };
    let bench = || {
        let mut command = Command::new(cargo());
        command.current_dir(&workspace.root).args(["bench", "--quiet", "--package", "branchyard", "--bench", "ratios"]);
        command.args(["--profile", profile]);
        command
    };
    if asked.help {
        return process::run(bench().args(["--", "--help"]));
    }
    process::run(bench().arg("--no-run"))?;

    let folder = workspace.target.join("xtask/bench");
    std::fs::create_dir_all(&folder)?;
    let mut rows: Vec<Value> = Vec::new();
    let mut failed = Vec::new();
    for topic in &asked.topics {
        let file = folder.join(format!("{topic}.json"));
        let mut command = bench();
        command.args(["--", topic, "--json"]).arg(&file).args(&asked.flags);
        for (flag, path) in &asked.paths {
            command.arg(flag).arg(path);
        }
        if *topic == "reads"
            && let Some(datasette) = datasette(workspace)
        {
            command.arg("--datasette").arg(datasette);
        }
        match process::run(&mut command) {
            Ok(()) => {
                let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
                rows.extend(serde_json::from_str::<Vec<Value>>(&text).context("the bench wrote no rows")?);
            }
            Err(error) => {
                println!("{topic}: {error:#}");
                failed.push(*topic);
            }
        }
    }

    let out = asked.out.map_or_else(|| workspace.target.join("bench.json"), PathBuf::from);
    std::fs::write(&out, format!("{:#}\n", Value::Array(rows.clone())))
        .with_context(|| format!("cannot write {}", out.display()))?;
    println!("\n{}\nwritten to {}", table::render(&rows), out.display());
    if !failed.is_empty() {
        bail!("these topics failed: {}\n  fix: their output is above", failed.join(", "));
    }
    Ok(())
}

fn parse<'a>(more: &[&'a str]) -> Result<Asked<'a>> {
    let mut asked =
        Asked { quick: false, help: false, out: None, topics: Vec::new(), flags: Vec::new(), paths: Vec::new() };
    let mut rest = more.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().with_context(|| format!("{argument} takes a value"));
        match *argument {
            "--help" => asked.help = true,
            "--quick" => {
                asked.quick = true;
                asked.flags.push(argument);
            }
            "--out" => asked.out = Some(value()?),
            flag @ ("--other" | "--peers" | "--datasette") => {
                asked.paths.push((flag, std::path::absolute(value()?).context("the current folder is unknown")?));
            }
            flag if flag.starts_with("--") => asked.flags.extend([flag, value()?]),
            topic if TOPICS.contains(&topic) => asked.topics.push(topic),
            topic => bail!("no topic `{topic}`; there are {}", TOPICS.join(", ")),
        }
    }
    if asked.topics.is_empty() {
        asked.topics = TOPICS.to_vec();
    }
    Ok(asked)
}

/// Returns the Datasette to compare with, or `None` if it cannot be installed. Its row is skipped then.
fn datasette(workspace: &Workspace) -> Option<PathBuf> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Some(given.into());
    }
    python::tool(workspace, "datasette", "datasette", REQUIREMENTS)
        .inspect_err(|error| println!("Datasette cannot be installed, its row is skipped: {error:#}"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::{TOPICS, parse};

    #[test]
    fn arguments_are_ours_topics_or_the_benchs() {
        let asked = parse(&["reads", "--quick", "--rows", "7", "--out", "b.json", "forks", "--peers", "p"]).unwrap();
        assert!(asked.quick && !asked.help);
        assert_eq!(asked.out, Some("b.json"));
        assert_eq!(asked.topics, ["reads", "forks"]);
        assert_eq!(asked.flags, ["--quick", "--rows", "7"]);
        assert_eq!(asked.paths, [("--peers", std::env::current_dir().unwrap().join("p"))]);
        assert_eq!(parse(&[]).unwrap().topics, TOPICS);
        assert!(parse(&["--help"]).unwrap().help);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(parse(&["raeds"]).unwrap_err().to_string().starts_with("no topic `raeds`; there are start, "));
        assert_eq!(parse(&["--rows"]).unwrap_err().to_string(), "--rows takes a value");
    }

    /// The benchmark lists its topics too, and both lists are in the same order.
    #[test]
    fn the_topics_are_those_of_the_bench() {
        let list = include_str!("../../bins/branchyard/benches/ratios/topics.rs");
        let named: Vec<&str> =
            list.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next()).collect();
        assert_eq!(named, TOPICS);
    }
}
