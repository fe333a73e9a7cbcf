//! Short reads run while long ones take turns. Too many long reads are refused, and those beyond a caller's share wait.

use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, Actor, Outcome, RawConnection, Server, TestAnswer, wait_until};
use serde_json::json;

const SLOW: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";

fn read(who: &Actor, statement: &str, timeout_ms: u64) -> TestAnswer {
    who.post("/databases/ada/rivers/sql", &json!({"q": statement, "timeout_ms": timeout_ms}))
}

/// Starts a server with one permit for all reads, and one for long ones. Returns it with a user that owns a database and another
/// user.
fn start(calls: usize, wait_ms: u64) -> (Server, Actor, Actor) {
    let server = Server::start_with(|config| {
        config.sql.max_concurrent_reads = 1;
        config.sql.read_queue_wait_ms = 60_000;
        config.sql.timeout_cap_ms = 600_000;
        config.pools.long_places = 1;
        config.pools.long_calls = calls;
        config.pools.long_wait_ms = wait_ms;
        config.pools.long_turn_ms = 20;
    });
    let (ada, ben) = (server.user("ada"), server.user("ben"));
    ada.database("rivers");
    (server, ada, ben)
}

/// Starts a read that computes until its client goes away, and gives it time to become a long one.
fn begin_long(server: &Server, who: &Actor) -> RawConnection {
    let body = json!({"q": SLOW, "timeout_ms": 600_000}).to_string();
    let headers = format!(
        "authorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}",
        who.token().unwrap(),
        body.len()
    );
    let mut connection = RawConnection::open(server.socket());
    connection.begin("POST /api/v2/databases/ada/rivers/sql", &headers, body.as_bytes());
    thread::sleep(Duration::from_millis(500));
    connection
}

#[test]
fn a_short_read_does_not_wait_for_a_long_one() {
    let (server, ada, ben) = start(8, 60_000);
    let mut long = begin_long(&server, &ada);
    assert_eq!(read(&ben, "select 1", 30_000).expect(200).json()["data"]["status"], "success");
    assert!(matches!(long.answer_until(Instant::now()), Outcome::HungUp), "the long read goes on");
}

/// The tests of the executor check that only one of these reads computes at a time. Here, on a busy machine, a thread without a
/// processor loses its turn.
#[test]
fn long_reads_share_one_place_and_each_gets_its_time() {
    let (server, ada, ben) = start(8, 60_000);
    let cleo = server.user("cleo");
    thread::scope(|scope| {
        let long: Vec<_> = [&ada, &ben, &cleo].map(|who| scope.spawn(|| read(who, SLOW, 600))).into();
        for read in long {
            assert_eq!(read.join().unwrap().expect(200).json()["data"]["status"], "timeout");
        }
    });
}

/// The share of a caller is one read, and a long read counts although its slot is free.
#[test]
fn a_long_read_beyond_the_share_of_its_caller_waits_and_runs() {
    let (server, ada, _ben) = start(8, 60_000);
    let long = begin_long(&server, &ada);
    thread::scope(|scope| {
        let next = scope.spawn(|| read(&ada, SLOW, 200));
        thread::sleep(Duration::from_millis(700));
        assert!(!next.is_finished(), "it waits");
        drop(long);
        assert_eq!(next.join().unwrap().expect(200).json()["data"]["status"], "timeout");
    });
}

#[test]
fn one_long_read_too_many_is_refused_and_the_next_may_come() {
    let (server, ada, ben) = start(1, 0);
    let long = begin_long(&server, &ada);
    let refused = read(&ben, SLOW, 2_000).expect(503);
    assert_eq!(refused.json()["code"], "SERVICE_UNAVAILABLE");
    assert_eq!(refused.header("retry-after"), "1");
    drop(long);
    wait_until("the end of the read without a client", AMPLE, || read(&ben, SLOW, 200).status == 200);
}
