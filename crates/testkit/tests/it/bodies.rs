//! Request bodies: what is answered before they arrive, how fast they have to arrive, and the memory that they share.

use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, Actor, Outcome, RawConnection, Server, wait_until};
use serde_json::json;

/// Sends the head of a request and some of its body.
fn begin(server: &Server, request: &str, headers: &str, body: &[u8]) -> RawConnection {
    let mut connection = RawConnection::open(server.socket());
    connection.begin(request, headers, body);
    connection
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
    let cases: [(u16, &str, String); 9] = [
        (401, "POST /api/v2/databases", format!("{bad}\r\n{JSON}\r\ncontent-length: 1000")),
        (401, "POST /api/v2/databases", format!("{JSON}\r\ncontent-length: 65536")),
        (413, "POST /api/v2/databases", format!("{JSON}\r\ncontent-length: 65537")),
        (413, "POST /api/v2/databases", format!("{good}\r\n{JSON}\r\ncontent-length: 2097153")),
        (401, "POST /api/v2/databases/ada/rivers/sql", format!("{bad}\r\n{JSON}\r\ncontent-length: 1000")),
        (401, "POST /api/v1/deployments", format!("{JSON}\r\ncontent-length: 1000")),
        (400, "POST /api/v1alpha1/database", format!("{bad}\r\n{JSON}\r\ncontent-length: 1000")),
        (403, "POST /sign-in", format!("{FORM}\r\norigin: https://evil.test\r\ncontent-length: 1000")),
        (413, "POST /sign-in", format!("{FORM}\r\ncontent-length: 65537")),
    ];
    for (expected, request, headers) in cases {
        let answer = begin(&server, request, &headers, b"").answer();
        assert_eq!(answer.status, expected, "{request} {headers}: {answer:?}");
    }
}

#[test]
fn a_caller_without_a_credential_may_send_64_kib() {
    let server = Server::start();
    for (length, expected) in [(65_536, 403), (65_537, 413)] {
        let form = vec![b'a'; length];
        let declared = format!("{FORM}\r\nconnection: close\r\ncontent-length: {length}");
        // A form that arrives whole is refused for its missing CSRF token.
        assert_eq!(begin(&server, "POST /sign-in", &declared, &form).answer().status, expected, "{length}");
        let chunks = [format!("{length:x}\r\n").as_bytes(), &form, b"\r\n0\r\n\r\n"].concat();
        let chunked = format!("{FORM}\r\nconnection: close\r\ntransfer-encoding: chunked");
        let answer = begin(&server, "POST /sign-in", &chunked, &chunks).answer();
        assert_eq!(answer.status, expected, "{length}, in chunks");
    }
}

/// A body of which nothing more arrives is refused for its pace after 5 s, well before the deadline of bodies.
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
    // 24 KiB earn another 24 s.
    let earned = format!("{good}\r\n{JSON}\r\ncontent-length: 60000");
    let mut goes_on = begin(&server, "POST /api/v2/databases", &earned, &[b' '; 24 << 10]);
    thread::scope(|scope| {
        for (request, headers) in &cases {
            let server = &server;
            scope.spawn(move || {
                begin(server, request, headers, b"x").answer().expect(400);
            });
        }
    });
    assert!(matches!(goes_on.answer_until(Instant::now()), Outcome::HungUp), "it waits for a body within its pace");
}

/// Returns the bytes in memory of request bodies or of long responses, from the metrics.
fn in_flight(server: &Server, what: &str) -> f64 {
    server.metric(&format!("branchyard_http_{what}_in_flight_bytes"))
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
    let mut endless = begin(&server, "POST /api/v2/databases", &headers, &vec![b' '; LARGE - 1]);
    wait_until("the body arrives", AMPLE, || in_flight(&server, "bodies") > 4_194_302.0);
    // A second body of the same caller finds no room, and the caller's own body is what is in its way.
    let body = json!({"name": "a", "from": {"branch": "main"}});
    let refused = ada.post("/databases/ada/rivers/branches", &body).expect(429);
    assert_eq!(refused.header("retry-after"), "1");
    // A body of another caller evicts the endless one.
    bob.post("/databases", &json!({"owner": "bob", "name": "lakes", "visibility": "public"})).expect(201);
    assert_eq!(endless.answer().expect(503).header("retry-after"), Some("1"));
    ada.post("/databases/ada/rivers/branches", &body).expect(201);
    wait_until("all room is given back", AMPLE, || in_flight(&server, "bodies") < 1.0);
}

/// Requests a JSON response of some MiB, and reads none of it.
fn ask(server: &Server, who: &Actor, mib: usize) -> RawConnection {
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
    wait_until("the first answer is held", AMPLE, || answers() >= 14.0);
    // A second long response to the same caller finds no room. A short one needs none.
    assert_eq!(ask(&server, &ada, 14).answer().expect(429).header("retry-after"), Some("1"));
    ada.get("/databases/ada/rivers").expect(200);
    let second = ask(&server, &bob, 14);
    wait_until("the second answer is held", AMPLE, || answers() >= 28.0);
    // No caller holds more than this one asks for.
    ask(&server, &cleo, 14).answer().expect(503);
    // Both others hold more than this one asks for, so one of them is evicted.
    let taken = ask(&server, &cleo, 5).answer().expect(200);
    assert!(taken.body.len() > 5 << 20);
    // An evicted response ends early or with an error.
    let ends =
        [first, second].map(|mut held| matches!(held.answer_until(Instant::now() + AMPLE), Outcome::Answered(_)));
    assert_ne!(ends[0], ends[1], "one of the two is broken off");
    wait_until("all room is given back", AMPLE, || answers() == 0.0);
}

/// The caller may have one read running, and the budget has room for one long response. A second read waits for less time than a
/// response waits for room.
#[test]
fn an_answer_that_waits_for_room_counts_as_a_running_read() {
    let server = Server::start_with(|config| {
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
        config.http.max_bytes_in_flight = 16 << 20;
        config.sql.max_concurrent_reads = 1;
        config.sql.read_queue_wait_ms = 100;
    });
    let ada = server.user("ada");
    ada.database("rivers");
    let held = ask(&server, &ada, 14);
    wait_until("an answer is held", AMPLE, || in_flight(&server, "answers") > 0.0);
    // On a slow machine, the second read may still be computing or may already be refused.
    wait_until("a read is refused while another one waits", AMPLE, || {
        let waits = ask(&server, &ada, 14);
        thread::sleep(Duration::from_millis(500));
        let refused = ask(&server, &ada, 1).answer();
        drop(waits);
        refused.status == 429 && refused.text().contains("reads of yours are running")
    });
    drop(held);
}
