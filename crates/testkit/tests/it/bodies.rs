//! Request bodies: what is answered before they arrive, how fast they have to arrive, and the memory that they share.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server};
use serde_json::json;

/// Far more time than any step here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends the head of a request and some of its body.
fn begin(server: &Server, request: &str, headers: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address().strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{request} HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n").as_bytes()).unwrap();
    // The server may refuse the request and close while the body is still being sent.
    let _ = stream.write_all(body);
    stream
}

/// Reads the response with its head. The server may keep reading the request, so `Content-Length` marks the end.
fn answer(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "no answer: {}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    let head = String::from_utf8(text.clone()).unwrap().to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|length| length.parse().unwrap());
    match length {
        Some(length) => {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            text.extend(body);
        }
        None => drop(stream.read_to_end(&mut text).unwrap()),
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap_or_default()
}

fn bearer(who: &Actor) -> String {
    format!("authorization: Bearer {}", who.token().unwrap())
}

const JSON: &str = "content-type: application/json";
const FORM: &str = "content-type: application/x-www-form-urlencoded";

/// No byte of these bodies is sent.
#[test]
fn credential_and_origin_are_checked_before_the_body() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("rivers");
    let good = bearer(&ada);
    let bad = "authorization: Bearer x";
    let cases: [(&str, &str, String); 9] = [
        ("401", "POST /api/v2/databases", format!("{bad}\r\n{JSON}\r\ncontent-length: 1000")),
        ("401", "POST /api/v2/databases", format!("{JSON}\r\ncontent-length: 65536")),
        ("413", "POST /api/v2/databases", format!("{JSON}\r\ncontent-length: 65537")),
        ("413", "POST /api/v2/databases", format!("{good}\r\n{JSON}\r\ncontent-length: 2097153")),
        ("401", "POST /api/v2/databases/ada/rivers/sql", format!("{bad}\r\n{JSON}\r\ncontent-length: 1000")),
        ("401", "POST /api/v1/deployments", format!("{JSON}\r\ncontent-length: 1000")),
        ("400", "POST /api/v1alpha1/database", format!("{bad}\r\n{JSON}\r\ncontent-length: 1000")),
        ("403", "POST /sign-in", format!("{FORM}\r\norigin: https://evil.test\r\ncontent-length: 1000")),
        ("413", "POST /sign-in", format!("{FORM}\r\ncontent-length: 65537")),
    ];
    for (expected, request, headers) in cases {
        let answer = answer(begin(&server, request, &headers, b""));
        assert_eq!(status(&answer), expected, "{request} {headers}: {answer}");
    }
}

#[test]
fn a_caller_without_a_credential_may_send_64_kib() {
    let server = Server::start();
    for (length, expected) in [(65_536, "403"), (65_537, "413")] {
        let form = vec![b'a'; length];
        let declared = format!("{FORM}\r\nconnection: close\r\ncontent-length: {length}");
        // A form that arrives whole is refused for its missing CSRF token.
        assert_eq!(status(&answer(begin(&server, "POST /sign-in", &declared, &form))), expected, "{length}");
        let chunks = [format!("{length:x}\r\n").as_bytes(), &form, b"\r\n0\r\n\r\n"].concat();
        let chunked = format!("{FORM}\r\nconnection: close\r\ntransfer-encoding: chunked");
        assert_eq!(
            status(&answer(begin(&server, "POST /sign-in", &chunked, &chunks))),
            expected,
            "{length}, in chunks"
        );
    }
}

#[test]
fn a_body_that_stops_is_refused_wherever_it_goes() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("rivers");
    let body = json!({"content_length": 1_000, "num_parts": 1, "file_type": "csv"});
    let upload = ada.post("/databases/ada/rivers/imports/uploads", &body).expect(201);
    let url = upload.data()["parts"][0]["url"].as_str().unwrap().to_owned();
    let part = format!("PUT {}", url.strip_prefix(&server.address()).unwrap());
    let good = bearer(&ada);
    let length = "content-length: 1000";
    let cases = [
        ("POST /api/v2/databases".to_owned(), format!("{good}\r\n{JSON}\r\n{length}")),
        ("POST /api/v2/databases/ada/rivers/sql".to_owned(), format!("{JSON}\r\n{length}")),
        ("POST /api/v1alpha1/database".to_owned(), format!("{JSON}\r\n{length}")),
        (
            "POST /api/v1alpha1/ada/rivers/upload".to_owned(),
            format!("{good}\r\ncontent-type: multipart/form-data; boundary=x\r\n{length}"),
        ),
        ("POST /sign-in".to_owned(), format!("{FORM}\r\n{length}")),
        (part, length.to_owned()),
    ];
    thread::scope(|scope| {
        for (request, headers) in &cases {
            let server = &server;
            scope.spawn(move || {
                let began = Instant::now();
                let answer = answer(begin(server, request, headers, b"x"));
                assert_eq!(status(&answer), "400", "{request}: {answer}");
                // Refused for its pace, after 5 s, and not at the deadline.
                assert!(began.elapsed() < Duration::from_secs(29), "{request}: {:?}", began.elapsed());
            });
        }
    });
}

