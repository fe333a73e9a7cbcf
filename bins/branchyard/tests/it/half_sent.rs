//! Request bodies that never end, against the real binary with default settings.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Server, succeed};

/// Number of connections, below the limit per address.
const CONNECTIONS: usize = 240;
/// Timeout of the test, far above the server's own body timeouts.
const PATIENCE: Duration = Duration::from_secs(300);

fn resident_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Each form has no declared length. Half of them send 2 MiB of the allowed 4 MiB, as far as the server reads.
#[cfg(target_os = "linux")]
#[test]
fn forms_that_never_end_hold_little_memory_and_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let address = server.origin.strip_prefix("http://").unwrap().to_owned();
    let before = resident_kib(&server);
    let head = "POST /sign-in HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\n\
        transfer-encoding: chunked\r\n\r\n";
    let chunk = [b"40000\r\n", vec![b'a'; 0x4_0000].as_slice(), b"\r\n"].concat();
    let open: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|number| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            // The odd connections stay far below their limit and only wait.
            let chunks = if number % 2 == 0 { 8 } else { 0 };
            let _ = stream.write_all(b"1\r\na\r\n");
            let _ = (0..chunks).try_for_each(|_| stream.write_all(&chunk));
            stream
        })
        .collect();
    let grown = resident_kib(&server).saturating_sub(before);
    assert!(grown < 150 << 10, "{grown} KiB for {CONNECTIONS} forms");
    let began = Instant::now();
    let ends: Vec<_> = open
        .into_iter()
        .map(|mut stream| thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).map(drop)))
        .collect();
    for end in ends {
        let ended = end.join().unwrap();
        // The server closed the connection, either cleanly or with a reset.
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "a form is still open");
    }
    assert!(began.elapsed() < PATIENCE);
    server.terminate();
}

/// Sends chunked bodies that exceed the budget of one caller, so that most are rejected while they are being sent.
#[cfg(target_os = "linux")]
#[test]
fn bodies_in_chunks_that_were_refused_leave_no_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let data = dir.path();
    succeed(data, &["user", "create", "ada", "--email", "ada@example.test"]);
    let token = succeed(data, &["token", "create", "--user", "ada", "--name", "t", "--expires", "30d"]);
    let address = server.origin.strip_prefix("http://").unwrap().to_owned();
    let before = server.sockets();
    let head = format!(
        "POST /api/v2/databases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n100000\r\n"
    );
    let request = [head.as_bytes(), vec![b'a'; 1 << 20].as_slice(), b"\r\n"].concat();
    let open: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let patience = Instant::now() + Duration::from_millis(2_500);
    thread::scope(|scope| {
        for mut stream in open {
            let request = &request;
            scope.spawn(move || {
                stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
                let _ = stream.write_all(request);
                thread::sleep(patience.saturating_duration_since(Instant::now()));
            });
        }
    });
    let began = Instant::now();
    while server.sockets() > before {
        assert!(began.elapsed() < PATIENCE, "{} sockets, {before} before", server.sockets());
        thread::sleep(Duration::from_millis(100));
    }
    server.terminate();
}
