//! Fetches whose process is killed in the middle.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::Engine as _;
use branchyard_engine_doltlite::DoltliteEngine;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{EngineHarness, id};

/// Kills the other processes that have a file open.
fn kill_users_of(file: &Path) {
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let number = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(number) = number.filter(|number| *number != std::process::id()) else { continue };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        let uses = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to == file);
        if descriptors.flatten().any(uses) {
            let process = i32::try_from(number).ok().and_then(Pid::from_raw).unwrap();
            // It may have ended by itself.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// The engine writes what it adds to a file in pieces of 64 MiB. Its own fetch makes each piece a part of the file, with chunks
/// that name others which are still to come. When it is killed then, later fetches take those for complete.
#[test]
fn a_fetch_of_more_than_64_mib_that_was_killed_is_repeated() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, "create table t(id integer primary key, v blob)");
    harness.engine.copy(id(1), id(2)).unwrap();
    let many = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 300)
        insert into t select x, randomblob(500000) from n";
    let head = harness.write_to(id(2), &base, many);
    let file = harness.folder.path().join("databases").join(DoltliteEngine::place(id(1)));
    let length = || fs::metadata(&file).unwrap().len();
    let mut killed = 0;
    for pieces in [1, 2] {
        let before = length();
        thread::scope(|scope| {
            let fetch = scope.spawn(|| harness.engine.fetch(id(1), id(2), &head));
            while !fetch.is_finished() {
                if length() > before + (pieces << 26) - (1 << 20) {
                    kill_users_of(&file);
                }
                thread::sleep(Duration::from_millis(1));
            }
            killed += i32::from(fetch.join().unwrap().is_err());
        });
        // All of it is there, or nothing.
        if harness.engine.commit(id(1), &head).unwrap().is_some() {
            break;
        }
    }
    assert!(killed > 0, "no fetch was killed");
    harness.engine.fetch(id(1), id(2), &head).unwrap();
    assert_eq!(harness.engine.verify(id(1), &[base, head.clone()]).unwrap(), [] as [String; 0]);
    let read = harness.read(&head, "select count(*), sum(length(v)) from t");
    assert_eq!(read, [[Cell::Integer(300), Cell::Integer(150_000_000)]]);
}
