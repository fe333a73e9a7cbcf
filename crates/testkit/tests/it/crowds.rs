//! More clients than the server can serve at once. `cargo xtask bench overload` measures the same at its full size.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, Server, wait_until};
use serde_json::json;

const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";
const CALLERS: usize = 8;
const EACH: usize = 6;
/// How many cheap reads another caller makes meanwhile.
const CHEAP: usize = 200;

fn read(who: &Actor, statement: &str, timeout_ms: u64) -> branchyard_testkit::TestAnswer {
    who.post("/databases/ada/rivers/sql", &json!({"q": statement, "timeout_ms": timeout_ms}))
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
    let (stop, refused, ended) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let (mut cheap, mut overtaken) = (0, 0);
    thread::scope(|scope| {
        let (stop, refused, ended) = (&stop, &refused, &ended);
        for caller in callers.iter().flat_map(|caller| std::iter::repeat_n(caller, EACH)) {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = read(caller, ENDLESS, 4_000);
                    if matches!(answer.status, 429 | 503) {
                        assert_eq!(answer.header("retry-after"), "1");
                        // A caller whose own reads are in the way is answered 429.
                        refused.fetch_add(usize::from(answer.status == 503), Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(200));
                    } else {
                        assert_eq!(answer.expect(200).data()["status"], "timeout");
                        ended.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        // Until a read was refused too, however long that takes.
        while cheap < CHEAP || refused.load(Ordering::Relaxed) == 0 {
            let before = ended.load(Ordering::SeqCst);
            assert_eq!(read(&ada, "select 1", 30_000).expect(200).data()["status"], "success");
            cheap += 1;
            overtaken += usize::from(ended.load(Ordering::SeqCst) > before);
        }
        stop.store(true, Ordering::Relaxed);
    });
    // If cheap reads waited for places of endless ones, an endless one would end during each of them.
    assert!(overtaken < cheap / 2, "an endless read ended during {overtaken} of {cheap} cheap ones");
    let busy = "branchyard_pool_places{pool=\"sql\",state=\"busy\"}";
    wait_until("the end of all reads", AMPLE, || server.metric(busy) == 0.0);
}

#[test]
fn connections_that_say_nothing_hold_up_nobody_and_end() {
    let server = Server::start_with(|config| config.http.head_timeout_ms = 2_000);
    let ada = server.user("ada");
    ada.database("rivers");
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(server.socket()).unwrap()).collect();
    assert_eq!(read(&ada, "select 1", 30_000).expect(200).data()["status"], "success");
    for mut stream in silent {
        stream.set_read_timeout(Some(AMPLE)).unwrap();
        // Some connections are answered 408, and all are closed.
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    }
}
