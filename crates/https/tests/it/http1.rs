//! HTTP/1.1 over TLS.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Stream, open};
use crate::server::{AMPLE, Served};

async fn rest(mut stream: Stream) -> String {
    let mut answer = Vec::new();
    // The end may come without the alert that announces it.
    let _ = tokio::time::timeout(AMPLE, stream.read_to_end(&mut answer)).await.expect("the connection ends");
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn requests_arrive_as_without_tls() {
    let server = Served::start();
    let mut stream = open(&server, "http/1.1").await;
    stream.write_all(b"GET /request?a=b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let answer = rest(stream).await;
    let seen = r#"HTTP/1.1 GET /request?a=b host=localhost cookie=none te=none mark=Some("admitted") peer=true"#;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(seen), "{answer}");
}

#[tokio::test]
async fn heads_and_idle_connections_have_their_deadlines() {
    let server = Served::with(|limits| {
        // The clock of actix's dispatcher advances in steps of half a second.
        limits.head = Duration::from_millis(1_500);
        limits.http1_keep_alive = Duration::from_millis(2_000);
        limits.linger = Duration::from_millis(500);
    });
    let mut half = open(&server, "http/1.1").await;
    half.write_all(b"GET /ok HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
    assert!(rest(half).await.starts_with("HTTP/1.1 408"));
    let mut idle = open(&server, "http/1.1").await;
    idle.write_all(b"GET /ok HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let answer = rest(idle).await;
    assert!(answer.ends_with("ok"), "{answer:?}");
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_request() {
    let server = Served::start();
    let mut stream = open(&server, "http/1.1").await;
    stream.write_all(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    server.is_busy_with(1).await;
    drop(stream);
    server.is_busy_with(0).await;
}
