//! Streamed results, and clients that go away.

use std::io::Read as _;
use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, RawConnection, Server, wait_for, wait_until};
use reqwest::Method;
use serde_json::json;

const SLOW: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";
const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n";
/// Fills the buffers between the server and its client in a moment.
const WIDE: &str =
    "with recursive n(x) as (select 1 union all select x + 1 from n) select hex(zeroblob(100000)) as x from n";

/// The timeout of the reads, far longer than a test waits for their end.
const TIMEOUT_MS: u64 = 3_600_000;

fn start(change: impl FnOnce(&mut branchyard::config::Config)) -> (Server, Actor) {
    let server = Server::start_with(|config| {
        // A caller has one read, and the next one is refused at once.
        config.sql.max_concurrent_reads = 1;
        config.sql.read_queue_wait_ms = 0;
        config.sql.timeout_cap_ms = TIMEOUT_MS;
        change(config);
    });
    let ada = server.user("ada");
    ada.database("rivers");
    (server, ada)
}

/// Starts a read on a new connection.
fn begin(server: &Server, who: &Actor, accept: &str, statement: &str) -> RawConnection {
    let body = json!({"q": statement, "timeout_ms": TIMEOUT_MS}).to_string();
    let headers = format!(
        "authorization: Bearer {}\r\naccept: {accept}\r\ncontent-type: application/json\r\ncontent-length: {}",
        who.token().unwrap(),
        body.len()
    );
    let mut connection = RawConnection::open(server.socket());
    connection.begin("POST /api/v2/databases/ada/rivers/sql", &headers, body.as_bytes());
    connection
}

/// Returns the status of a short read.
fn read(who: &Actor) -> u16 {
    who.post("/databases/ada/rivers/sql", &json!({"q": "select 1"})).status
}

/// Waits until the caller's one permit for reads is free.
fn until_free(who: &Actor) {
    wait_until("the end of the read without its client", AMPLE, || read(who) != 429);
}

/// Starts a slow read that holds the caller's one permit. If a probe holds the permit when the read arrives, the read is refused and
/// started again.
fn begin_slow(server: &Server, who: &Actor, accept: &str) -> RawConnection {
    wait_for("the slow read", AMPLE, || {
        let connection = begin(server, who, accept, SLOW);
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(50));
            if read(who) == 429 {
                return Ok(connection);
            }
        }
        Err("it does not begin")
    })
}

#[test]
fn a_read_ends_when_its_client_goes_away() {
    let (server, ada) = start(|_| {});
    for (accept, statement) in [
        ("application/json", SLOW),
        ("application/x-ndjson", SLOW),
        ("text/csv", ENDLESS),
        ("application/x-ndjson", ENDLESS),
    ] {
        let connection = if statement == ENDLESS {
            let mut connection = begin(&server, &ada, accept, statement);
            connection.stream().read_exact(&mut [0; 1_000]).unwrap();
            connection
        } else {
            begin_slow(&server, &ada, accept)
        };
        assert_eq!(read(&ada), 429, "{accept}");
        drop(connection);
        until_free(&ada);
    }
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let (server, ada) = start(|config| config.sql.stream_stall_ms = 300);
    let mut connection = begin(&server, &ada, "text/csv", WIDE);
    connection.stream().read_exact(&mut [0; 1_000]).unwrap();
    until_free(&ada);
    // The client can notice the abort: the body has no last chunk.
    let (rest, _) = connection.rest(AMPLE);
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}

#[test]
fn a_client_that_takes_nothing_holds_up_nobody_who_computes() {
    let (server, ada) = start(|config| {
        config.sql.max_concurrent_reads = 2;
        config.sql.max_computing_reads = 1;
        config.sql.read_queue_wait_ms = 500;
        // The read stays in the short lane.
        config.pools.long_after_ms = 60_000;
    });
    let mut slow = begin(&server, &ada, "text/csv", WIDE);
    slow.stream().read_exact(&mut [0; 1_000]).unwrap();
    wait_until("the pause of the slow read", AMPLE, || read(&ada) == 200);
    let mut slow_too = begin(&server, &ada, "text/csv", WIDE);
    slow_too.stream().read_exact(&mut [0; 1_000]).unwrap();
    assert_eq!(read(&server.user("ben")), 503, "reads at once are those that wait for their client as well");
    assert_eq!(read(&ada), 429, "and they are as many as the caller may have");
    drop(slow);
    wait_until("the place of the slow read", AMPLE, || read(&ada) == 200);
}

#[test]
fn coded_rows_flow_while_the_statement_runs() {
    let (_server, ada) = start(|_| {});
    for coding in ["gzip", "br", "zstd"] {
        let body = json!({"q": ENDLESS, "timeout_ms": TIMEOUT_MS});
        let request = ada.request(Method::POST, "/databases/ada/rivers/sql");
        let request = request.header("Accept", "application/x-ndjson").header("Accept-Encoding", coding).json(&body);
        let mut answer = request.send().unwrap();
        assert_eq!(answer.headers()["content-encoding"], coding);
        // The statement has no end, so these bytes come before it.
        answer.read_exact(&mut [0; 100]).unwrap();
        drop(answer);
        until_free(&ada);
    }
}
