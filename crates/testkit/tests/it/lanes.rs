//! Short reads run while long ones take turns. Too many long reads are refused.

use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server, TestAnswer};
use serde_json::json;

const SLOW: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";

fn read(who: &Actor, statement: &str, timeout_ms: u64) -> TestAnswer {
    who.post("/databases/ada/rivers/sql", &json!({"q": statement, "timeout_ms": timeout_ms}))
}

/// Starts a server with one permit for all reads, and one for long ones.
fn yard(calls: usize, wait_ms: u64) -> (Server, Actor) {
    let server = Server::start_with(|config| {
        config.sql.max_concurrent_reads = 1;
        config.sql.read_queue_wait_ms = 60_000;
        config.pools.long_places = 1;
        config.pools.long_calls = calls;
        config.pools.long_wait_ms = wait_ms;
        config.pools.long_turn_ms = 20;
    });
    let ada = server.user("ada");
    ada.database("rivers");
    (server, ada)
}

#[test]
fn a_short_read_does_not_wait_for_a_long_one() {
    let (_server, ada) = yard(8, 60_000);
    thread::scope(|scope| {
        let long = scope.spawn(|| read(&ada, SLOW, 15_000));
        thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        assert_eq!(read(&ada, "select 1", 30_000).expect(200).json()["data"]["status"], "success");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(!long.is_finished());
        assert_eq!(long.join().unwrap().expect(200).json()["data"]["status"], "timeout");
    });
}

#[test]
fn long_reads_take_turns() {
    let (_server, ada) = yard(8, 60_000);
    let began = Instant::now();
    thread::scope(|scope| {
        let long: Vec<_> = (0..3).map(|_| scope.spawn(|| read(&ada, SLOW, 600))).collect();
        for read in long {
            assert_eq!(read.join().unwrap().expect(200).json()["data"]["status"], "timeout");
        }
    });
    // The time that a read waits for its turn does not count against its timeout.
    assert!(began.elapsed() > Duration::from_millis(1_700), "{:?}", began.elapsed());
}

#[test]
fn one_long_read_too_many_is_refused_and_the_next_may_come() {
    let (_server, ada) = yard(1, 0);
    thread::scope(|scope| {
        let long = scope.spawn(|| read(&ada, SLOW, 6_000));
        thread::sleep(Duration::from_millis(500));
        let refused = read(&ada, SLOW, 2_000).expect(503);
        assert_eq!(refused.json()["code"], "SERVICE_UNAVAILABLE");
        assert_eq!(refused.header("retry-after"), "1");
        long.join().unwrap().expect(200);
    });
    read(&ada, SLOW, 200).expect(200);
}
