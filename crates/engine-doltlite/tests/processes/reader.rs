//! The readers: read at commits, and compare with the values that belong to them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use branchyard_domain::ports::{Column, Engine, EngineError, ReadQuery, RowSink, ValueRef};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::DoltliteEngine;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::child::{Shared, tell};
use crate::histogram::Histogram;
use crate::known::{Known, LONG, id};

/// Number of reads between two reports.
const REPORT: u64 = 100;

/// Keeps the integers of the only row.
#[derive(Default)]
struct Numbers(Vec<i64>);

impl RowSink for Numbers {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        let number = |value: &ValueRef<'_>| if let ValueRef::Integer(n) = value { *n } else { -1 };
        self.0.extend(row.iter().map(number));
        ControlFlow::Continue(())
    }
}

/// Reads integers at a commit.
pub(crate) fn numbers(
    engine: &DoltliteEngine,
    database: DatabaseId,
    at: &CommitHash,
    sql: &str,
) -> Result<Vec<i64>, EngineError> {
    let mut numbers = Numbers::default();
    engine.read(database, at, &ReadQuery::new(sql, LONG), &mut numbers)?;
    Ok(numbers.0)
}

/// Reads the row of a commit by its key. Returns the reason if the result is wrong.
pub(crate) fn check_row(engine: &DoltliteEngine, database: DatabaseId, known: &Known) -> Result<(), String> {
    let sql = format!("SELECT value FROM small WHERE id = {}", known.row.0);
    equal(numbers(engine, database, &known.hash, &sql), &vec![known.row.1])
}

/// Reads the number of rows of a commit and the sum of their values. Returns the reason if the result is wrong.
pub(crate) fn check_sum(engine: &DoltliteEngine, database: DatabaseId, known: &Known) -> Result<(), String> {
    let sql = "SELECT count(*), sum(value) FROM small";
    equal(numbers(engine, database, &known.hash, sql), &vec![known.count, known.sum])
}

fn equal<T: PartialEq + std::fmt::Debug>(read: Result<T, EngineError>, expected: &T) -> Result<(), String> {
    match read {
        Ok(read) if read == *expected => Ok(()),
        Ok(read) => Err(format!("{read:?} instead of {expected:?}")),
        Err(error) => Err(format!("{error:?}")),
    }
}

/// Options: the seed, the number of threads, and the folder for copies, or `-` for none.
pub(crate) fn run(engine: DoltliteEngine, shared: &Arc<Shared>, options: &str) {
    let options: Vec<&str> = options.split(' ').collect();
    let (seed, threads): (u64, u64) = (options[0].parse().unwrap(), options[1].parse().unwrap());
    let copies = (options[2] != "-").then(|| Path::new(options[2]));
    thread::scope(|scope| {
        for thread in 0..threads {
            let random = StdRng::seed_from_u64(seed * 100 + thread);
            let reader = Reader { engine: &engine, shared, random, parents: HashMap::new(), taken: 0 };
            scope.spawn(move || reader.run(copies.map(|copies| copies.join(format!("copy-{seed}-{thread}")))));
        }
    });
}

struct Reader<'a> {
    engine: &'a DoltliteEngine,
    shared: &'a Shared,
    random: StdRng,
    parents: HashMap<CommitHash, Vec<CommitHash>>,
    /// Number of commits in `parents`.
    taken: usize,
}

impl Reader<'_> {
    fn run(mut self, copy: Option<std::path::PathBuf>) {
        let (mut reads, mut by_key) = (0, Histogram::default());
        while !self.shared.stops() {
            let (known, newest) = self.choose();
            let kind = self.random.random_range(0..100);
            let begun = Instant::now();
            let checked = self.check(kind, &known);
            if kind < 75 {
                by_key.add(begun.elapsed());
            }
            reads += 1;
            if let Err(reason) = checked {
                tell(&format!("wrong read {kind} at {known} (newest: {newest}): {reason}"));
            }
            // Closing the file ends all locks of the process on it, even those of other threads.
            if let Some(copy) = copy.as_ref().filter(|_| self.random.random_range(0..500) == 0) {
                if let Err(error) = self.engine.back_up(id(1), copy) {
                    tell(&format!("wrong copy: {error:?}"));
                }
                std::fs::remove_file(copy).ok();
            }
            if reads % REPORT == 0 {
                tell(&format!("reads {REPORT} {}", std::mem::take(&mut by_key).to_text()));
            }
        }
    }

    /// Chooses a commit: often the newest, sometimes one of the last, rarely any.
    fn choose(&mut self) -> (Known, bool) {
        let commits = self.shared.commits.read();
        let oldest = match self.random.random_range(0..100) {
            0..60 => commits.len() - 1,
            60..95 => commits.len().saturating_sub(12),
            _ => 0,
        };
        let at = self.random.random_range(oldest..commits.len());
        (commits[at].clone(), at + 1 == commits.len())
    }

    fn check(&mut self, kind: u32, known: &Known) -> Result<(), String> {
        let engine = self.engine;
        match kind {
            0..75 => check_row(engine, id(1), known),
            75..87 => check_sum(engine, id(1), known),
            87..90 => self.check_log(known),
            90..95 => {
                let (other, _) = self.choose();
                // Among commits of the main line, the one with more rows and large values descends from the other.
                let older = |a: &Known, b: &Known| (a.count, a.large) <= (b.count, b.large);
                if !known.main || !other.main {
                    return equal(engine.is_ancestor(id(1), &known.parents[0], &known.hash), &true);
                }
                equal(engine.is_ancestor(id(1), &known.hash, &other.hash), &older(known, &other))
            }
            95..98 => {
                let changed = engine.changed_tables(id(1), &known.parents[0], &known.hash);
                let changed = changed.map(|tables| tables.into_iter().map(|table| table.table).collect::<Vec<_>>());
                // The first commit creates both tables.
                let first = known.row.0 == 0 && known.large == -1;
                let expected = if first { vec!["large".into(), "small".into()] } else { vec![known.changed.clone()] };
                equal(changed, &expected)
            }
            _ if known.large == -1 => equal(numbers(engine, id(1), &known.hash, "SELECT id FROM large"), &vec![]),
            _ => {
                let sql = "SELECT count(*), min(id), sum(length(pad)) FROM large";
                equal(numbers(engine, id(1), &known.hash, sql), &vec![8, known.large, 2_000_000])
            }
        }
    }

    fn check_log(&mut self, known: &Known) -> Result<(), String> {
        {
            let commits = self.shared.commits.read();
            for known in &commits[self.taken..] {
                self.parents.insert(known.hash.clone(), known.parents.clone());
            }
            self.taken = commits.len();
        }
        let log = self.engine.log(id(1), &known.hash.clone().into(), 20).map_err(|error| format!("{error:?}"))?;
        if log.first().is_none_or(|entry| entry.commit.hash != known.hash) {
            return Err(format!("the log begins with {:?}", log.first()));
        }
        for entry in log {
            let parents = self.parents.get(&entry.commit.hash);
            // Only the first commit of all was not acknowledged.
            if parents.map_or(!entry.commit.parents.is_empty(), |parents| *parents != entry.commit.parents) {
                return Err(format!("{:?} instead of {parents:?}", entry.commit));
            }
        }
        Ok(())
    }
}
