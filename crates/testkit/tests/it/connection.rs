//! The connection layer, and slow clients.

use std::io::Read as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, Outcome, RawAnswer, RawConnection, Server, wait_until};
use serde_json::json;

const SLOW: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";

/// Sends bytes, and reads until the server closes the connection or sends nothing for a minute.
fn talk(server: &Server, sent: &[u8]) -> String {
    let mut connection = RawConnection::open(server.socket());
    connection.send(sent);
    String::from_utf8_lossy(&connection.rest(Duration::from_secs(60)).0).into_owned()
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
    let patient = Server::start();
    let [mut late, mut waits] = [&server, &patient].map(|server| {
        let mut connection = RawConnection::open(server.socket());
        connection.send(b"GET /api/v2/databases HTTP/1.1\r\nhost: x\r\n");
        connection
    });
    let answer = late.answer().expect(408);
    assert_eq!(answer.header("content-length"), Some("0"));
    assert!(matches!(waits.answer_until(Instant::now()), Outcome::HungUp), "the limit is that of the configuration");
    // With the default head timeout: on a busy machine the short one would expire first.
    let answer = talk(&patient, b"rubbish\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.ends_with("\r\n\r\n"), "{answer}");
}

/// A query whose result is longer than the buffers on the way, so some of it stays in the server's memory.
const LONG: &str = "with+recursive+n(x)+as+(select+1+union+all+select+x+%2B+1+from+n)+select+hex(zeroblob(700))+from+n";
const LONG_BYTES: usize = 14_000_000;

/// Starts a read of `ada/rivers`, and returns after the first bytes of the response.
fn begin(server: &Server, statement: &str) -> RawConnection {
    let mut connection = RawConnection::open(server.socket());
    connection.begin(&format!("GET /api/v2/databases/ada/rivers/sql?limit=10000&q={statement}"), "", b"");
    connection.stream().read_exact(&mut [0; 1_000]).unwrap();
    connection
}

/// Returns `true` if the rest of a response to [`LONG`] arrives.
fn arrives(mut connection: RawConnection) -> bool {
    connection.stream().read_exact(&mut vec![0; LONG_BYTES]).is_ok()
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_that_takes_nothing_of_its_answer_is_cut_off() {
    let [patient, strict] = [600_000, 500].map(|limit_ms| {
        let server = Server::start_with(|config| {
            config.http.write_stall_ms = limit_ms;
            config.metrics.listen = Some("127.0.0.1:0".to_owned());
        });
        server.user("ada").database("rivers");
        server
    });
    let held = |server: &Server| server.metric("branchyard_http_answers_in_flight_bytes");
    let [waits, cut_off] = [&patient, &strict].map(|server| begin(server, LONG));
    wait_until("the end of the answer", AMPLE, || held(&strict) == 0.0);
    assert!(held(&patient) > 0.0);
    assert!(!arrives(cut_off));
    assert!(arrives(waits));
}

/// A connection without a request in progress ends after the head timeout plus 5 s, the longest silence between two requests.
#[test]
fn a_later_head_that_does_not_come_ends_the_connection_and_slow_work_does_not() {
    const HALF: &[u8] = b"GET /api/v2/databases HTTP/1.1\r\nhost: x\r\n";
    let server = Server::start_with(|config| config.http.head_timeout_ms = 1_500);
    server.user("ada").database("rivers");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let body = json!({"q": SLOW, "timeout_ms": 8_000});
            let answer = server.anonymous().post("/databases/ada/rivers/sql", &body).expect(200);
            assert_eq!(answer.json()["data"]["status"], "timeout");
        });
        let unread = begin(&server, LONG);
        let mut later = begin(&server, "select+hex(zeroblob(500))");
        later.send(HALF);
        let mut first = RawConnection::open(server.socket());
        first.send(HALF);
        first.answer().expect(408);
        // The rest of its answer is there, and nothing after it.
        assert!(later.is_open(), "the later head has more time");
        let (_, is_open) = later.rest(AMPLE);
        assert!(!is_open);
        assert!(arrives(unread), "an answer that is not read is work in progress");
        slow.join().unwrap();
    });
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

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn connect_from(server: &Server, address: Ipv4Addr) -> RawConnection {
    RawConnection::open_from(address, server.socket()).unwrap()
}

/// Sends a small request and reads the response. The connection stays open.
fn ask(connection: &mut RawConnection, headers: &str) -> RawAnswer {
    connection.begin("GET /api/v2/user", headers, b"");
    connection.answer()
}

#[cfg(target_os = "linux")]
#[test]
fn an_address_has_so_many_connections_and_others_are_served() {
    const MOST: usize = 8;
    let server = Server::start_with(|config| {
        config.http.max_connections_per_address = MOST;
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
    });
    let mut held: Vec<RawConnection> = (0..MOST).map(|_| connect_from(&server, HERE)).collect();
    for connection in &mut held {
        // At the limit.
        ask(connection, "").expect(401);
        // Half a head keeps the connection for a while.
        connection.send(b"GET /api/v2/user HTTP/1.1\r\n");
    }
    let mut refused = connect_from(&server, HERE);
    assert_eq!(ask(&mut refused, "").expect(429).header("retry-after"), Some("1"));
    assert!(!refused.rest(AMPLE).1, "it is closed");
    assert!(server.metrics().contains("branchyard_http_connections_refused_total 1\n"));
    for _ in 0..MOST {
        ask(&mut connect_from(&server, ELSEWHERE), "").expect(401);
    }
    drop(held);
    wait_until("a place", AMPLE, || {
        let mut connection = connect_from(&server, HERE);
        connection.begin("GET /api/v2/user", "", b"");
        matches!(connection.answer_until(Instant::now() + AMPLE), Outcome::Answered(answer) if answer.status == 401)
    });
}

#[test]
fn the_requests_of_a_client_behind_a_trusted_proxy_are_counted_instead_of_connections() {
    let server = Server::start_with(|config| {
        config.http.max_connections_per_address = 2;
        config.http.trusted_proxies = vec!["127.0.0.1".to_owned()];
    });
    server.user("ada").database("rivers");
    let connect = || RawConnection::open(server.socket());
    let mut proxy: Vec<RawConnection> = (0..6).map(|_| connect()).collect();
    let [first, second] = ["x-forwarded-for: 203.0.113.1", "x-forwarded-for: 203.0.113.2"];
    for connection in &mut proxy {
        // Any number of connections.
        ask(connection, first).expect(401);
    }
    // Two responses that the client does not read are in flight.
    for connection in &mut proxy[..2] {
        let path = format!("GET /api/v2/databases/ada/rivers/sql?limit=10000&q={LONG}");
        connection.begin(&path, first, b"");
        connection.stream().read_exact(&mut [0; 1_000]).unwrap();
    }
    let refused = ask(&mut connect(), first).expect(429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    // Another client, and the proxy itself.
    ask(&mut connect(), second).expect(401);
    ask(&mut connect(), "").expect(401);
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
