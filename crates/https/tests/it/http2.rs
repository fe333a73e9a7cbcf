//! Requests and responses over HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::{Method, Request};

use crate::client::{
    DATA, END_HEADERS, Frames, GOAWAY, HEADERS, Http2, NO_ERROR, RST_STREAM, block, frame, get, read, request,
};
use crate::server::{AMPLE, Served};

#[tokio::test]
async fn a_request_looks_like_one_of_http_1() {
    let server = Served::start();
    let client = Http2::open(&server).await;
    let mut asked = request(Method::GET, "/request?a=%20b");
    for cookie in ["a=1", "b=2"] {
        asked.headers_mut().append("cookie", cookie.parse().unwrap());
    }
    let seen = r#"HTTP/2.0 GET /request?a=%20b host=localhost cookie=a=1; b=2 te=none mark=Some("admitted") peer=true"#;
    assert_eq!(client.ask(asked).await.unwrap().body, seen);
    let answer = client.post("/request", Bytes::from_static(b"body")).await.unwrap();
    assert!(answer.body.contains("te=chunked"), "{answer:?}");
}

#[tokio::test]
async fn requests_without_a_path_or_with_two_hosts_are_refused() {
    let server = Served::start();
    let client = Http2::open(&server).await;
    let connect = Request::builder().method(Method::CONNECT).uri("localhost:443").body(()).unwrap();
    assert_eq!(client.ask(connect).await.unwrap().head.status, 405);
    let mut two = request(Method::GET, "/ok");
    two.headers_mut().insert("host", "other.test".parse().unwrap());
    assert_eq!(client.ask(two).await.unwrap().head.status, 400);
}

#[tokio::test]
async fn bodies_of_any_length_go_both_ways() {
    let server = Served::start();
    let client = Http2::open(&server).await;
    for length in [0, 1, 70_000, 5_000_000] {
        let answer = client.post("/length", Bytes::from(vec![b'a'; length])).await.unwrap();
        assert_eq!(answer.body, length.to_string());
    }
    let (response, _) =
        client.send.clone().ready().await.unwrap().send_request(request(Method::GET, "/endless"), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let mut received = 0;
    while received < 10_000_000 {
        let piece = body.data().await.unwrap().unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        received += piece.len();
    }
    drop(body);
    server.is_busy_with(0).await;
}

#[tokio::test]
async fn responses_have_a_length_and_a_date_and_no_header_about_the_connection() {
    let server = Served::start();
    let client = Http2::open(&server).await;
    let header = |answer: &crate::client::Answer, name: &str| {
        answer.head.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let whole = client.get("/ok").await.unwrap();
    assert_eq!(header(&whole, "content-length").as_deref(), Some("2"));
    assert!(header(&whole, "date").is_some_and(|date| date.ends_with(" GMT")));
    assert_eq!(header(&whole, "connection"), None);
    let head = client.ask(request(Method::HEAD, "/ok")).await.unwrap();
    assert_eq!((header(&head, "content-length").as_deref(), head.body.as_str()), (Some("2"), ""));
    let none = client.get("/none").await.unwrap();
    assert_eq!((none.head.status.as_u16(), header(&none, "content-length")), (204, None));
}

#[tokio::test]
async fn a_response_that_fails_halfway_resets_its_stream_only() {
    let server = Served::start();
    let client = Http2::open(&server).await;
    let error = client.get("/broken").await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    assert_eq!(client.get("/ok").await.unwrap().body, "ok");
}

#[tokio::test]
async fn a_body_that_is_not_read_ends_with_its_response() {
    let server = Served::start();
    let mut frames = Frames::open(&server, &[]).await;
    frames.send(&frame(HEADERS, END_HEADERS, 1, &block("POST", "/unread"))).await;
    assert_eq!(frames.until(DATA).await.unwrap().payload, b"unread");
    let reset = frames.until(RST_STREAM).await.unwrap();
    assert_eq!((reset.stream, reset.code()), (1, NO_ERROR));
}

#[tokio::test]
async fn a_client_that_expects_an_answer_before_its_body_gets_one() {
    let server = Served::start();
    let mut frames = Frames::open(&server, &[]).await;
    let expect = [&block("POST", "/length")[..], b"\x00\x06expect\x0c100-continue"].concat();
    frames.send(&frame(HEADERS, END_HEADERS, 1, &expect)).await;
    // `:status` is a literal with the name of entry 8.
    let interim = frames.until(HEADERS).await.unwrap();
    assert_eq!(interim.flags, END_HEADERS);
    frames.send(&frame(DATA, 1, 1, b"body")).await;
    assert_eq!(frames.until(DATA).await.unwrap().payload, b"4");
}

#[tokio::test]
async fn a_reset_and_the_end_of_a_connection_cancel_requests() {
    let server = Served::start();
    let client = Http2::open(&server).await;
    let mut send = client.send.clone().ready().await.unwrap();
    let (_first, mut stream) = send.send_request(request(Method::GET, "/wait"), false).unwrap();
    let (_second, _) = send.send_request(request(Method::GET, "/wait"), true).unwrap();
    server.is_busy_with(2).await;
    stream.send_reset(Reason::CANCEL);
    server.is_busy_with(1).await;
    client.connection.abort();
    server.is_busy_with(0).await;
}

#[tokio::test]
async fn a_server_that_stops_lets_requests_end_and_accepts_no_others() {
    let server = Served::start();
    let idle = Http2::open(&server).await;
    assert_eq!(idle.get("/ok").await.unwrap().body, "ok");
    let busy = Http2::open(&server).await;
    let (response, mut stream) =
        busy.send.clone().ready().await.unwrap().send_request(request(Method::POST, "/length"), false).unwrap();
    stream.send_data(Bytes::from_static(b"first"), false).unwrap();
    // The server has the request once it has answered a later one.
    assert_eq!(busy.get("/ok").await.unwrap().body, "ok");
    let stopping = tokio::spawn(server.handle.stop(true));
    let ended = tokio::time::timeout(AMPLE, idle.connection).await.expect("an idle connection ends").unwrap();
    // The client answers the last GOAWAY with its own, which may find the connection closed.
    assert!(ended.as_ref().err().is_none_or(h2::Error::is_io), "{ended:?}");
    assert!(!stopping.is_finished());
    stream.send_data(Bytes::from_static(b"second"), true).unwrap();
    assert_eq!(read(response.await.unwrap()).await.unwrap().body, "11");
    tokio::time::timeout(AMPLE, stopping).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_learns_that_the_server_stops() {
    let server = Served::start();
    let mut frames = Frames::open(&server, &[]).await;
    frames.send(&get(1, "/wait")).await;
    server.is_busy_with(1).await;
    let stopping = tokio::spawn(server.handle.stop(true));
    assert_eq!(frames.until(GOAWAY).await.unwrap().code(), NO_ERROR);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!stopping.is_finished(), "a request is in progress");
    frames.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())).await;
    tokio::time::timeout(AMPLE, stopping).await.unwrap().unwrap();
}
