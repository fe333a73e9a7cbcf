//! Overload: half of a crowd of connections runs endless queries, while the other half makes cheap reads that should hardly be
//! affected. Rejections must come at once, and the work must end when the crowd disconnects.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::flags::Flags;
use crate::harness::{BenchHarness, NO_RESULTS, Server};
use crate::load::{Connection, Ids, encoded, get, header};
use crate::report::{Aim, Row};
use crate::table::Table;
use crate::topics::reads::PATH;

const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";
/// Setting that lifts the connection limit per address, because all connections come from this machine.
const ANY_NUMBER: (&str, &str) = ("HTTP__MAX_CONNECTIONS_PER_ADDRESS", "0");
/// Connections per caller.
const PER_CALLER: u64 = 6;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let crowd = flags.count("--crowd").max(2);
    let table = Table::new(flags.count("--small-rows"), flags.count("--columns"));
    let harness = BenchHarness::new();
    // The cheap reads use other callers than the endless queries, which may have used up their own limits.
    let callers = 2 * (crowd / 2).div_ceil(PER_CALLER);
    let tokens: Vec<String> = (0..callers).map(|number| harness.user(&format!("caller{number}"))).collect();
    // Defaults except for the rate limit: the crowd is to be limited by the cost of its queries.
    let server = harness.start_with(&[("RATE_LIMIT__ENABLED", "false"), ANY_NUMBER, NO_RESULTS]);
    server.database(&harness.token, "bench", table);
    std::thread::sleep(Duration::from_millis(500));
    let idle = server.memory();
    server.forget_peak();

    let load = OverloadHarness { server: &server, tokens: &tokens, flags, rows: table.rows };
    let calm = load.play(0);
    let busy = load.play(crowd / 2);
    let peak = server.peak();
    // Remaining work of the crowd shows as processor time. Waits until there is none.
    let over = Instant::now();
    let calm_again = loop {
        let (began, before) = (Instant::now(), server.processor_seconds());
        std::thread::sleep(Duration::from_millis(100));
        let used = (server.processor_seconds() - before) / began.elapsed().as_secs_f64();
        if used <= 0.1 || over.elapsed() > Duration::from_secs(60) {
            break over.elapsed().as_secs_f64();
        }
    };
    let after = load.play(0);
    drop(server);
    let mut rows = silent(flags, &harness, table.rows, &tokens);

    let half = crowd / 2;
    let what = format!("cheap reads on {half} connections beside {half} that run endless queries");
    let p99 = |times: &[f64]| quantile(times, 0.99);
    let against = |name, what: String, baseline: &str, product: f64, base: f64, aim| Row {
        baseline: format!("{baseline}: {base:.1} ms"),
        ..Row::alone(name, what, product, "ms", aim)
    };
    println!(
        "  {} cheap reads (p99 of the first second {:.1} ms, of the rest {:.1} ms), {} endless ones cut off by their time, {} refused",
        busy.cheap.len(),
        p99(&busy.cheap[..busy.early]),
        p99(&busy.cheap[busy.early..]),
        busy.ended,
        busy.refused.len()
    );
    let mut table = vec![
        against("overload, cheap p99", what, "without them", p99(&busy.cheap), p99(&calm.cheap), Aim::AtMost(50.0)),
        Row::alone(
            "overload, refusals",
            format!("time to a 429 or 503, slowest of {}", busy.refused.len()),
            busy.refused.iter().fold(0.0, |most: f64, time| most.max(*time)),
            "ms",
            Aim::None,
        ),
        Row::alone("overload, memory", format!("peak; {idle:.0} MiB before"), peak, "MiB", Aim::AtMost(512.0)),
        Row::alone(
            "overload, afterwards",
            "until the server is idle again".to_owned(),
            calm_again,
            "s",
            Aim::AtMost(2.0),
        ),
        against(
            "overload, p99 after",
            "cheap reads once the crowd has gone".to_owned(),
            "before it came",
            p99(&after.cheap),
            p99(&calm.cheap),
            Aim::None,
        ),
    ];
    table.append(&mut rows);
    table
}

/// Measures cheap reads while as many idle connections as possible are open.
fn silent(flags: &Flags, harness: &BenchHarness, rows: u64, tokens: &[String]) -> Vec<Row> {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Each connection takes two file descriptors of the server, which reserves some for itself. The readers need theirs too.
    let wanted = flags.count("--idle").min(files.saturating_sub(1_024) / 2 - flags.count("--crowd"));
    // The default head timeout would close the idle connections during the measurement.
    let server = harness.start_with(&[
        ("RATE_LIMIT__ENABLED", "false"),
        ("HTTP__HEAD_TIMEOUT_MS", "600000"),
        ANY_NUMBER,
        NO_RESULTS,
    ]);
    let load = OverloadHarness { server: &server, tokens, flags, rows };
    let calm = load.play(0);
    let before = server.memory();
    let mut beside = Seen::default();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| load.play(0));
        // Waits until the readers have connected.
        std::thread::sleep(Duration::from_millis(200));
        let _connections: Vec<TcpStream> = (0..wanted).map(|_| TcpStream::connect(server.address).unwrap()).collect();
        beside = reading.join().unwrap();
    });
    let grown = server.memory() - before;
    let what = format!("cheap reads beside {wanted} connections that say nothing");
    let (p99, base) = (quantile(&beside.cheap, 0.99), quantile(&calm.cheap, 0.99));
    vec![
        Row {
            baseline: format!("without them: {base:.1} ms"),
            ..Row::alone("idle crowd, p99", what, p99, "ms", Aim::AtMost(50.0))
        },
        Row::alone("idle crowd, memory", "what they take up".to_owned(), grown, "MiB", Aim::AtMost(512.0)),
    ]
}

