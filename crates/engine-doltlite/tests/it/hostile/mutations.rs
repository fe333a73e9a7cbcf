//! Chunks that were changed at random, with hashes that fit all the way up to the commit.

use std::collections::{BTreeMap, HashMap};

use branchyard_domain::values::ChunkHash;
use memchr::memmem;

pub(crate) type Hash = [u8; 20];

/// The chunks of a history, by their hashes.
pub(crate) type Chunks = BTreeMap<Hash, Vec<u8>>;

/// Makes tables, indexes, a view and a trigger of every kind that chunks tell apart.
pub(crate) const BASE: &str = "create table wide (id integer primary key, name text unique, v real, b blob);
        create table keyed (k text primary key, v) without rowid;
        create virtual table words using fts5(w);
        create view v as select name, v from wide where id % 7 = 1;
        create trigger t after insert on keyed begin update wide set v = v + 1 where id = 1; end;
        with recursive n(x) as (select 1 union all select x + 1 from n where x < 900)
            insert into wide select x, 'name ' || x, x * 1.5, zeroblob(x % 50) from n;
        with recursive n(x) as (select 1 union all select x + 1 from n where x < 300)
            insert into keyed select 'k' || x, x from n;
        insert into words values ('w1 w2'), ('w3')";

/// Changes them in ways that most chunks show.
pub(crate) const CHANGED: &str = "update wide set v = v + 1 where id % 100 = 0; insert into keyed values ('new', 1);
        insert into words values ('w12 w13'); create index by_v on wide(v); alter table keyed add column more";

/// Counts the rows of [`BASE`].
pub(crate) const COUNTS: &str =
    "select (select count(*) from wide), (select count(*) from keyed), (select count(*) from words)";

/// A generator of numbers that are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end.max(1) as u64).unwrap()
    }
}

/// Changes a chunk in one of the ways in which a hostile client would.
pub(crate) fn mutated(numbers: &mut Numbers, chunk: &[u8], chunks: &[&Vec<u8>]) -> Vec<u8> {
    let mut new = chunk.to_vec();
    match numbers.below(8) {
        0 => new.truncate(numbers.below(chunk.len())),
        1 => new.extend(vec![0; 1 + numbers.below(40)]),
        2 => return chunks[numbers.below(chunks.len())].clone(),
        3 => {
            // A hash in the place of another one.
            let hash = hash_of(chunks[numbers.below(chunks.len())]);
            let at = numbers.below(chunk.len().saturating_sub(20));
            if let Some(place) = new.get_mut(at..at + 20) {
                place.copy_from_slice(&hash);
            }
        }
        _ => {
            for _ in 0..1 + numbers.below(4) {
                let at = numbers.below(chunk.len());
                if let Some(byte) = new.get_mut(at) {
                    *byte = match numbers.below(4) {
                        0 => 0,
                        1 => 0xff,
                        2 => *byte ^ (1 << numbers.below(8)),
                        _ => u8::try_from(numbers.below(256)).unwrap(),
                    };
                }
            }
        }
    }
    new
}

fn hash_of(chunk: &[u8]) -> Hash {
    *ChunkHash::of(chunk).as_bytes()
}

/// Puts `new` in the place of a chunk, with a new hash for each chunk above it up to `tip`. Returns the new tip and all chunks.
pub(crate) fn replaced(chunks: &Chunks, tip: Hash, old: Hash, new: Vec<u8>) -> (Hash, Chunks) {
    let mut renamed = HashMap::from([(old, hash_of(&new))]);
    let mut all = chunks.clone();
    all.insert(hash_of(&new), new);
    loop {
        let mut is_done = true;
        for (hash, chunk) in chunks.iter().filter(|(hash, _)| **hash != old) {
            let mut changed = chunk.clone();
            for (from, to) in &renamed {
                for at in memmem::find_iter(chunk, from) {
                    changed[at..at + 20].copy_from_slice(to);
                }
            }
            if changed == *chunk {
                continue;
            }
            let to = hash_of(&changed);
            if renamed.insert(*hash, to) != Some(to) {
                is_done = false;
            }
            all.insert(to, changed);
        }
        if is_done {
            return (renamed.get(&tip).copied().unwrap_or(tip), all);
        }
    }
}
