//! `LIKE` and `GLOB`, with the results of the engine's own functions.
//!
//! The time of one comparison is the product of the lengths of text and pattern. Unlike the engine's functions, these
//! stop when the time of their statement is over.

use rusqlite::Error;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::limits::Limit;
use rusqlite::{Connection, ffi};

use super::functions::{DeadlinePoll, text, utf8_read};

const STAR: u32 = b'*' as u32;
const QUESTION: u32 = b'?' as u32;
const BRACKET: u32 = b'[' as u32;
const PERCENT: u32 = b'%' as u32;
const UNDERSCORE: u32 = b'_' as u32;
/// Represents a character without a meaning in patterns. No text contains it.
const NONE: u32 = 0;

pub(super) fn install(connection: &Connection, flags: FunctionFlags) -> rusqlite::Result<()> {
    let longest = usize::try_from(connection.limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH)?).unwrap_or(usize::MAX);
    connection.create_scalar_function("like", 2, flags, move |context| compare(context, longest, LIKE))?;
    connection.create_scalar_function("like", 3, flags, move |context| like_with_escape(context, longest))?;
    connection.create_scalar_function("glob", 2, flags, move |context| compare(context, longest, GLOB))
}

/// The characters that have a meaning in a pattern.
#[derive(Debug, Clone, Copy)]
struct PatternMeaning {
    /// Matches any number of characters.
    all: u32,
    /// Matches one character.
    one: u32,
    /// Begins a set (`GLOB`), or makes the next character literal (`LIKE … ESCAPE`).
    other: u32,
    has_sets: bool,
    ignores_case: bool,
}

const LIKE: PatternMeaning =
    PatternMeaning { all: PERCENT, one: UNDERSCORE, other: NONE, has_sets: false, ignores_case: true };
const GLOB: PatternMeaning =
    PatternMeaning { all: STAR, one: QUESTION, other: BRACKET, has_sets: true, ignores_case: false };

fn like_with_escape(context: &Context<'_>, longest: usize) -> rusqlite::Result<Option<bool>> {
    let Some(escape) = text(context.get_raw(2)) else {
        // As in the engine, the length of the pattern is checked first.
        return check_length(context, longest).map(|_| None);
    };
    check_length(context, longest)?;
    let mut at = 0;
    let other = utf8_read(&escape, &mut at);
    if escape.is_empty() || at != escape.len() {
        return Err(failure(ffi::SQLITE_ERROR, "ESCAPE expression must be a single character"));
    }
    let mut meaning = PatternMeaning { other, ..LIKE };
    if other == meaning.all {
        meaning.all = NONE;
    }
    if other == meaning.one {
        meaning.one = NONE;
    }
    compare(context, longest, meaning)
}

fn check_length(context: &Context<'_>, longest: usize) -> rusqlite::Result<()> {
    let length = text(context.get_raw(0)).map_or(0, |pattern| pattern.len());
    if length > longest { Err(failure(ffi::SQLITE_ERROR, "LIKE or GLOB pattern too complex")) } else { Ok(()) }
}

fn failure(code: i32, text: &str) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), Some(text.to_owned()))
}

fn compare(context: &Context<'_>, longest: usize, meaning: PatternMeaning) -> rusqlite::Result<Option<bool>> {
    check_length(context, longest)?;
    let (Some(pattern), Some(subject)) = (text(context.get_raw(0)), text(context.get_raw(1))) else { return Ok(None) };
    // The engine treats a NUL as the end of both texts.
    let until_nul = |bytes: &[u8]| memchr::memchr(0, bytes).unwrap_or(bytes.len());
    let matcher = Matcher {
        pattern: &pattern[..until_nul(&pattern)],
        subject: &subject[..until_nul(&subject)],
        meaning,
        pace: DeadlinePoll::default(),
    };
    Ok(Some(matcher.matches(0, 0)? == MatchOutcome::Match))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchOutcome {
    Match,
    Differs,
    /// What follows a wildcard occurs nowhere in the rest, so that trying another position for an earlier wildcard is
    /// useless.
    Nowhere,
}

struct Matcher<'a> {
    pattern: &'a [u8],
    subject: &'a [u8],
    meaning: PatternMeaning,
    pace: DeadlinePoll,
}

