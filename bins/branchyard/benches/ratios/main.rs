//! Benchmarks that compare the server with baselines that do the same work without it. Both sides run alternately, and the
//! results are ratios. `docs/performance.md` explains each row; `cargo xtask bench` runs all topics and prints one table.
//!
//! A single topic: `cargo bench -p branchyard -- reads --connections 32`. Smaller and unoptimized: `cargo bench --profile dev -p
//! branchyard -- reads --quick`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints, and stops where it fails"
)]

mod cost;
mod flags;
mod harness;
mod load;
mod memory;
mod object_server;
mod programs;
mod raw;
mod report;
mod slices;
mod table;
mod topics;

use flags::Flags;
use serde_json::Value;
use topics::TOPICS;

fn main() {
    let names: Vec<&str> = TOPICS.iter().map(|(name, _)| *name).collect();
    if std::env::args().any(|argument| argument == "--help") {
        println!("topics: {}\n\n{}", names.join(", "), flags::usage());
        return;
    }
    let flags = Flags::parse(std::env::args().skip(1)).and_then(|flags| {
        match flags.topics.iter().find(|topic| !names.contains(&topic.as_str())) {
            Some(topic) => Err(format!("no topic `{topic}`; there are {}\n\n{}", names.join(", "), flags::usage())),
            None => Ok(flags),
        }
    });
    let flags = flags.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        std::process::exit(2);
    });
    let mut rows = Vec::new();
    for (name, run) in TOPICS {
        if flags.topics.is_empty() || flags.topics.iter().any(|topic| topic == name) {
            println!("{name}");
            for row in run(&flags) {
                println!("  {}", row.to_line());
                rows.push(row.to_json(name));
            }
        }
    }
    if let Some(file) = &flags.json {
        std::fs::write(file, Value::Array(rows).to_string()).unwrap();
    }
}
