//! Applications with many connections and one token, against the real binary with default settings.
//!
//! `cargo test` runs them for a few seconds and asserts that no request is refused. `cargo xtask load` runs for longer and prints
//! latencies (docs/testing.md).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Program, ServerProcess};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::program;

/// Number of databases that the writers share.
const DATABASES: usize = 4;
/// Rows of each table at the start.
const ROWS: usize = 1_000;

/// Size of a run.
struct Size {
    seconds: Duration,
    writers: usize,
    readers: usize,
}

/// Starts the binary under load with default settings, and creates a user.
fn start(dir: &Path) -> (Program, ServerProcess, Actor) {
    // `cargo xtask load` sets this variable.
    let program = std::env::var_os("LOAD_BINARY").map_or_else(program, Program::at);
    let mut command = program.serve(dir);
    // Other tests switch off the rate limits.
    command.env_remove("BRANCHYARD_RATE_LIMIT__ENABLED");
    let server = ServerProcess::start(&mut command);
    let ada = Actor::new(server.origin.clone(), Some(program.user(dir, "ada")), "ada");
    (program, server, ada)
}

fn database(ada: &Actor, name: &str) {
    ada.database(name);
    let rows = format!(
        "create table readings (id integer primary key, gauge text, level real);
         with recursive n(x) as (select 1 union all select x + 1 from n where x < {ROWS})
         insert into readings select x, 'gauge ' || x % 17, x / 8.0 from n"
    );
    ada.write(&format!("ada/{name}"), "main", &rows);
}

/// Statuses and latencies of the requests of a kind.
#[derive(Default)]
struct Seen {
    statuses: BTreeMap<u16, usize>,
    times: Vec<Duration>,
}

impl Seen {
    fn record(&mut self, status: u16, time: Duration) {
        *self.statuses.entry(status).or_default() += 1;
        self.times.push(time);
    }

    fn quantile(&self, permille: usize) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        times.get((times.len() * permille / 1_000).min(last)).copied().unwrap_or_default()
    }

    fn line(&self, name: &str) -> String {
        let [p50, p99, most] = [500, 990, 1_000].map(|permille| self.quantile(permille).as_secs_f64() * 1e3);
        format!(
            "{name}: {} requests, p50 {p50:.1} ms, p99 {p99:.1} ms, slowest {most:.1} ms, statuses {:?}",
            self.times.len(),
            self.statuses
        )
    }
}

/// Requests by kind.
#[derive(Default)]
struct Tally(Mutex<BTreeMap<&'static str, Seen>>);

impl Tally {
    /// Sends a request, records it, and returns the status and the body.
    fn send(&self, kind: &'static str, request: reqwest::blocking::RequestBuilder) -> (u16, Value) {
        let began = Instant::now();
        let answer = request.send().unwrap();
        let status = answer.status().as_u16();
        let body = answer.json().unwrap_or_default();
        self.0.lock().entry(kind).or_default().record(status, began.elapsed());
        (status, body)
    }
}

fn write(ada: &Actor, tally: &Tally, number: usize, count: usize) {
    let database = format!("/databases/ada/d{}/sql-writes", number % DATABASES);
    let id = ROWS + 1 + number * 1_000_000 + count;
    let q = format!("insert into readings values ({id}, 'gauge {number}', {count}.5)");
    let body = json!({"from_branch": "main", "to_branch": "main", "q": q});
    let began = Instant::now();
    let (status, accepted) = tally.send("write, accepted", ada.request(Method::POST, &database).json(&body));
    if status != 202 {
        return;
    }
    let href = accepted["data"]["href"].as_str().unwrap().to_owned();
    loop {
        let request = ada.request(Method::GET, &href).header("Prefer", "wait=20");
        let (status, operation) = tally.send("operation", request);
        if status != 200 || matches!(operation["data"]["status"].as_str(), Some("succeeded" | "failed")) {
            assert_ne!(operation["data"]["status"], "failed", "{operation}");
            tally.0.lock().entry("write, succeeded").or_default().record(status, began.elapsed());
            return;
        }
    }
}

fn read(ada: &Actor, tally: &Tally, number: usize, count: usize) {
    let id = 1 + (number * 7_919 + count * 104_729) % ROWS;
    let q = format!("select id, gauge, level from readings where id = {id}");
    let request = ada.request(Method::POST, &format!("/databases/ada/d{}/sql", number % DATABASES));
    let (status, answer) = tally.send("read", request.json(&json!({"q": q})));
    assert!(status != 200 || answer["data"]["status"] == "success", "{answer}");
}

/// Runs writers and readers with one token until the time is over. Returns what they saw.
fn play(ada: &Actor, size: &Size) -> BTreeMap<&'static str, Seen> {
    (0..DATABASES).for_each(|number| database(ada, &format!("d{number}")));
    let (tally, until) = (Tally::default(), Instant::now() + size.seconds);
    thread::scope(|scope| {
        let tally = &tally;
        for number in 0..size.writers + size.readers {
            // A client of its own has a connection of its own.
            let ada = Actor::new(ada.origin().to_owned(), ada.token().map(str::to_owned), "ada");
            scope.spawn(move || {
                for count in 0.. {
                    if Instant::now() >= until {
                        break;
                    }
                    match number.checked_sub(size.writers) {
                        None => write(&ada, tally, number, count),
                        Some(number) => read(&ada, tally, number, count),
                    }
                }
            });
        }
    });
    tally.0.into_inner()
}

