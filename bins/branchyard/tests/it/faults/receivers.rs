//! Well-behaved and misbehaving webhook receivers, all on one port. The first segment of the path selects the behavior.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_testkit::{Received, receive};
use parking_lot::Mutex;

/// All behaviors. A misbehaving receiver accepts a delivery after a few attempts, so that every event arrives eventually.
pub(super) const MANNERS: &[&str] = &["good", "slow", "failing", "dropping", "silent", "endless"];

/// The accepted deliveries of a receiver: body and number of receptions by delivery id.
pub(super) type Taken = BTreeMap<String, (String, usize)>;

#[derive(Default)]
struct Inbox {
    /// Accepted deliveries by behavior.
    taken: BTreeMap<String, Taken>,
    /// Number of attempts by behavior and delivery id, including rejected ones.
    attempts: BTreeMap<(String, String), u64>,
    faults: Vec<String>,
}

/// The receivers of an episode.
pub(super) struct Receivers {
    address: SocketAddr,
    inbox: Arc<Mutex<Inbox>>,
}

impl Receivers {
    pub(super) fn start() -> Self {
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let shared = Arc::clone(&inbox);
        let address = receive(move |stream, request| {
            let _ = serve(stream, request, &shared);
        });
        Self { address, inbox }
    }

    /// Returns the URL of the receiver with this behavior.
    pub(super) fn url(&self, manner: &str) -> String {
        format!("http://{}/{manner}", self.address)
    }

    /// Returns the deliveries that the receiver with this behavior has accepted.
    pub(super) fn taken(&self, manner: &str) -> Taken {
        self.inbox.lock().taken.get(manner).cloned().unwrap_or_default()
    }

    /// Returns the recorded violations of the delivery rules.
    pub(super) fn faults(&self) -> Vec<String> {
        self.inbox.lock().faults.clone()
    }
}

fn serve(mut stream: &TcpStream, request: Received, inbox: &Mutex<Inbox>) -> Option<()> {
    let manner = request.path.trim_start_matches('/').to_owned();
    let id = request.headers.get("webhook-id")?.clone();
    let body = request.body;
    let attempt = {
        let mut inbox = inbox.lock();
        let count = inbox.attempts.entry((manner.clone(), id.clone())).or_default();
        *count += 1;
        *count
    };
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    let patience = hasher.finish() % 3;
    if attempt <= patience {
        match manner.as_str() {
            "failing" => return stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n").ok(),
            "dropping" => return Some(()),
            "silent" => {
                std::thread::sleep(Duration::from_secs(3));
                return Some(());
            }
            _ => {}
        }
    }
    if manner == "slow" {
        std::thread::sleep(Duration::from_millis(hasher.finish() % 200));
    }
    {
        let mut inbox = inbox.lock();
        let inbox = &mut *inbox;
        let (first, times) =
            inbox.taken.entry(manner.clone()).or_default().entry(id.clone()).or_insert_with(|| (body.clone(), 0));
        *times += 1;
        if *first != body {
            inbox.faults.push(format!("{manner} got {id} first with {first}, then with {body}"));
        }
    }
    if manner == "endless" {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            stream.write_all(b"1000\r\n").ok()?;
            stream.write_all(&[b'x'; 0x1000]).ok()?;
            stream.write_all(b"\r\n").ok()?;
        }
        return Some(());
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()
}
