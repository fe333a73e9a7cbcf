//! Streams of all rows of a large table as CSV and NDJSON, compared with reading and formatting the rows in this process; and the
//! memory used.

use std::fmt::Write as _;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{Column, Engine as _, ReadQuery, RowSink, ValueRef};

use crate::flags::Flags;
use crate::harness::{BenchHarness, Server};
use crate::raw::Raw;
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;

const STATEMENT: &str = "select * from t";

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let table = Table::new(flags.count("--rows"), flags.count("--columns"));
    let harness = BenchHarness::new();
    let server = harness.start();
    server.database(&harness.token, "bench", table);
    let raw = Raw::with(table);
    drop(server);

    let mut rows = Vec::new();
    for (name, memory, format, accept) in [
        ("CSV", "CSV, memory", Format::Csv, "text/csv"),
        ("NDJSON", "NDJSON, memory", Format::Ndjson, "application/x-ndjson"),
    ] {
        let server = harness.start();
        std::thread::sleep(Duration::from_millis(500));
        let idle = server.memory();
        server.forget_peak();
        let product = || drain(&server, &harness.token, accept, table);
        let baseline = || in_process(&raw, format, table);
        let done = alternate(flags.count("--repeats"), product, baseline);
        let what = format!("{name} of {} rows", table.rows);
        rows.push(done.row(name, what.clone(), "the same rows formatted in process", "rows/s", Aim::AtLeast(0.95)));
        let grown = server.peak() - idle;
        rows.push(Row::alone(memory, format!("{what}: peak memory above idle"), grown, "MiB", Aim::AtMost(64.0)));
    }
    rows
}

#[expect(clippy::cast_precision_loss, reason = "a count of rows is far below 2^53")]
fn per_second(table: Table, began: Instant) -> f64 {
    table.rows as f64 / began.elapsed().as_secs_f64()
}

/// Reads the whole response, counts its lines to verify that it is complete, and returns the rows per second.
fn drain(server: &Server, token: &str, accept: &str, table: Table) -> f64 {
    let body = serde_json::json!({"q": STATEMENT, "timeout_ms": 60_000});
    let request = server.actor("bench", token).request(reqwest::Method::POST, "/databases/bench/bench/sql");
    let began = Instant::now();
    let mut answer = request.header("Accept", accept).json(&body).send().unwrap().error_for_status().unwrap();
    let mut buffer = vec![0; 256 << 10];
    let mut lines = 0;
    loop {
        let read = answer.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
    }
    // CSV has a header line. NDJSON has a header line and a final status line.
    let more = if accept == "text/csv" { 1 } else { 2 };
    assert_eq!(lines, table.rows + more);
    per_second(table, began)
}

#[derive(Clone, Copy)]
enum Format {
    Csv,
    Ndjson,
}

fn in_process(raw: &Raw, format: Format, table: Table) -> f64 {
    let began = Instant::now();
    let mut sink = Lines { format, text: String::new(), lines: 0 };
    let query = ReadQuery::new(STATEMENT, Duration::from_secs(60));
    raw.engine.read(raw.database, &raw.head, &query, &mut sink).unwrap();
    assert_eq!(sink.lines, table.rows);
    per_second(table, began)
}

/// A sink that formats rows and discards the text at intervals, to bound its memory.
struct Lines {
    format: Format,
    text: String,
    lines: u64,
}

impl RowSink for Lines {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.text.len() > 256 << 10 {
            std::hint::black_box(&self.text);
            self.text.clear();
        }
        for value in row {
            match (value, self.format) {
                (ValueRef::Null, Format::Csv) => {}
                (ValueRef::Null, Format::Ndjson) => self.text.push_str("null"),
                (ValueRef::Integer(number), _) => write!(self.text, "{number}").unwrap(),
                (ValueRef::Real(number), _) => write!(self.text, "{number:?}").unwrap(),
                (ValueRef::Text(text) | ValueRef::Blob(text), Format::Csv) => {
                    self.text.push_str(&quoted(std::str::from_utf8(text).unwrap()));
                }
                (ValueRef::Text(text) | ValueRef::Blob(text), Format::Ndjson) => {
                    self.text.push_str(&serde_json::to_string(std::str::from_utf8(text).unwrap()).unwrap());
                }
            }
            self.text.push(',');
        }
        self.text.push('\n');
        self.lines += 1;
        ControlFlow::Continue(())
    }
}

fn quoted(text: &str) -> std::borrow::Cow<'_, str> {
    if text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}
