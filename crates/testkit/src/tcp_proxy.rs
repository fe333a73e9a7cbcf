//! A connection that can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::Mutex;

/// A proxy on the loopback interface that can cut all connections and refuse new ones.
pub struct TcpProxy {
    /// The address that it listens on.
    pub address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl TcpProxy {
    /// Starts a proxy to an address, `host:port`.
    pub fn start(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let proxy = Self { address, is_cut: Arc::clone(&is_cut), open: Arc::clone(&open) };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&to) else { continue };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    open.lock().push(stream.try_clone().unwrap());
                }
                let (from, into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from, into));
                thread::spawn(move || pass(server, client));
            }
        });
        proxy
    }

    /// Cuts all connections, and closes new ones at once.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.open.lock().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Passes new connections on again.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
