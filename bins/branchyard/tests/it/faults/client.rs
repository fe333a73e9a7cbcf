//! A client that follows the documented retry rules: requests that were lost or temporarily rejected are repeated with the same
//! idempotency key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use reqwest::blocking::Client as Http;
use serde_json::Value;

/// Maximum time until a request has a final answer. Longer than any fault, including recovery.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Idle timeout of pooled connections. Shorter than the server's, because a request on a connection that the server is closing
/// would be lost.
const IDLE: Duration = Duration::from_secs(2);

/// Records whether a fault is active, and the temporary errors that clients observed.
#[derive(Default)]
pub(super) struct Weather {
    /// Number of state changes. Odd while a fault is active.
    changes: AtomicUsize,
    seen: Mutex<BTreeMap<String, usize>>,
}

impl Weather {
    pub(super) fn set_bad(&self, bad: bool) {
        if self.changes().is_multiple_of(2) == bad {
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn changes(&self) -> usize {
        self.changes.load(Ordering::SeqCst)
    }

    /// Returns `true` if a fault was active at any time since the counter was `changes`. The server may be back before the client
    /// that lost a connection gets here, so the current state is not enough.
    fn was_bad_since(&self, changes: usize) -> bool {
        !changes.is_multiple_of(2) || self.changes() != changes
    }

    pub(super) fn note(&self, what: String) {
        *self.seen.lock().entry(what).or_default() += 1;
    }

    pub(super) fn seen(&self) -> BTreeMap<String, usize> {
        self.seen.lock().clone()
    }
}

/// A final answer.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) etag: String,
    /// Whether an earlier attempt got no final answer and may have taken effect.
    pub(super) repeated: bool,
}

impl Reply {
    pub(super) fn data(&self) -> &Value {
        &self.body["data"]
    }

    /// Returns a text field of the answer's data.
    pub(super) fn text(&self, field: &str) -> String {
        self.data()[field].as_str().unwrap_or_else(|| panic!("no {field} in {}: {}", self.status, self.body)).to_owned()
    }
}

/// A request that is repeated until it has a final answer.
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    /// Path below the origin, with the leading slash.
    pub(super) path: &'a str,
    pub(super) body: Option<Body<'a>>,
    pub(super) key: Option<&'a str>,
    pub(super) token: Option<&'a str>,
    /// Whether the answer waits for the end of the operation.
    pub(super) waits: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Body<'a> {
    Json(&'a Value),
    Bytes(&'a [u8]),
}

#[derive(Clone)]
pub(super) struct Client {
    http: Http,
    /// Origin of the server. Changes with every start.
    pub(super) origin: Arc<RwLock<String>>,
    pub(super) token: String,
    pub(super) weather: Arc<Weather>,
}

impl Client {
    pub(super) fn new(origin: Arc<RwLock<String>>, token: String) -> Self {
        let http =
            Http::builder().no_proxy().timeout(Duration::from_secs(120)).pool_idle_timeout(IDLE).build().unwrap();
        Self { http, origin, token, weather: Arc::default() }
    }

    fn ask<'a>(&'a self, method: &'a str, path: &'a str) -> Ask<'a> {
        Ask { method, path, body: None, key: None, token: Some(&self.token), waits: false }
    }

    pub(super) fn get(&self, path: &str) -> Reply {
        self.send(&self.ask("GET", &format!("/api/v2{path}")))
    }

    pub(super) fn delete(&self, path: &str) -> Reply {
        self.send(&self.ask("DELETE", &format!("/api/v2{path}")))
    }

    pub(super) fn patch(&self, path: &str, body: &Value) -> Reply {
        let path = format!("/api/v2{path}");
        self.send(&Ask { body: Some(Body::Json(body)), ..self.ask("PATCH", &path) })
    }

    /// Sends a POST request with an idempotency key.
    pub(super) fn post(&self, path: &str, key: &str, body: &Value) -> Reply {
        let path = format!("/api/v2{path}");
        self.send(&Ask { body: Some(Body::Json(body)), key: Some(key), ..self.ask("POST", &path) })
    }

    /// Sends a POST request with an idempotency key, whose answer waits for the end of the operation.
    pub(super) fn post_waiting(&self, path: &str, key: &str, body: &Value) -> Reply {
        let path = format!("/api/v2{path}");
        self.send(&Ask { body: Some(Body::Json(body)), key: Some(key), waits: true, ..self.ask("POST", &path) })
    }

