//! A worker whose server, a thread of the test, says anything. The worker is a thread, too, and not confined.
//!
//! SQLite finds no file by its path in this process any more. No other test of this program opens one.

use std::fs::File;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{CollectedRows, Engine as _, FormatError, ReadQuery};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions, ProvidedFile};
use uuid::Uuid;

use super::super::sample::{Sample, Source};
use super::super::{AMPLE, Harness};
use super::Attempt;
use crate::channel::pair;
use crate::messages::{Call, RowBatch, ToWorker};
use crate::wire::{Bytes, Wire as _};
use crate::worker::tests::{message_to_worker, serve_in_thread};

/// Attempts on one copy of the database.
const ATTEMPTS: u64 = 100;

const TEXTS: &[&str] = &[
    "t",
    "v",
    "u",
    "SELECT v FROM t",
    "SELECT count(*), v FROM t GROUP BY v",
    "INSERT INTO t VALUES ('z')",
    "UPDATE t SET v = 1; DELETE FROM t",
    "CREATE TABLE u(a INTEGER PRIMARY KEY, b)",
    "DROP TABLE t",
    "SELECT * FROM dolt_log",
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 1000) SELECT n, hex(randomblob(50)) FROM c",
    "x",
    "",
];

pub(super) fn target() -> Attempt {
    let options = EngineOptions { statement_memory: 16 << 20, ..EngineOptions::default() };
    let engine = DoltliteEngine::on_provided_files(options, Box::new(|| Ok(tempfile::tempfile()?.into()))).unwrap();
    let engine = Arc::new(engine);
    let harness = Harness::new();
    let db = harness.database(1);
    let copies = tempfile::tempdir().unwrap();
    let mut number = 0_u64;
    let mut id = DatabaseId::from_uuid(Uuid::nil());
    Box::new(move |seed| {
        // Keeps its folder.
        let harness = &harness;
        if number.is_multiple_of(ATTEMPTS) {
            let path = copies.path().join("copy");
            harness.engine.back_up(db.id, &path).unwrap();
            id = DatabaseId::from_uuid(Uuid::from_u128(u128::from(number) + 2));
            let open = |path| File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
            let (file, lock) = (open(path.clone()).into(), Some(open(copies.path().join("lock")).into()));
            engine.provide(id, ProvidedFile { file, lock }).unwrap();
            std::fs::remove_file(path).unwrap();
            let (mut rows, query) = (CollectedRows::default(), ReadQuery::new("SELECT v FROM t", AMPLE));
            engine.read(id, &db.head, &query, &mut rows).unwrap();
            assert_eq!(rows.lines(), ["x"]);
        }
        number += 1;
        let mut source = Source::new(seed);
        source.longest = Duration::from_millis(20);
        source.texts = TEXTS.to_vec();
        source.commits = vec![db.first.clone(), db.head.clone()];
        let bytes = conversation(&mut source);
        let (near, far) = pair().unwrap();
        let mut near = UnixStream::from(near);
        std::thread::scope(|scope| {
            let mut reads = near.try_clone().unwrap();
            // Errors are those of a worker that ended.
            scope.spawn(move || drop(std::io::copy(&mut reads, &mut std::io::sink())));
            scope.spawn(move || {
                drop(near.write_all(&bytes));
                drop(near.shutdown(Shutdown::Write));
            });
            serve_in_thread(&engine, far, id)
        })
    })
}

/// Calls, and answers that their questions may get.
fn conversation(source: &mut Source) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 1..2 + source.below(4) {
        source.refill();
        let call = Call::sample(source);
        let asks = matches!(call, Call::Import(_) | Call::Script(_) | Call::Verify { .. } | Call::Fetch { .. });
        let mut one = message_to_worker(ToWorker::Call, &(number as u32, call).encode());
        for _ in 0..if asks || source.once_in(12) { 1 + source.below(3) } else { 0 } {
            source.refill();
            one.extend(answer(source));
        }
        if source.once_in(12) {
            source.mutate(&mut one);
        }
        bytes.extend(one);
    }
    if source.once_in(8) {
        source.mutate(&mut bytes);
    }
    bytes
}

fn answer(source: &mut Source) -> Vec<u8> {
    let content = match source.below(6) {
        0 => true.encode(),
        1 => Result::<RowBatch, FormatError>::sample(source).encode(),
        2 => Ok::<_, FormatError>(RowBatch { rows: vec![(1, vec![Cell::sample(source)])], is_last: true }).encode(),
        3 => Result::<Bytes, std::io::Error>::sample(source).encode(),
        4 => Ok::<_, std::io::Error>(Bytes(b"INSERT INTO t VALUES (1);".to_vec())).encode(),
        _ => source.bytes(20),
    };
    let kind = if source.once_in(10) { ToWorker::Parents } else { ToWorker::Reply };
    let content = if kind == ToWorker::Parents { (CommitHash::sample(source), 5_usize).encode() } else { content };
    message_to_worker(kind, &content)
}
