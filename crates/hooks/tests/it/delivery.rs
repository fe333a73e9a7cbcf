//! The requests that receivers get, and the outcome of attempts at misbehaving receivers.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use branchyard_domain::entities::{AttemptError, HookSecret};
use branchyard_domain::ports::{RetryAfter, Sender as _, Sent, WebhookRequest};
use branchyard_hooks::{HttpSender, SenderOptions};
use parking_lot::Mutex;
use standardwebhooks::Webhook;

use crate::receiver::{BODY, Got, Manner, Receiver, SECRETS, TRACEPARENT, answer, options, parcel, sender};

/// Longer than any test takes.
const FOREVER: Duration = Duration::from_secs(600);

const OK: Manner = |stream| answer(stream, "HTTP/1.1 204 No Content\r\nX-A: 1\r\nx-a: 2\r\n\r\n");

/// Makes one attempt at a receiver that behaves in this manner.
fn attempt(manner: Manner) -> Sent {
    let receiver = Receiver::start(manner);
    sender().send(&parcel(&receiver.url())).unwrap()
}

fn status(sent: &Sent) -> Option<u16> {
    sent.reply.as_ref().map(|reply| reply.status)
}

#[test]
fn the_request_is_that_of_the_contract() {
    let receiver = Receiver::start(OK);
    let sent = sender().send(&parcel(&receiver.url())).unwrap();
    assert!(sent.delivered());
    let Got { line, headers, body } = receiver.next();
    assert_eq!(line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(body, BODY.as_bytes());
    let header = |name: &str| headers.get(name).map(String::as_str);
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("content-length"), Some(BODY.len().to_string().as_str()));
    assert_eq!(header("user-agent"), Some(concat!("Branchyard-Hook/", env!("CARGO_PKG_VERSION"))));
    assert_eq!((header("accept"), header("accept-encoding")), (Some("*/*"), Some("identity")));
    assert_eq!(header("webhook-id"), Some("00000000-0000-0000-0000-000000000001"));
    assert_eq!(header("x-branchyard-delivery"), Some("00000000-0000-0000-0000-000000000002"));
    assert_eq!(header("x-branchyard-event"), Some("ping"));
    assert_eq!(header("traceparent"), Some(TRACEPARENT));
    assert!(header("x-hub-signature-256").unwrap().starts_with("sha256="));
    assert_eq!(header("host"), Some(receiver.address.to_string().as_str()));
    for absent in ["cookie", "authorization", "referer", "content-encoding"] {
        assert_eq!(header(absent), None);
    }
    let logged: Vec<&str> = sent.headers.iter().map(|(name, _)| name.as_str()).collect();
    let mut wire: Vec<&str> = headers.keys().map(String::as_str).filter(|name| *name != "host").collect();
    let mut sorted = logged.clone();
    sorted.sort_unstable();
    wire.sort_unstable();
    assert_eq!(sorted, wire, "the log shows what was sent");
    assert!(sent.headers.iter().all(|(name, value)| headers[name] == *value));
    assert_eq!(sent.reply.unwrap().headers, [("x-a".to_owned(), "1, 2".to_owned())]);
}

#[test]
fn without_a_trace_there_is_no_traceparent() {
    let receiver = Receiver::start(OK);
    let request = WebhookRequest { trace: None, ..parcel(&receiver.url()) };
    assert!(sender().send(&request).unwrap().delivered());
    assert_eq!(receiver.next().headers.get("traceparent"), None);
}

#[test]
fn a_stock_verifier_accepts_it_with_either_secret_during_rotation() {
    let receiver = Receiver::start(OK);
    let both = || SECRETS.map(|text| HookSecret::from_text(text.to_owned())).to_vec();
    let verify = |got: &Got, secret: &str| {
        let mut headers = http::HeaderMap::new();
        for (name, value) in &got.headers {
            headers.insert(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                http::HeaderValue::from_str(value).unwrap(),
            );
        }
        Webhook::new(secret).unwrap().verify(&got.body, &headers).is_ok()
    };
    sender().send(&parcel(&receiver.url())).unwrap();
    let single = receiver.next();
    assert!(verify(&single, SECRETS[0]) && !verify(&single, SECRETS[1]));
    let mut rotating = parcel(&receiver.url());
    rotating.secrets = both();
    sender().send(&rotating).unwrap();
    let rotated = receiver.next();
    assert!(verify(&rotated, SECRETS[0]) && verify(&rotated, SECRETS[1]));
    let mut forged = rotated.clone();
    forged.body.push(b' ');
    assert!(!verify(&forged, SECRETS[0]));
    let mut replayed = parcel(&receiver.url());
    replayed.at = replayed.at.plus_seconds(-400);
    sender().send(&replayed).unwrap();
    assert!(!verify(&receiver.next(), SECRETS[0]), "too old");
}

