//! Clients that send frames for their own sake. Each connection ends, and the others go on.

use std::sync::atomic::Ordering;

use crate::client::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, ENHANCE_YOUR_CALM, Frames, GOAWAY, HEADERS, Http2, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, frame, get,
};
use crate::server::Served;

/// Sends `flood` again and again, and checks that the server ends the connection for it.
async fn is_ended(server: &Served, start: &[u8], flood: impl Fn(u32) -> Vec<u8> + Send + 'static, most: u32) {
    let mut frames = Frames::open(server, &[]).await;
    frames.send(start).await;
    let (reading, mut writing) = tokio::io::split(frames.0);
    let sent = tokio::spawn(async move {
        for number in 0..most {
            if tokio::io::AsyncWriteExt::write_all(&mut writing, &flood(number)).await.is_err() {
                return;
            }
        }
        let _ = tokio::io::AsyncWriteExt::flush(&mut writing).await;
    });
    let end = last_code(reading).await;
    // A connection that is closed while the client sends may take the reason along.
    assert!(end.is_none_or(|code| code == ENHANCE_YOUR_CALM), "{end:?}");
    sent.await.unwrap();
    server.is_busy_with(0).await;
    assert_eq!(Http2::open(server).await.get("/ok").await.unwrap().body, "ok", "others are served");
}

/// Reads to the end of a connection. Returns the code with which the server announced it.
async fn last_code(mut reading: impl tokio::io::AsyncRead + Unpin) -> Option<u32> {
    use tokio::io::AsyncReadExt as _;
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(crate::server::AMPLE, reading.read_to_end(&mut bytes));
    let _ = read.await.expect("the connection ends");
    let mut rest = &bytes[..];
    let mut code = None;
    while let Some((head, after)) = rest.split_at_checked(9) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let Some((payload, after)) = after.split_at_checked(length) else { break };
        if head[3] == GOAWAY {
            code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        rest = after;
    }
    code
}

#[tokio::test]
async fn requests_that_are_reset_at_once_are_limited() {
    let server = Served::start();
    let request = |number| {
        let stream = 2 * number + 1;
        [get(stream, "/wait"), frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())].concat()
    };
    is_ended(&server, b"", request, 20_000).await;
    let ever = server.busy.ever.load(Ordering::SeqCst);
    assert!(ever <= 210, "{ever} requests were begun");
}

/// The same at a pace at which the server begins each request.
#[tokio::test]
async fn requests_that_are_reset_once_they_have_begun_are_limited() {
    let server = Served::start();
    let mut frames = Frames::open(&server, &[]).await;
    let mut begun = 0;
    for number in 0..1_000 {
        let stream = 2 * number + 1;
        if !frames.send(&get(stream, "/wait")).await || server.busy.ever.load(Ordering::SeqCst) > 300 {
            break;
        }
        let until = std::time::Instant::now() + std::time::Duration::from_millis(500);
        while server.busy.ever.load(Ordering::SeqCst) == begun && std::time::Instant::now() < until {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        begun = server.busy.ever.load(Ordering::SeqCst);
        if !frames.send(&frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())).await || begun < number as usize {
            break;
        }
    }
    assert!((200..=202).contains(&begun), "{begun}");
    let end = frames.until(GOAWAY).await;
    assert!(end.is_none_or(|end| end.code() == ENHANCE_YOUR_CALM));
    server.is_busy_with(0).await;
}

#[tokio::test]
async fn heads_without_end_are_limited() {
    let server = Served::start();
    let start = frame(HEADERS, 0, 1, &block("GET", "/ok"));
    is_ended(&server, &start, |_| frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b"), 20_000).await;
    is_ended(&server, &start, |_| frame(CONTINUATION, 0, 1, b""), 20_000).await;
}

#[tokio::test]
async fn frames_about_the_connection_are_limited() {
    let server = Served::start();
    is_ended(&server, b"", |_| frame(PING, 0, 0, &[0; 8]), 50_000).await;
    is_ended(&server, b"", |_| frame(SETTINGS, 0, 0, &[]), 50_000).await;
    is_ended(&server, b"", |number| frame(2, 0, number % 1_000 * 2 + 1, &[0, 0, 0, 0, 1]), 50_000).await;
    is_ended(&server, b"", |_| frame(0xfa, 0, 0, b"unknown"), 50_000).await;
    let waits = get(1, "/wait");
    is_ended(&server, &waits, |_| frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()), 50_000).await;
}

#[tokio::test]
async fn data_without_content_is_limited() {
    let server = Served::start();
    let start = frame(HEADERS, END_HEADERS, 1, &block("POST", "/length"));
    is_ended(&server, &start, |_| frame(DATA, 0, 1, b""), 20_000).await;
}

#[tokio::test]
async fn streams_that_break_the_protocol_are_limited() {
    let server = Served::start();
    // Data that is longer than the request declares is an error of its stream (RFC 9113, section 8.1.1). `content-length` is entry
    // 28 of the static table, here with the value 1.
    let head = [&block("POST", "/wait")[..], &[0x0f, 0x0d, 1, b'1']].concat();
    let request = move |number| {
        let stream = 2 * number + 1;
        [frame(HEADERS, END_HEADERS, stream, &head), frame(DATA, 0, stream, b"22")].concat()
    };
    is_ended(&server, b"", request, 20_000).await;
    let ever = server.busy.ever.load(Ordering::SeqCst);
    assert!(ever <= 210, "{ever} requests were begun");
}