#[test]
fn writers_and_readers_with_one_token_are_never_refused() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<usize>().expect("a number"));
    let size = Size {
        seconds: Duration::from_secs(number("LOAD_SECONDS").unwrap_or(3) as u64),
        writers: number("LOAD_WRITERS").unwrap_or(16),
        readers: number("LOAD_READERS").unwrap_or(64),
    };
    let dir = tempfile::tempdir().unwrap();
    let (_, server, ada) = start(dir.path());
    let seen = play(&ada, &size);
    println!("{} writers and {} readers with one token, {:?}", size.writers, size.readers, size.seconds);
    seen.iter().for_each(|(kind, seen)| println!("  {}", seen.line(kind)));
    for (kind, seen) in &seen {
        let refused: Vec<u16> = seen.statuses.keys().copied().filter(|status| !matches!(status, 200 | 202)).collect();
        assert!(refused.is_empty(), "{kind}: {}", seen.line(kind));
    }
    assert!(seen.contains_key("read") || size.readers == 0);
    server.terminate();
}

/// 16 connections read a statement that becomes slow, then 64 connections several times a short one. These are more than there are
/// places, so that some wait.
#[test]
fn sixteen_and_sixty_four_connections_with_one_token_wait_for_their_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (_, server, ada) = start(dir.path());
    database(&ada, "rivers");
    for (connections, rounds, rows) in [(16, 1, 1_000_000), (64, 5, 10_000)] {
        let q = format!(
            "with recursive n(x) as (select 1 union all select x + 1 from n where x < {rows}) select sum(x) from n"
        );
        let statuses = Mutex::new(BTreeMap::<u16, usize>::new());
        thread::scope(|scope| {
            for number in 0..connections {
                let (ada, statuses) = (ada.clone(), &statuses);
                let q = format!("{q} where x > {number}");
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let answer = ada.post("/databases/ada/rivers/sql", &json!({"q": q}));
                        *statuses.lock().entry(answer.status).or_default() += 1;
                        if answer.status == 200 {
                            assert_eq!(answer.data()["status"], "success", "{}", answer.text);
                        }
                    }
                });
            }
        });
        assert_eq!(statuses.into_inner(), BTreeMap::from([(200, connections * rounds)]));
    }
    server.terminate();
}

/// A caller keeps 64 connections busy with endless reads. Another one has a connection, on which it reads by key, and now and then
/// with a slow statement of its own.
#[test]
fn a_greedy_caller_does_not_keep_out_another_one() {
    const SLOW: &str =
        "with recursive n(x) as (select 1 union all select x + 1 from n where x < 300000) select sum(x) from n";
    const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n";
    let dir = tempfile::tempdir().unwrap();
    let (program, server, ada) = start(dir.path());
    let ben = Actor::new(server.origin.clone(), Some(program.user(dir.path(), "ben")), "ben");
    database(&ada, "rivers");
    let (stop, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    let tally = Tally::default();
    thread::scope(|scope| {
        for _ in 0..64 {
            let (stop, refused, ada) = (&stop, &refused, &ada);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let body = json!({"q": ENDLESS, "timeout_ms": 3_000});
                    let answer = ada.post("/databases/ada/rivers/sql", &body);
                    assert!(matches!(answer.status, 200 | 429), "{}: {}", answer.status, answer.text);
                    refused.fetch_add(usize::from(answer.status == 429), Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs(1));
        for number in 0..200 {
            let kind = if number % 20 == 0 { "slow read" } else { "read by key" };
            let key = format!("select level from readings where id = {}", 1 + number % ROWS);
            let q = if number % 20 == 0 { SLOW } else { &key };
            let request = ben.request(Method::POST, "/databases/ada/rivers/sql").json(&json!({"q": q}));
            let (status, answer) = tally.send(kind, request);
            assert_eq!((status, &answer["data"]["status"]), (200, &json!("success")), "{answer}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("beside 64 connections with endless reads, {} of which were refused:", refused.into_inner());
    let seen = tally.0.into_inner();
    seen.iter().for_each(|(kind, seen)| println!("  {}", seen.line(kind)));
    // An endless read holds its place for seconds; the machine may be busy with other tests.
    assert!(seen["read by key"].quantile(500) < Duration::from_secs(1), "{}", seen["read by key"].line("read by key"));
    assert!(seen["slow read"].quantile(500) < Duration::from_secs(5), "{}", seen["slow read"].line("slow read"));
    server.terminate();
}
