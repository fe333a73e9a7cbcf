//! Callers share the places of reads: a caller alone may use all of them, and reads beyond its share wait.

use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, RawConnection, Server, TestAnswer, wait_until};
use serde_json::json;

const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";
/// Fills the buffers between the server and its client in a moment.
const WIDE: &str =
    "with recursive n(x) as (select 1 union all select x + 1 from n) select hex(zeroblob(100000)) as x from n";
const QUEUED: &str = "branchyard_pool_queued{pool=\"sql\"}";
const BUSY: &str = "branchyard_pool_places{pool=\"sql\",state=\"busy\"}";

/// Starts a server with this many places for reads.
fn start(places: usize, wait_ms: u64) -> (Server, Actor) {
    let server = Server::start_with(|config| {
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
        config.sql.max_concurrent_reads = places;
        config.sql.read_queue_wait_ms = wait_ms;
        config.sql.timeout_cap_ms = 3_60_0000;
    });
    let ada = server.user("ada");
    ada.database("rivers");
    (server, ada)
}

fn read(who: &Actor, statement: &str) -> TestAnswer {
    who.post("/databases/ada/rivers/sql", &json!({"q": statement}))
}

/// Starts a read on a connection of its own.
fn begin(server: &Server, who: &Actor, accept: &str, statement: &str) -> RawConnection {
    let body = json!({"q": statement, "timeout_ms": 3_60_0000}).to_string();
    let headers = format!(
        "authorization: Bearer {}\r\naccept: {accept}\r\ncontent-type: application/json\r\ncontent-length: {}",
        who.token().unwrap(),
        body.len()
    );
    let mut connection = RawConnection::open(server.socket());
    connection.begin("POST /api/v2/databases/ada/rivers/sql", &headers, body.as_bytes());
    connection
}

/// Starts a read that has no end, and waits until the read of the caller behind it waits.
fn hold_share(server: &Server, who: &Actor) -> (RawConnection, RawConnection) {
    let held = begin(server, who, "application/json", ENDLESS);
    std::thread::sleep(Duration::from_millis(300));
    let waits = begin(server, who, "application/json", "select 1");
    wait_until("a read in the queue", AMPLE, || server.metric(QUEUED) == 1.0);
    (held, waits)
}

#[test]
fn the_65th_read_of_a_caller_that_waits_is_refused_and_other_callers_go_on() {
    let (server, ada) = start(1, 60_000);
    let ben = server.user("ben");
    let (held, first) = hold_share(&server, &ada);
    let mut waiting: Vec<RawConnection> =
        (1..64).map(|_| begin(&server, &ada, "application/json", "select 1")).collect();
    waiting.push(first);
    wait_until("64 reads in the queue", AMPLE, || server.metric(QUEUED) == 64.0);
    let refused = read(&ada, "select 1").expect(429);
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("RATE_LIMITED", "1"));
    assert!(refused.text.contains("64 reads of yours wait already"), "{}", refused.text);
    assert_eq!(read(&ben, "select 1").expect(200).data()["status"], "success");
    drop(held);
    for mut waited in waiting {
        waited.answer().expect(200);
    }
}

#[test]
fn a_share_that_stays_full_is_429_and_places_that_do_not_get_free_are_503() {
    let (server, ada) = start(1, 200);
    let ben = server.user("ben");
    let held = begin(&server, &ada, "application/json", ENDLESS);
    wait_until("the endless read is a slow one", AMPLE, || {
        server.metric(BUSY) == 0.0 && read(&ada, "select 1").status == 429
    });
    let refused = read(&ada, "select 1").expect(429);
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("RATE_LIMITED", "1"));
    assert!(refused.text.contains("your share of this server"), "{}", refused.text);
    assert_eq!(read(&ben, "select 1").expect(200).data()["status"], "success", "it has a share of its own");
    drop(held);
    wait_until("the end of the endless read", AMPLE, || read(&ada, "select 1").status == 200);

    // This read occupies the only slot: its client takes nothing.
    let (server, ada) = {
        let server = Server::start_with(|config| {
            config.sql.max_concurrent_reads = 1;
            config.sql.read_queue_wait_ms = 200;
            config.pools.long_after_ms = 60_000;
        });
        let ada = server.user("ada");
        ada.database("rivers");
        (server, ada)
    };
    let ben = server.user("ben");
    let _stalled = begin(&server, &ada, "text/csv", WIDE);
    wait_until("a read without a place", AMPLE, || read(&ben, "select 1").status == 503);
    let refused = read(&ben, "select 1").expect(503);
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("SERVICE_UNAVAILABLE", "1"));
}

/// The first caller alone may use all four places. While another one is active, two of them are its share.
#[test]
fn a_share_is_all_places_for_a_caller_alone_and_half_beside_another_one() {
    let (server, ada) = start(4, 200);
    let ben = server.user("ben");
    let mut held: Vec<_> = (0..3).map(|_| begin(&server, &ada, "application/json", ENDLESS)).collect();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(read(&ada, "select 1").expect(200).data()["status"], "success", "the fourth read");
    let other = begin(&server, &ben, "application/json", ENDLESS);
    wait_until("the share of two callers", AMPLE, || read(&ada, "select 1").status == 429);
    assert_eq!(read(&ben, "select 1").expect(200).data()["status"], "success", "its second read");
    held.truncate(1);
    wait_until("the end of two reads", AMPLE, || read(&ada, "select 1").status == 200);
    drop((held, other));
}
