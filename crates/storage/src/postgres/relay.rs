//! The way from libpq to a connection over TLS: a Unix socket, and a thread that copies.
//!
//! A relay serves one connection. Its socket is in a folder that only this user can enter, accepts one client, and is removed once libpq has
//! connected. The thread ends with the connection: if either side ends it, what that side has sent is delivered, and the other side is
//! closed.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::conninfo::Host;
use super::login::LoginFilter;
use super::tls::TlsStream;

/// Port in the name of the socket. It has no other meaning.
const PORT: u16 = 5432;

/// Time in which libpq connects to the socket. It does so at once, or not at all.
const ACCEPT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Bytes that are copied at once.
const PIECE: usize = 16 * 1024;

const STACK: usize = 256 * 1024;

/// The socket of a connection. Dropping it removes the socket, but does not end the connection.
pub(super) struct Relay {
    folder: tempfile::TempDir,
}

impl Relay {
    /// Starts the relay of a connection, with its socket below `parent`.
    pub(super) fn start(stream: TlsStream, parent: &Path) -> io::Result<Self> {
        let only_this_user = std::fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("by-pg-").permissions(only_this_user).tempdir_in(parent)?;
        let listener = UnixListener::bind(folder.path().join(format!(".s.PGSQL.{PORT}")))?;
        listener.set_nonblocking(true)?;
        stream.tcp.set_nonblocking(true)?;
        let run = move || {
            if let Err(error) = accept(&listener).and_then(|local| Copying::new(local, stream).run()) {
                tracing::debug!(%error, "a connection to the metadata store over TLS ended");
            }
        };
        thread::Builder::new().name("postgres-tls".into()).stack_size(STACK).spawn(run)?;
        Ok(Self { folder })
    }

    /// Returns the host to which libpq connects.
    pub(super) fn host(&self) -> Host {
        Host { name: self.folder.path().display().to_string(), address: None, port: PORT }
    }
}

fn accept(listener: &UnixListener) -> io::Result<UnixStream> {
    wait(&mut [PollFd::new(listener, PollFlags::IN)], Some(&ACCEPT))?;
    let (local, _) = listener.accept()?;
    local.set_nonblocking(true)?;
    Ok(local)
}

