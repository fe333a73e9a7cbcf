//! Sources that are no servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Returns the status and the body for a path and a body.
type Answers = dyn Fn(&str, &[u8]) -> (u16, Vec<u8>) + Send + Sync;

/// A server that answers as a test wants.
pub(super) struct Source(SocketAddr);

impl Source {
    pub(super) fn answering(answers: impl Fn(&str, &[u8]) -> (u16, Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, answers): (_, Arc<Answers>) = (listener.local_addr().unwrap(), Arc::new(answers));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answers = Arc::clone(&answers);
                thread::spawn(move || while answer(&stream, answers.as_ref()).is_some() {});
            }
        });
        Self(address)
    }

    pub(super) fn url(&self, database: &str) -> String {
        format!("http://{}/{database}", self.0)
    }
}

/// Answers a request. Returns `None` at the end of the connection.
fn answer(stream: &TcpStream, answers: &Answers) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (status, content) = answers(&path, &body);
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nLocation: /elsewhere\r\n\r\n", content.len()).ok()?;
    stream.write_all(&content).ok()
}

/// Returns the address of a server that accepts connections and says nothing.
pub(super) fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let kept: Vec<TcpStream> = listener.incoming().map_while(Result::ok).collect();
        drop(kept);
    });
    address
}
