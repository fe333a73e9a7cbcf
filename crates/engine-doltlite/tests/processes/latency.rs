//! Measures reads by key beside a writer: readers as threads of one process, and readers as processes.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};

use crate::child::{Shared, tell};
use crate::children::{Children, Event};
use crate::histogram::Histogram;
use crate::known::{Known, create, id};
use crate::reader::check_row;
use crate::writer::add_row;

/// Number of readers.
const READERS: u64 = 4;
/// Number of commits that the readers of old commits alternate between.
const OLD: usize = 8;

/// Measures with and without a writer. The default duration only shows that the measurement works.
pub(crate) fn run(each: Option<Duration>, mut report: impl FnMut(String)) {
    let duration = each.unwrap_or(Duration::from_millis(100));
    for newest in [false, true] {
        let what = if newest { "the newest commit" } else { "old commits" };
        let mut base = None;
        for (place, writers) in [("threads", 0), ("processes", 0), ("threads", 1), ("processes", 1)] {
            let measured = if place == "threads" {
                in_one_process(duration, newest, writers)
            } else {
                across_processes(duration, newest, writers)
            };
            let median = measured.reads.quantile(0.5).as_secs_f64();
            let ratio = median / *base.get_or_insert(median);
            report(format!(
                "{what}, {READERS} readers as {place}, {writers} writers: {:.0} reads/s, {} ({ratio:.2} times), {:.0} commits/s",
                measured.reads.count() as f64 / duration.as_secs_f64(),
                measured.reads.summary(),
                measured.commits as f64 / duration.as_secs_f64(),
            ));
        }
    }
}

struct Measured {
    reads: Histogram,
    commits: u64,
}

/// Creates a database with some commits.
fn prepare(engine: &DoltliteEngine) -> Vec<Known> {
    let mut commits = vec![create(engine).unwrap()];
    for n in 1..100 {
        commits.push(add_row(engine, commits.last().unwrap(), (n, n)).unwrap());
    }
    commits
}

fn in_one_process(duration: Duration, newest: bool, writers: u64) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let engine = DoltliteEngine::open(folder.path().join("databases"), EngineOptions::default()).unwrap();
    let shared = Shared::default();
    shared.commits.write().extend(prepare(&engine));
    let until = Instant::now() + duration;
    let (mut reads, mut commits) = (Histogram::default(), 0);
    thread::scope(|scope| {
        let read = || read(&engine, &shared, newest, until);
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        if writers > 0 {
            commits = write(&engine, &shared, until, |known| shared.commits.write().push(known));
        }
        for reader in readers {
            reads.merge(&reader.join().unwrap());
        }
    });
    Measured { reads, commits }
}

fn across_processes(duration: Duration, newest: bool, writers: u64) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let known = prepare(&DoltliteEngine::open(folder.path().join("databases"), EngineOptions::default()).unwrap());
    let mut children = Children::default();
    let millis = duration.as_millis();
    let mut running: Vec<_> = (0..READERS + writers)
        .map(|n| {
            let kind = if n == READERS { "writer" } else { "reader" };
            children.start("measure", folder.path(), &format!("{kind} {newest} {millis}"))
        })
        .collect();
    for child in &mut running {
        for known in &known {
            child.send(&format!("commit {known}"));
        }
        child.send("go");
    }
    let (mut reads, mut commits, mut ended) = (Histogram::default(), 0, 0);
    while ended < running.len() {
        match children.next(Duration::from_secs(60)).unwrap() {
            Event::Ended(_) => ended += 1,
            Event::Line(_, line) => match line.split_once(' ').unwrap() {
                ("commit", _) if newest => running.iter_mut().for_each(|child| child.send(&line)),
                ("commit", _) => {}
                ("reads", text) => reads.merge(&Histogram::parse(text)),
                ("commits", text) => commits = text.parse().unwrap(),
                other => panic!("{other:?}"),
            },
        }
    }
    assert!(running.iter_mut().all(crate::children::Running::has_succeeded));
    Measured { reads, commits }
}

/// A reader or writer that is a process.
pub(crate) fn child(engine: &DoltliteEngine, shared: &Arc<Shared>, options: &str) {
    let options: Vec<&str> = options.split(' ').collect();
    let newest = options[1] == "true";
    let until = Instant::now() + Duration::from_millis(options[2].parse().unwrap());
    if options[0] == "reader" {
        tell(&format!("reads {}", read(engine, shared, newest, until).to_text()));
    } else {
        let commits = write(engine, shared, until, |known| tell(&format!("commit {known}")));
        tell(&format!("commits {commits}"));
    }
}

fn read(engine: &DoltliteEngine, shared: &Shared, newest: bool, until: Instant) -> Histogram {
    let mut reads = Histogram::default();
    for n in 0.. {
        if Instant::now() > until {
            break;
        }
        let known = if newest { shared.head() } else { shared.commits.read()[n % OLD].clone() };
        let begun = Instant::now();
        check_row(engine, id(1), &known).unwrap();
        reads.add(begun.elapsed());
    }
    reads
}

fn write(engine: &DoltliteEngine, shared: &Shared, until: Instant, mut acknowledge: impl FnMut(Known)) -> u64 {
    let (mut head, mut commits) = (shared.head(), 0);
    while Instant::now() < until {
        let next = head.row.0 + 1;
        head = add_row(engine, &head, (next, next)).unwrap();
        acknowledge(head.clone());
        commits += 1;
    }
    commits
}
