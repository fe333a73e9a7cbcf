//! Well-behaved callers that measure how long their requests take.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use branchyard_testkit::{Outcome, RawAnswer, RawConnection};
use serde_json::json;

use super::harness::{OutageHarness, VICTIM};

/// Timeout of a request, far above its usual duration.
const PATIENCE: Duration = Duration::from_secs(120);

/// The kinds of requests, by their names in the report.
pub(super) const READ: &str = "read by SQL";
pub(super) const LOOK_UP: &str = "look-up";
pub(super) const PAGE: &str = "page";
pub(super) const NEWCOMER: &str = "read on a new connection";
pub(super) const WRITE: &str = "write of one row";
pub(super) const WRITE_TO_BASE: &str = "write to the base of forks";
pub(super) const READS: &[&str] = &[READ, LOOK_UP, PAGE, NEWCOMER];
pub(super) const WRITES: &[&str] = &[WRITE, WRITE_TO_BASE];

/// Durations by kind, from the first byte of the request to the last byte of the answer.
#[derive(Default)]
pub(super) struct Times {
    by_kind: BTreeMap<&'static str, Vec<Duration>>,
    /// Answers other than success.
    pub(super) failures: Vec<String>,
}

impl Times {
    pub(super) fn extend(&mut self, other: Self) {
        for (kind, times) in other.by_kind {
            self.by_kind.entry(kind).or_default().extend(times);
        }
        self.failures.extend(other.failures);
    }

    pub(super) fn count(&self, kind: &str) -> usize {
        self.by_kind.get(kind).map_or(0, Vec::len)
    }

    /// Returns the duration that the given share of requests did not exceed.
    pub(super) fn quantile(&self, kind: &str, per_mille: usize) -> Duration {
        let mut times = self.by_kind.get(kind).cloned().unwrap_or_default();
        times.sort_unstable();
        let index = (times.len() * per_mille / 1000).min(times.len().saturating_sub(1));
        times.get(index).copied().unwrap_or_default()
    }
}

/// A caller with its own persistent connection.
struct Client<'a> {
    harness: &'a OutageHarness,
    address: Ipv4Addr,
    connection: Option<RawConnection>,
    times: Times,
    number: usize,
}

impl<'a> Client<'a> {
    fn new(harness: &'a OutageHarness, last: u8) -> Self {
        let address = Ipv4Addr::new(127, 0, 0, last);
        Self { harness, address, connection: None, times: Times::default(), number: usize::from(last) }
    }

    fn read(&mut self, kind: &'static str) {
        self.number += 7;
        let id = self.number % 1000 + 1;
        let sql = format!("/api/v2/databases/vera/small/sql?q=select+v+from+t+where+id+%3D+{id}");
        let token = format!("authorization: Bearer {}\r\n", self.harness.token(None));
        let (path, credential) = match kind {
            READ => (sql, token),
            LOOK_UP => ("/api/v2/databases/vera/small".to_owned(), token),
            PAGE => (format!("/{VICTIM}/small"), String::new()),
            _ => {
                self.connection = None;
                (sql, String::new())
            }
        };
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{credential}\r\n");
        let is_sql = matches!(kind, READ | NEWCOMER);
        let began = Instant::now();
        let good = |answer: &RawAnswer| {
            answer.status == 200 && (!is_sql || answer.json()["data"]["rows"][0][0] == format!("value {id}"))
        };
        if self.exchange(kind, request.as_bytes(), good).is_some() {
            self.took(kind, began);
        }
    }

    fn write(&mut self, kind: &'static str) {
        self.number += 1;
        let database = if kind == WRITE { "small" } else { "open" };
        let q = format!("insert into log values ({})", self.number);
        let body = json!({"from_branch": "main", "to_branch": "main", "q": q}).to_string();
        let credential = format!("host: x\r\nauthorization: Bearer {}\r\n", self.harness.token(None));
        let head = format!(
            "POST /api/v2/databases/vera/{database}/sql-writes HTTP/1.1\r\n{credential}content-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let began = Instant::now();
        let Some(accepted) = self.exchange(kind, (head + &body).as_bytes(), |answer| answer.status == 202) else {
            return;
        };
        let id = accepted.json()["data"]["id"].as_str().unwrap_or_default().rsplit('/').next().unwrap().to_owned();
        let poll = format!("GET /api/v2/operations/{id} HTTP/1.1\r\n{credential}prefer: wait=20\r\n\r\n");
        while began.elapsed() < PATIENCE {
            let good = |answer: &RawAnswer| answer.status == 200 && answer.json()["data"]["status"] != "failed";
            let Some(answer) = self.exchange(kind, poll.as_bytes(), good) else { return };
            if answer.json()["data"]["status"] == "succeeded" {
                return self.took(kind, began);
            }
        }
        self.times.failures.push(format!("{kind}: not settled after {PATIENCE:?}"));
    }

    /// Records the duration of a request that completes now.
    fn took(&mut self, kind: &'static str, began: Instant) {
        self.times.by_kind.entry(kind).or_default().push(began.elapsed());
    }

    fn exchange(
        &mut self,
        kind: &'static str,
        request: &[u8],
        is_good: impl Fn(&RawAnswer) -> bool,
    ) -> Option<RawAnswer> {
        let began = Instant::now();
        if self.connection.is_none() {
            match self.harness.connect(self.address) {
                Ok(connection) => self.connection = Some(connection),
                Err(error) => self.times.failures.push(format!("{kind}: {error}")),
            }
        }
        let connection = self.connection.as_mut()?;
        connection.send(request);
        match connection.answer_until(began + PATIENCE) {
            Outcome::Answered(answer) if is_good(&answer) => return Some(answer),
            Outcome::Answered(answer) => {
                let text = answer.text();
                self.times.failures.push(format!("{kind}: {}: {text:.300}", answer.status));
            }
            other => {
                self.connection = None;
                self.times.failures.push(format!("{kind}: {other:?} after {:?}", began.elapsed()));
            }
        }
        None
    }
}

/// Runs the callers until `stop` is set and each kind of request was answered `least` times.
pub(super) fn run(harness: &OutageHarness, stop: &AtomicBool, least: usize) -> Times {
    let mut all = Times::default();
    // The pace stays below the anonymous rate limit of 600 requests per minute and address.
    let lives: [(u8, Duration, &[&'static str]); 4] = [
        (2, Duration::from_millis(10), &[READ, LOOK_UP]),
        (3, Duration::from_millis(150), &[PAGE]),
        (4, Duration::from_millis(150), &[NEWCOMER]),
        (5, Duration::from_millis(100), WRITES),
    ];
    std::thread::scope(|scope| {
        let threads: Vec<_> = lives
            .iter()
            .map(|(last, pace, kinds)| {
                scope.spawn(move || {
                    let mut client = Client::new(harness, *last);
                    let mut rounds = 0;
                    while rounds < least || !stop.load(Ordering::Relaxed) {
                        for kind in *kinds {
                            if WRITES.contains(kind) {
                                client.write(kind)
                            } else {
                                client.read(kind)
                            }
                            std::thread::sleep(*pace);
                        }
                        rounds += 1;
                    }
                    client.times
                })
            })
            .collect();
        for thread in threads {
            all.extend(thread.join().unwrap());
        }
    });
    all
}
