//! HTTP over a plain socket. Requests can stop midway, answers can remain unread, and each connection has a chosen source
//! address.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};

/// Send timeout. The rest of a request that cannot be sent in this time is dropped.
const SEND: Duration = Duration::from_millis(200);
/// Number of bytes of a body to keep.
const KEPT: usize = 1 << 20;
const HEAD: usize = 64 << 10;

/// The result of one request.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Answered(RawAnswer),
    /// The server closed the connection.
    Closed,
    /// The client disconnected before the answer was complete.
    HungUp,
}

#[derive(Debug, Clone)]
pub(super) struct RawAnswer {
    pub(super) status: u16,
    /// Whether the answer has `Retry-After`.
    pub(super) retry_after: bool,
    /// The first MiB of the body.
    pub(super) body: Vec<u8>,
}

impl RawAnswer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A client connection.
pub(super) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    pub(super) fn open(from: Ipv4Addr, to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SockAddr::from(SocketAddr::from((from, 0))))?;
        socket.connect_timeout(&SockAddr::from(to), Duration::from_secs(10))?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends as many bytes as the server reads.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        // A server that rejects a request may close the connection before everything is sent. The answer states the reason.
        let _ = self.stream.write_all(bytes);
    }

    /// Reads the next answer. A body without a declared length ends with the connection.
    pub(super) fn answer(&mut self, until: Instant) -> Outcome {
        loop {
            let end = match find(&self.received, b"\r\n\r\n") {
                Some(end) => end + 4,
                None if self.received.len() > HEAD => return Outcome::Closed,
                None => match self.receive(until) {
                    Ok(0) => return Outcome::Closed,
                    Ok(_) => continue,
                    Err(outcome) => return outcome,
                },
            };
            let rest = self.received.split_off(end);
            let head = String::from_utf8_lossy(&std::mem::replace(&mut self.received, rest)).to_ascii_lowercase();
            let Some(status) = head.get(9..12).and_then(|status| status.parse().ok()) else { return Outcome::Closed };
            // `100 Continue` is followed by the final answer.
            if status == 100 {
                continue;
            }
            let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let length = match header("content-length") {
                Some(length) => Some(length.parse().unwrap_or(0)),
                None if matches!(status, 204 | 304) => Some(0),
                None => None,
            };
            let retry_after = header("retry-after").is_some();
            return match self.body(length, until) {
                Ok(body) => Outcome::Answered(RawAnswer { status, retry_after, body }),
                Err(outcome) => outcome,
            };
        }
    }

    fn body(&mut self, length: Option<usize>, until: Instant) -> Result<Vec<u8>, Outcome> {
        let (mut body, mut taken) = (Vec::new(), 0);
        loop {
            let wanted = length.map_or(usize::MAX, |length| length - taken).min(self.received.len());
            let room = KEPT.saturating_sub(body.len()).min(wanted);
            body.extend_from_slice(&self.received[..room]);
            self.received.drain(..wanted);
            taken += wanted;
            if length.is_some_and(|length| taken >= length) {
                return Ok(body);
            }
            match self.receive(until)? {
                0 if length.is_none() => return Ok(body),
                0 => return Err(Outcome::Closed),
                _ => {}
            }
        }
    }

    /// Receives more bytes. Waits at least a millisecond, even if `until` has passed.
    fn receive(&mut self, until: Instant) -> Result<usize, Outcome> {
        let mut buffer = [0; 16 << 10];
        let rest = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let _ = self.stream.set_read_timeout(Some(rest));
        match self.stream.read(&mut buffer) {
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                if count > 0 && Instant::now() > until + Duration::from_millis(100) {
                    return Err(Outcome::HungUp);
                }
                Ok(count)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(Outcome::HungUp),
            Err(error) if error.kind() == ErrorKind::Interrupted => self.receive(until),
            Err(_) => Err(Outcome::Closed),
        }
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}
