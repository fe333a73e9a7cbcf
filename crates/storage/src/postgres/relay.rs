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
