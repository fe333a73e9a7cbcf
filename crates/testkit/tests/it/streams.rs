//! Streamed results, and clients that go away.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server};
use reqwest::Method;
use serde_json::json;

const SLOW: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";
const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n";
/// Fills the buffers between the server and its client in a moment.
const WIDE: &str =
    "with recursive n(x) as (select 1 union all select x + 1 from n) select hex(zeroblob(100000)) as x from n";

fn yard(change: impl FnOnce(&mut branchyard::config::Config)) -> (Server, Actor) {
    let server = Server::start_with(|config| {
        config.sql.max_concurrent_reads_per_caller = 1;
        change(config);
    });
    let ada = server.user("ada");
    ada.database("rivers");
    (server, ada)
}

/// Starts a read on a new connection.
fn begin(server: &Server, who: &Actor, accept: &str, statement: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address().strip_prefix("http://").unwrap()).unwrap();
    let body = json!({"q": statement, "timeout_ms": 60_000}).to_string();
    let head = format!(
        "POST /api/v2/databases/ada/rivers/sql HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\naccept: {accept}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        who.token().unwrap(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Waits until the caller's one permit for reads is free, and returns how long that took.
fn until_free(who: &Actor) -> Duration {
    let began = Instant::now();
    while who.post("/databases/ada/rivers/sql", &json!({"q": "select 1"})).status == 429 {
        assert!(began.elapsed() < Duration::from_secs(50), "the read goes on without its client");
        std::thread::sleep(Duration::from_millis(20));
    }
    began.elapsed()
}

/// Starts a slow read that holds the caller's one permit. If a probe holds the permit when the read arrives, the read is refused and
/// started again.
fn begin_slow(server: &Server, who: &Actor, accept: &str) -> TcpStream {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(50) {
        let stream = begin(server, who, accept, SLOW);
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(50));
            if who.post("/databases/ada/rivers/sql", &json!({"q": "select 1"})).status == 429 {
                return stream;
            }
        }
    }
    panic!("the read does not begin");
}

#[test]
fn a_read_ends_when_its_client_goes_away() {
    let (server, ada) = yard(|_| {});
    for (accept, statement) in [
        ("application/json", SLOW),
        ("application/x-ndjson", SLOW),
        ("text/csv", ENDLESS),
        ("application/x-ndjson", ENDLESS),
    ] {
        let stream = if statement == ENDLESS {
            let mut stream = begin(&server, &ada, accept, statement);
            stream.read_exact(&mut [0; 1_000]).unwrap();
            stream
        } else {
            begin_slow(&server, &ada, accept)
        };
        assert_eq!(ada.post("/databases/ada/rivers/sql", &json!({"q": "select 1"})).status, 429, "{accept}");
        drop(stream);
        // Far below the timeout of the read, a minute.
        assert!(until_free(&ada) < Duration::from_secs(30), "{accept}");
    }
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let (server, ada) = yard(|config| config.sql.stream_stall_ms = 300);
    let mut stream = begin(&server, &ada, "text/csv", WIDE);
    stream.read_exact(&mut [0; 1_000]).unwrap();
    assert!(until_free(&ada) < Duration::from_secs(40));
    // The client can notice the abort: the body has no last chunk.
    let mut rest = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}

#[test]
fn a_client_that_takes_nothing_holds_up_nobody_who_computes() {
    let (server, ada) = yard(|config| {
        config.sql.max_concurrent_reads = 2;
        config.sql.max_concurrent_reads_per_caller = 3;
        config.sql.max_computing_reads = 1;
        config.sql.read_queue_wait_ms = 500;
        // The read stays in the short lane.
        config.pools.long_after_ms = 60_000;
    });
    let read = || ada.post("/databases/ada/rivers/sql", &json!({"q": "select 1"})).status;
    let mut slow = begin(&server, &ada, "text/csv", WIDE);
    slow.read_exact(&mut [0; 1_000]).unwrap();
    let began = Instant::now();
    while read() != 200 {
        assert!(began.elapsed() < Duration::from_secs(30), "it computes without end");
    }
    let mut slow_too = begin(&server, &ada, "text/csv", WIDE);
    slow_too.read_exact(&mut [0; 1_000]).unwrap();
    assert_eq!(read(), 503, "reads at once are those that wait for their client as well");
    drop(slow);
    while read() != 200 {
        assert!(began.elapsed() < Duration::from_secs(60), "its place is free");
    }
}

#[test]
fn coded_rows_flow_while_the_statement_runs() {
    let (_server, ada) = yard(|_| {});
    for coding in ["gzip", "br", "zstd"] {
        let body = json!({"q": ENDLESS, "timeout_ms": 20_000});
        let request = ada.request(Method::POST, "/databases/ada/rivers/sql");
        let request = request.header("Accept", "application/x-ndjson").header("Accept-Encoding", coding).json(&body);
        let mut answer = request.send().unwrap();
        assert_eq!(answer.headers()["content-encoding"], coding);
        let began = Instant::now();
        answer.read_exact(&mut [0; 100]).unwrap();
        assert!(began.elapsed() < Duration::from_secs(15), "{coding}");
        drop(answer);
        until_free(&ada);
    }
}
