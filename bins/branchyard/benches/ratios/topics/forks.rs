//! Forks of a large database, and their first use, compared with a copy of its file and with a fork of a small database. The cost of a
//! fork should depend neither on the bytes nor on the rows.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use branchyard_testkit::Actor;
use serde_json::json;

use crate::flags::Flags;
use crate::harness::{BenchHarness, finish, write};
use crate::report::{Aim, Row};
use crate::slices::{alternate, median, millis};
use crate::table::Table;

const SMALL: u64 = 1_000;
/// Number of rows of one kilobyte per insert statement.
const BATCH: u64 = 100_000;
/// Branches of the large database.
const BRANCHES: usize = 100;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (rows, columns) = (flags.count("--rows"), flags.count("--columns"));
    let (megabytes, repeats) = (flags.count("--fork-mb"), flags.count("--repeats"));
    let harness = BenchHarness::new();
    let token = harness.user("forker");
    let server = harness.start();
    let forker = server.actor("forker", &token);
    let fork = |name: &str| {
        let body = json!({"owner": "forker"});
        millis(|| finish(&forker, &format!("/databases/bench/{name}/forks"), &body))
    };
    let delete = |name: &str| forker.delete(&format!("/databases/forker/{name}")).expect(200);
    let fork_only = |name: &str| {
        let time = fork(name);
        delete(name);
        time
    };
    let first_use = |name: &str| {
        fork(name);
        let time = millis(|| drop(forker.get(&format!("/databases/forker/{name}/sql?q=select%201")).expect(200)));
        delete(name);
        time
    };

    heavy(&server.actor("bench", &harness.token), "heavy", megabytes);
    let (file, copy) = (largest(&harness.path().join("databases")), harness.path().join("copy"));
    let cp = || {
        let time = millis(|| {
            assert!(Command::new("cp").arg(&file).arg(&copy).status().unwrap().success());
            File::open(&copy).unwrap().sync_all().unwrap();
        });
        std::fs::remove_file(&copy).unwrap();
        time
    };
    for number in 1..BRANCHES {
        let body = json!({"name": format!("b{number}"), "from": {"branch": "main"}});
        server.actor("bench", &harness.token).post("/databases/bench/heavy/branches", &body).expect(201);
    }
    let size = std::fs::metadata(&file).unwrap().len() >> 20;
    let alone = median((0..repeats).map(|_| fork_only("heavy")).collect());
    let used = alternate(repeats, || first_use("heavy"), cp);

    server.database(&harness.token, "small", Table::new(SMALL, columns));
    server.database(&harness.token, "large", Table::new(rows, columns));
    let done = alternate(repeats, || fork_only("large"), || fork_only("small"));
    vec![
        Row::alone(
            "fork",
            format!("of {size} MiB with {BRANCHES} branches, until succeeded"),
            alone,
            "ms",
            Aim::AtMost(20.0),
        ),
        used.row(
            "fork, first use",
            format!("first read of a fork of {size} MiB"),
            "cp of its file and fsync",
            "ms",
            Aim::None,
        ),
        done.row(
            "fork, rows",
            format!("fork of {rows} rows, until succeeded"),
            &format!("of {SMALL} rows"),
            "ms",
            Aim::AtMost(3.0),
        ),
    ]
}

/// Creates a database of about `megabytes` MB, with as many thousand rows.
pub(super) fn heavy(bench: &Actor, name: &str, megabytes: u64) {
    bench.database(name);
    let run = |statement: &str| finish(bench, &format!("/databases/bench/{name}/sql-writes"), &write(statement));
    run("create table t (id integer primary key, body text)");
    let rows = megabytes * 1_000;
    for first in (1..=rows).step_by(usize::try_from(BATCH).unwrap()) {
        let last = rows.min(first + BATCH - 1);
        run(&format!(
            "insert into t with recursive n(i) as (select {first} union all select i + 1 from n where i < {last}) \
             select i, hex(randomblob(500)) from n"
        ));
    }
}

/// Returns the largest file below a folder.
fn largest(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.map(|path| if path.is_dir() { largest(&path) } else { path });
    files
        .max_by_key(|path| path.metadata().map_or(0, |file| if file.is_file() { file.len() } else { 0 }))
        .unwrap_or_default()
}
