//! A server with many databases, and a server with a very large one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use reqwest::Method;
use uuid::Uuid;

use crate::flags::Flags;
use crate::harness::{BenchHarness, Caller, NO_RESULTS, ONE_CALLER, Server, write};
use crate::load::{Connection, Ids, encoded, get};
use crate::memory;
use crate::report::{Aim, Row};
use crate::slices::{alternate, median, millis};
use crate::table::Table;
use crate::topics::forks::heavy;

/// Reads of random databases.
const READS: u64 = 500;
/// Pause between two of them, so that workers are started off their path.
const PAUSE: Duration = Duration::from_millis(40);
/// Hard links of one file. File systems allow some ten thousand.
const LINKS: u64 = 30_000;
/// Requests of a slice. A single one is too short to time.
const REQUESTS: u64 = 20;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let mut rows = many(flags);
    rows.extend(large(flags));
    rows
}

/// Measures a server with many databases, most of which are never read.
fn many(flags: &Flags) -> Vec<Row> {
    let count = flags.count("--many");
    let harness = BenchHarness::new();
    let server = harness.start();
    server.database(&harness.token, "first", Table::new(10, 3));
    drop(server);
    multiply(harness.path(), count);

    let settings = [ONE_CALLER, &[NO_RESULTS]].concat();
    let began = Instant::now();
    let server = harness.start_with(&settings);
    let mut request = Vec::new();
    get(&mut request, "/healthz", "");
    let mut connection = Connection::open(server.address);
    assert_eq!(connection.ask(&request).unwrap().status, 200);
    let started = began.elapsed().as_secs_f64() * 1e3;
    std::thread::sleep(Duration::from_millis(1_500));
    let idle = memory::of_all(server.id());

    let head = format!("Authorization: Bearer {}\r\n", harness.token);
    let (mut ids, mut took) = (Ids::new(7, count), Vec::new());
    for _ in 0..READS {
        request.clear();
        let path = format!("/api/v2/databases/bench/first{}/sql?q=", ids.next());
        get(&mut request, &format!("{path}{}", encoded("select * from t where id = 3")), &head);
        let began = Instant::now();
        let answer = connection.ask(&request).unwrap();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(answer.body));
        took.push(began.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    took.sort_unstable_by(f64::total_cmp);
    let p99 = took[took.len() * 99 / 100];
    let with = |what: &str| format!("{count} databases: {what}");
    vec![
        Row::alone("many, start", with("start to first answer"), started, "ms", Aim::AtMost(1_000.0)),
        Row::alone("many, memory", with("idle, workers included"), idle, "MiB", Aim::AtMost(150.0)),
        Row::alone(
            "many, read",
            with(&format!("first read of a random one, p99 of {READS}; median {:.1} ms", median(took))),
            p99,
            "ms",
            Aim::AtMost(10.0),
        ),
    ]
}

/// Adds databases `first1`, `first2` and so on to the store and the files of a server that does not run. All have the content of
/// `first`, and share its file.
fn multiply(folder: &Path, count: u64) {
    let mut metadata = rusqlite::Connection::open(folder.join("metadata.sqlite")).unwrap();
    let first: String =
        metadata.query_row("select id from databases where name = 'first'", [], |row| row.get(0)).unwrap();
    let names: Vec<String> = {
        let mut columns = metadata.prepare("select name from pragma_table_info('databases')").unwrap();
        columns.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let values = names.iter().map(|name| match name.as_str() {
        "id" | "network_id" => "?2".to_owned(),
        "name" | "name_key" | "search_key" => format!("replace({name}, 'first', ?3)"),
        name => name.to_owned(),
    });
    let database = format!(
        "insert into databases ({}) select {} from databases where id = ?1",
        names.join(", "),
        values.collect::<Vec<_>>().join(", ")
    );
    let branch = "insert into branches (database_id, name, head, updated_at) \
                  select ?2, name, head, updated_at from branches where database_id = ?1";
    let (mut source, mut random) = (file_of(folder, &first), StdRng::seed_from_u64(7));
    let transaction = metadata.transaction().unwrap();
    for number in 1..=count {
        let id = Uuid::from_u128(random.random()).to_string();
        transaction.prepare_cached(&database).unwrap().execute((&first, &id, format!("first{number}"))).unwrap();
        transaction.prepare_cached(branch).unwrap().execute((&first, &id)).unwrap();
        let file = file_of(folder, &id);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        if number % LINKS == 0 {
            fs::copy(&source, &file).unwrap();
            source = file;
        } else {
            fs::hard_link(&source, &file).unwrap();
        }
    }
    transaction.commit().unwrap();
}

/// Returns the path of a database's file.
fn file_of(folder: &Path, id: &str) -> PathBuf {
    folder.join("databases").join(&id[id.len() - 2..]).join(format!("{id}.db"))
}

/// Measures work on a very large database, compared with the same on one of 100 MB.
fn large(flags: &Flags) -> Vec<Row> {
    let (megabytes, small) = (flags.count("--large-mb"), flags.count("--large-base-mb"));
    let harness = BenchHarness::new();
    let free = rustix::fs::statvfs(harness.path()).map_or(0, |at| at.f_bavail * at.f_frsize) / 1_000_000;
    // The file itself, its backup, and what the writes of a run add.
    let needed = megabytes * 5 / 2;
    if free < needed {
        let why =
            format!("{megabytes} MB need {needed} MB of free disk, and there are {free}; --large-mb sets another size");
        return vec![Row::skipped("large, read", why)];
    }
    let server = harness.start_with(&[ONE_CALLER, &[NO_RESULTS]].concat());
    for (name, size) in [("large", megabytes), ("small", small)] {
        heavy(&server.actor("bench", &harness.token), name, size);
        tag(&server, &harness.token, name);
    }
    let slices = flags.count("--slices");
    let caller = || Caller::new(server.address, &harness.token);
    let read = |name: &str, rows: u64| {
        let (mut caller, mut ids) = (caller(), Ids::new(7, rows));
        let mut ask = || {
            let statement = encoded(&format!("select id from t where id = {}", ids.next()));
            caller.ask(Method::GET, &format!("/api/v2/databases/bench/{name}/sql?q={statement}"), "");
        };
        // The first reads open the database.
        (0..REQUESTS).for_each(|_| ask());
        millis(|| (0..REQUESTS).for_each(|_| ask()))
    };
    let changed = std::cell::Cell::new(0);
    let change = |name: &str, rows: u64| {
        let mut caller = caller();
        millis(|| {
            for _ in 0..REQUESTS {
                changed.set(changed.get() + 1);
                let id = changed.get() * (rows / 10_000).max(1) % rows + 1;
                let statement = format!("update t set body = 'changed {}' where id = {id}", changed.get());
                let body = write(&statement).to_string();
                caller.finish_in_one(&format!("/databases/bench/{name}/sql-writes"), &body);
            }
        })
    };
    let diff = |name: &str| {
        let (mut caller, path) = (caller(), format!("/api/v2/databases/bench/{name}/diff?from=before&to=main&table=t"));
        millis(|| {
            caller.ask(Method::GET, &path, "");
        })
    };
    let (of_large, of_small) = (megabytes * 1_000, small * 1_000);
    let reads = alternate(slices, || read("large", of_large), || read("small", of_small));
    let writes = alternate(slices, || change("large", of_large), || change("small", of_small));
    let diffs = alternate(slices, || diff("large"), || diff("small"));
    let backup = millis(|| harness.back_up(&harness.path().join("backup")));
    let (of, than) = (format!("of {megabytes} MB"), format!("of {small} MB"));
    let within = Aim::AtMost(1.3);
    vec![
        reads.row("large, read", format!("{REQUESTS} reads by key {of}"), &than, "ms", within),
        writes.row("large, write", format!("{REQUESTS} changed rows {of}, one at a time"), &than, "ms", within),
        diffs.row("large, diff", format!("diff of the changed rows {of}"), &than, "ms", within),
        Row::alone("large, backup", format!("backup {of} and of {small} MB"), backup, "ms", Aim::None),
    ]
}

/// Tags the present head, from which diffs begin.
fn tag(server: &Server, token: &str, name: &str) {
    let tag = serde_json::json!({"name": "before", "from": {"branch": "main"}});
    server.actor("bench", token).post(&format!("/databases/bench/{name}/tags"), &tag).expect(201);
}