/// Returns the bytes in memory of request bodies or of long responses, from the metrics.
fn in_flight(server: &Server, what: &str) -> f64 {
    let (metrics, line) = (server.metrics(), format!("branchyard_http_{what}_in_flight_bytes "));
    let value = metrics.lines().find_map(|found| found.strip_prefix(line.as_str()));
    value.unwrap_or_else(|| panic!("no {line}in {metrics}")).parse().unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// One caller's endless body uses up the budget, which is the size of that body.
#[test]
fn bodies_share_a_budget_and_those_that_never_end_make_room() {
    const LARGE: usize = 4 << 20;
    let server = Server::start_with(|config| {
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
        config.http.max_json_body_bytes = LARGE;
        config.http.max_bytes_in_flight = LARGE;
    });
    let (ada, bob) = (server.user("ada"), server.user("bob"));
    ada.database("rivers");
    let headers = format!("{}\r\n{JSON}\r\ncontent-length: {LARGE}", bearer(&ada));
    let endless = begin(&server, "POST /api/v2/databases", &headers, &vec![b' '; LARGE - 1]);
    until("the body arrives", || in_flight(&server, "bodies") > 4_194_302.0);
    // A second body of the same caller finds no room, and the caller's own body is what is in its way.
    let body = json!({"name": "a", "from": {"branch": "main"}});
    let refused = ada.post("/databases/ada/rivers/branches", &body).expect(429);
    assert_eq!(refused.header("retry-after"), "1");
    // A body of another caller evicts the endless one.
    bob.post("/databases", &json!({"owner": "bob", "name": "lakes", "visibility": "public"})).expect(201);
    let evicted = answer(endless);
    assert_eq!(status(&evicted), "503", "{evicted}");
    assert!(evicted.contains("\r\nretry-after: 1\r\n"), "{evicted}");
    ada.post("/databases/ada/rivers/branches", &body).expect(201);
    until("all room is given back", || in_flight(&server, "bodies") < 1.0);
}

/// Requests a JSON response of some MiB, and reads none of it.
fn ask(server: &Server, who: &Actor, mib: usize) -> TcpStream {
    let body = json!({"q": format!("select hex(zeroblob({}))", mib << 19)}).to_string();
    let headers = format!("{}\r\n{JSON}\r\ncontent-length: {}", bearer(who), body.len());
    begin(server, "POST /api/v2/databases/ada/rivers/sql", &headers, body.as_bytes())
}

/// Each of these responses is longer than what the kernel buffers of it.
#[test]
fn answers_that_are_not_taken_share_a_budget_and_make_room() {
    const MIB: f64 = 1_048_576.0;
    let server = Server::start_with(|config| {
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
        config.http.max_bytes_in_flight = 30 << 20;
    });
    let [ada, bob, cleo] = ["ada", "bob", "cleo"].map(|name| server.user(name));
    ada.database("rivers");
    let answers = || in_flight(&server, "answers") / MIB;
    let first = ask(&server, &ada, 14);
    until("the first answer is held", || answers() >= 14.0);
    // A second long response to the same caller finds no room. A short one needs none.
    let refused = answer(ask(&server, &ada, 14));
    assert_eq!(status(&refused), "429", "{refused}");
    assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    ada.get("/databases/ada/rivers").expect(200);
    let second = ask(&server, &bob, 14);
    until("the second answer is held", || answers() >= 28.0);
    // No caller holds more than this one asks for.
    let refused = answer(ask(&server, &cleo, 14));
    assert_eq!(status(&refused), "503", "{refused}");
    // Both others hold more than this one asks for, so one of them is evicted.
    let taken = answer(ask(&server, &cleo, 5));
    assert_eq!(status(&taken), "200");
    assert!(taken.len() > 5 << 20);
    let ends = [first, second].map(|mut held| {
        let mut all = Vec::new();
        // An evicted response ends early or with an error.
        let _ = held.read_to_end(&mut all);
        all.len() > 14 << 20
    });
    assert_ne!(ends[0], ends[1], "one of the two is broken off");
    until("all room is given back", || answers() == 0.0);
}

/// The caller may have one read running, and the budget has room for one long response.
#[test]
fn an_answer_that_waits_for_room_counts_as_a_running_read() {
    let server = Server::start_with(|config| {
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
        config.http.max_bytes_in_flight = 16 << 20;
        config.sql.max_concurrent_reads_per_caller = 1;
    });
    let ada = server.user("ada");
    ada.database("rivers");
    let held = ask(&server, &ada, 14);
    until("an answer is held", || in_flight(&server, "answers") > 0.0);
    // On a slow machine, the second read may still be computing or may already be refused.
    until("a read is refused while another one waits", || {
        let waits = ask(&server, &ada, 14);
        thread::sleep(Duration::from_millis(500));
        let refused = answer(ask(&server, &ada, 1));
        drop(waits);
        status(&refused) == "429" && refused.contains("reads of yours are running")
    });
    drop(held);
}
