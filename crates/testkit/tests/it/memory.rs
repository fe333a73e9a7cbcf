//! All statements share a memory budget. A statement that finds no room waits and is refused; other requests are not affected.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, Actor, Server, TestAnswer};
use serde_json::json;

/// How long a statement waits for memory.
const WAIT: Duration = Duration::from_secs(5);
const POOL: usize = 64 << 20;
/// Holds a quarter of the pool or more, and computes until its timeout.
const HOLDS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n), \
    held as materialized (select randomblob(17000000) as z) select count(*) from n, held where length(z) < x - x";
/// Needs most of what large statements may use of the pool, for a moment.
const NEEDS: &str = "select length(hex(zeroblob(16000000)))";

fn read(who: &Actor, statement: &str, timeout_ms: u64) -> TestAnswer {
    who.post("/databases/ada/rivers/sql", &json!({"q": statement, "timeout_ms": timeout_ms}))
}

#[test]
fn a_statement_without_room_waits_and_is_refused_while_look_ups_go_on() {
    let server = Server::start_with(|config| {
        config.sql.memory_total_bytes = POOL;
        config.sql.max_memory_bytes = POOL;
    });
    let (ada, ben, eve) = (&server.user("ada"), &server.user("ben"), &server.user("eve"));
    ada.database("rivers");
    assert_eq!(read(ben, NEEDS, 30_000).expect(200).data()["rows"], json!([["32000000"]]));
    let (stop, looked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (stop, looked, began) = (&stop, &looked, Instant::now());
        let goes_on = move || !stop.load(Ordering::Relaxed) && began.elapsed() < AMPLE;
        assert_eq!(read(eve, HOLDS, 1_000).expect(200).data()["status"], "timeout");
        let held = scope.spawn(move || {
            while goes_on() {
                // Repeated until a statement of the other caller is refused.
                assert_eq!(read(eve, HOLDS, 9_000).expect(200).data()["status"], "timeout");
            }
        });
        let looking = scope.spawn(move || {
            let mut number = 0;
            while goes_on() {
                number += 1;
                ada.get("/databases/ada/rivers").expect(200);
                ada.get("/databases/ada/rivers/branches").expect(200);
                let branch = json!({"name": format!("b{number}"), "from": {"branch": "main"}});
                ada.post("/databases/ada/rivers/branches", &branch).expect(201);
                ada.delete(&format!("/databases/ada/rivers/branches/b{number}")).expect(200);
                looked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (mut refused, mut meanwhile) = (None, 0);
        while refused.is_none() {
            assert!(began.elapsed() < AMPLE && !held.is_finished(), "there was always room");
            let (asked, before) = (Instant::now(), looked.load(Ordering::Relaxed));
            let answer = read(ben, NEEDS, 30_000);
            meanwhile = looked.load(Ordering::Relaxed) - before;
            if answer.status == 503 {
                // No load on the machine makes this shorter.
                assert!(asked.elapsed() >= WAIT, "it did not wait: {:?}", asked.elapsed());
                refused = Some(answer);
            } else {
                // The statement ran before the other one took the memory, or after it.
                assert_eq!(answer.expect(200).data()["status"], "success");
            }
        }
        stop.store(true, Ordering::Relaxed);
        let refused = refused.unwrap();
        assert_eq!((refused.header("retry-after"), &refused.json()["code"]), ("1", &json!("SERVICE_UNAVAILABLE")));
        assert!(meanwhile > 0, "no look-up was answered while the statement waited");
        looking.join().unwrap();
        held.join().unwrap();
    });
    // The memory is available again.
    assert_eq!(read(ben, NEEDS, 30_000).expect(200).data()["status"], "success");
}
