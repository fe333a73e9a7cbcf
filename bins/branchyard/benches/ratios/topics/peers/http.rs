//! Sessions of peers that speak HTTP with JSON.

use std::net::SocketAddr;

use serde_json::Value;

use crate::load::{Connection, get};

/// A keep-alive connection with the headers of each request.
pub(super) struct JsonConnection {
    connection: Connection,
    head: String,
}

impl JsonConnection {
    /// `head` holds additional headers, each with its line ending.
    pub(super) fn open(address: SocketAddr, head: &str) -> Self {
        Self { connection: Connection::open(address), head: head.to_owned() }
    }

    /// Gets a path. Panics unless the answer is a success that contains `proof`.
    pub(super) fn get(&mut self, path: &str, proof: &str) {
        let mut request = Vec::new();
        get(&mut request, path, &self.head);
        let answer = self.connection.ask(&request).unwrap();
        let is_good = answer.status == 200 && memchr::memmem::find(answer.body, proof.as_bytes()).is_some();
        assert!(is_good, "GET {path}: {} {}", answer.status, String::from_utf8_lossy(answer.body));
    }

    /// Sends a body, and returns the answer. Panics unless it is a success.
    pub(super) fn send(&mut self, method: &str, path: &str, body: &str) -> Value {
        let (head, length) = (&self.head, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: bench\r\n{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let answer = self.connection.ask(request.as_bytes()).unwrap();
        let text = String::from_utf8_lossy(answer.body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {} {text}", answer.status);
        serde_json::from_str(&text).unwrap_or_default()
    }
}
