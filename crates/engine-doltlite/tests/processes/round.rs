//! A round: starts the processes, kills and replaces some of them, replaces the file, and checks what is left.

use std::fmt::{self, Display};
use std::path::Path;
use std::time::{Duration, Instant};

use branchyard_domain::ports::Engine;
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::children::{Children, Event, Running};
use crate::histogram::Histogram;
use crate::known::{Known, create, id};
use crate::reader::{check_row, check_sum};

/// What a round does.
#[derive(Debug)]
pub(crate) struct Plan {
    seed: u64,
    long: bool,
    readers: u64,
    threads: u64,
    /// Whether readers copy the file too. Closing the file ends the locks of their process on it.
    readers_copy: bool,
    kills: bool,
    /// The round ends after that many reads and commits.
    reads: u64,
    commits: usize,
    /// How often the file is replaced.
    generation: Duration,
}

impl Plan {
    pub(crate) fn new(seed: u64, long: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        Self {
            seed,
            long,
            readers: if long && random.random() { 8 } else { 4 },
            threads: random.random_range(1..3),
            readers_copy: random.random(),
            kills: seed % 2 == 1,
            reads: if long { 40_000 } else { 8_000 },
            commits: if long { 100 } else { 40 },
            generation: Duration::from_millis(if long { 4000 } else { 1000 }),
        }
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, readers, threads, readers_copy, kills, .. } = self;
        write!(
            f,
            "seed {seed}: {readers} readers with {threads} threads each, readers copy: {readers_copy}, kills: {kills}"
        )
    }
}

/// Statistics of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) reads: u64,
    commits: usize,
    merges: usize,
    failed_writes: usize,
    forks: usize,
    backups: usize,
    generations: usize,
    readers_killed: usize,
    writers_killed: usize,
    by_key: Histogram,
}

impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reads, commits, merges, failed_writes, forks, backups, generations, .. } = self;
        let (readers, writers) = (self.readers_killed, self.writers_killed);
        write!(
            f,
            "{reads} reads, {commits} commits acknowledged ({merges} merges), {failed_writes} writes failed as intended, \
             {forks} forks, {backups} backups, {generations} generations, {readers} readers and {writers} writers killed; \
             read by key: {}",
            self.by_key.summary()
        )
    }
}

struct Round<'a> {
    plan: &'a Plan,
    tally: &'a mut Tally,
    folder: &'a Path,
    random: StdRng,
    children: Children,
    commits: Vec<Known>,
    /// Number of commits when a child was last killed.
    commits_at_kill: usize,
    readers: Vec<Running>,
    /// `None` while the file is replaced.
    writer: Option<Running>,
    copier: Running,
    copier_is_busy: bool,
    /// The time of the next fork or backup.
    next_copy: Instant,
    writers: u64,
    reads: u64,
    /// Children whose output has ended.
    ended: Vec<u64>,
    problems: Vec<String>,
}

pub(crate) fn run(plan: &Plan, tally: &mut Tally) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let engine = || DoltliteEngine::open(folder.join("databases"), EngineOptions::default()).unwrap();
    let first = create(&engine()).unwrap();
    let mut children = Children::default();
    let mut copier = children.start("copier", folder, "");
    copier.send("go");
    let mut round = Round {
        plan,
        tally,
        folder,
        random: StdRng::seed_from_u64(plan.seed),
        children,
        commits: vec![first],
        commits_at_kill: 0,
        readers: Vec::new(),
        writer: None,
        copier,
        copier_is_busy: false,
        next_copy: Instant::now(),
        writers: 0,
        reads: 0,
        ended: Vec::new(),
        problems: Vec::new(),
    };
    round.run();
    let (commits, problems) = (round.commits, round.problems);
    assert!(problems.is_empty(), "{plan}: {} problems:\n{}", problems.len(), problems.join("\n"));
    check(&engine(), &commits, plan);
}