struct OverloadHarness<'a> {
    server: &'a Server,
    tokens: &'a [String],
    flags: &'a Flags,
    rows: u64,
}

/// Results of a phase. Times are in milliseconds.
#[derive(Default)]
struct Seen {
    /// Times of the cheap reads. Those that began in the first second come first.
    cheap: Vec<f64>,
    early: usize,
    refused: Vec<f64>,
    ended: u64,
}

impl OverloadHarness<'_> {
    /// Runs cheap reads on half the crowd's connections, and endless queries on `endless` connections.
    fn play(&self, endless: u64) -> Seen {
        let seconds = self.flags.number("--overload-seconds") / if endless == 0 { 4.0 } else { 1.0 };
        let (seen, stop) = (Mutex::new(Seen::default()), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for number in 0..endless {
                let (seen, stop) = (&seen, &stop);
                scope.spawn(move || self.endless(number, seen, stop));
            }
            for number in 0..self.flags.count("--crowd") / 2 {
                let (seen, stop) = (&seen, &stop);
                scope.spawn(move || self.cheap(number, seen, stop));
            }
            std::thread::sleep(Duration::from_secs_f64(seconds));
            stop.store(true, Ordering::Relaxed);
        });
        seen.into_inner()
    }

    /// Returns the header of a connection. The first half of the callers run endless queries, the second half cheap reads: the cheap
    /// reads of a caller wait for its own slow ones.
    fn head(&self, number: u64, is_cheap: bool) -> String {
        let (half, caller) = (self.tokens.len() / 2, usize::try_from(number / PER_CALLER).unwrap());
        let token = &self.tokens[if is_cheap { half + caller } else { caller }];
        format!("Authorization: Bearer {token}\r\n")
    }

    fn cheap(&self, number: u64, seen: &Mutex<Seen>, stop: &AtomicBool) {
        let path = format!("{PATH}{}", encoded(self.flags.text("--statement")));
        let (head, pace) = (self.head(number, true), Duration::from_secs_f64(self.flags.number("--pace-ms") / 1e3));
        let mut connection = Connection::open(self.server.address);
        let (mut early, mut times) = (Vec::new(), Vec::new());
        let start = Instant::now();
        let mut ids = Ids::new(number, self.rows);
        // Spreads the start times of the readers.
        std::thread::sleep(pace.mul_f64((number % 16) as f64 / 16.0));
        while !stop.load(Ordering::Relaxed) {
            let mut request = Vec::new();
            get(&mut request, &path.replace("{id}", &ids.next().to_string()), &head);
            let began = Instant::now();
            let answer = connection.ask(&request).unwrap();
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(answer.body));
            let phase = if began - start < Duration::from_secs(1) { &mut early } else { &mut times };
            phase.push(began.elapsed().as_secs_f64() * 1e3);
            std::thread::sleep(pace);
        }
        let mut seen = seen.lock();
        let first = seen.early;
        seen.early += early.len();
        seen.cheap.splice(first..first, early);
        seen.cheap.extend(times);
    }

    /// Runs endless queries on one connection at a time. Each query may compute for a minute.
    fn endless(&self, number: u64, seen: &Mutex<Seen>, stop: &AtomicBool) {
        let path = format!("{PATH}{}&timeout_ms=60000", encoded(ENDLESS));
        let mut request = Vec::new();
        get(&mut request, &path, &self.head(number, false));
        let (mut refused, mut ended) = (Vec::new(), 0);
        while !stop.load(Ordering::Relaxed) {
            let mut connection = Connection::open(self.server.address);
            let began = Instant::now();
            // At the end, a query that still waits is abandoned by closing its connection.
            let answered = connection.ask_unless(&request, || stop.load(Ordering::Relaxed));
            let Ok(answer) = answered else { break };
            match answer.status {
                200 => ended += 1,
                429 | 503 => {
                    assert!(header(answer.head, "retry-after").is_some(), "{}", String::from_utf8_lossy(answer.head));
                    refused.push(began.elapsed().as_secs_f64() * 1e3);
                    std::thread::sleep(Duration::from_millis(100));
                }
                status => panic!("{status}: {}", String::from_utf8_lossy(answer.body)),
            }
        }
        let mut seen = seen.lock();
        seen.refused.extend(refused);
        seen.ended += ended;
    }
}

pub(super) fn quantile(times: &[f64], part: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = (times.len() as f64 * part) as usize;
    times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
