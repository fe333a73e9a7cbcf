//! Reads by primary key through API v2 with a token, compared with Datasette and with a bare handler; and repeats of the same
//! read.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use actix_web::web::{Bytes, Data, Path as UrlPath};
use actix_web::{HttpResponse, web};

use crate::cost::cost_rows;
use crate::flags::Flags;
use crate::harness::BenchHarness;
use crate::load::{Connection, Question, encoded, get, rate};
use crate::programs::{RunningProgram, free, output};
use crate::raw::{Bare, Raw};
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;

/// Path of the read, up to the statement.
pub(super) const PATH: &str = "/api/v2/databases/bench/bench/sql?q=";

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let table = Table::new(flags.count("--small-rows"), flags.count("--columns"));
    let (many, seconds, slices) = (flags.count("--connections"), flags.number("--seconds"), flags.count("--slices"));
    let (statement, proof) = (flags.text("--statement").to_owned(), flags.text("--proof").to_owned());
    let harness = BenchHarness::new();
    let server = harness.start();
    server.database(&harness.token, "bench", table);

    let path = format!("{PATH}{}", encoded(&statement));
    let head = format!("Authorization: Bearer {}\r\n", harness.token);
    let product = |connections| {
        let request = |id: u64, into: &mut Vec<u8>| get(into, &path.replace("{id}", &id.to_string()), &head);
        rate(
            &Question { address: server.address, request: &request, proof: &with_id(&proof) },
            connections,
            seconds,
            table.rows,
        )
    };
    let what = |connections| format!("read by primary key, signed in, connections: {connections}");
    let mut rows = Vec::new();

    match Datasette::start(flags, table, harness.path()) {
        Ok(datasette) => {
            let path = format!("/bench.json?_shape=array&sql={}", encoded(&statement));
            let baseline = || {
                let request = |id: u64, into: &mut Vec<u8>| get(into, &path.replace("{id}", &id.to_string()), "");
                let question = Question { address: datasette.address, request: &request, proof: &with_id(&proof) };
                rate(&question, many, seconds, table.rows)
            };
            let done = alternate(slices, || product(many), baseline);
            rows.push(done.row("read, Datasette", what(many), "Datasette", "/s", Aim::AtLeast(20.0)));
        }
        Err(why) => rows.push(Row::skipped("read, Datasette", why)),
    }

    let (raw, sql) = (Data::new(Raw::with(table)), Data::new(statement.clone()));
    let bare = Bare::start(move |routes| {
        routes.app_data(raw.clone()).app_data(sql.clone()).route("/read/{id}", web::get().to(read));
    });
    let baseline = |connections| {
        let request = |id: u64, into: &mut Vec<u8>| get(into, &format!("/read/{id}"), "");
        rate(
            &Question { address: bare.address, request: &request, proof: &with_id(&proof) },
            connections,
            seconds,
            table.rows,
        )
    };
    let kinds = [
        (many, "read", ("read, processor", "read, switches")),
        (1, "read, 1 connection", ("read, 1, processor", "read, 1, switches")),
    ];
    for (connections, name, costs) in kinds {
        let done = alternate(slices, || product(connections), || baseline(connections));
        rows.push(done.row(name, what(connections), "bare handler, same engine read", "/s", Aim::AtLeast(1.0)));
        let work = || product(connections) * seconds;
        rows.extend(cost_rows(&server, work, costs, "such a read", Aim::None));
    }
    drop((bare, server));

    let server = harness.start_keeping_results();
    let mut same = Vec::new();
    get(&mut same, &path.replace("{id}", "7"), &head);
    let bytes = Bytes::copy_from_slice(Connection::open(server.address).ask(&same).unwrap().body);
    let bare = Bare::start(move |routes| {
        routes.app_data(Data::new(bytes.clone())).route("/same", web::get().to(again));
    });
    let ask = |address: SocketAddr, same: &[u8]| {
        let request = |_: u64, into: &mut Vec<u8>| into.extend_from_slice(same);
        let seventh = |_: u64, into: &mut Vec<u8>| into.extend_from_slice(proof.replace("{id}", "7").as_bytes());
        rate(&Question { address, request: &request, proof: &seventh }, many, seconds, 1)
    };
    let mut plain = Vec::new();
    get(&mut plain, "/same", "");
    let done = alternate(slices, || ask(server.address, &same), || ask(bare.address, &plain));
    let what = format!("the same read again and again, {many} connections");
    rows.push(done.row("read, repeated", what, "bare handler, same bytes", "/s", Aim::AtLeast(0.85)));
    rows
}

/// Returns a function that writes `text` with `{id}` replaced.
pub(super) fn with_id(text: &str) -> impl Fn(u64, &mut Vec<u8>) + Sync {
    let (before, after) = text.split_once("{id}").map_or((text, None), |(before, after)| (before, Some(after)));
    let (before, after) = (before.to_owned(), after.map(str::to_owned));
    move |id, into| match &after {
        Some(after) => write!(into, "{before}{id}{after}").unwrap(),
        None => into.extend_from_slice(before.as_bytes()),
    }
}

/// Runs the same engine read without a token, lookup, or limits.
async fn read(raw: Data<Raw>, sql: Data<String>, id: UrlPath<u64>) -> HttpResponse {
    let rows = web::block(move || raw.read(&sql.replace("{id}", &id.to_string())));
    HttpResponse::Ok().json(rows.await.unwrap())
}

async fn again(bytes: Data<Bytes>) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(Bytes::clone(&bytes))
}

/// A Datasette process on the same table in stock SQLite.
struct Datasette {
    address: SocketAddr,
    _running: RunningProgram,
}

impl Datasette {
    fn start(flags: &Flags, table: Table, dir: &Path) -> Result<Self, String> {
        let why = "no Datasette: `cargo xtask bench` installs one, or name it by --datasette FILE";
        let program = flags.datasette.as_deref().ok_or(why)?;
        let file = dir.join("bench.db");
        // Uses the Python of the same environment, whose SQLite library Datasette uses too.
        let make =
            "import sqlite3, sys\nfile = sqlite3.connect(sys.argv[1])\nfile.executescript(sys.argv[2])\nfile.commit()";
        let mut python = Command::new(program.with_file_name("python3"));
        output(python.args(["-c", make]).arg(&file).arg(table.script().join(";")))?;
        let address = free();
        let mut serve = Command::new(program);
        // `--immutable` is Datasette's fastest mode.
        serve.args(["serve", "--host", "127.0.0.1", "--port", &address.port().to_string(), "--immutable"]).arg(&file);
        Ok(Self { address, _running: RunningProgram::start(&mut serve, address)? })
    }
}
