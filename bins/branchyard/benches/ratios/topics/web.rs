//! The page of a database, and pages of a large table compared with those of a small table, without a session.

use crate::flags::Flags;
use crate::harness::{BenchHarness, Server};
use crate::load::{Connection, get};
use crate::report::{Aim, Row};
use crate::slices::{alternate, millis};
use crate::table::Table;

const SMALL: u64 = 1_000;
/// Rows per page.
const PAGE: u64 = 50;
/// Requests per slice. A single request is too short to time.
const REQUESTS: u32 = 10;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (rows, slices) = (flags.count("--rows"), flags.count("--slices"));
    let harness = BenchHarness::new();
    let server = harness.start();
    for (name, rows) in [("small", SMALL), ("large", rows)] {
        server.database(&harness.token, name, Table::new(rows, flags.count("--columns")));
    }
    let whole = time(&server, "/bench/small");
    let what = "page of a database of one table, whole".to_owned();
    let mut table = vec![Row::alone("database page", what, whole, "ms", Aim::AtMost(20.0))];
    let (large, small) = (places(&server, "large", rows), places(&server, "small", SMALL));
    for ((name, place, large), (.., small)) in large.into_iter().zip(small) {
        let done = alternate(slices, || time(&server, &large), || time(&server, &small));
        let what = format!("{place} page of a table of {rows} rows");
        table.push(done.row(name, what, &format!("of {SMALL}"), "ms", Aim::AtMost(1.5)));
    }
    table
}

/// Returns the paths of the first, a middle, and the last page of a table.
fn places(server: &Server, database: &str, rows: u64) -> [(&'static str, &'static str, String); 3] {
    let first = format!("/bench/{database}/tables/t");
    // Finds a page in the middle by number, and measures the page after it, which is addressed by a cursor.
    let middle = link(&page(server, &format!("{first}?page={}", rows / PAGE / 2)), "next-page");
    let last = link(&page(server, &first), "last-page");
    [("table, first", "first", first), ("table, middle", "middle", middle), ("table, last", "last", last)]
}

fn time(server: &Server, path: &str) -> f64 {
    let mut connection = Connection::open(server.address);
    let mut request = Vec::new();
    get(&mut request, path, "");
    let whole = millis(|| {
        for _ in 0..REQUESTS {
            assert_eq!(connection.ask(&request).unwrap().status, 200, "{path}");
        }
    });
    whole / f64::from(REQUESTS)
}

fn page(server: &Server, path: &str) -> String {
    let mut request = Vec::new();
    get(&mut request, path, "");
    let mut connection = Connection::open(server.address);
    let answer = connection.ask(&request).unwrap();
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// Returns the target of the link with this id.
fn link(page: &str, id: &str) -> String {
    let (_, after) = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {page}"));
    let before = &page[..page.len() - after.len()];
    let tag = format!("{}{}", &before[before.rfind('<').unwrap()..], &after[..after.find('>').unwrap()]);
    let (_, href) = tag.split_once("href=\"").unwrap();
    href.split('"').next().unwrap().replace("&#38;", "&")
}
