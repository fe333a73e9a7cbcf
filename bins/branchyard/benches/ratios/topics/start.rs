//! Time from process start to the first response, and memory use while idle.

use std::time::{Duration, Instant};

use crate::flags::Flags;
use crate::harness::BenchHarness;
use crate::load::{Connection, get};
use crate::report::{Aim, Row};
use crate::slices::median;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let harness = BenchHarness::new();
    drop(harness.start());
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..flags.count("--slices") {
        let began = Instant::now();
        let server = harness.start();
        let mut request = Vec::new();
        get(&mut request, "/healthz", "");
        assert_eq!(Connection::open(server.address).ask(&request).unwrap().status, 200);
        times.push(began.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(500));
        memory.push(server.memory());
    }
    vec![
        Row::alone("start", "start to first answer".to_owned(), median(times), "ms", Aim::None),
        Row::alone("idle memory", "resident, half a second later".to_owned(), median(memory), "MiB", Aim::AtMost(60.0)),
    ]
}
