//! What the pages of the data workbench promise: the time to the first byte of the main pages, the history of a row, and a large edit.

use std::path::Path;

use branchyard_testkit::{Program, ServerProcess};
use reqwest::Method;
use serde_json::{Value, json};

use crate::flags::Flags;
use crate::harness::{BenchHarness, Caller, Server, finish};
use crate::load::{Connection, get};
use crate::report::{Aim, Row};
use crate::slices::{median, millis};
use crate::table::Table;

/// Requests of each page that are timed, after one that is not.
const REQUESTS: usize = 21;
/// Most first bytes of a page of the demo, in milliseconds.
const DEMO: f64 = 20.0;
/// Most first bytes of a page of a large table, in milliseconds.
const LARGE: f64 = 50.0;
/// Rows whose cells a large edit changes.
const EDITED: u64 = 1_000;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let mut rows = demo();
    let harness = BenchHarness::new();
    let server = harness.start();
    rows.extend(large(&server, &harness.token, flags));
    rows.push(history(&server, &harness.token, flags));
    rows.push(edit(&server, &harness.token, flags));
    rows
}

/// Measures the pages of the demo, which is started as its users start it.
fn demo() -> Vec<Row> {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::at(Path::new(env!("CARGO_BIN_EXE_branchyard")));
    let server = ServerProcess::start(&mut program.on(&dir.path().join("demo"), &["demo", "--listen", "127.0.0.1:0"]));
    let mut connection = Connection::open(server.socket());
    let head = text(&mut connection, "/api/v2/databases/demo/atlas/branches/main");
    let head: Value = serde_json::from_str(&head).unwrap();
    let commit = format!("/demo/atlas/commits/{}", head["data"]["head_commit_sha"].as_str().unwrap());
    let pages = [
        ("demo, home", "/"),
        ("demo, database", "/demo/atlas"),
        ("demo, table", "/demo/atlas/tables/countries"),
        ("demo, sorted", "/demo/atlas/tables/countries?sort=population&desc=1"),
        ("demo, row", "/demo/atlas/tables/countries/row?column=code&test=eq&value=NZ"),
        ("demo, commit", &commit),
        ("demo, pull", "/demo/atlas/pulls/2"),
    ];
    pages.map(|(name, path)| first_byte(&mut connection, name, path, DEMO)).into()
}

/// Measures the pages of a table of many rows, by key and by an index, without a session.
fn large(server: &Server, token: &str, flags: &Flags) -> Vec<Row> {
    let rows = flags.count("--rows");
    server.database(token, "large", Table::new(rows, flags.count("--columns")));
    let bench = server.actor("bench", token);
    let index = crate::harness::write("create index t_by_name on t(name)");
    finish(&bench, "/databases/bench/large/sql-writes", &index);
    let topic = json!({"from_branch": "main", "to_branch": "topic", "q": "update t set value = -1 where id = 5"});
    finish(&bench, "/databases/bench/large/sql-writes", &topic);
    let place = |branch: &str| json!({"database": {"owner": "bench", "name": "large"}, "branch_name": branch});
    let pull = json!({"title": "One row", "from_branch": place("topic"), "to_branch": place("main")});
    bench.post("/databases/bench/large/pulls", &pull).expect(201);
    let head = bench.get("/databases/bench/large/branches/topic").expect(200).data();
    let commit = format!("/bench/large/commits/{}", head["head_commit_sha"].as_str().unwrap());
    let middle = format!("/bench/large/tables/t?column=id&test=ge&value={}", rows / 2);
    let row = format!("/bench/large/tables/t/row?column=id&test=eq&value={}", rows / 2);
    let mut connection = Connection::open(server.address);
    let pages = [
        ("large, home", "/"),
        ("large, database", "/bench/large"),
        ("large, by key", &middle),
        ("large, by index", "/bench/large/tables/t?sort=name"),
        ("large, row", &row),
        ("large, commit", &commit),
        ("large, pull", "/bench/large/pulls/1"),
    ];
    pages.map(|(name, path)| first_byte(&mut connection, name, path, LARGE)).into()
}

/// Measures the first page of a row's history in a database of many commits, of which each 500th changes the row.
fn history(server: &Server, token: &str, flags: &Flags) -> Row {
    let commits = flags.count("--commits");
    let bench = server.actor("bench", token);
    bench.database("long");
    let mut caller = Caller::new(server.address, token);
    let mut write = |statement: &str| {
        let body = crate::harness::write(statement).to_string();
        caller.finish_in_one("/databases/bench/long/sql-writes", &body);
    };
    write("create table t (id integer primary key, v integer); insert into t values (1, 0)");
    for n in 2..commits {
        match n % 500 {
            0 => write(&format!("update t set v = {n} where id = 1")),
            _ => write(&format!("insert into t values ({n}, {n})")),
        }
    }
    let path = "/api/v2/databases/bench/long/tables/t/history?page_size=20&key=%7B%22id%22%3A%221%22%7D";
    let times = (0..=REQUESTS).map(|_| millis(|| drop(caller.ask(Method::GET, path, ""))));
    let what = format!("first page of the history of a row, {commits} commits");
    Row::alone("row history", what, median(times.skip(1).collect()), "ms", Aim::AtMost(200.0))
}

/// Measures an edit of many cells, from the request to the commit.
fn edit(server: &Server, token: &str, flags: &Flags) -> Row {
    let mut caller = Caller::new(server.address, token);
    let rows = EDITED.min(flags.count("--rows"));
    let times = (0..flags.count("--repeats")).map(|round| {
        let head = caller.ask(Method::GET, "/api/v2/databases/bench/large/branches/main", "");
        let edits: Vec<Value> = (1..=rows)
            .map(|id| json!({"op": "update", "key": {"id": id.to_string()}, "set": {"name": format!("round {round}")}}))
            .collect();
        let body = json!({"branch": "main", "base": head["data"]["head_commit_sha"], "rows": edits}).to_string();
        millis(|| caller.finish_in_one("/databases/bench/large/tables/t/edits", &body))
    });
    let what = format!("edit of {rows} cells, to `succeeded`");
    Row::alone("edit", what, median(times.collect()), "ms", Aim::AtMost(1_000.0))
}

fn first_byte(connection: &mut Connection, name: &'static str, path: &str, most: f64) -> Row {
    let mut request = Vec::new();
    get(&mut request, path, "");
    let times = (0..=REQUESTS).map(|_| {
        let response = connection.ask(&request).unwrap();
        assert_eq!(response.status, 200, "{path}");
        response.first_byte.as_secs_f64() * 1e3
    });
    let middle = median(times.skip(1).collect());
    Row::alone(name, format!("first byte of {path}"), middle, "ms", Aim::AtMost(most))
}

fn text(connection: &mut Connection, path: &str) -> String {
    let mut request = Vec::new();
    get(&mut request, path, "");
    String::from_utf8(connection.ask(&request).unwrap().body.to_vec()).unwrap()
}
