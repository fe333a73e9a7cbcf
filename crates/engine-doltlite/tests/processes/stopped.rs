//! A process that is stopped while it holds a lock, and its effect on the others.

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use rustix::process::Signal;

use crate::child::{Shared, tell};
use crate::children::{Children, Event, Running};
use crate::known::{create, id};
use crate::reader::check_row;
use crate::writer::add_row;

/// Number of times that a process is stopped until it is given up that this happens while it holds the lock.
const TRIES: usize = 2000;
/// One of the bytes of the file that readers lock while they read its end, and that a writer locks while it commits.
const SHARED_LOCK: u64 = (1 << 30) + 2;

/// Opens the file again and again, which takes the shared lock each time.
pub(crate) fn open_again_and_again(folder: &Path, shared: &Shared) {
    let options = EngineOptions { idle_readers: 0, ..EngineOptions::default() };
    let engine = DoltliteEngine::open(folder.join("databases"), options).unwrap();
    tell("open");
    while !shared.stops() {
        check_row(&engine, id(1), &shared.head()).unwrap();
    }
}

/// Returns how long after the end of a stopped reader and of a stopped writer the call ended that waited for it, if it
/// had to wait.
pub(crate) fn run() -> (Option<Duration>, Option<Duration>) {
    let folder = tempfile::tempdir().unwrap();
    let engine = DoltliteEngine::open(folder.path().join("databases"), EngineOptions::default()).unwrap();
    let mut head = create(&engine).unwrap();
    for n in 1..200 {
        head = add_row(&engine, &head, (n, n)).unwrap();
    }
    let start = |role, options: &str, line: &str| {
        let mut children = Children::default();
        let mut child = children.start(role, folder.path(), options);
        child.send(&format!("commit {head}"));
        child.send("go");
        wait_for(&children, line);
        (children, child)
    };

    // The writer waits for a reader that is stopped while it reads the end of the file.
    let (_children, mut reader) = start("opener", "", "open");
    let held = stop_holding(&reader, "READ");
    let write = || add_row(&engine, &head, (1000, 1)).map_err(|error| error.to_string());
    let beside_reader = run_beside(&mut reader, held, || write().map(drop));

    // Readers that have to read the end of the file wait for a writer that is stopped while it commits.
    let (_children, mut writer) = start("writer", "1 1000000 0", "commit ");
    let held = stop_holding(&writer, "WRITE");
    let fresh = EngineOptions { idle_readers: 0, ..EngineOptions::default() };
    let fresh = DoltliteEngine::open(folder.path().join("databases"), fresh).unwrap();
    let beside_writer = run_beside(&mut writer, held, || check_row(&fresh, id(1), &head));
    add_row(&engine, &head, (1001, 1)).unwrap();
    (beside_reader, beside_writer)
}

/// Makes a call beside a stopped process, which it must wait for if the process holds the lock, and kills the process.
/// Returns the time from then until the call ended, if it had to wait. The call must succeed.
fn run_beside(stopped: &mut Running, held: bool, call: impl Fn() -> Result<(), String> + Sync) -> Option<Duration> {
    let (sender, ended) = channel();
    thread::scope(|scope| {
        scope.spawn(|| sender.send(call()).unwrap());
        let early = ended.recv_timeout(Duration::from_millis(500));
        assert!(early.is_err() || !held, "{early:?}");
        let begun = Instant::now();
        stopped.kill();
        early.unwrap_or_else(|_| ended.recv().unwrap()).unwrap();
        held.then(|| begun.elapsed())
    })
}

fn wait_for(children: &Children, start: &str) {
    loop {
        match children.next(Duration::from_secs(60)) {
            Some(Event::Line(_, line)) if line.starts_with(start) => break,
            Some(Event::Line(..)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Stops the process, if possible while it holds a lock of a kind on the range of shared locks. Returns `true` if it
/// does.
fn stop_holding(child: &Running, kind: &str) -> bool {
    for _ in 0..TRIES {
        child.signal(Signal::STOP);
        // The signal takes effect a little later.
        while !is_stopped(child.pid()) {
            thread::sleep(Duration::from_micros(100));
        }
        if holds(child.pid(), kind) {
            return true;
        }
        child.signal(Signal::CONT);
        thread::sleep(Duration::from_micros(rand::random_range(0..2000)));
    }
    child.signal(Signal::STOP);
    false
}

fn is_stopped(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().any(|line| line.starts_with("State:") && line.contains('T'))
}

fn holds(process: u32, kind: &str) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, held, owner, _, first, last, ..] = fields[..] else { return false };
        let covers = || first.parse::<u64>().unwrap() <= SHARED_LOCK && last.parse::<u64>().unwrap() >= SHARED_LOCK;
        held == kind && owner == process.to_string() && last != "EOF" && covers()
    })
}