impl Round<'_> {
    fn run(&mut self) {
        self.start_writer();
        self.start_readers();
        let mut generation = Instant::now() + self.plan.generation;
        let mut kill = Instant::now() + Duration::from_millis(200);
        let is_done = |round: &Self| round.reads >= round.plan.reads && round.commits.len() > round.plan.commits;
        while !is_done(self) && self.problems.is_empty() {
            self.handle();
            self.keep_copying();
            if Instant::now() > generation {
                self.replace_file();
                generation = Instant::now() + self.plan.generation;
            }
            if self.plan.kills && Instant::now() > kill {
                self.kill_one();
                kill = Instant::now() + Duration::from_millis(self.random.random_range(50..800));
            }
        }
        self.end_writer();
        let readers = std::mem::take(&mut self.readers);
        self.end_readers(readers);
        self.copier.send("quit");
        self.wait_for_end(self.copier.number);
        if !self.copier.has_succeeded() {
            self.problems.push("the copier failed".into());
        }
    }

    fn start(&mut self, role: &str, options: &str) -> Running {
        let mut child = self.children.start(role, self.folder, options);
        for known in &self.commits {
            child.send(&format!("commit {known}"));
        }
        child.send("go");
        child
    }

    fn start_writer(&mut self) {
        self.writers += 1;
        // Until the next write, every connection that is opened reads all that a killed writer left at the end.
        let large = u8::from(if self.plan.kills {
            self.plan.long && self.random.random_range(0..30) == 0
        } else {
            self.writers == 1
        });
        let options = format!("{} {} {large}", self.plan.seed * 1000 + self.writers, self.writers * 1_000_000);
        self.writer = Some(self.start("writer", &options));
    }

    fn start_readers(&mut self) {
        while self.readers.len() < usize::try_from(self.plan.readers).unwrap() {
            let copies = if self.plan.readers_copy { self.folder.to_str().unwrap() } else { "-" };
            let options = format!("{} {} {copies}", self.random.random_range(0..1_000_000), self.plan.threads);
            let reader = self.start("reader", &options);
            self.readers.push(reader);
        }
    }

    /// Handles the next event, if one comes soon.
    fn handle(&mut self) {
        let (child, line) = match self.children.next(Duration::from_millis(20)) {
            Some(Event::Line(child, line)) => (child, line),
            Some(Event::Ended(child)) => {
                self.ended.push(child);
                return;
            }
            None => return,
        };
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("commit", text) => {
                let known = Known::parse(text);
                self.tally.commits += 1;
                self.tally.merges += usize::from(known.parents.len() > 1);
                self.commits.push(known);
                for reader in &mut self.readers {
                    reader.send(&line);
                }
            }
            ("reads", text) => {
                let (reads, by_key) = text.split_once(' ').unwrap();
                let reads: u64 = reads.parse().unwrap();
                self.reads += reads;
                self.tally.reads += reads;
                self.tally.by_key.merge(&Histogram::parse(by_key));
            }
            ("failed", _) => self.tally.failed_writes += 1,
            ("done", kind) => {
                self.copier_is_busy = false;
                match kind {
                    "fork" => self.tally.forks += 1,
                    "backup" => self.tally.backups += 1,
                    _ => self.tally.generations += 1,
                }
            }
            _ => self.problems.push(format!("child {child}: {line}")),
        }
    }

    fn keep_copying(&mut self) {
        if self.copier_is_busy || Instant::now() < self.next_copy {
            return;
        }
        self.next_copy = Instant::now() + Duration::from_millis(self.random.random_range(0..400));
        let kind = if self.random.random() { "fork" } else { "backup" };
        let newest = self.commits.last().unwrap();
        self.copier.send(&format!("{kind} {newest}"));
        self.copier_is_busy = true;
    }

    fn wait_for_end(&mut self, child: u64) {
        while !self.ended.contains(&child) {
            self.handle();
        }
    }

    /// Stops the writer after its current write.
    fn end_writer(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        writer.send("stop");
        self.wait_for_end(writer.number);
        if !writer.has_succeeded() {
            self.problems.push("a writer failed".into());
        }
    }

    fn end_readers(&mut self, mut readers: Vec<Running>) {
        for reader in &mut readers {
            reader.send("stop");
        }
        for reader in &mut readers {
            self.wait_for_end(reader.number);
            if !reader.has_succeeded() {
                self.problems.push("a reader failed".into());
            }
        }
    }

    /// Kills a child at any point of its work. What it had acknowledged is in the pipe.
    ///
    /// Rarely kills before anything was acknowledged since the last time: what a killed writer leaves at the end of the
    /// file makes processes slower until the next commit.
    fn kill_one(&mut self) {
        if self.commits.len() == self.commits_at_kill && self.random.random_range(0..8) > 0 {
            return;
        }
        self.commits_at_kill = self.commits.len();
        let at = self.random.random_range(0..=self.readers.len());
        if at < self.readers.len() {
            let mut reader = self.readers.swap_remove(at);
            reader.kill();
            self.wait_for_end(reader.number);
            self.tally.readers_killed += 1;
            self.start_readers();
        } else {
            self.kill_writer();
            self.start_writer();
        }
    }

    fn kill_writer(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        writer.kill();
        self.wait_for_end(writer.number);
        self.tally.writers_killed += 1;
    }

    /// Replaces the file by a copy. The readers of the old file continue for a while, beside those of the new one.
    fn replace_file(&mut self) {
        if self.plan.kills && self.random.random() {
            self.kill_writer();
        } else {
            self.end_writer();
        }
        while self.copier_is_busy {
            self.handle();
        }
        self.copier.send("generation");
        self.copier_is_busy = true;
        while self.copier_is_busy {
            self.handle();
        }
        let old = std::mem::take(&mut self.readers);
        self.start_readers();
        self.start_writer();
        let until = Instant::now() + Duration::from_millis(100);
        while Instant::now() < until {
            self.handle();
        }
        self.end_readers(old);
    }
}

/// Checks that the file is sound, and that every acknowledged commit is in it.
fn check(engine: &DoltliteEngine, commits: &[Known], plan: &Plan) {
    let heads: Vec<_> = commits.iter().rev().step_by(commits.len() / 20 + 1).map(|known| known.hash.clone()).collect();
    assert_eq!(engine.verify(id(1), &heads).unwrap(), Vec::<String>::new(), "{plan}");
    for known in commits {
        let commit = engine.commit(id(1), &known.hash).unwrap();
        assert_eq!(commit.map(|commit| commit.parents).as_ref(), Some(&known.parents), "{plan}: {known}");
    }
    let mut random = StdRng::seed_from_u64(plan.seed);
    for known in commits.choose_multiple(&mut random, 200).chain(commits.last()) {
        check_row(engine, id(1), known).and_then(|()| check_sum(engine, id(1), known)).unwrap_or_else(|reason| {
            panic!("{plan}: {known}: {reason}");
        });
    }
}
