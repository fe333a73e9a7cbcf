//! Load over keep-alive connections. Requests are cheap to make, and every response is verified.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// Timeout of a response.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval at which a blocked read checks whether to give up.
const LOOK: Duration = Duration::from_millis(100);

/// A request and the expected content of its response. Both are functions of a varying id.
pub(crate) struct Question<'a> {
    /// Address of the server.
    pub(crate) address: SocketAddr,
    /// Writes the complete request for an id.
    pub(crate) request: &'a (dyn Fn(u64, &mut Vec<u8>) + Sync),
    /// Writes the bytes that the response body must contain.
    pub(crate) proof: &'a (dyn Fn(u64, &mut Vec<u8>) + Sync),
}

/// Position of the end of a response.
enum End {
    Unknown,
    At(usize),
    /// After the last chunk. Chunks are not decoded, because the expected bytes lie within one chunk.
    Chunk,
}

impl End {
    fn is_reached(&self, buffer: &[u8]) -> bool {
        match self {
            Self::Unknown => false,
            Self::At(length) => buffer.len() >= *length,
            Self::Chunk => buffer.ends_with(b"\r\n0\r\n\r\n"),
        }
    }
}

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A completely read response.
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    /// Time from sending the request to the first byte of the response.
    pub(crate) first_byte: Duration,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LOOK)).unwrap();
        Self { stream, buffer: Vec::with_capacity(64 << 10) }
    }

    /// Sends a request and reads its response.
    pub(crate) fn ask(&mut self, request: &[u8]) -> std::io::Result<Response<'_>> {
        let began = Instant::now();
        self.ask_unless(request, || began.elapsed() > PATIENCE)
    }

    /// Sends a request and reads its response. Fails once `is_over` returns `true` while the response is incomplete.
    pub(crate) fn ask_unless(&mut self, request: &[u8], is_over: impl Fn() -> bool) -> std::io::Result<Response<'_>> {
        let began = Instant::now();
        self.stream.write_all(request)?;
        self.buffer.clear();
        let mut first_byte = None;
        let (mut body_at, mut end) = (0, End::Unknown);
        while !end.is_reached(&self.buffer) {
            let filled = self.buffer.len();
            self.buffer.resize(filled + (16 << 10), 0);
            let read = self.stream.read(&mut self.buffer[filled..]);
            self.buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock && !is_over() => continue,
                Err(error) => return Err(error),
                Ok(_) => {
                    first_byte.get_or_insert_with(|| began.elapsed());
                }
            }
            if body_at == 0
                && let Some(head) = memchr::memmem::find(&self.buffer, b"\r\n\r\n")
            {
                body_at = head + 4;
                let length = header(&self.buffer[..body_at], "content-length");
                end = length.map_or(End::Chunk, |length| End::At(body_at + length.parse().unwrap_or(0)));
            }
        }
        let status = std::str::from_utf8(&self.buffer[9..12]).ok().and_then(|code| code.parse().ok()).unwrap_or(0);
        let (head, body) = self.buffer.split_at(body_at);
        Ok(Response { status, head, body, first_byte: first_byte.unwrap_or_default() })
    }
}

/// Returns the value of a header.
pub(crate) fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = std::str::from_utf8(head).ok()?.lines();
    lines
        .filter_map(|line| line.split_once(": "))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// Writes a GET request. `head` holds additional headers, each with its line ending.
pub(crate) fn get(into: &mut Vec<u8>, path: &str, head: &str) {
    write!(into, "GET {path} HTTP/1.1\r\nHost: bench\r\n{head}\r\n").unwrap();
}

/// Uniformly distributed random ids. The sequence depends only on the seed.
pub(crate) struct Ids {
    random: StdRng,
    count: u64,
}

impl Ids {
    /// Creates a sequence of ids from 1 to `count`.
    pub(crate) fn new(seed: u64, count: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), count }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.random.random_range(1..=self.count)
    }
}

/// Measures the number of requests per second over `connections` connections.
pub(crate) fn rate(question: &Question<'_>, connections: u64, seconds: f64, ids: u64) -> f64 {
    let done = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..connections {
            let (done, stop) = (&done, &stop);
            scope.spawn(move || {
                let mut connection = Connection::open(question.address);
                let (mut request, mut proof) = (Vec::new(), Vec::new());
                let mut ids_asked = Ids::new(number, ids);
                while !stop.load(Ordering::Relaxed) {
                    let id = ids_asked.next();
                    request.clear();
                    proof.clear();
                    (question.request)(id, &mut request);
                    (question.proof)(id, &mut proof);
                    let answer = connection.ask(&request).unwrap();
                    let is_good = answer.status == 200 && memchr::memmem::find(answer.body, &proof).is_some();
                    assert!(is_good, "{} {}", answer.status, String::from_utf8_lossy(answer.body));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    #[expect(clippy::cast_precision_loss, reason = "a count of requests is far below 2^53")]
    let done = done.load(Ordering::Relaxed) as f64;
    done / began.elapsed().as_secs_f64()
}

/// Encodes a statement for use as a query parameter. Keeps `{` and `}`, so that `{id}` can be replaced later.
pub(crate) fn encoded(statement: &str) -> String {
    let mut text = String::new();
    for byte in statement.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*' | b'{' | b'}' => {
                text.push(char::from(byte))
            }
            b' ' => text.push('+'),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
