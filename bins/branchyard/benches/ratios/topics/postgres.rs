//! The metadata store on Postgres: writes beside the server compared with those over SQLite, and writes to many databases compared with
//! writes to one, also at a distance from Postgres.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::flags::Flags;
use crate::harness::{BenchHarness, Caller, NO_RESULTS, ONE_CALLER, Server, write};
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;

/// One way to Postgres and back at a distance.
const DISTANCE: Duration = Duration::from_micros(300);

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let Some(url) = &flags.postgres else {
        return vec![Row::skipped("postgres", "no empty database is named; --postgres URL names one".to_owned())];
    };
    let slices = flags.count("--slices");
    let (sqlite, postgres) = (Side::start(BenchHarness::new(), flags), Side::start(BenchHarness::on(url), flags));
    let many = usize::try_from(flags.count("--databases")).unwrap_or(16);
    let mut rows = Vec::new();
    let done = alternate(slices, || postgres.rate(1), || sqlite.rate(1));
    rows.push(done.row(
        "postgres, write",
        "sql-writes, one caller, Postgres on this machine".into(),
        "SQLite",
        "/s",
        Aim::AtLeast(0.6),
    ));
    let one = "one database, one caller";
    let done = alternate(slices, || postgres.rate(many), || postgres.rate(1));
    let what = format!("sql-writes to {many} databases, {many} callers, Postgres on this machine");
    rows.push(done.row("postgres, many", what, one, "/s", Aim::AtLeast(2.0)));
    drop(sqlite);

    let Side { harness, server, .. } = postgres;
    drop(server);
    let Some(proxied) = delayed(url) else {
        rows.push(Row::skipped("postgres, distant", "the URL has no user and database".to_owned()));
        return rows;
    };
    let distant = Side::restart(harness.moved_to(&proxied), flags);
    let done = alternate(slices, || distant.rate(many), || distant.rate(1));
    let what = format!("the same at {} ms of round trip", DISTANCE.as_secs_f64() * 2_000.0);
    rows.push(done.row("postgres, distant", what, one, "/s", Aim::AtLeast(5.0)));
    rows
}

/// A server with databases to write to.
struct Side {
    harness: BenchHarness,
    server: Server,
    seconds: f64,
    /// Every insert uses its own row id.
    next: AtomicU64,
}

impl Side {
    fn start(harness: BenchHarness, flags: &Flags) -> Self {
        let side = Self::restart(harness, flags);
        for number in 0..flags.count("--databases") {
            side.server.database(&side.harness.token, &format!("bench{number}"), Table::new(1_000, 3));
        }
        side
    }

    fn restart(harness: BenchHarness, flags: &Flags) -> Self {
        let server = harness.start_with(&[ONE_CALLER, &[NO_RESULTS]].concat());
        let next = AtomicU64::new(1_000_000 + u64::from(server.id()) * 10_000_000);
        Self { harness, server, seconds: flags.number("--seconds"), next }
    }

    /// Returns the number of completed writes per second, by one caller for each of the first databases.
    fn rate(&self, databases: usize) -> f64 {
        let (done, began) = (AtomicU64::new(0), Instant::now());
        thread::scope(|scope| {
            for number in 0..databases {
                let done = &done;
                scope.spawn(move || {
                    let mut caller = Caller::new(self.server.address, &self.harness.token);
                    let path = format!("/databases/bench/bench{number}/sql-writes");
                    while began.elapsed() < Duration::from_secs_f64(self.seconds) {
                        let id = self.next.fetch_add(1, Ordering::Relaxed);
                        let insert =
                            format!("insert into t (id, name, value) values ({id}, 'row number {id}', {id} / 7.0)");
                        caller.finish_in_one(&path, &write(&insert).to_string());
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        #[expect(clippy::cast_precision_loss, reason = "a count of writes is far below 2^53")]
        let done = done.into_inner() as f64;
        done / began.elapsed().as_secs_f64()
    }
}

/// Returns the URL of a proxy to Postgres that holds up what passes for [`DISTANCE`] each way, or `None` if the URL is not
/// `postgres://USER@ADDRESS:PORT/NAME`.
fn delayed(url: &str) -> Option<String> {
    let (before, rest) = url.rsplit_once('@')?;
    let (address, name) = rest.split_once('/')?;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = listener.local_addr().unwrap();
    let far = address.to_owned();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&far).unwrap();
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || hold_up(from, to));
            thread::spawn(move || hold_up(server, client));
        }
    });
    Some(format!("{before}@{near}/{name}"))
}

fn hold_up(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer) {
        thread::sleep(DISTANCE);
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
