//! Pushes of mutated chunks: `cargo xtask fuzz --target engine-push`. None ends the process, panics, changes what was there, or is
//! checked for longer than it may.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{CollectedRows, Engine as _, EngineError, PushedHistory, ReadQuery, RowPage};
use branchyard_domain::values::{ChunkHash, CommitHash};

use super::mutations::{BASE, CHANGED, COUNTS, Chunks, Hash, Numbers, mutated, replaced};
use super::{Computing, TIME, number, panics};
use crate::support::{EngineHarness, id};
use crate::tested::{GRACE, PUSHES};

/// How long the content of a push may be checked. A sound one takes some milliseconds.
const CHECK: Duration = Duration::from_secs(5);
/// Number of pushes into one file, which keeps what was taken over.
const OF_A_FILE: u64 = 1_000;
/// A check that computes for longer is counted as such.
const SLOW: Duration = Duration::from_secs(1);

/// A database to push to, and a sound push.
struct Victim {
    harness: EngineHarness,
    main: CommitHash,
    /// The chunks that only the push has.
    own: Chunks,
    /// Those, and the ones of the database.
    all: Chunks,
    tip: Hash,
}

impl Victim {
    fn new() -> Self {
        let source = EngineHarness::new();
        let main = source.write(&source.base, BASE);
        let tip = source.write(&main, CHANGED);
        let (known, all) = (history(&source, &main), history(&source, &tip));
        let own = all.iter().filter(|(hash, _)| !known.contains_key(*hash)).map(|(h, c)| (*h, c.clone())).collect();
        // Another file, which has nothing of the push.
        let harness = EngineHarness::new();
        let victim = Self { harness, main: main.clone(), own, all, tip: hash(&tip) };
        victim.take_over(&main, &known).unwrap();
        victim
    }

    /// Examines a push and takes it over. Returns why not, if it is refused.
    fn take_over(&self, tip: &CommitHash, chunks: &Chunks) -> Result<(), String> {
        let (engine, tips, pushed) = (&self.harness.engine, std::slice::from_ref(tip), file(chunks));
        match engine.examine_push(id(1), &pushed, tips).unwrap() {
            PushedHistory::Complete { .. } => {}
            PushedHistory::Lacking => return Err("lacking".to_owned()),
            PushedHistory::Malformed(_) => return Err("malformed".to_owned()),
        }
        engine.take_over_push(id(1), &pushed, tips).unwrap();
        Ok(())
    }

    fn push(&self, tip: Hash, chunks: &Chunks) -> Result<String, String> {
        let tip = ChunkHash::from_bytes(tip).as_commit();
        if let Err(refused) = self.take_over(&tip, chunks) {
            return Ok(refused);
        }
        let computing = Computing::now();
        let problems = self.harness.engine.check_commit(id(1), &tip, Some(&self.main), CHECK);
        let (took, problems) = (computing.elapsed(), problems.map_err(|error| format!("the check failed: {error:?}"))?);
        if took > CHECK + GRACE * 10 {
            return Err(format!("its check computed for {took:?}"));
        }
        let outcome = match problems.first() {
            None => self.read(&tip).map(|()| "accepted")?,
            Some(first) if first.contains("cannot be read") => "unreadable",
            Some(first) if first.contains("did not end") => "too slow",
            Some(first) if first.starts_with("the definition") => "definition",
            Some(_) => "rejected",
        };
        Ok(if took > SLOW { format!("{outcome} after a long check") } else { outcome.to_owned() })
    }

    /// Reads what a commit has. Errors are fine, as long as they are not about all commits.
    fn read(&self, at: &CommitHash) -> Result<(), String> {
        let engine = &self.harness.engine;
        let fine = |outcome: Result<(), EngineError>| match outcome {
            Err(error @ (EngineError::Unavailable(_) | EngineError::Damaged(_))) => Err(format!("{error:?}")),
            _ => Ok(()),
        };
        for sql in ["select * from wide", "select * from words where words match 'w1*'", "select * from v order by 1"] {
            fine(engine.read(id(1), at, &ReadQuery::new(sql, TIME), &mut CollectedRows::default()).map(drop))?;
        }
        fine(engine.tables(id(1), at).map(drop))?;
        fine(engine.changed_tables(id(1), &self.main, at).map(drop))?;
        let page = RowPage { after: None, limit: 100, bytes: 1 << 20 };
        fine(engine.changed_rows(id(1), &self.main, at, "wide", &page).map(drop))
    }

    fn is_whole(&self) -> bool {
        let rows = self.harness.read(&self.main, COUNTS);
        rows == [[900, 300, 2].map(branchyard_domain::entities::Cell::Integer)]
    }
}

fn hash(commit: &CommitHash) -> Hash {
    *ChunkHash::from(commit).as_bytes()
}

/// Returns the chunks of a commit and of all that is below it. Whatever looks like the hash of a chunk of the file names it.
fn history(harness: &EngineHarness, tip: &CommitHash) -> Chunks {
    let (mut found, mut next) = (Chunks::new(), vec![ChunkHash::from(tip)]);
    while let Some(hash) = next.pop() {
        if found.contains_key(hash.as_bytes()) {
            continue;
        }
        let chunks = harness.engine.chunks(id(1), &[hash], usize::MAX).unwrap();
        let content = chunks.into_iter().next().flatten().unwrap().bytes;
        let named: Vec<ChunkHash> =
            content.windows(20).map(|hash| ChunkHash::from_bytes(hash.try_into().unwrap())).collect();
        for named in named.chunks(4_096) {
            let held = harness.engine.held_chunks(id(1), named).unwrap();
            next.extend(named.iter().zip(held).filter(|(_, held)| held.is_some()).map(|(hash, _)| *hash));
        }
        found.insert(*hash.as_bytes(), content);
    }
    found
}

fn file(chunks: &Chunks) -> File {
    let mut bytes = Vec::new();
    for (hash, chunk) in chunks {
        bytes.extend(hash);
        bytes.extend(u32::try_from(chunk.len()).unwrap().to_le_bytes());
        bytes.extend(chunk);
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file
}

#[test]
fn fuzz() {
    let (seconds, seed) = (number("FUZZ_SECONDS"), number("FUZZ_SEED").unwrap_or(1));
    let panics = panics();
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut numbers, mut victim) = (Numbers(seed), Victim::new());
    let (mut outcomes, mut count) = (BTreeMap::<String, u64>::new(), 0);
    while until.map_or(count < PUSHES, |until| Instant::now() < until) {
        let hashes: Vec<Hash> = victim.own.keys().copied().collect();
        let contents: Vec<&Vec<u8>> = victim.all.values().collect();
        let old = hashes[numbers.below(hashes.len())];
        let new = mutated(&mut numbers, &victim.own[&old], &contents);
        let (tip, chunks) = replaced(&victim.own, victim.tip, old, new);
        let outcome = victim.push(tip, &chunks);
        let outcome = panics.lock().pop().map_or(outcome, |panic| Err(format!("it panicked: {panic}")));
        let outcome = outcome.unwrap_or_else(|fault| panic!("seed {seed}, push {count}: {fault}"));
        *outcomes.entry(outcome).or_default() += 1;
        count += 1;
        if count.is_multiple_of(OF_A_FILE) {
            assert!(victim.is_whole(), "seed {seed}, by push {count}");
            victim = Victim::new();
        }
    }
    println!("pushes: {count}, {outcomes:?}");
    assert!(victim.is_whole());
    assert!(outcomes.len() > 2, "{outcomes:?}");
    // The sound push is still taken.
    assert_eq!(victim.push(victim.tip, &victim.own).unwrap(), "accepted");
}