fn wait(sockets: &mut [PollFd<'_>], limit: Option<&Timespec>) -> io::Result<()> {
    loop {
        match poll(sockets, limit) {
            Err(Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

/// The state of one connection. Neither direction reads before everything that it has read is delivered, so that a side that does not read
/// stops the one that writes, as it would without a relay.
struct Copying {
    local: UnixStream,
    server: TlsStream,
    login: LoginFilter,
    /// Bytes of the server that libpq has not taken.
    to_local: Vec<u8>,
    local_ended: bool,
    server_ended: bool,
}

impl Copying {
    fn new(local: UnixStream, server: TlsStream) -> Self {
        let login = LoginFilter::default();
        Self { local, server, login, to_local: Vec::new(), local_ended: false, server_ended: false }
    }

    fn run(mut self) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        // Of the handshake, or what the server sent right after it.
        self.receive(&mut piece)?;
        while !self.is_over() {
            let (from_local, from_server) = self.wait()?;
            if from_local {
                self.send(&mut piece)?;
            }
            if from_server {
                while self.to_local.len() < PIECE && self.read_server()? {
                    self.receive(&mut piece)?;
                }
            }
            self.flush_server()?;
            self.flush_local()?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        (self.local_ended && !self.server.tls.wants_write()) || (self.server_ended && self.to_local.is_empty())
    }

    /// Waits until something can be done. Returns whether libpq, and whether the server, has sent something.
    fn wait(&self) -> io::Result<(bool, bool)> {
        let unsent = self.server.tls.wants_write();
        let local = flags(!unsent && !self.local_ended && !self.server_ended, !self.to_local.is_empty());
        let server = flags(self.to_local.is_empty() && !self.server_ended, unsent && !self.server_ended);
        // A socket from which nothing is wanted is left out: its end would be reported again and again.
        let mut sockets = Vec::with_capacity(2);
        for (socket, flags) in [(self.local.as_fd(), local), (self.server.tcp.as_fd(), server)] {
            if !flags.is_empty() {
                sockets.push(PollFd::from_borrowed_fd(socket, flags));
            }
        }
        wait(&mut sockets, None)?;
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let mut events = sockets.iter().map(|socket| socket.revents().intersects(readable));
        let mut of =
            |flags: PollFlags| !flags.is_empty() && events.next().unwrap_or(false) && flags.contains(PollFlags::IN);
        Ok((of(local), of(server)))
    }

    /// Encrypts what libpq has sent.
    fn send(&mut self, piece: &mut [u8]) -> io::Result<()> {
        match would_block(self.local.read(piece))? {
            None => Ok(()),
            Some(0) => {
                self.local_ended = true;
                self.server.tls.send_close_notify();
                Ok(())
            }
            Some(length) => self.server.tls.writer().write_all(piece.get(..length).unwrap_or_default()),
        }
    }

    /// Reads what has come in, and decrypts it. Returns `false` if there is nothing, or will be nothing more.
    fn read_server(&mut self) -> io::Result<bool> {
        match would_block(self.server.tls.read_tls(&mut self.server.tcp)) {
            Ok(None) => Ok(false),
            Ok(Some(0)) | Err(_) => {
                self.server_ended = true;
                Ok(false)
            }
            Ok(Some(_)) => match self.server.tls.process_new_packets() {
                Ok(_) => Ok(true),
                Err(error) => {
                    // The alert that says so to the server.
                    let _ = self.server.tls.write_tls(&mut self.server.tcp);
                    Err(io::Error::new(io::ErrorKind::InvalidData, error))
                }
            },
        }
    }

    /// Takes what has been decrypted.
    fn receive(&mut self, piece: &mut [u8]) -> io::Result<()> {
        loop {
            match self.server.tls.reader().read(piece) {
                Ok(0) => {
                    self.server_ended = true;
                    return Ok(());
                }
                Ok(length) => {
                    let bytes = piece.get(..length).unwrap_or_default();
                    let passed = self.login.pass(bytes, &mut self.to_local);
                    passed.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The server has ended the connection without saying so by TLS, which crashed servers do.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.server_ended = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn flush_server(&mut self) -> io::Result<()> {
        while self.server.tls.wants_write() && !self.server_ended {
            match would_block(self.server.tls.write_tls(&mut self.server.tcp)) {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => {}
                // What the server sent before it went is still to be read.
                Err(_) if !self.local_ended => return self.read_rest(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what a server has sent that takes nothing more, for example why.
    fn read_rest(&mut self) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        while self.read_server()? {
            self.receive(&mut piece)?;
        }
        self.server_ended = true;
        Ok(())
    }

    fn flush_local(&mut self) -> io::Result<()> {
        while !self.to_local.is_empty() {
            match would_block(self.local.write(&self.to_local))? {
                None => return Ok(()),
                Some(length) => drop(self.to_local.drain(..length)),
            }
        }
        Ok(())
    }
}

fn flags(read: bool, write: bool) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, read);
    flags.set(PollFlags::OUT, write);
    flags
}

/// Returns `None` if a socket has nothing to read, or no room, at the moment.
fn would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};
    use std::sync::Arc;
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::super::tls::TlsClient;
    use super::*;

    type ServerEnd = StreamOwned<ServerConnection, std::net::TcpStream>;

    /// Longer than what all buffers between the ends hold.
    const LONG: usize = 20 << 20;

    const ACCEPTED: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 0];

    fn config() -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).unwrap())
    }

    /// Returns libpq's end of a relay, after the login; runs `server` at the other end.
    fn between(server: impl FnOnce(ServerEnd) + Send + 'static) -> (UnixStream, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let running = thread::spawn(move || {
            let (mut tcp, _) = listener.accept().unwrap();
            let mut request = [0; 8];
            tcp.read_exact(&mut request).unwrap();
            tcp.write_all(b"S").unwrap();
            let mut end = StreamOwned::new(ServerConnection::new(config()).unwrap(), tcp);
            end.write_all(&ACCEPTED).unwrap();
            server(end);
        });
        let host = Host { name: "localhost".into(), address: None, port: address.port() };
        let tcp = std::net::TcpStream::connect(address).unwrap();
        let stream = TlsClient::unverified().handshake(&host, tcp, Duration::from_secs(10)).unwrap();
        let parent = tempfile::tempdir().unwrap();
        let relay = Relay::start(stream, parent.path()).unwrap();
        let folder = relay.folder.path().to_owned();
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let mut local = UnixStream::connect(folder.join(".s.PGSQL.5432")).unwrap();
        drop(relay);
        assert!(!folder.exists());
        let mut accepted = [0; ACCEPTED.len()];
        local.read_exact(&mut accepted).unwrap();
        assert_eq!(accepted, ACCEPTED);
        (local, running)
    }

    fn bytes(seed: usize) -> Vec<u8> {
        (0..LONG).map(|at| (at.wrapping_mul(seed) >> 7) as u8).collect()
    }

    #[test]
    fn nothing_is_lost_while_both_ends_send() {
        let (local, running) = between(|end| {
            // One thread: the server reads only once everything is sent.
            let mut end = end;
            end.write_all(&bytes(31)).unwrap();
            end.flush().unwrap();
            let mut received = vec![0; LONG];
            end.read_exact(&mut received).unwrap();
            assert!(received == bytes(17));
            assert_eq!(end.read(&mut [0]).unwrap(), 0, "the end of libpq is that of the connection, by TLS too");
        });
        let mut writing = local.try_clone().unwrap();
        let writer = thread::spawn(move || writing.write_all(&bytes(17)).unwrap());
        let (mut reading, mut received) = (&local, vec![0; LONG]);
        reading.read_exact(&mut received).unwrap();
        assert!(received == bytes(31));
        writer.join().unwrap();
        local.shutdown(Shutdown::Both).unwrap();
        running.join().unwrap();
    }

    #[test]
    fn what_a_server_sent_before_its_end_is_delivered() {
        for says_so in [true, false] {
            let (mut local, running) = between(move |mut end| {
                end.write_all(&bytes(31)).unwrap();
                end.flush().unwrap();
                if says_so {
                    end.conn.send_close_notify();
                    end.conn.complete_io(&mut end.sock).unwrap();
                }
            });
            let mut received = Vec::new();
            local.read_to_end(&mut received).unwrap();
            assert!(received == bytes(31), "{says_so}");
            running.join().unwrap();
        }
    }

    #[test]
    fn a_server_that_hangs_up_in_the_middle_of_a_statement_is_heard() {
        let (mut local, running) = between(|mut end| {
            end.read_exact(&mut [0; 100]).unwrap();
            end.write_all(b"E: why").unwrap();
            end.flush().unwrap();
        });
        let mut writing = local.try_clone().unwrap();
        let writer = thread::spawn(move || writing.write_all(&bytes(17)));
        let mut received = vec![0; 6];
        local.read_exact(&mut received).unwrap();
        assert_eq!(received, b"E: why");
        assert!(writer.join().unwrap().is_err(), "the rest of the statement goes nowhere");
        running.join().unwrap();
    }
}
