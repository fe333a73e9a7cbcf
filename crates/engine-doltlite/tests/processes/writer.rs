//! The writer: commits in a tight loop, and sends each commit to the parent once it is acknowledged.

use std::collections::BTreeMap;

use branchyard_domain::ports::{Engine, EngineError, MergeJob, MergeOutcome, SqlFailure, WriteJob};
use branchyard_domain::values::CommitHash;
use branchyard_engine_doltlite::DoltliteEngine;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::child::{Shared, tell};
use crate::known::{Known, LONG, ada, id};

/// A failing write that the engine puts in the file, about 70 MB, and cuts off again.
const LARGE_FAILURE: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 140) \
    INSERT INTO large SELECT -i - 1000, randomblob(500000) FROM n; INSERT INTO small VALUES (0, 0)";
/// A failing write that leaves intermediate commits in the file: an ALTER ends the transaction before it.
const SET_DOWN_FAILURE: &str =
    "INSERT INTO small VALUES (-1, 0); ALTER TABLE small ADD COLUMN more; INSERT INTO small VALUES (0, 0, 0)";
const SMALL_FAILURE: &str = "INSERT INTO small VALUES (-1, 0); INSERT INTO small VALUES (0, 0)";

/// Runs statements on a commit.
pub(crate) fn write(engine: &DoltliteEngine, base: &CommitHash, sql: &str) -> Result<CommitHash, EngineError> {
    let author = ada();
    let job = WriteJob { base, statements: sql, message: "Write", then_merge: None, author: &author, timeout: LONG };
    match engine.write(id(1), &job)?.outcome {
        MergeOutcome::Head(head) => Ok(head),
        conflicts @ MergeOutcome::Conflicts(_) => panic!("{conflicts:?}"),
    }
}

/// Adds a row to `small` on top of a commit.
pub(crate) fn add_row(engine: &DoltliteEngine, base: &Known, row: (i64, i64)) -> Result<Known, EngineError> {
    let hash = write(engine, &base.hash, &format!("INSERT INTO small VALUES ({}, {})", row.0, row.1))?;
    Ok(Known {
        hash,
        parents: vec![base.hash.clone()],
        main: true,
        count: base.count + 1,
        sum: base.sum + row.1,
        row,
        large: base.large,
        changed: "small".into(),
    })
}

struct Writer<'a> {
    engine: &'a DoltliteEngine,
    random: StdRng,
    head: Known,
    /// The last commits of the main line, to branch from.
    recent: Vec<Known>,
    next: i64,
}

/// Options: the seed, the first free row id, and whether to make a large write that fails.
pub(crate) fn run(engine: &DoltliteEngine, shared: &Shared, options: &str) {
    let options: Vec<u64> = options.split(' ').map(|number| number.parse().unwrap()).collect();
    let head = shared.head();
    let mut writer = Writer {
        engine,
        random: StdRng::seed_from_u64(options[0]),
        recent: vec![head.clone()],
        head,
        next: i64::try_from(options[1]).unwrap(),
    };
    let large = (options[2] == 1).then(|| writer.random.random_range(5..60));
    for step in 0.. {
        if shared.stops() {
            break;
        }
        let written = if large == Some(step) { writer.fail(LARGE_FAILURE) } else { writer.step() };
        if let Err(error) = written {
            tell(&format!("wrong write: {error:?}"));
            break;
        }
    }
}

impl Writer<'_> {
    fn step(&mut self) -> Result<(), EngineError> {
        match self.random.random_range(0..100) {
            0..80 => {
                let row = self.row();
                let known = add_row(self.engine, &self.head, row)?;
                self.acknowledge(known);
            }
            80..90 => self.merge()?,
            90..91 => self.fill()?,
            91..96 => self.fail(SMALL_FAILURE)?,
            _ => self.fail(SET_DOWN_FAILURE)?,
        }
        Ok(())
    }

    fn row(&mut self) -> (i64, i64) {
        self.next += 1;
        (self.next, self.random.random_range(0..1_000_000))
    }

    fn acknowledge(&mut self, known: Known) {
        tell(&format!("commit {known}"));
        if known.main {
            self.head = known.clone();
            self.recent.push(known);
            if self.recent.len() > 8 {
                self.recent.remove(0);
            }
        }
    }

    /// Adds a row to an earlier commit, and merges the result.
    fn merge(&mut self) -> Result<(), EngineError> {
        let base = self.recent[self.random.random_range(0..self.recent.len())].clone();
        let row = self.row();
        let mut side = add_row(self.engine, &base, row)?;
        let author = ada();
        side.main = base.hash == self.head.hash;
        self.acknowledge(side.clone());
        if side.main {
            return Ok(());
        }
        let job = MergeJob {
            ours: &self.head.hash,
            theirs: &side.hash,
            message: "Merge",
            author: &author,
            resolve: &BTreeMap::new(),
            rows: &[],
            fast_forward: true,
            timeout: LONG,
        };
        let MergeOutcome::Head(hash) = self.engine.merge(id(1), &job)? else { panic!("no conflict is possible") };
        let known = Known {
            hash,
            parents: vec![self.head.hash.clone(), side.hash],
            main: true,
            count: self.head.count + 1,
            sum: self.head.sum + row.1,
            row,
            large: self.head.large,
            changed: "small".into(),
        };
        self.acknowledge(known);
        Ok(())
    }

    /// Replaces the large values, about 2 MB.
    fn fill(&mut self) -> Result<(), EngineError> {
        self.next += 1;
        let first = self.next * 100;
        let sql = format!(
            "DELETE FROM large; WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 7) \
             INSERT INTO large SELECT {first} + i, randomblob(250000) FROM n"
        );
        let hash = write(self.engine, &self.head.hash, &sql)?;
        let parents = vec![self.head.hash.clone()];
        self.acknowledge(Known { hash, parents, large: first, changed: "large".into(), ..self.head.clone() });
        Ok(())
    }

    fn fail(&mut self, sql: &str) -> Result<(), EngineError> {
        match write(self.engine, &self.head.hash, sql) {
            Err(EngineError::Sql { failure: SqlFailure::Engine(text), .. }) if text.contains("UNIQUE") => {
                tell("failed");
                Ok(())
            }
            Err(error) => Err(error),
            Ok(head) => panic!("{sql} made {head}"),
        }
    }
}
