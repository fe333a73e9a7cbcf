//! More clients than the server can serve at once. `cargo xtask bench overload` measures the same at its full size.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server};
use serde_json::json;

const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";
const CALLERS: usize = 8;
/// Fewer than the 8 reads that a caller may have running.
const EACH: usize = 6;
/// How many cheap reads another caller makes meanwhile.
const CHEAP: usize = 200;

fn read(who: &Actor, statement: &str, timeout_ms: u64) -> branchyard_testkit::TestAnswer {
    who.post("/databases/ada/rivers/sql", &json!({"q": statement, "timeout_ms": timeout_ms}))
}

/// Returns the number of running reads.
fn busy(server: &Server) -> f64 {
    let (metrics, line) = (server.metrics(), "branchyard_pool_places{pool=\"sql\",state=\"busy\"} ");
    let value = metrics.lines().find_map(|found| found.strip_prefix(line));
    value.unwrap_or_else(|| panic!("no {line}in {metrics}")).parse().unwrap()
}

#[test]
fn endless_reads_are_refused_past_their_number_and_cheap_ones_go_on() {
    let server = Server::start_with(|config| {
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
        config.pools.long_calls = 4;
        config.pools.long_wait_ms = 60_000;
    });
    let ada = server.user("ada");
    ada.database("rivers");
    let callers: Vec<Actor> = (0..CALLERS).map(|number| server.user(&format!("caller{number}"))).collect();
    let (stop, refused, cheap) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut slowest = Duration::ZERO;
    thread::scope(|scope| {
        let (stop, refused, cheap) = (&stop, &refused, &cheap);
        for caller in callers.iter().flat_map(|caller| std::iter::repeat_n(caller, EACH)) {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = read(caller, ENDLESS, 10_000);
                    if answer.status == 503 {
                        assert_eq!(answer.header("retry-after"), "1");
                        refused.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(200));
                    } else {
                        assert_eq!(answer.expect(200).data()["status"], "timeout");
                    }
                }
            });
        }
        // Until a read was refused too, however long that takes.
        while cheap.load(Ordering::Relaxed) < CHEAP || refused.load(Ordering::Relaxed) == 0 {
            let asked = Instant::now();
            assert_eq!(read(&ada, "select 1", 30_000).expect(200).data()["status"], "success");
            slowest = slowest.max(asked.elapsed());
            cheap.fetch_add(1, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Below the timeout of an endless read, even on a machine that also compiles.
    assert!(slowest < Duration::from_secs(8), "{slowest:?}");
    let over = Instant::now();
    while busy(&server) > 0.0 {
        assert!(over.elapsed() < Duration::from_secs(60), "reads are still under way");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_that_say_nothing_hold_up_nobody_and_end() {
    let server = Server::start_with(|config| config.http.head_timeout_ms = 2_000);
    let ada = server.user("ada");
    ada.database("rivers");
    let address = server.address().strip_prefix("http://").unwrap().to_owned();
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert_eq!(read(&ada, "select 1", 30_000).expect(200).data()["status"], "success");
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        // Some connections are answered 408, and all are closed.
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    }
}
