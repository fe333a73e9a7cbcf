//! The page of a database on the demo's data, and the rows of a table of a million rows beside those of a table of a thousand.
//!
//! `cargo bench -p branchyard --bench pages [-- --rows 1000000]`
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and stops where it fails"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use branchyard_testkit::Actor;

const ROUNDS: usize = 30;
const SMALL: u64 = 1_000;
/// Rows of a write; more do not fit into the memory of a statement.
const BATCH: usize = 100_000;

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--rows");
    let rows: u64 = args.nth(1).map_or(1_000_000, |value| value.parse().expect("a number"));
    let dir = tempfile::tempdir().unwrap();
    let mut demo = demo(dir.path());
    let told = demo.told();
    let word = |before: &str| {
        let line = told.iter().find_map(|line| line.trim().strip_prefix(before)).unwrap_or_else(|| panic!("{told:?}"));
        line.split_whitespace().next().unwrap().trim_end_matches(':').to_owned()
    };
    let (origin, token, database) = (word("listening on "), word("token "), word("database "));
    let name = database.split('/').next().unwrap().to_owned();
    let owner = Actor::new(origin.clone(), Some(token), &name);
    let mut browser = Browser::at(&origin);

    println!("milliseconds to the first byte, median of {ROUNDS}");
    let page = browser.median(&format!("/{database}"));
    println!("  page of the database {database} {page:>7.2}  (aim: under 20)");

    owner.database("sizes");
    for (table, rows) in [("small", SMALL), ("large", rows)] {
        let definition = format!(
            "create table {table} (id integer primary key, name text, kind text, v integer); create index {table}_by_name on {table} (name); \
             create index {table}_by_kind on {table} (kind)"
        );
        owner.write(&format!("{name}/sizes"), "main", &definition);
        for first in (1..=rows).step_by(BATCH) {
            let last = rows.min(first + BATCH as u64 - 1);
            let fill = format!(
                "insert into {table} with recursive n(i) as (select {first} union all select i + 1 from n where i < {last}) \
                   select i, 'row number ' || (i * 7919 % {rows}), 'kind ' || (i % 4), i * 31 % 1000 from n"
            );
            owner.write(&format!("{name}/sizes"), "main", &fill);
        }
    }
    // The server closes connections that were idle for so long.
    let mut browser = Browser::at(&origin);
    println!("rows of a table of {SMALL} rows, of one of {rows}, and their ratio (aim: at most 1.5)");
    for order in ["", "sort=name", "sort=kind&desc=1", "sort=v"] {
        let told = if order == "sort=v" { "sort=v (no index)" } else { order };
        println!("  in the order of '{told}'");
        let small = browser.places(&format!("/{name}/sizes/tables/small?{order}"), SMALL);
        let large = browser.places(&format!("/{name}/sizes/tables/large?{order}"), rows);
        for ((place, small), (_, large)) in small.iter().zip(&large) {
            println!("    {place:<8} {small:>8.2} {large:>8.2}   {:>5.2}", large / small);
        }
    }
}

/// A demo that does not outlive the bench, however that ends.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Demo {
    /// What it says until it listens.
    fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        for line in BufReader::new(self.0.stdout.take().unwrap()).lines() {
            told.push(line.unwrap());
            if told.last().is_some_and(|line| line.starts_with("listening on ")) {
                break;
            }
        }
        told
    }
}

fn demo(dir: &std::path::Path) -> Demo {
    let mut command = Command::new(env!("CARGO_BIN_EXE_branchyard"));
    command.args(["demo", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.join("data"));
    command.env("BRANCHYARD_RATE_LIMIT__ENABLED", "false");
    Demo(command.stdout(Stdio::piped()).spawn().unwrap())
}

/// A connection that asks for pages.
struct Browser {
    host: String,
    connection: TcpStream,
}

impl Browser {
    fn at(origin: &str) -> Self {
        let host = origin.trim_start_matches("http://").to_owned();
        let connection = TcpStream::connect(&host).unwrap();
        connection.set_nodelay(true).unwrap();
        Self { host, connection }
    }

    /// Time to the first byte, and the page.
    fn get(&mut self, path: &str) -> (Duration, String) {
        let began = Instant::now();
        write!(self.connection, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host).unwrap();
        let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
        let mut first = None;
        loop {
            let read = self.connection.read(&mut buffer).unwrap();
            first.get_or_insert_with(|| began.elapsed());
            assert_ne!(read, 0, "the connection was closed");
            bytes.extend_from_slice(&buffer[..read]);
            let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if bytes.len() >= end + 4 + length.expect("a Content-Length") {
                assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
                return (first.unwrap(), String::from_utf8(bytes).unwrap());
            }
        }
    }

    /// Milliseconds.
    fn median(&mut self, path: &str) -> f64 {
        let mut times: Vec<Duration> = (0..ROUNDS).map(|_| self.get(path).0).collect();
        times.sort_unstable();
        times[ROUNDS / 2].as_secs_f64() * 1e3
    }

    /// Milliseconds of the first page, one in the middle, and the last.
    fn places(&mut self, path: &str, rows: u64) -> Vec<(&'static str, f64)> {
        let first = self.get(path).1;
        let last = link(&first, "last-page");
        // A page in the middle is found by its number once, and then measured by the place the page after it gives.
        let counted = format!("{path}{}page={}", if path.ends_with('?') { "" } else { "&" }, rows / 100);
        let middle = link(&self.get(&counted).1, "next-page");
        [("first", path.to_owned()), ("middle", middle), ("last", last)]
            .into_iter()
            .map(|(place, path)| (place, self.median(&path)))
            .collect()
    }
}

fn link(page: &str, id: &str) -> String {
    let tag =
        page.split("<a ").find(|tag| tag.split('>').next().is_some_and(|tag| tag.contains(&format!("id=\"{id}\""))));
    let tag = tag.unwrap_or_else(|| panic!("no {id} in {page}"));
    tag.split_once("href=\"").unwrap().1.split('"').next().unwrap().replace("&#38;", "&")
}
