//! An attacker: a source address, optionally an account, and a count of its requests by outcome.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use branchyard_testkit::{Outcome, RawAnswer, RawConnection};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;

use super::harness::{OutageHarness, account};

/// Statuses that the contracts document for these requests. 500 and 502 are not among them.
const DOCUMENTED: &[u16] = &[200, 201, 202, 204, 304, 400, 401, 403, 404, 408, 409, 413, 422, 429, 503];
/// Texts of internal errors, which no caller may provoke.
const FALSE_ALARMS: &[&str] = &["is damaged", "\"INTERNAL\""];

/// Number of requests by attack and outcome. The outcome is a status or how the connection ended.
pub(super) type Tally = BTreeMap<&'static str, BTreeMap<String, usize>>;

pub(super) struct Caller<'a> {
    pub(super) harness: &'a OutageHarness,
    address: Ipv4Addr,
    /// Number of the account; `None` if anonymous.
    pub(super) account: Option<usize>,
    pub(super) random: StdRng,
    /// The running attack.
    pub(super) attack: &'static str,
    pub(super) tally: Tally,
    /// Answers that violate the contract.
    pub(super) findings: Vec<String>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(harness: &'a OutageHarness, number: u8, account: Option<usize>, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed << 8 | u64::from(number));
        let address = Ipv4Addr::new(127, 0, 0, 10 + number);
        Self { harness, address, account, random, attack: "", tally: Tally::new(), findings: Vec::new() }
    }

    /// Returns the time at which the attacker stops waiting for an answer to a request sent now.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + self.harness.size.patience
    }

    /// Returns the account's name, or `anonymous`.
    pub(super) fn name(&self) -> String {
        self.account.map_or_else(|| "anonymous".to_owned(), account)
    }

    pub(super) fn number(&mut self, below: usize) -> usize {
        self.random.random_range(0..below)
    }

    pub(super) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.number(of.len())]
    }

    /// Returns the head of a request with the caller's credential.
    pub(super) fn head(&self, method: &str, path: &str, headers: &[&str]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        if let Some(account) = self.account {
            head += &format!("authorization: Bearer {}\r\n", self.harness.token(Some(account)));
        }
        for header in headers {
            head += header;
            head += "\r\n";
        }
        (head + "\r\n").into_bytes()
    }

    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        self.head("GET", path, &[])
    }

    pub(super) fn json(&self, method: &str, path: &str, body: &Value) -> Vec<u8> {
        self.bytes(method, path, &["content-type: application/json"], body.to_string().as_bytes())
    }

    pub(super) fn bytes(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
        let length = format!("content-length: {}", body.len());
        let mut request = self.head(method, path, &[headers, &[&length]].concat());
        request.extend_from_slice(body);
        request
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&mut self, request: &[u8]) -> Option<RawAnswer> {
        let until = self.until();
        let mut connection = self.open()?;
        connection.send(request);
        let outcome = connection.answer_until(until);
        self.note(&outcome);
        match outcome {
            Outcome::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// Sends all requests at once, each on its own connection, and disconnects when the caller's patience ends.
    pub(super) fn crowd(&mut self, requests: &[Vec<u8>]) {
        let held = self.begin(requests);
        let until = self.until();
        self.end(held, until);
    }

    /// Sends requests, possibly incomplete ones, each on its own connection.
    pub(super) fn begin(&mut self, requests: &[Vec<u8>]) -> Vec<RawConnection> {
        let mut connections: Vec<RawConnection> = requests.iter().filter_map(|_| self.open()).collect();
        for (connection, request) in connections.iter_mut().zip(requests) {
            connection.send(request);
        }
        connections
    }

    /// Reads the answers that arrive before `until`.
    pub(super) fn end(&mut self, connections: Vec<RawConnection>, until: Instant) {
        for mut connection in connections {
            let outcome = connection.answer_until(until);
            self.note(&outcome);
        }
    }

    pub(super) fn wait(&self, until: Instant) {
        std::thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_secs(60)));
    }

    fn open(&mut self) -> Option<RawConnection> {
        let connection = self.harness.connect(self.address);
        if connection.is_err() {
            self.count("not connected");
        }
        connection.ok()
    }

    fn note(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Closed => self.count("closed"),
            Outcome::HungUp => self.count("hung up"),
            Outcome::Answered(answer) => {
                let status = answer.status;
                self.count(&status.to_string());
                let text = || format!("{}: {status}: {:.500}", self.attack, answer.text());
                let refused_for_now = matches!(status, 429 | 503);
                let mut wrong = Vec::new();
                if !DOCUMENTED.contains(&status) {
                    wrong.push(text());
                }
                if refused_for_now && answer.header("retry-after").is_none() {
                    wrong.push(format!("without Retry-After: {}", text()));
                }
                if FALSE_ALARMS.iter().any(|alarm| answer.text().contains(alarm)) {
                    wrong.push(text());
                }
                self.findings.append(&mut wrong);
            }
        }
    }

    fn count(&mut self, what: &str) {
        *self.tally.entry(self.attack).or_default().entry(what.to_owned()).or_default() += 1;
    }
}
