//! A listener for the answers of users, as an application on the machine of its user opens one (RFC 8252 §7.3).

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{AMPLE, wait_for};

const ARRIVED: &str = "<!doctype html><html lang=\"en\"><head><title>Done</title><link rel=\"icon\" href=\"data:,\"></head>\
                       <body><p id=\"arrived\">You can close this window.</p></body></html>";

/// A listener on a free port of 127.0.0.1, which answers every request with a page and records it.
pub struct CallbackListener {
    address: SocketAddr,
    received: Arc<Mutex<Vec<String>>>,
}

impl CallbackListener {
    /// Starts a listener whose pages have an element `#arrived`.
    pub fn start() -> Self {
        Self::serving(|_| ARRIVED.to_owned())
    }

    /// Starts a listener that answers with the HTML that `page` returns for a path with its query.
    pub fn serving(page: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<String>>>::default();
        let (shared, page) = (Arc::clone(&received), Arc::new(page));
        std::thread::spawn(move || {
            // Browsers open connections that they do not use, so each has a thread of its own.
            for stream in listener.incoming().map_while(Result::ok) {
                let (shared, page) = (Arc::clone(&shared), Arc::clone(&page));
                std::thread::spawn(move || answer(&stream, &shared, &*page));
            }
        });
        Self { address, received }
    }

    /// Returns the origin of the listener, with the name of the loopback host.
    pub fn origin(&self) -> String {
        format!("http://localhost:{}", self.address.port())
    }

    /// Returns the address of the listener, `127.0.0.1:port`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the redirect URI to send to the server.
    pub fn redirect_uri(&self) -> String {
        format!("{}/callback", self.origin())
    }

    /// Returns the requests to the redirect URI that have arrived, each as its method and its path with the query.
    pub fn callbacks(&self) -> Vec<String> {
        let is_callback = |request: &&String| {
            let target = request.split(' ').nth(1).unwrap_or_default();
            target.split('?').next() == Some("/callback")
        };
        self.received.lock().iter().filter(is_callback).cloned().collect()
    }

    /// Waits for a request to the redirect URI, and returns its URL. It must be the only one, and a GET request.
    #[track_caller]
    pub fn only_callback(&self) -> String {
        let callbacks = wait_for("a callback", AMPLE, || {
            let callbacks = self.callbacks();
            if callbacks.is_empty() { Err("none has arrived") } else { Ok(callbacks) }
        });
        assert_eq!(callbacks.len(), 1, "{callbacks:?}");
        let target = callbacks[0].strip_prefix("GET ").unwrap_or_else(|| panic!("{callbacks:?}"));
        format!("{}{target}", self.origin())
    }
}

/// Reads the head of a request and answers it. Returns `None` if the connection ends before.
fn answer(mut stream: &TcpStream, received: &Mutex<Vec<String>>, page: &dyn Fn(&str) -> String) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let (method, rest) = line.split_once(' ')?;
    let target = rest.split(' ').next()?.to_owned();
    let request = format!("{method} {target}");
    while !line.trim_end().is_empty() {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
    }
    received.lock().push(request);
    let page = page(&target);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len()).ok()
}
