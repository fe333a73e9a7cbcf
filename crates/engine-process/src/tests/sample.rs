//! Values of every type that is sent, from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{Chunk, EngineError};
use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId, Timestamp};
use uuid::Uuid;

use crate::wire::Bytes;

/// A source of values.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    state: u64,
    /// How many more lists may have elements.
    lists: u32,
    /// Commits that exist, and texts that mean something.
    pub(crate) commits: Vec<CommitHash>,
    pub(crate) texts: Vec<&'static str>,
    /// The longest duration.
    pub(crate) longest: Duration,
}

/// A type whose values can be made.
pub(crate) trait Sample: Sized {
    fn sample(source: &mut Source) -> Self;
}

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed, lists: 20, commits: Vec::new(), texts: Vec::new(), longest: Duration::MAX }
    }

    /// Lets the next value be as large as the first.
    pub(crate) fn refill(&mut self) {
        self.lists = 20;
    }

    /// Returns a number (splitmix64).
    pub(crate) fn step(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.step() % end.max(1) as u64) as usize
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns `true` once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.step() as u8).collect()
    }

    fn length(&mut self) -> usize {
        if self.lists == 0 {
            return 0;
        }
        self.lists -= 1;
        self.below(4)
    }

    /// Changes, inserts, removes or repeats some bytes.
    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            match self.below(5) {
                0 => bytes.insert(at, self.step() as u8),
                1 if at < bytes.len() => bytes[at] = self.one_of(&[0, 1, 0x7f, 0x80, 0xff]),
                2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                3 => bytes.truncate(at),
                4 => {
                    let more = bytes[at..].iter().take(16).copied().collect::<Vec<_>>();
                    bytes.splice(at..at, more);
                }
                _ => {}
            }
        }
    }
}

macro_rules! sample_number {
    ($($type:ty),*) => {$(
        impl Sample for $type {
            fn sample(source: &mut Source) -> Self {
                let number = source.step();
                let number = if source.once_in(2) { number } else { number % 100 };
                match source.below(16) {
                    0 => Self::MAX,
                    1 => Self::MIN,
                    _ => number as Self,
                }
            }
        }
    )*};
}

sample_number!(u8, u32, u64, usize, i32, i64);

impl Sample for bool {
    fn sample(source: &mut Source) -> Self {
        source.once_in(2)
    }
}

impl Sample for () {
    fn sample(_: &mut Source) -> Self {}
}

impl Sample for f64 {
    fn sample(source: &mut Source) -> Self {
        let number = Self::from_bits(source.step());
        let number = source.one_of(&[0.0, -0.0, 1.5, Self::INFINITY, Self::MIN, number]);
        if number.is_nan() { 1.0 } else { number }
    }
}

impl Sample for String {
    fn sample(source: &mut Source) -> Self {
        if !source.texts.is_empty() && !source.once_in(8) {
            let texts = source.texts.clone();
            return source.one_of(&texts).to_owned();
        }
        let length = source.below(20);
        (0..length).map(|_| source.one_of(&['a', 'Z', '0', ' ', '\'', '"', ';', '\0', 'é', '😀', '\n'])).collect()
    }
}

impl Sample for Bytes {
    fn sample(source: &mut Source) -> Self {
        Self(source.bytes(40))
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(source: &mut Source) -> Self {
        source.once_in(2).then(|| T::sample(source))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(source: &mut Source) -> Self {
        (0..source.length()).map(|_| T::sample(source)).collect()
    }
}

impl<K: Sample + Ord, V: Sample> Sample for BTreeMap<K, V> {
    fn sample(source: &mut Source) -> Self {
        (0..source.length()).map(|_| (K::sample(source), V::sample(source))).collect()
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(source: &mut Source) -> Self {
        (A::sample(source), B::sample(source))
    }
}

impl<A: Sample, B: Sample, C: Sample> Sample for (A, B, C) {
    fn sample(source: &mut Source) -> Self {
        (A::sample(source), B::sample(source), C::sample(source))
    }
}

impl<T: Sample, E: Sample> Sample for Result<T, E> {
    fn sample(source: &mut Source) -> Self {
        if source.once_in(3) { Err(E::sample(source)) } else { Ok(T::sample(source)) }
    }
}

impl Sample for Duration {
    fn sample(source: &mut Source) -> Self {
        let nanos = (source.step() % 1_000_000_000) as u32;
        Self::new(u64::sample(source), nanos).min(source.longest)
    }
}

impl Sample for ChunkHash {
    fn sample(source: &mut Source) -> Self {
        Self::from(&CommitHash::sample(source))
    }
}

impl Sample for Chunk {
    fn sample(source: &mut Source) -> Self {
        Self { bytes: Bytes::sample(source).0, parents: Option::sample(source) }
    }
}

impl Sample for CommitHash {
    fn sample(source: &mut Source) -> Self {
        if !source.commits.is_empty() && !source.once_in(8) {
            let at = source.below(source.commits.len());
            return source.commits[at].clone();
        }
        let text: String = (0..5).map(|_| format!("{:08x}", source.step() as u32)).collect();
        Self::parse(&text).unwrap()
    }
}

impl Sample for DatabaseId {
    fn sample(source: &mut Source) -> Self {
        Self::from_uuid(Uuid::from_u64_pair(source.step(), source.step()))
    }
}

impl Sample for Timestamp {
    fn sample(source: &mut Source) -> Self {
        Self::from_micros(i64::sample(source))
    }
}

impl Sample for Cell {
    fn sample(source: &mut Source) -> Self {
        match source.below(5) {
            0 => Self::Null,
            1 => Self::Integer(Sample::sample(source)),
            2 => Self::Real(Sample::sample(source)),
            3 => Self::Text(source.bytes(40)),
            _ => Self::Blob(source.bytes(40)),
        }
    }
}

impl Sample for std::io::Error {
    fn sample(source: &mut Source) -> Self {
        use std::io::ErrorKind::{InvalidData, NotFound, Other, StorageFull, TimedOut, UnexpectedEof};
        let kind = source.one_of(&[Other, TimedOut, NotFound, StorageFull, InvalidData, UnexpectedEof]);
        Self::new(kind, String::sample(source))
    }
}

impl Sample for EngineError {
    fn sample(source: &mut Source) -> Self {
        match source.below(13) {
            0 => Self::Sql { failure: Sample::sample(source), statement: Sample::sample(source) },
            1 => Self::Import(Sample::sample(source)),
            2 => Self::NoSuchCommit(Sample::sample(source)),
            3 => Self::NoSuchTable(Sample::sample(source)),
            4 => Self::TableExists(Sample::sample(source)),
            5 => Self::CannotMerge(Sample::sample(source)),
            6 => Self::TimedOut(Sample::sample(source)),
            7 => Self::Busy,
            8 => Self::Damaged(Sample::sample(source)),
            9 => Self::DamagedCommit { commit: Sample::sample(source), detail: Sample::sample(source) },
            10 => Self::Unavailable(Sample::sample(source)),
            11 => Self::UnknownFormat { found: Sample::sample(source), newest: Sample::sample(source) },
            _ => Self::Fault { context: Sample::sample(source), source: String::sample(source).into() },
        }
    }
}
