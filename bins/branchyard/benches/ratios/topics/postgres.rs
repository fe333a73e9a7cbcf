//! The metadata store on Postgres: writes beside the server compared with those over SQLite, and writes to many databases compared with
//! writes to one, also at a distance from Postgres.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::flags::Flags;
use crate::harness::BenchHarness;
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;
use crate::topics::writers::{Requests, Writers};
use crate::topics::writes::ONE;

/// Ways to Postgres at a distance, in one direction.
const NEAR: Duration = Duration::from_micros(300);
const FAR: Duration = Duration::from_micros(500);

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let Some(url) = &flags.postgres else {
        return vec![Row::skipped("postgres", "no empty database is named; --postgres URL names one".to_owned())];
    };
    let (slices, table) = (flags.count("--slices"), Table::new(1_000, 3));
    let sqlite = Writers::start(BenchHarness::new(), &[], table, flags);
    let postgres = Writers::start(BenchHarness::on(url), &[], table, flags);
    let one = |writers: &Writers| writers.rate(1, 1, Requests::One);
    let many = |writers: &Writers| writers.rate(writers.databases(), writers.databases(), Requests::One);
    let mut rows = Vec::new();
    let done = alternate(slices, || one(&postgres), || one(&sqlite));
    let what = "sql-writes, one caller, Postgres on this machine".to_owned();
    rows.push(done.row("postgres, write", what, "SQLite", "/s", Aim::AtLeast(0.6)));
    drop(sqlite);
    let databases = postgres.databases();
    let done = alternate(slices, || many(&postgres), || one(&postgres));
    let what = format!("sql-writes to {databases} databases, {databases} callers, Postgres on this machine");
    rows.push(done.row("postgres, many", what, ONE, "/s", Aim::AtLeast(2.0)));

    let (Some(near), Some(far)) = (delayed(url, NEAR), delayed(url, FAR)) else {
        rows.push(Row::skipped("postgres, distant", "the URL has no user and database".to_owned()));
        return rows;
    };
    let round_trip = |way: Duration| format!("at {} ms of round trip", way.as_secs_f64() * 2_000.0);
    let distant = postgres.moved_to(&near, flags);
    let done = alternate(slices, || many(&distant), || one(&distant));
    rows.push(done.row("postgres, distant", format!("the same {}", round_trip(NEAR)), ONE, "/s", Aim::AtLeast(5.0)));
    let distant = distant.moved_to(&far, flags);
    let mut rates: Vec<f64> = (0..slices).map(|_| many(&distant)).collect();
    rates.sort_by(f64::total_cmp);
    if let Some(rate) = rates.get(rates.len() / 2) {
        let what = format!("the same {}", round_trip(FAR));
        rows.push(Row::alone("postgres, far", what, *rate, "/s", Aim::AtLeast(290.0)));
    }
    rows
}

/// Returns the URL of a proxy to Postgres that holds up what passes for `way` in each direction, or `None` if the URL is not
/// `postgres://USER@ADDRESS:PORT/NAME`.
fn delayed(url: &str, way: Duration) -> Option<String> {
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
            thread::spawn(move || hold_up(from, to, way));
            thread::spawn(move || hold_up(server, client, way));
        }
    });
    Some(format!("{before}@{near}/{name}"))
}

fn hold_up(mut from: TcpStream, mut to: TcpStream, way: Duration) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer) {
        thread::sleep(way);
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