impl Matcher<'_> {
    fn matches(&self, mut at: usize, mut place: usize) -> rusqlite::Result<MatchOutcome> {
        let PatternMeaning { all, one, other, has_sets, ignores_case } = self.meaning;
        let mut escaped = usize::MAX;
        while at < self.pattern.len() {
            self.pace.step()?;
            let mut wanted = utf8_read(self.pattern, &mut at);
            if all != NONE && wanted == all {
                return self.after_wildcard(at, place);
            }
            if other != NONE && wanted == other {
                if has_sets {
                    if !self.in_set(&mut at, &mut place) {
                        return Ok(MatchOutcome::Differs);
                    }
                    continue;
                }
                wanted = utf8_read(self.pattern, &mut at);
                if wanted == 0 {
                    return Ok(MatchOutcome::Differs);
                }
                escaped = at;
            }
            let found = utf8_read(self.subject, &mut place);
            let same = wanted == found
                || (ignores_case && wanted < 0x80 && found < 0x80 && lower(wanted) == lower(found))
                || (one != NONE && wanted == one && at != escaped && found != 0);
            if !same {
                return Ok(MatchOutcome::Differs);
            }
        }
        Ok(if place >= self.subject.len() { MatchOutcome::Match } else { MatchOutcome::Differs })
    }

    /// Matches the pattern after a wildcard for any number of characters.
    fn after_wildcard(&self, mut at: usize, mut place: usize) -> rusqlite::Result<MatchOutcome> {
        let PatternMeaning { all, one, other, has_sets, ignores_case } = self.meaning;
        let mut begins = at;
        let mut wanted = utf8_read(self.pattern, &mut at);
        while wanted == all || (one != NONE && wanted == one) {
            if wanted == one && utf8_read(self.subject, &mut place) == 0 {
                return Ok(MatchOutcome::Nowhere);
            }
            begins = at;
            wanted = utf8_read(self.pattern, &mut at);
        }
        if wanted == 0 {
            return Ok(MatchOutcome::Match);
        }
        if other != NONE && wanted == other {
            if has_sets {
                while place < self.subject.len() {
                    let found = self.matches(begins, place)?;
                    if found != MatchOutcome::Differs {
                        return Ok(found);
                    }
                    utf8_skip(self.subject, &mut place);
                }
                return Ok(MatchOutcome::Nowhere);
            }
            wanted = utf8_read(self.pattern, &mut at);
            if wanted == 0 {
                return Ok(MatchOutcome::Nowhere);
            }
        }
        loop {
            let rest = self.subject.get(place..).unwrap_or_default();
            match u8::try_from(wanted).ok().filter(u8::is_ascii) {
                Some(byte) => {
                    let next = match ignores_case {
                        true => memchr::memchr2(byte.to_ascii_lowercase(), byte.to_ascii_uppercase(), rest),
                        false => memchr::memchr(byte, rest),
                    };
                    let Some(next) = next else { return Ok(MatchOutcome::Nowhere) };
                    place += next + 1;
                }
                None => loop {
                    self.pace.step()?;
                    match utf8_read(self.subject, &mut place) {
                        0 => return Ok(MatchOutcome::Nowhere),
                        found if found == wanted => break,
                        _ => {}
                    }
                },
            }
            let found = self.matches(at, place)?;
            if found != MatchOutcome::Differs {
                return Ok(found);
            }
        }
    }

    /// Returns `true` if the next character is in the set whose bracket precedes `at`.
    fn in_set(&self, at: &mut usize, place: &mut usize) -> bool {
        let character = utf8_read(self.subject, place);
        if character == 0 {
            return false;
        }
        let (mut before, mut is_in, mut inverted) = (0, false, false);
        let mut next = utf8_read(self.pattern, at);
        if next == u32::from(b'^') {
            inverted = true;
            next = utf8_read(self.pattern, at);
        }
        if next == u32::from(b']') {
            is_in = character == next;
            next = utf8_read(self.pattern, at);
        }
        while next != 0 && next != u32::from(b']') {
            let follows = self.pattern.get(*at).copied().unwrap_or(0);
            if next == u32::from(b'-') && follows != b']' && follows != 0 && before > 0 {
                next = utf8_read(self.pattern, at);
                is_in |= character >= before && character <= next;
                before = 0;
            } else {
                is_in |= character == next;
                before = next;
            }
            next = utf8_read(self.pattern, at);
        }
        next != 0 && is_in != inverted
    }
}

fn lower(character: u32) -> u32 {
    if (u32::from(b'A')..=u32::from(b'Z')).contains(&character) { character + 32 } else { character }
}

fn utf8_skip(bytes: &[u8], at: &mut usize) {
    let first = bytes.get(*at).copied().unwrap_or(0);
    *at += 1;
    if first >= 0xc0 {
        while bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80) {
            *at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::types::Value;

    use super::*;

    proptest! {
        /// The results equal those of the engine's own functions.
        #[test]
        fn results_are_those_of_the_engine(
            pattern in r"[ab%_*?\[\]^\-é\\AB]{0,9}", subject in "[abAB_%éÉ😀\\-]{0,9}", escape in prop_oneof![Just("\\"), Just("%"), Just("_"), Just("é"), Just("ab"), Just("")],
            odd in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'%'), Just(0x80), Just(0xc3), Just(0xa9), Just(0), Just(0xf0)], 0..6),
        ) {
            let stock = Connection::open_in_memory().unwrap();
            let ours = Connection::open_in_memory().unwrap();
            install(&ours, FunctionFlags::SQLITE_UTF8).unwrap();
            let odd = Value::Blob(odd);
            let values = [Value::Text(pattern), Value::Text(subject), Value::Text(escape.to_owned())];
            for sql in [
                "select ?2 like ?1, ?1 like ?2, ?3",
                "select ?2 glob ?1, ?1 glob ?2, ?3",
                "select ?2 like ?1 escape ?3, 0",
                "select 12.5 like ?1, ?1 like 17, ?2, ?3",
                "select null like ?1, ?1 glob null, ?2, ?3",
            ] {
                for values in [&values, &[odd.clone(), values[1].clone(), values[2].clone()], &[values[0].clone(), odd.clone(), values[2].clone()]] {
                    let ask = |connection: &Connection| -> Result<(Value, Value), String> {
                        connection.query_row(sql, rusqlite::params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?))).map_err(|error| error.to_string())
                    };
                    prop_assert_eq!(ask(&stock), ask(&ours), "{} {:?}", sql, values);
                }
            }
        }
    }

    #[test]
    fn a_pattern_is_as_long_as_the_limit_allows() {
        let connection = Connection::open_in_memory().unwrap();
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 10).unwrap();
        install(&connection, FunctionFlags::SQLITE_UTF8).unwrap();
        let ask = |length: usize| {
            connection.query_row("select 'a' like ?", ["a".repeat(length)], |row| row.get::<_, bool>(0))
        };
        assert!(!ask(10).unwrap());
        assert!(ask(11).unwrap_err().to_string().contains("LIKE or GLOB pattern too complex"));
    }
}
