//! Start-up, idle memory, and reads by primary key through API v2 beside a bare actix handler that does the same engine read.
//!
//! `cargo bench -p branchyard [-- --seconds 5 --connections 16]`
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and stops where it fails"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use branchyard::compose::{Pending, Stores, World};
use branchyard::config::Config;
use branchyard_domain::ports::{Column, Engine as _, Flow, ReadQuery, RowSink, ValueRef};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_testkit::Actor;

const ROWS: u64 = 10_000;

fn main() {
    let seconds = flag("--seconds").unwrap_or(5);
    let connections = flag("--connections").unwrap_or(16);
    let dir = tempfile::tempdir().unwrap();
    let token = prepare(dir.path());

    let began = Instant::now();
    let (server, address) = start(dir.path());
    get(&mut TcpStream::connect(address).unwrap(), "/healthz", "");
    let first_answer = began.elapsed();
    std::thread::sleep(Duration::from_millis(500));
    let idle = resident_mib(server.0.id());
    let authorization = format!("Authorization: Bearer {token}\r\n");
    let product = rate(
        address,
        "/api/v2/databases/bench/bench/sql?q=select+*+from+t+where+id=",
        &authorization,
        connections,
        seconds,
    );
    let busy = resident_mib(server.0.id());
    drop(server);

    let bare = bare(dir.path(), connections, seconds);
    println!("start to first answer    {:>8.0} ms   (aim: under 500)", first_answer.as_secs_f64() * 1e3);
    println!("idle memory              {idle:>8.1} MiB  (aim: under 60)");
    println!("memory after the load    {busy:>8.1} MiB");
    println!("read by primary key, signed in, {connections} connections, {seconds} s each");
    println!("  through v2             {product:>8.0} requests/s");
    println!("  bare actix handler     {bare:>8.0} requests/s");
    println!("  ratio                  {:>8.2}", product / bare);
}

fn flag(name: &str) -> Option<u64> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1).map(|value| value.parse().expect("a number"))
}

/// A database of ten thousand rows, made through the commands and the API.
fn prepare(dir: &std::path::Path) -> String {
    let user = ["user", "create", "bench", "--email", "bench@example.test"];
    assert!(command(dir).args(user).stdout(Stdio::null()).status().unwrap().success());
    let made = command(dir)
        .args(["token", "create", "--user", "bench", "--name", "bench", "--expires", "30d"])
        .output()
        .unwrap();
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let (_server, address) = start(dir);
    let client = Actor::new(format!("http://{address}"), Some(token.clone()), "bench");
    client.database("bench");
    let fill = format!(
        "create table t (id integer primary key, name text, value real); insert into t with recursive n(i) as (select 1 union all \
         select i + 1 from n where i < {ROWS}) select i, 'row number ' || i, i / 7.0 from n"
    );
    client.write("bench/bench", "main", &fill);
    token
}

fn command(dir: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_branchyard"));
    command.env("BRANCHYARD_DATA_DIR", dir);
    // One caller makes all the load.
    command.env("BRANCHYARD_RATE_LIMIT__ENABLED", "false").env("BRANCHYARD_SQL__MAX_CONCURRENT_READS_PER_CALLER", "64");
    command
}

/// A server that does not outlive the bench, however that ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(dir: &std::path::Path) -> (Server, SocketAddr) {
    let mut child = command(dir).args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").unwrap().parse().unwrap();
    (Server(child), address)
}

fn resident_mib(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

/// Requests per second over keep-alive connections; every answer must be a success that holds its row.
fn rate(address: SocketAddr, path: &str, head: &str, connections: u64, seconds: u64) -> f64 {
    let done = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for connection in 0..connections {
            let (done, stop) = (&done, &stop);
            scope.spawn(move || {
                let mut client = TcpStream::connect(address).unwrap();
                client.set_nodelay(true).unwrap();
                let mut id = connection * 131;
                while !stop.load(Ordering::Relaxed) {
                    id = (id * 48_271 + 11) % ROWS + 1;
                    let answer = get(&mut client, &format!("{path}{id}"), head);
                    assert!(answer.contains(&format!("row number {id}")), "{answer}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    #[expect(clippy::cast_precision_loss, reason = "a count of requests is far below 2^53")]
    let done = done.load(Ordering::Relaxed) as f64;
    done / began.elapsed().as_secs_f64()
}

fn get(client: &mut TcpStream, path: &str, head: &str) -> String {
    request(client, "GET", path, head, "")
}

fn request(client: &mut TcpStream, method: &str, path: &str, head: &str, body: &str) -> String {
    write!(client, "{method} {path} HTTP/1.1\r\nHost: bench\r\n{head}\r\n{body}").unwrap();
    let mut bytes = Vec::with_capacity(1024);
    let mut buffer = [0; 4096];
    loop {
        let read = client.read(&mut buffer).unwrap();
        assert_ne!(read, 0, "the connection was closed");
        bytes.extend_from_slice(&buffer[..read]);
        let text = std::str::from_utf8(&bytes).unwrap();
        if let Some(end) = text.find("\r\n\r\n") {
            let length = text[..end]
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
            if bytes.len() >= end + 4 + length.expect("a Content-Length") {
                let text = String::from_utf8(bytes).unwrap();
                assert!(text.starts_with("HTTP/1.1 2"), "{text}");
                return text;
            }
        }
    }
}

/// What the bare handler knows.
struct Bare {
    stores: Stores,
    database: DatabaseId,
    commit: CommitHash,
}

/// The same engine read on a pooled connection, with no token, no look-up, no limits.
fn bare(dir: &std::path::Path, connections: u64, seconds: u64) -> f64 {
    let config = Config { data_dir: dir.to_owned(), ..Config::default() };
    let stores = Stores::open(&config, &World::default(), Pending::Refuse).unwrap();
    let database = {
        use branchyard_domain::ports::Metadata as _;
        stores.metadata.read().unwrap().database_ids(None, 1).unwrap()[0]
    };
    let commit = {
        use branchyard_domain::ports::Metadata as _;
        stores.metadata.read().unwrap().branch_list(database, None, 1).unwrap()[0].head.clone()
    };
    let state = Arc::new(Bare { stores, database, commit });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let server = HttpServer::new(move || {
                App::new().app_data(web::Data::from(Arc::clone(&state))).route("/read/{id}", web::get().to(read))
            });
            let server = server.disable_signals().listen(listener).unwrap().run();
            send.send(server.handle()).unwrap();
            server.await.unwrap();
        });
    });
    let handle = receive.recv().unwrap();
    let rate = rate(address, "/read/", "", connections, seconds);
    actix_web::rt::System::new().block_on(handle.stop(true));
    thread.join().unwrap();
    rate
}

async fn read(state: web::Data<Bare>, id: web::Path<u64>) -> HttpResponse {
    let row = web::block(move || {
        let sql = format!("select * from t where id={id}");
        let query = ReadQuery::new(&sql, Duration::from_secs(30));
        let mut row = Row::default();
        state.stores.engine.read(state.database, &state.commit, &query, &mut row).unwrap();
        row.0
    });
    HttpResponse::Ok().json(row.await.unwrap())
}

#[derive(Default)]
struct Row(Vec<String>);

impl RowSink for Row {
    fn columns(&mut self, _: &[Column]) -> Flow {
        Flow::Continue
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow {
        self.0.extend(row.iter().map(|value| match value {
            ValueRef::Null => String::new(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
            ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned(),
        }));
        Flow::Continue
    }
}
