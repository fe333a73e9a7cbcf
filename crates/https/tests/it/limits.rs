//! Limits of connections and streams over HTTP/2.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use branchyard_https::STREAMS;
use h2::Reason;
use h2::client::Builder;
use http::{HeaderName, HeaderValue, Method};

use crate::client::{
    CANCEL, DATA, END_HEADERS, Frames, GOAWAY, HEADERS, Http2, NO_ERROR, PING, REFUSED_STREAM, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame, get, request,
};
use crate::server::{AMPLE, Served};

const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;

#[tokio::test]
async fn a_connection_has_a_hundred_streams() {
    assert_eq!(STREAMS, 100);
    let server = Served::start();
    let mut frames = Frames::open(&server, &[]).await;
    let settings = frames.until(SETTINGS).await.unwrap();
    let most = settings.payload.chunks(6).find(|entry| entry[..2] == MAX_CONCURRENT_STREAMS.to_be_bytes()).unwrap();
    assert_eq!(most[2..], 100_u32.to_be_bytes());
    for number in 0..101 {
        frames.send(&get(2 * number + 1, "/wait")).await;
    }
    let refused = frames.until(RST_STREAM).await.unwrap();
    assert_eq!((refused.stream, refused.code()), (201, REFUSED_STREAM));
    server.is_busy_with(100).await;
    // A place that is free again is used.
    frames.send(&frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes())).await;
    server.is_busy_with(99).await;
    frames.send(&get(203, "/wait")).await;
    server.is_busy_with(100).await;
    assert_eq!(server.busy.ever.load(Ordering::SeqCst), 101);
}

#[tokio::test]
async fn a_response_that_is_not_taken_ends_and_others_go_on() {
    let server = Served::with(|limits| limits.write = Duration::from_millis(500));
    let client = Http2::open_with(&server, Builder::new().initial_window_size(0)).await;
    let began = Instant::now();
    let stalled = client.get("/endless");
    let empty = async {
        let answer = client.get("/none").await.unwrap();
        assert_eq!(answer.head.status, 204);
    };
    let (stalled, ()) = tokio::join!(stalled, empty);
    assert_eq!(stalled.unwrap_err().reason(), Some(Reason::CANCEL));
    assert!(began.elapsed() >= Duration::from_millis(500));
    server.is_busy_with(0).await;
    assert_eq!(client.get("/none").await.unwrap().head.status, 204);
}

#[tokio::test]
async fn a_window_of_one_byte_at_a_time_is_no_progress() {
    let server = Served::with(|limits| limits.write = Duration::from_millis(700));
    let mut frames = Frames::open(&server, &[(INITIAL_WINDOW_SIZE, 0)]).await;
    frames.send(&get(1, "/endless")).await;
    let began = Instant::now();
    while began.elapsed() < AMPLE {
        frames.send(&frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes())).await;
        match frames.next().await.unwrap() {
            reset if reset.kind == RST_STREAM => {
                assert_eq!(reset.code(), CANCEL);
                return;
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    panic!("the stream goes on");
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_served() {
    let server = Served::with(|limits| limits.write = Duration::from_millis(1_500));
    let client = Http2::open(&server).await;
    let (response, _) =
        client.send.clone().ready().await.unwrap().send_request(request(Method::GET, "/endless"), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        let piece = body.data().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        body.flow_control().release_capacity(piece.len()).unwrap();
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_of_its_connection_holds_little() {
    let server = Served::with(|limits| limits.write = Duration::from_millis(500));
    let mut frames = Frames::open(&server, &[(INITIAL_WINDOW_SIZE, i32::MAX.unsigned_abs())]).await;
    frames.send(&frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes())).await;
    for number in 0..20 {
        frames.send(&get(2 * number + 1, "/endless")).await;
    }
    server.is_busy_with(20).await;
    // Nothing is read: neither frames nor bytes.
    server.is_busy_with(0).await;
}

#[tokio::test]
async fn heads_have_a_size_and_a_number_of_headers() {
    let server = Served::with(|limits| limits.head_bytes = 16 << 10);
    let client = Http2::open(&server).await;
    let ask = async |headers: usize, length: usize| {
        let mut asked = request(Method::GET, "/ok");
        for number in 0..headers {
            let name = HeaderName::from_bytes(format!("x-{number}").as_bytes()).unwrap();
            asked.headers_mut().insert(name, HeaderValue::from_bytes(&vec![b'a'; length]).unwrap());
        }
        client.ask(asked).await
    };
    assert_eq!(ask(1, 16 << 10).await.unwrap().head.status, 200, "the application decides up to here");
    assert_eq!(ask(1, 32 << 10).await.unwrap().head.status, 431);
    assert_eq!(ask(96, 100).await.unwrap().head.status, 200);
    assert_eq!(ask(97, 100).await.unwrap().head.status, 431);
    assert_eq!(client.get("/ok").await.unwrap().head.status, 200, "the connection goes on");
    assert!(ask(20, 16 << 10).await.is_err());
    assert!(client.connection.await.unwrap().is_err(), "a head far above the limit ends it");
}

#[tokio::test]
async fn a_connection_without_requests_ends_whatever_else_it_sends() {
    let server = Served::with(|limits| {
        limits.http2_keep_alive = Duration::from_millis(600);
        limits.head = Duration::from_millis(1_500);
        limits.linger = Duration::from_millis(300);
    });
    // One has no request yet, one has half a head, and one had a request and pings.
    let silent = Frames::open(&server, &[]).await;
    let mut half = Frames::open(&server, &[]).await;
    half.send(&frame(HEADERS, 0, 1, &block("GET", "/ok")[..3])).await;
    let mut pings = Frames::open(&server, &[]).await;
    pings.send(&get(1, "/ok")).await;
    assert_eq!(pings.until(DATA).await.unwrap().payload, b"ok");
    let began = Instant::now();
    let silence = async |mut frames: Frames| {
        assert_eq!(frames.until(GOAWAY).await.unwrap().code(), NO_ERROR);
        assert!(began.elapsed() > Duration::from_millis(1_000), "the first head has more time");
        assert!(frames.ends_within(AMPLE).await);
    };
    let pinging = async {
        loop {
            pings.send(&frame(PING, 0, 0, &[0; 8])).await;
            match pings.next().await {
                Some(frame) if frame.kind == GOAWAY => break,
                Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                None => panic!("the server says that it goes"),
            }
        }
        assert!(began.elapsed() > Duration::from_millis(500));
        assert!(pings.ends_within(AMPLE).await);
    };
    tokio::join!(silence(silent), silence(half), pinging);
}

#[tokio::test]
async fn a_request_in_progress_keeps_its_connection() {
    let server = Served::with(|limits| {
        limits.http2_keep_alive = Duration::from_millis(200);
        limits.head = Duration::from_millis(200);
        limits.linger = Duration::from_millis(100);
    });
    let mut frames = Frames::open(&server, &[]).await;
    frames.send(&get(1, "/wait")).await;
    server.is_busy_with(1).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    server.is_busy_with(1).await;
    frames.send(&frame(HEADERS, 1 | END_HEADERS, 3, &block("GET", "/none"))).await;
    assert_eq!(frames.until(HEADERS).await.unwrap().stream, 3);
}
