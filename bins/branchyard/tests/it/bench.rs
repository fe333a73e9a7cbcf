//! Tests of the bench's argument parser and report rows. They live here because the bench has no test harness.

use serde_json::{Value, json};

use flags::Flags;
use report::{Aim, Row};

#[path = "../../benches/ratios/flags.rs"]
mod flags;
#[path = "../../benches/ratios/report.rs"]
mod report;

fn parse(line: &str) -> Result<Flags, String> {
    Flags::parse(line.split_whitespace().map(str::to_owned))
}

#[test]
fn quick_runs_are_smaller_and_a_named_size_wins() {
    let (full, quick) = (parse("").unwrap(), parse("reads --quick --bench").unwrap());
    assert!(quick.count("--rows") < full.count("--rows") && quick.number("--seconds") < full.number("--seconds"));
    assert!(full.topics.is_empty() && full.json.is_none() && full.datasette.is_none() && full.other.is_none());
    assert!(full.peers.is_none() && full.postgres.is_none() && full.nodes_postgres.is_none());
    assert_eq!(quick.topics, ["reads"]);
    let named = parse("--rows 7 --quick --seconds 0.5 --json a.json --datasette b --other c").unwrap();
    assert_eq!((named.count("--rows"), named.number("--seconds")), (7, 0.5));
    assert_eq!((named.json.unwrap(), named.datasette.unwrap()), ("a.json".into(), "b".into()));
    assert_eq!(named.other.unwrap(), std::path::Path::new("c"));
}

#[test]
fn what_is_wrong_is_named() {
    assert!(parse("--row 7").unwrap_err().starts_with("no flag --row\n"));
    assert!(parse("--rows").unwrap_err().starts_with("--rows takes a value\n"));
    assert_eq!(parse("--rows many").unwrap_err(), "--rows takes a number above 0, not `many`");
    assert_eq!(parse("--slices 0").unwrap_err(), "--slices takes a number above 0, not `0`");
}

fn row(value: f64, aim: Aim) -> Row {
    Row { baseline: "a loop, 9 /s".to_owned(), ..Row::alone("read", "a read".to_owned(), value, "", aim) }
}

#[test]
fn an_aim_is_met_at_its_number_and_not_past_it() {
    let met = |value, aim| row(value, aim).to_json("reads")["met"].clone();
    assert_eq!(met(0.7, Aim::AtLeast(0.7)), json!(true));
    assert_eq!(met(0.69, Aim::AtLeast(0.7)), json!(false));
    assert_eq!(met(3.0, Aim::AtMost(3.0)), json!(true));
    assert_eq!(met(3.1, Aim::AtMost(3.0)), json!(false));
    assert_eq!(met(9.0, Aim::None), Value::Null);
    let skipped = Row::skipped("read", "no such program".to_owned());
    assert_eq!(
        (skipped.to_json("reads")["met"].clone(), skipped.to_json("reads")["value"].clone()),
        Default::default()
    );
    assert!(skipped.to_line().ends_with("skipped: no such program"));
}

#[test]
fn a_line_says_what_was_held_against_what() {
    let line = row(0.5, Aim::AtLeast(0.7)).to_line();
    assert!(line.contains("0.50") && line.contains("aim: at least 0.7") && line.ends_with("against a loop, 9 /s"));
}
