//! The warning about requests that come to another origin than `public_url`.

use std::fs::File;

use branchyard_testkit::{RawConnection, ServerProcess};

use crate::process::program;

/// Starts a server at `https://yard.test` behind a proxy on this machine, sends it requests with these headers, and returns the
/// lines of its log that warn about their origin.
fn warnings(requests: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = program().serve(&dir.path().join("data"));
    command.env("BRANCHYARD_PUBLIC_URL", "https://yard.test").env("BRANCHYARD_HTTP__TRUSTED_PROXIES", "127.0.0.1");
    let server = ServerProcess::try_start(command.stderr(File::create(&log).unwrap())).unwrap();
    for headers in requests {
        let mut connection = RawConnection::open(server.socket());
        connection.send(format!("GET /api/v2/databases HTTP/1.1\r\n{headers}\r\n\r\n").as_bytes());
        assert_eq!(connection.answer().status, 200);
    }
    server.terminate();
    let log = std::fs::read_to_string(&log).unwrap();
    log.lines().filter(|line| line.contains("another origin")).map(str::to_owned).collect()
}

#[test]
fn a_server_warns_once_about_requests_to_another_origin_than_its_public_url() {
    let expected = "host: yard.test\r\nx-forwarded-proto: https\r\nx-forwarded-for: 192.0.2.1";
    assert_eq!(warnings(&[expected, expected]), [""; 0]);

    let other = "host: other.test\r\nx-forwarded-proto: https\r\nx-forwarded-for: 192.0.2.1";
    let plain = "host: yard.test\r\nx-forwarded-for: 192.0.2.1";
    let [warning] = warnings(&[expected, other, other, plain]).try_into().unwrap();
    assert!(warning.contains("WARN") && warning.contains("https://yard.test"), "{warning}");
    assert!(warning.contains("https://other.test") && warning.contains("public_url"), "{warning}");

    let [warning] = warnings(&[plain, other]).try_into().unwrap();
    assert!(warning.contains("http://yard.test") && warning.contains("X-Forwarded-Proto"), "{warning}");
}