    /// Uploads a part to its announced URL, with the origin replaced by the current one.
    pub(super) fn put(&self, url: &str, bytes: &[u8]) -> Reply {
        let path = url.splitn(4, '/').nth(3).unwrap();
        let path = format!("/{path}");
        self.send(&Ask { body: Some(Body::Bytes(bytes)), token: None, ..self.ask("PUT", &path) })
    }

    /// Runs a SQL read on `ada/d` and returns the rows as text.
    pub(super) fn rows(&self, q: &str) -> Vec<Vec<String>> {
        let body = serde_json::json!({"q": q, "limit": 10_000});
        let path = "/api/v2/databases/ada/d/sql";
        let reply = self.send(&Ask { body: Some(Body::Json(&body)), ..self.ask("POST", path) });
        assert_eq!(reply.data()["status"], "success", "{q}: {}", reply.body);
        let rows = reply.data()["rows"].as_array().unwrap();
        assert!(rows.len() < 10_000, "as many rows as a read can show");
        let text = |cell: &Value| cell.as_str().unwrap_or_default().to_owned();
        rows.iter().map(|row| row.as_array().unwrap().iter().map(text).collect()).collect()
    }

    /// Returns all items of a paginated list.
    pub(super) fn all(&self, path: &str) -> Vec<Value> {
        let (mut items, mut page) = (Vec::new(), String::new());
        loop {
            let mark = if path.contains('?') { '&' } else { '?' };
            let reply = self.get(&format!("{path}{mark}page_size=100{page}"));
            assert_eq!(reply.status, 200, "{path}: {}", reply.body);
            items.extend(reply.data().as_array().unwrap().iter().cloned());
            match reply.body["meta"]["next_page_token"].as_str() {
                Some(next) => page = format!("&page_token={next}"),
                None => return items,
            }
        }
    }

    /// Sends a request repeatedly until it has a final answer.
    pub(super) fn send(&self, ask: &Ask) -> Reply {
        let began = Instant::now();
        let mut repeated = false;
        loop {
            let changes = self.weather.changes();
            let answer = self.once(ask);
            let bad = self.weather.was_bad_since(changes);
            match answer {
                // A 409 with `Retry-After` means that an earlier attempt with the same key, which this client gave up, still
                // runs.
                Some((reply, retry_after)) if reply.status < 429 && !(reply.status == 409 && retry_after) => {
                    return Reply { repeated, ..reply };
                }
                // A temporary error. Without an active fault, the only acceptable errors are rejections below 500 and a 503 with
                // `Retry-After`.
                Some((reply, retry_after)) => {
                    let brief = format!(
                        "answered {} {}, and asked again",
                        reply.status,
                        reply.body["code"].as_str().unwrap_or_default()
                    );
                    assert!(
                        bad || reply.status < 500 || (reply.status == 503 && retry_after),
                        "{} {} in fair weather: {}",
                        ask.method,
                        ask.path,
                        reply.body
                    );
                    self.weather.note(brief);
                    repeated |= reply.status >= 500;
                }
                None => {
                    assert!(bad, "{} {}: the connection was lost in fair weather", ask.method, ask.path);
                    repeated = true;
                }
            }
            assert!(began.elapsed() < PATIENCE, "{} {}: no final answer", ask.method, ask.path);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a request once. Returns the answer and whether it has `Retry-After`, or `None` if the connection was lost.
    pub(super) fn once(&self, ask: &Ask) -> Option<(Reply, bool)> {
        let url = format!("{}{}", self.origin.read(), ask.path);
        let mut request = self.http.request(ask.method.parse().unwrap(), url);
        request = match ask.body {
            Some(Body::Json(body)) => request.json(body),
            Some(Body::Bytes(bytes)) => request.body(bytes.to_vec()),
            None => request,
        };
        if let Some(key) = ask.key {
            request = request.header("Idempotency-Key", key);
        }
        if ask.waits {
            request = request.header("Prefer", "wait=20");
        }
        if let Some(token) = ask.token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().ok()?;
        let status = answer.status().as_u16();
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (etag, retry_after) = (header("etag").unwrap_or_default(), header("retry-after").is_some());
        let bytes = answer.bytes().ok()?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Some((Reply { status, body, etag, repeated: false }, retry_after))
    }
}

#[test]
fn a_request_that_outlasts_a_fault_met_it() {
    let weather = Weather::default();
    let begun = weather.changes();
    assert!(!weather.was_bad_since(begun));
    weather.set_bad(true);
    assert!(weather.was_bad_since(begun));
    weather.set_bad(false);
    assert!(weather.was_bad_since(begun), "it was lost before the server came back");
    assert!(!weather.was_bad_since(weather.changes()));
}
