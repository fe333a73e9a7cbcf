//! Forks of a large database, compared with a copy of its file and with a fork of a small database. The cost of a fork should
//! depend on the bytes copied and hardly on the number of rows.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::flags::Flags;
use crate::harness::{BenchHarness, Server, finish, write};
use crate::report::{Aim, Row};
use crate::slices::{alternate, millis};
use crate::table::Table;

const SMALL: u64 = 1_000;
/// Number of rows of one kilobyte per insert statement.
const BATCH: u64 = 100_000;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (rows, columns) = (flags.count("--rows"), flags.count("--columns"));
    let (megabytes, repeats) = (flags.count("--fork-mb"), flags.count("--repeats"));
    let harness = BenchHarness::new();
    let token = harness.user("forker");
    let server = harness.start();
    let forker = server.actor("forker", &token);
    let fork = |name: &str| {
        let body = json!({"owner": "forker"});
        let time = millis(|| finish(&forker, &format!("/databases/bench/{name}/forks"), &body));
        forker.delete(&format!("/databases/forker/{name}")).expect(200);
        time
    };

    heavy(&server, &harness.token, "heavy", megabytes);
    let (file, copy) = (largest(&harness.path().join("databases")), harness.path().join("copy"));
    let cp = |is_durable: bool| {
        let time = millis(|| {
            assert!(Command::new("cp").arg(&file).arg(&copy).status().unwrap().success());
            if is_durable {
                File::open(&copy).unwrap().sync_all().unwrap();
            }
        });
        std::fs::remove_file(&copy).unwrap();
        time
    };
    let what = format!("fork of {} MiB, until succeeded", std::fs::metadata(&file).unwrap().len() >> 20);
    let plain = alternate(repeats, || fork("heavy"), || cp(false));
    let durable = alternate(repeats, || fork("heavy"), || cp(true));

    server.database(&harness.token, "small", Table::new(SMALL, columns));
    server.database(&harness.token, "large", Table::new(rows, columns));
    let done = alternate(repeats, || fork("large"), || fork("small"));
    vec![
        plain.row("fork", what.clone(), "cp of its file", "ms", Aim::AtMost(1.3)),
        durable.row("fork, durable", what, "cp of its file and fsync", "ms", Aim::None),
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
pub(super) fn heavy(server: &Server, token: &str, name: &str, megabytes: u64) {
    let bench = server.actor("bench", token);
    bench.database(name);
    let run = |statement: &str| finish(&bench, &format!("/databases/bench/{name}/sql-writes"), &write(statement));
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
