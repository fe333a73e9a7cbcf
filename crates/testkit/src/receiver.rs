//! A receiver of webhooks.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use crate::AMPLE;

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Received {
    /// When the last byte arrived.
    pub at: Instant,
    /// The path with its query.
    pub path: String,
    /// The headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

impl Received {
    /// Returns a header. Panics if the header is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// How a receiver answers its requests, which are counted from 0: with a status, or not at all for a minute (`None`).
pub type Manner = fn(usize) -> Option<u16>;

#[derive(Default)]
struct Inbox {
    received: Mutex<Vec<Received>>,
    arrived: Condvar,
}

/// A receiver on a free port of the loopback interface. The server must be allowed to reach it: `hooks.allowed_cidrs`.
pub struct Receiver {
    address: SocketAddr,
    inbox: Arc<Inbox>,
}

impl Receiver {
    /// Starts a receiver that answers 204 to every request.
    pub fn start() -> Self {
        Self::with(|_| Some(204))
    }

    /// Starts a receiver that answers as `manner` decides.
    pub fn with(manner: Manner) -> Self {
        let inbox = Arc::new(Inbox::default());
        let (shared, number) = (Arc::clone(&inbox), AtomicUsize::new(0));
        let address = receive(move |mut stream, request| {
            shared.received.lock().push(request);
            shared.arrived.notify_all();
            match manner(number.fetch_add(1, Ordering::SeqCst)) {
                Some(status) => {
                    let answer = format!("HTTP/1.1 {status} Answer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                    let _ = stream.write_all(answer.as_bytes());
                }
                None => std::thread::sleep(Duration::from_secs(60)),
            }
        });
        Self { address, inbox }
    }

    /// Returns the URL to register.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Returns the requests that have arrived so far, in order.
    pub fn received(&self) -> Vec<Received> {
        self.inbox.received.lock().clone()
    }

    /// Waits until `count` requests have arrived, and returns all that have.
    pub fn wait_for(&self, count: usize) -> Vec<Received> {
        let mut received = self.inbox.received.lock();
        self.inbox.arrived.wait_while_for(&mut received, |received| received.len() < count, AMPLE);
        assert!(received.len() >= count, "{} of {count} requests arrived", received.len());
        received.clone()
    }
}

/// Listens on a free port of the loopback interface, and passes each request to `answer` on a thread of its own. Returns the address.
/// Half a request, as a sender that was killed leaves it, is ignored.
pub fn receive(answer: impl Fn(&TcpStream, Received) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || read(&stream).map(|request| answer(&stream, request)));
        }
    });
    address
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut headers = BTreeMap::new();
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Received { at: Instant::now(), path, headers, body: String::from_utf8(body).ok()? })
}
