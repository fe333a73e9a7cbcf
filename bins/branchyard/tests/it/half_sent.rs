//! Request bodies that never end, against the real binary with default settings.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, open_sockets, process_status, wait_for};

use crate::process::program;

/// Number of connections, below the limit per address.
const CONNECTIONS: usize = 240;

/// Each form has no declared length. Half of them send 2 MiB of the allowed 4 MiB, as far as the server reads.
#[cfg(target_os = "linux")]
#[test]
fn forms_that_never_end_hold_little_memory_and_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = program().start(dir.path());
    let address = server.socket();
    let before = process_status(server.id(), "VmRSS");
    let head = "POST /sign-in HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\n\
        transfer-encoding: chunked\r\n\r\n";
    let chunk = [b"40000\r\n", vec![b'a'; 0x4_0000].as_slice(), b"\r\n"].concat();
    let open: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|number| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(AMPLE)).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            // The odd connections stay far below their limit and only wait.
            let chunks = if number % 2 == 0 { 8 } else { 0 };
            let _ = stream.write_all(b"1\r\na\r\n");
            let _ = (0..chunks).try_for_each(|_| stream.write_all(&chunk));
            stream
        })
        .collect();
    let grown = process_status(server.id(), "VmRSS").saturating_sub(before);
    assert!(grown < 150 << 10, "{grown} KiB for {CONNECTIONS} forms");
    let ends: Vec<_> = open
        .into_iter()
        .map(|mut stream| thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).map(drop)))
        .collect();
    for end in ends {
        let ended = end.join().unwrap();
        // The server closed the connection, either cleanly or with a reset.
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "a form is still open");
    }
    server.terminate();
}

/// Sends chunked bodies that exceed the budget of one caller, so that most are rejected while they are being sent.
#[cfg(target_os = "linux")]
#[test]
fn bodies_in_chunks_that_were_refused_leave_no_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = program().start(dir.path());
    let data = dir.path();
    let token = program().user(data, "ada");
    let address = server.socket();
    let before = open_sockets(server.id());
    let head = format!(
        "POST /api/v2/databases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n100000\r\n"
    );
    let request = [head.as_bytes(), vec![b'a'; 1 << 20].as_slice(), b"\r\n"].concat();
    let open: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
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
    wait_for("the end of the connections", AMPLE, || match open_sockets(server.id()) {
        now if now > before => Err(format!("{now} sockets, {before} before")),
        _ => Ok(()),
    });
    server.terminate();
}