#[test]
fn statuses_end_an_attempt_as_they_say() {
    let sent = attempt(|stream| answer(stream, "HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\noops"));
    assert_eq!((status(&sent), sent.error, sent.delivered()), (Some(500), None, false));
    assert_eq!(sent.reply.unwrap().body, "oops");
    let sent = attempt(|stream| answer(stream, "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!((status(&sent), sent.error, sent.delivered()), (Some(410), None, false));
    let sent = attempt(|stream| answer(stream, "HTTP/1.1 429 Wait\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(status(&sent), Some(429));
    assert_eq!(sent.reply.unwrap().retry_after, Some(RetryAfter::Seconds(120)));
    for ok in ["200 OK", "201 Created", "299 Odd"] {
        let receiver = Receiver::start(match ok {
            "200 OK" => |stream| answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            "201 Created" => |stream| answer(stream, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"),
            _ => |stream| answer(stream, "HTTP/1.1 299 Odd\r\nContent-Length: 0\r\n\r\n"),
        });
        assert!(sender().send(&parcel(&receiver.url())).unwrap().delivered(), "{ok}");
    }
}

#[test]
fn redirects_are_not_followed() {
    let receiver = Receiver::start(|stream| {
        let port = stream.local_addr().unwrap().port();
        let text =
            format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/there\r\nContent-Length: 0\r\n\r\n");
        answer(stream, &text);
    });
    let sent = sender().send(&parcel(&receiver.url())).unwrap();
    assert_eq!((status(&sent), sent.error, sent.delivered()), (Some(302), Some(AttemptError::Redirect), false));
    receiver.next();
    assert!(receiver.got.recv_timeout(Duration::from_millis(200)).is_err(), "one request");
}

#[test]
fn who_never_answers_costs_no_more_than_the_time_limit() {
    // The receiver keeps the connection open for longer than any test takes.
    let sent = attempt(|_| std::thread::sleep(FOREVER));
    assert_eq!((sent.error, sent.reply), (Some(AttemptError::Timeout), None));
    // A head that arrives one byte at a time is also too late.
    let sent = attempt(|stream| {
        for byte in b"HTTP/1.1 200 OK\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" {
            let _ = stream.write_all(&[*byte]);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(sent.error, Some(AttemptError::Timeout));
}

#[test]
fn a_slow_answer_in_time_counts() {
    let receiver = Receiver::start(|stream| {
        std::thread::sleep(Duration::from_millis(700));
        OK(stream);
    });
    let sender = HttpSender::new(SenderOptions { timeout: Duration::from_secs(15), ..options() }).unwrap();
    assert!(sender.send(&parcel(&receiver.url())).unwrap().delivered());
}

#[test]
fn a_body_is_read_to_its_limit_and_its_end_does_not_matter() {
    let sent = attempt(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n");
        let _ = stream.write_all(&vec![b'x'; 10_000_000]);
    });
    assert!(sent.delivered());
    assert_eq!(sent.reply.unwrap().body.len(), 16 << 10);

    let sent = attempt(|stream| answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"));
    assert!(sent.delivered(), "the head came whole");
    assert_eq!(sent.reply.unwrap().body, "half");

    // The rest of the body never comes, and the connection stays open.
    let sent = attempt(|stream| {
        answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslow");
        std::thread::sleep(FOREVER);
    });
    assert!(sent.delivered());
    assert_eq!(sent.reply.unwrap().body, "slow");

    let sent = attempt(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\na\xff\0");
    });
    assert_eq!(sent.reply.unwrap().body, "a\u{fffd}\0");
}

/// Returns the outcome of an attempt that is answered with 200, and this many header lines of this length.
fn answered_with_lines(lines: usize, length: usize) -> Sent {
    static LINES: Mutex<(usize, usize)> = Mutex::new((0, 0));
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    *LINES.lock() = (lines, length);
    attempt(|stream| {
        let (lines, length) = *LINES.lock();
        let mut head = "HTTP/1.1 200 OK\r\n".to_owned();
        (0..lines).for_each(|n| head += &format!("{:<1$}\r\n", format!("x-{n}: v"), length - 2).replace(' ', "v"));
        answer(stream, &(head + "\r\n"));
    })
}

#[test]
fn an_answer_with_many_header_lines_counts() {
    for lines in [99, 101, 1_000, 16_384] {
        let sent = answered_with_lines(lines, 16);
        assert!(sent.delivered(), "{lines}: {:?}", sent.error);
        let kept = sent.reply.unwrap().headers;
        let bytes: usize = kept.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        assert!(bytes <= 8 << 10 && kept.len() >= lines.min(500), "{lines}: {} of {bytes} bytes", kept.len());
    }
    assert_eq!(answered_with_lines(16_385, 16).error, Some(AttemptError::Connection));
    // A line of the status, 100 header lines and the empty line: 408 KiB.
    let long = (408 << 10) / 100 - 1;
    assert!(answered_with_lines(100, long).delivered());
    assert_eq!(answered_with_lines(100, 2 * long + 100).error, Some(AttemptError::Connection));
}

#[test]
fn the_limit_of_a_body_can_be_set() {
    let receiver = Receiver::start(|stream| answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"));
    for (limit, kept) in [(0, ""), (4, "abcd"), (5, "abcde"), (6, "abcde")] {
        let sender = HttpSender::new(SenderOptions { response_bytes: limit, ..options() }).unwrap();
        assert_eq!(sender.send(&parcel(&receiver.url())).unwrap().reply.unwrap().body, kept);
    }
}

#[test]
fn connections_that_break() {
    let half_a_head: Manner = |stream| answer(stream, "HTTP/1.1 200 OK\r\nContent-Le");
    let rubbish: Manner = |stream| answer(stream, "SSH-2.0-OpenSSH_9.6\r\n");
    let nothing: Manner = |_| ();
    for manner in [half_a_head, rubbish, nothing] {
        let sent = attempt(manner);
        assert_eq!((sent.error, sent.reply), (Some(AttemptError::Connection), None));
    }
}

#[test]
fn nobody_listens() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sent = sender().send(&parcel(&format!("http://{free}/"))).unwrap();
    assert_eq!((sent.error, sent.reply), (Some(AttemptError::Refused), None));
}

#[test]
fn proxies_of_the_environment_are_ignored_and_connections_are_new() {
    // The proxy variables are read when a client is created; this test creates its own client.
    let receiver = Receiver::start(|stream| {
        answer(stream, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n");
        std::thread::sleep(Duration::from_millis(300));
    });
    let sender = sender();
    for _ in 0..3 {
        assert!(sender.send(&parcel(&receiver.url())).unwrap().delivered());
        receiver.next();
    }
}

#[test]
fn attempts_do_not_wait_for_each_other() {
    static IS_DELIVERED: AtomicBool = AtomicBool::new(false);
    let slow = Receiver::start(|_| {
        while !IS_DELIVERED.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let (quick, slow_url) = (Receiver::start(OK), slow.url());
    let sender = HttpSender::new(SenderOptions { timeout: FOREVER, ..options() }).unwrap();
    std::thread::scope(|scope| {
        let attempts: Vec<_> = (0..8).map(|_| scope.spawn(|| sender.send(&parcel(&slow_url)).unwrap())).collect();
        slow.next();
        assert!(sender.send(&parcel(&quick.url())).unwrap().delivered());
        assert!(attempts.iter().all(|attempt| !attempt.is_finished()));
        IS_DELIVERED.store(true, Ordering::SeqCst);
        for attempt in attempts {
            assert_eq!(attempt.join().unwrap().error, Some(AttemptError::Connection));
        }
    });
}
