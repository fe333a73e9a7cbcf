//! The connection layer, and slow clients.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use branchyard_testkit::Server;
use serde_json::json;

/// Sends bytes and reads until the server closes or falls silent.
fn talk(server: &Server, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address().strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // The server may close while we still send.
    let _ = stream.write_all(sent);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn head(bytes: usize) -> Vec<u8> {
    let start = "GET /api/v2/databases HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: ";
    format!("{start}{}\r\n\r\n", "a".repeat(bytes - start.len() - 4)).into_bytes()
}

#[test]
fn a_head_above_its_limit_is_431_without_a_body() {
    let server = Server::start_with(|config| config.http.max_head_bytes = 4_096);
    assert!(talk(&server, &head(4_096)).starts_with("HTTP/1.1 200"));
    let answer = talk(&server, &head(4_097));
    assert!(answer.starts_with("HTTP/1.1 431") && answer.ends_with("\r\n\r\n"), "{answer}");
    let server = Server::start();
    assert!(talk(&server, &head(100_000)).starts_with("HTTP/1.1 200"));
    let answer = talk(&server, &head(400_000));
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[test]
fn a_head_that_does_not_come_is_408_and_rubbish_is_400() {
    let server = Server::start_with(|config| config.http.head_timeout_ms = 300);
    let began = Instant::now();
    let mut stream = TcpStream::connect(server.address().strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(b"GET /api/v2/databases HTTP/1.1\r\nhost: x\r\n").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("content-length: 0") && rest.ends_with("\r\n\r\n"), "{rest}");
    // With the time limit of every day: on a busy machine the short one would run out first.
    let server = Server::start();
    let answer = talk(&server, b"rubbish\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn proxies_are_believed_only_when_they_are_trusted() {
    let ask = |server: &Server, client: &str| {
        let nobody = server.anonymous();
        let request = nobody.request(reqwest::Method::GET, "/databases").header("X-Forwarded-For", client);
        nobody.send(request).header("ratelimit").to_owned()
    };
    let limits = |config: &mut branchyard::config::Config| {
        config.rate_limit.enabled = true;
        config.rate_limit.anonymous_per_minute = 5;
    };
    let server = Server::start_with(limits);
    assert!(ask(&server, "203.0.113.1").contains("r=4"));
    assert!(ask(&server, "203.0.113.2").contains("r=3"));
    let server = Server::start_with(|config| {
        limits(config);
        config.http.trusted_proxies = vec!["127.0.0.0/8".to_owned()];
    });
    assert!(ask(&server, "203.0.113.1").contains("r=4"));
    assert!(ask(&server, "203.0.113.2").contains("r=4"));
    assert!(ask(&server, "198.51.100.7, 203.0.113.2").contains("r=3"));
}

#[test]
fn a_chunked_body_is_refused_where_it_gets_too_long() {
    let server = Server::start_with(|config| {
        config.http.max_json_body_bytes = 2_000;
        config.sql.max_statement_bytes = 1_024;
    });
    let ada = server.user("ada");
    let request = ada.request(reqwest::Method::POST, "/databases").header("Content-Type", "application/json");
    let body = reqwest::blocking::Body::new(std::io::repeat(b' ').take(2_001));
    assert_eq!(ada.send(request.body(body)).status, 413);
    ada.post("/databases", &json!({"owner": "ada", "name": "rivers", "visibility": "public"})).expect(201);
}
