//! Clones by an unmodified client, which is the engine in this process, compared with the same client's clone of a file.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use reqwest::Method;
use rusqlite::Connection;
use serde_json::json;

use crate::flags::Flags;
use crate::harness::{BenchHarness, Server, finish, write};
use crate::load;
use crate::report::{Aim, Row};
use crate::slices::{alternate, millis};
use crate::table::Table;
use crate::topics::overload::quantile;

/// Clones of a history that run at once.
const AT_ONCE: usize = 64;
/// Clones of the large table that run at once.
const MANY: usize = 32;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (rows, columns, repeats) = (flags.count("--rows"), flags.count("--columns"), flags.count("--repeats"));
    let (commits, branches) = (flags.count("--clone-commits"), flags.count("--clone-branches"));
    let harness = BenchHarness::new();
    let server = harness.start();
    let clones = Clones { folder: harness.path().join("clones"), server: &server };
    std::fs::create_dir(&clones.folder).unwrap();

    server.database(&harness.token, "large", Table::new(rows, columns));
    let origin = clones.folder.join("origin.db");
    clones.clone(&clones.url("large"), &origin);
    let file = format!("file://{}", origin.display());
    let whole = alternate(repeats, || clones.time(&clones.url("large")), || clones.time(&file));

    server.database(&harness.token, "line", Table::new(10, columns));
    let bench = server.actor("bench", &harness.token);
    for n in 1..commits {
        finish(
            &bench,
            "/databases/bench/line/sql-writes",
            &write(&format!("update t set name = 'name {n}' where id = 1")),
        );
    }
    let history = clones.time(&clones.url("line"));
    let at_once = millis(|| {
        thread::scope(|scope| {
            let all: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(|| clones.time(&clones.url("line")))).collect();
            all.into_iter().for_each(|clone| assert!(clone.join().is_ok()));
        });
    });

    server.database(&harness.token, "refs", Table::new(10, columns));
    for n in 1..branches {
        let body = json!({"name": format!("branch-{n}"), "from": {"branch": "main"}});
        bench.post("/databases/bench/refs/branches", &body).expect(201);
    }
    let mut request = Vec::new();
    let head = format!("Authorization: Bearer {}\r\n", harness.token);
    load::get(&mut request, "/bench/refs/refs", &head);
    let mut connection = load::Connection::open(server.address);
    let refs = alternate(
        repeats,
        || millis(|| assert!(connection.ask(&request).is_ok())),
        || millis(|| assert!(bench.plain(Method::GET, "/healthz").send().is_ok())),
    );
    let mut beside = Vec::new();
    server.forget_peak();
    thread::scope(|scope| {
        let all: Vec<_> = (0..MANY).map(|_| scope.spawn(|| clones.time(&clones.url("large")))).collect();
        let mut read = Vec::new();
        load::get(&mut read, "/api/v2/databases/bench/line/sql?q=select%20name%20from%20t%20where%20id%20=%201", &head);
        while all.iter().any(|clone| !clone.is_finished()) {
            beside.push(millis(|| assert_eq!(connection.ask(&read).unwrap().status, 200)));
            thread::sleep(Duration::from_millis(5));
        }
        all.into_iter().for_each(|clone| assert!(clone.join().is_ok()));
    });
    let peak = server.peak();
    vec![
        whole.row("clone", format!("clone of {rows} rows"), "of a file by the same client", "ms", Aim::AtMost(1.5)),
        Row::alone(
            "clone, history",
            format!("clone of {commits} commits in a line"),
            history,
            "ms",
            Aim::AtMost(2_000.0),
        ),
        Row::alone(
            "clone, at once",
            format!("{AT_ONCE} such clones at once, none of which fails"),
            at_once,
            "ms",
            Aim::None,
        ),
        Row::alone(
            "clone, reads beside",
            format!("p99 of cheap reads beside {MANY} clones of {rows} rows"),
            quantile(&beside, 0.99),
            "ms",
            Aim::AtMost(50.0),
        ),
        Row::alone("clone, memory", format!("peak during {MANY} such clones"), peak, "MiB", Aim::AtMost(512.0)),
        refs.row("clone, refs", format!("refs of {branches} branches"), "a health check", "ms", Aim::None),
    ]
}

struct Clones<'a> {
    folder: PathBuf,
    server: &'a Server,
}

impl Clones<'_> {
    fn url(&self, database: &str) -> String {
        format!("http://{}/bench/{database}", self.server.address)
    }

    fn clone(&self, url: &str, into: &Path) {
        let client = Connection::open(into).unwrap();
        client.query_row("select dolt_clone(?)", [url], |_| Ok(())).unwrap();
    }

    /// Returns the time of a clone in milliseconds.
    fn time(&self, url: &str) -> f64 {
        let folder = tempfile::tempdir_in(&self.folder).unwrap();
        millis(|| self.clone(url, &folder.path().join("clone.db")))
    }
}
