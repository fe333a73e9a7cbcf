//! Reproducible mutations of inputs, as a hostile client might send them.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// Byte sequences that have a meaning in some parser.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"%",
    b"%2F",
    b"%00",
    b"..",
    b"/",
    b"//",
    b"\\",
    b"\"",
    b"'",
    b"`",
    b"\r\n",
    b"\n\n",
    b"\t",
    b",",
    b"|",
    b":",
    b";",
    b"@{",
    b"~1",
    b"^",
    b".lock",
    b"-",
    b"--",
    b"/*",
    b"*/",
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"9223372036854775808",
    b"18446744073709551616",
    b"0x",
    b"\\u0000",
    b"\\ud800",
    b"select ",
    b" union all ",
    b" from t",
    b"dolt_",
    b"sqlite_",
    b"Bearer ",
    b"hsat.v1.",
    b"cancel",
    "é".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{1F600}".as_bytes(),
];

/// The length at which an input is cut. It is above the limit of a JSON body.
const LONGEST: usize = 3 << 20;

/// A seeded source of mutated inputs, see [`Mutator::mutant`].
pub struct Mutator(StdRng);

impl Mutator {
    /// Creates a mutator. The same seed leads to the same mutations.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Returns a mutation of one of the inputs. Most mutations are small.
    pub fn mutant(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        // The shorter of two: it takes less time, and a change is more likely to be where it matters.
        let (one, other) = (corpus.choose(&mut self.0), corpus.choose(&mut self.0));
        let mut input = one.into_iter().chain(other).min_by_key(|input| input.len()).cloned().unwrap_or_default();
        for _ in 0..self.0.random_range(1..=4) {
            self.change(&mut input, corpus);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.0.random_range(0..=input.len());
        let end = self.0.random_range(at..=input.len().min(at + 64));
        match self.0.random_range(0..9) {
            0 if at < input.len() => input[at] ^= 1 << self.0.random_range(0..8),
            1 if at < input.len() => input[at] = self.0.random(),
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            5 => {
                // Rarely long, because a long input takes long to try.
                let times = if self.0.random_ratio(1, 20) { 50_000 } else { self.0.random_range(1..100) };
                let piece = if at == end { b"(".to_vec() } else { input[at..end.min(at + 8)].to_vec() };
                input.splice(at..at, piece.repeat(times));
            }
            6 => {
                let other = corpus.choose(&mut self.0).cloned().unwrap_or_default();
                let from = self.0.random_range(0..=other.len());
                input.splice(at.., other[from..].iter().copied());
            }
            _ => {
                let word = WORDS.choose(&mut self.0).copied().unwrap_or_default();
                input.splice(at..end.min(at + self.0.random_range(0..4)).max(at), word.iter().copied());
            }
        }
    }
}
