//! HTTP over a plain socket. Requests can stop midway, answers can remain unread, and each connection can have a chosen source
//! address.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::AMPLE;

/// Longest head of an answer.
const HEAD: usize = 64 << 10;

/// The result of one request.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The server answered.
    Answered(RawAnswer),
    /// The server closed the connection.
    Closed,
    /// The answer was not complete in time.
    HungUp,
}

/// An answer as it was sent.
#[derive(Debug, Clone)]
pub struct RawAnswer {
    /// The status code.
    pub status: u16,
    /// The status line and the headers, each with its line end.
    pub head: String,
    /// The body, or its beginning: see [`RawConnection::keep`].
    pub body: Vec<u8>,
}

impl RawAnswer {
    /// Returns a header, or `None` if it is absent.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Returns the body as JSON, or `null` if it is something else.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Checks the status. The panic message contains the answer.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}{:.1000}", self.head, self.text());
        self
    }
}

/// A client connection.
pub struct RawConnection {
    stream: TcpStream,
    received: Vec<u8>,
    kept: usize,
}

impl RawConnection {
    /// Connects to a server.
    pub fn open(to: SocketAddr) -> Self {
        Self::open_from(Ipv4Addr::LOCALHOST, to).unwrap()
    }

    /// Connects to a server from an address of this machine, such as `127.0.0.2`.
    pub fn open_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SockAddr::from(SocketAddr::from((source, 0))))?;
        socket.connect_timeout(&SockAddr::from(to), Duration::from_secs(10))?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(AMPLE))?;
        Ok(Self { stream, received: Vec::new(), kept: usize::MAX })
    }

    /// Limits the bytes of a body that are kept. The rest is read and dropped.
    pub fn keep(&mut self, bytes: usize) {
        self.kept = bytes;
    }

    /// Drops the rest of what cannot be sent within `limit`.
    pub fn limit_sending(&mut self, limit: Duration) {
        self.stream.set_write_timeout(Some(limit)).unwrap();
    }

    /// Sends as many bytes as the server reads. A server that refuses a request may close the connection before everything is sent.
    /// Its answer then states the reason.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends the head of a request, and some of its body. `request` is the method with the path, and `headers` are separated by CRLF.
    pub fn begin(&mut self, request: &str, headers: &str, body: &[u8]) {
        let headers = headers.trim_end();
        let end = if headers.is_empty() { "" } else { "\r\n" };
        self.send(format!("{request} HTTP/1.1\r\nhost: x\r\n{headers}{end}\r\n").as_bytes());
        self.send(body);
    }

    /// Returns the stream, to read an answer only partly. Nothing of an answer may have been read before.
    pub fn stream(&mut self) -> &mut TcpStream {
        assert!(self.received.is_empty(), "bytes of an answer would be skipped");
        self.stream.set_read_timeout(Some(AMPLE)).unwrap();
        &mut self.stream
    }

    /// Returns `true` if the connection has not ended yet. Drops the bytes that are there.
    pub fn is_open(&mut self) -> bool {
        self.received.clear();
        loop {
            match self.receive(Instant::now()) {
                Ok(0) | Err(Outcome::Closed) => return false,
                Ok(_) => self.received.clear(),
                Err(_) => return true,
            }
        }
    }

    /// Reads until the server closes the connection, or sends nothing for a while. Returns all bytes, and whether the connection is
    /// still open.
    pub fn rest(mut self, silence: Duration) -> (Vec<u8>, bool) {
        self.stream.set_read_timeout(Some(silence)).unwrap();
        let mut bytes = std::mem::take(&mut self.received);
        let ended = self.stream.read_to_end(&mut bytes);
        (bytes, ended.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)))
    }

    /// Reads the next answer. Panics if there is none.
    #[track_caller]
    pub fn answer(&mut self) -> RawAnswer {
        match self.answer_until(Instant::now() + AMPLE) {
            Outcome::Answered(answer) => answer,
            other => panic!("no answer: {other:?} after {:?}", String::from_utf8_lossy(&self.received)),
        }
    }

    /// Reads the next answer. A body without a declared length ends with the connection.
    pub fn answer_until(&mut self, until: Instant) -> Outcome {
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
            let head = String::from_utf8_lossy(&std::mem::replace(&mut self.received, rest)).into_owned();
            let Some(status) = head.get(9..12).and_then(|status| status.parse().ok()) else { return Outcome::Closed };
            // `100 Continue` is followed by the final answer.
            if status == 100 {
                continue;
            }
            let mut answer = RawAnswer { status, head, body: Vec::new() };
            let length = match answer.header("content-length") {
                Some(length) => Some(length.parse().unwrap_or(0)),
                None if matches!(status, 204 | 304) => Some(0),
                None => None,
            };
            return match self.body(length, until) {
                Ok(body) => {
                    answer.body = body;
                    Outcome::Answered(answer)
                }
                Err(outcome) => outcome,
            };
        }
    }

    fn body(&mut self, length: Option<usize>, until: Instant) -> Result<Vec<u8>, Outcome> {
        let (mut body, mut taken) = (Vec::new(), 0);
        loop {
            let wanted = length.map_or(usize::MAX, |length| length - taken).min(self.received.len());
            let room = self.kept.saturating_sub(body.len()).min(wanted);
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
