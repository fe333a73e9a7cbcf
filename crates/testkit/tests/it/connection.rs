//! The connection layer, and slow clients.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use branchyard_testkit::Server;
use serde_json::json;

const SLOW: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";

/// Sends bytes, and reads until the server closes the connection or sends nothing for a minute.
fn talk(server: &Server, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address().strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server may close while the bytes are still being sent.
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
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("content-length: 0") && rest.ends_with("\r\n\r\n"), "{rest}");
    // With the default head timeout: on a busy machine the short one would expire first.
    let server = Server::start();
    let answer = talk(&server, b"rubbish\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.ends_with("\r\n\r\n"), "{answer}");
}

/// A query whose result is longer than the buffers on the way, so some of it stays in the server's memory.
const LONG: &str = "with+recursive+n(x)+as+(select+1+union+all+select+x+%2B+1+from+n)+select+hex(zeroblob(700))+from+n";
const LONG_BYTES: usize = 14_000_000;

/// Starts a read of `ada/rivers`, and returns after the first bytes of the response.
fn begin(server: &Server, statement: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address().strip_prefix("http://").unwrap()).unwrap();
    let path = format!("/api/v2/databases/ada/rivers/sql?limit=10000&q={statement}");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
    stream.read_exact(&mut [0; 1_000]).unwrap();
    stream
}

/// Returns how many bytes follow, and whether the connection is still open after them.
fn rest(mut stream: TcpStream, patience: Duration) -> (usize, bool) {
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    (rest.len(), ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock))
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_that_takes_nothing_of_its_answer_is_cut_off() {
    for (limit_ms, is_cut_off) in [(600_000, false), (500, true)] {
        let server = Server::start_with(|config| config.http.write_stall_ms = limit_ms);
        server.user("ada").database("rivers");
        let stream = begin(&server, LONG);
        std::thread::sleep(Duration::from_secs(4));
        let (taken, _) = rest(stream, Duration::from_secs(10));
        assert_eq!(taken < LONG_BYTES, is_cut_off, "{taken}");
    }
}

/// A connection without a request in progress ends after the head timeout plus 5 s, the longest silence between two requests.
#[test]
fn a_later_head_that_does_not_come_ends_the_connection_and_slow_work_does_not() {
    let server = Server::start_with(|config| config.http.head_timeout_ms = 3_000);
    server.user("ada").database("rivers");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = begin(&server, "select+hex(zeroblob(500))");
            stream.write_all(b"GET /api/v2/databases HTTP/1.1\r\nhost: x\r\n").unwrap();
            let began = Instant::now();
            let (_, is_open) = rest(stream, Duration::from_secs(120));
            let took = began.elapsed();
            assert!(!is_open && took > Duration::from_secs(4), "{is_open} {took:?}");
        });
        scope.spawn(|| {
            let stream = begin(&server, LONG);
            std::thread::sleep(Duration::from_secs(8));
            assert!(rest(stream, Duration::from_secs(10)).0 > LONG_BYTES);
        });
        scope.spawn(|| {
            let body = json!({"q": SLOW, "timeout_ms": 8_000});
            let answer = server.anonymous().post("/databases/ada/rivers/sql", &body).expect(200);
            assert_eq!(answer.json()["data"]["status"], "timeout");
        });
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

/// Connects from an address of this machine.
fn connect_from(server: &Server, address: [u8; 4]) -> TcpStream {
    use socket2::{Domain, SockAddr, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(std::net::SocketAddr::from((address, 0)))).unwrap();
    let to: std::net::SocketAddr = server.address().strip_prefix("http://").unwrap().parse().unwrap();
    socket.connect(&SockAddr::from(to)).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends a small request and reads the response. The connection stays open.
fn ask(stream: &mut TcpStream, headers: &str) -> String {
    // The server may already have closed a refused connection.
    let _ = stream.write_all(format!("GET /api/v2/user HTTP/1.1\r\nhost: x\r\n{headers}\r\n").as_bytes());
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    let mut answer = String::from_utf8(head).unwrap();
    let length =
        answer.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    answer.push_str(std::str::from_utf8(&body).unwrap());
    answer
}

#[cfg(target_os = "linux")]
#[test]
fn an_address_has_so_many_connections_and_others_are_served() {
    const MOST: usize = 8;
    let server = Server::start_with(|config| {
        config.http.max_connections_per_address = MOST;
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
    });
    let (here, elsewhere) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    let mut held: Vec<TcpStream> = (0..MOST).map(|_| connect_from(&server, here)).collect();
    for stream in &mut held {
        assert!(ask(stream, "").starts_with("HTTP/1.1 401"), "at the limit");
        // Half a head keeps the connection for a while.
        stream.write_all(b"GET /api/v2/user HTTP/1.1\r\n").unwrap();
    }
    let mut refused = connect_from(&server, here);
    let answer = ask(&mut refused, "");
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(matches!(refused.read(&mut [0; 16]), Ok(0) | Err(_)), "it is closed");
    assert!(server.metrics().contains("branchyard_http_connections_refused_total 1\n"));
    for _ in 0..MOST {
        assert!(ask(&mut connect_from(&server, elsewhere), "").starts_with("HTTP/1.1 401"), "another address");
    }
    drop(held);
    let began = Instant::now();
    while !ask(&mut connect_from(&server, here), "").starts_with("HTTP/1.1 401") {
        assert!(began.elapsed() < Duration::from_secs(60), "places come back");
    }
}

#[test]
fn the_requests_of_a_client_behind_a_trusted_proxy_are_counted_instead_of_connections() {
    let server = Server::start_with(|config| {
        config.http.max_connections_per_address = 2;
        config.http.trusted_proxies = vec!["127.0.0.1".to_owned()];
    });
    server.user("ada").database("rivers");
    let connect = || connect_from(&server, [127, 0, 0, 1]);
    let mut proxy: Vec<TcpStream> = (0..6).map(|_| connect()).collect();
    let [first, second] = ["x-forwarded-for: 203.0.113.1\r\n", "x-forwarded-for: 203.0.113.2\r\n"];
    for stream in &mut proxy {
        assert!(ask(stream, first).starts_with("HTTP/1.1 401"), "any number of connections");
    }
    // Two responses that the client does not read are in flight.
    for stream in &mut proxy[..2] {
        let path = format!("/api/v2/databases/ada/rivers/sql?limit=10000&q={LONG}");
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n{first}\r\n").as_bytes()).unwrap();
        stream.read_exact(&mut [0; 1_000]).unwrap();
    }
    let refused = ask(&mut connect(), first);
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    assert!(refused.contains("application/problem+json"), "{refused}");
    assert!(ask(&mut connect(), second).starts_with("HTTP/1.1 401"), "another client");
    assert!(ask(&mut connect(), "").starts_with("HTTP/1.1 401"), "the proxy itself");
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
