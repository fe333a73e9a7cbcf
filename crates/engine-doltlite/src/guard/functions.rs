//! Replacements of functions whose built-in form can keep one call busy for minutes. They return the same results.
//!
//! `LIKE`, `GLOB` and `json_patch` are replaced for the same reason, in modules of their own. Replacements that can
//! still take long regularly check whether the time of their statement is over ([`DeadlinePoll`]).
//! `tests/it/hostile/growth.rs` measures every function of the engine.
//!
//! The built-in `instr` and `replace` compare at every position, and `trim` and `unhex` search the whole set for every
//! character. With long arguments their time is the product of the lengths, and neither a progress handler nor an
//! interrupt stops a single call. The time of `memmem` is the sum of the lengths, regardless of the content.

use std::cell::Cell;
use std::collections::HashSet;

use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::limits::Limit;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, ffi};

use super::{float_format, json_patch, patterns};
use crate::memory::{self, Charge};

pub(super) fn replace_unbounded(connection: &Connection) -> rusqlite::Result<()> {
    // Innocuous, so that views, triggers and defaults may still use the functions.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    let longest = usize::try_from(connection.limit(Limit::SQLITE_LIMIT_LENGTH)?).unwrap_or(usize::MAX);
    connection.create_scalar_function("instr", 2, flags, |context| instr(context.get_raw(0), context.get_raw(1)))?;
    connection.create_scalar_function("replace", 3, flags, move |context| replace(context, longest))?;
    for (name, ends) in [("trim", (true, true)), ("ltrim", (true, false)), ("rtrim", (false, true))] {
        connection.create_scalar_function(name, 1, flags, move |context| Ok(trim(context, ends)))?;
        connection.create_scalar_function(name, 2, flags, move |context| Ok(trim(context, ends)))?;
    }
    connection.create_scalar_function("unhex", 2, flags, unhex)?;
    patterns::install(connection, flags)?;
    json_patch::install(connection, flags)
}

/// Checks regularly, while a function computes, whether the time of its statement is over.
#[derive(Debug, Default)]
pub(super) struct DeadlinePoll(Cell<u32>);

impl DeadlinePoll {
    /// Number of steps between two checks.
    const STEPS: u32 = 1 << 16;

    pub(super) fn step(&self) -> rusqlite::Result<()> {
        let steps = self.0.get().wrapping_add(1);
        self.0.set(steps);
        if steps.is_multiple_of(Self::STEPS) && memory::is_overdue() {
            // Without a text: an error with a text of its own would lose its code.
            return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None));
        }
        Ok(())
    }
}

/// Replaces the form of `dolt_config` that changes the committer by an error. The form that reads a setting stays.
pub(super) fn refuse_config(connection: &Connection) -> rusqlite::Result<()> {
    connection.create_scalar_function("dolt_config", 2, FunctionFlags::SQLITE_UTF8, |_| -> rusqlite::Result<Value> {
        Err(Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_AUTH),
            Some("not authorized to set who commits: it is the caller".into()),
        ))
    })
}

/// Returns the text of a value, or `None` for NULL.
pub(super) fn text(value: ValueRef<'_>) -> Option<std::borrow::Cow<'_, [u8]>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(n) => Some(n.to_string().into_bytes().into()),
        ValueRef::Real(x) => Some(float_format::text(x).into_bytes().into()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.into()),
    }
}

/// Reads the next character of a text as the engine does, which accepts invalid UTF-8. Returns 0 at the end.
pub(super) fn utf8_read(bytes: &[u8], at: &mut usize) -> u32 {
    let Some(first) = bytes.get(*at) else { return 0 };
    *at += 1;
    if *first < 0xc0 {
        return u32::from(*first);
    }
    // The bits of the first byte that belong to the character.
    let mut character = u32::from(match first {
        0xc0..=0xdf => first & 0x1f,
        0xe0..=0xef => first & 0x0f,
        0xf0..=0xf7 => first & 0x07,
        0xf8..=0xfb => first & 0x03,
        0xfc..=0xfd => first & 0x01,
        _ => 0,
    });
    while let Some(byte) = bytes.get(*at).filter(|byte| is_continuation(**byte)) {
        character = character << 6 | u32::from(byte & 0x3f);
        *at += 1;
    }
    if character < 0x80 || character & 0xffff_f800 == 0xd800 || character & 0xffff_fffe == 0xfffe {
        0xfffd
    } else {
        character
    }
}

/// Implements `unhex(X, Y)` as the engine does: it skips the characters of Y between bytes, and a NUL ends X. A
/// library for hexadecimal has neither rule.
fn unhex(context: &Context<'_>) -> rusqlite::Result<Option<Vec<u8>>> {
    let (Some(hex), Some(passed)) = (text(context.get_raw(0)), text(context.get_raw(1))) else { return Ok(None) };
    // The set takes more memory than the text it is built from.
    let charged = Charge::take(if passed.len() < 4096 { 0 } else { passed.len() * 4 });
    let _charge = charged.ok_or_else(|| Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_NOMEM), None))?;
    let (mut set, mut at) = (HashSet::new(), 0);
    while at < passed.len() {
        set.insert(utf8_read(&passed, &mut at));
    }
    // The engine treats a NUL as the end of the digits.
    let hex = hex.split(|byte| *byte == 0).next().unwrap_or_default();
    let digit =
        |at: usize| hex.get(at).and_then(|byte| char::from(*byte).to_digit(16)).and_then(|d| u8::try_from(d).ok());
    let (mut bytes, mut at) = (Vec::with_capacity(hex.len() / 2), 0);
    while at < hex.len() {
        let Some(high) = digit(at) else {
            if !set.contains(&utf8_read(hex, &mut at)) {
                return Ok(None);
            }
            continue;
        };
        let Some(low) = digit(at + 1) else { return Ok(None) };
        bytes.push(high << 4 | low);
        at += 2;
    }
    Ok(Some(bytes))
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn instr(haystack: ValueRef<'_>, needle: ValueRef<'_>) -> rusqlite::Result<Option<i64>> {
    let (Some(hay), Some(pin)) = (text(haystack), text(needle)) else { return Ok(None) };
    let bytes = matches!((haystack, needle), (ValueRef::Blob(_), ValueRef::Blob(_)));
    if pin.is_empty() {
        return Ok(Some(1));
    }
    // In text, a match may only begin at the start of a character, or at the very start of the text.
    let at =
        if !bytes && is_continuation(pin[0]) { hay.starts_with(&pin).then_some(0) } else { memmem::find(&hay, &pin) };
    let before = match at {
        None => return Ok(Some(0)),
        Some(at) if bytes => at,
        Some(at) => usize::from(at > 0) + hay[..at].iter().skip(1).filter(|byte| !is_continuation(**byte)).count(),
    };
    Ok(i64::try_from(before + 1).ok())
}

fn replace(context: &Context<'_>, longest: usize) -> rusqlite::Result<Value> {
    let (Some(source), Some(pattern)) = (text(context.get_raw(0)), text(context.get_raw(1))) else {
        return Ok(Value::Null);
    };
    if pattern.first().is_none_or(|byte| *byte == 0) {
        return Ok(as_text(source.into_owned()));
    }
    let Some(by) = text(context.get_raw(2)) else { return Ok(Value::Null) };
    let mut result = Vec::with_capacity(source.len());
    let mut from = 0;
    for at in memmem::find_iter(&source, &*pattern) {
        result.extend_from_slice(&source[from..at]);
        result.extend_from_slice(&by);
        if result.len() > longest {
            return Err(too_big());
        }
        from = at + pattern.len();
    }
    result.extend_from_slice(&source[from..]);
    Ok(as_text(result))
}

fn trim(context: &Context<'_>, (start, end): (bool, bool)) -> Value {
    let Some(rest) = text(context.get_raw(0)) else { return Value::Null };
    let set = if context.len() > 1 {
        match text(context.get_raw(1)) {
            Some(set) => set,
            None => return Value::Null,
        }
    } else {
        b" "[..].into()
    };
    let members = CharacterSet::of(&set);
    let member = |bytes: &[u8]| members.contain(bytes);
    let mut slice = &rest[..];
    if start {
        while let Some(length) = (1..=slice.len().min(4)).find(|n| member(&slice[..*n])) {
            slice = &slice[length..];
        }
    }
    if end {
        while let Some(length) = (1..=slice.len().min(4)).find(|n| member(&slice[slice.len() - n..])) {
            slice = &slice[..slice.len() - length];
        }
    }
    as_text(slice.to_vec())
}

fn as_text(bytes: Vec<u8>) -> Value {
    // This changes only text that was not valid UTF-8 before.
    Value::Text(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

pub(super) fn too_big() -> Error {
    Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), Some("string or blob too big".into()))
}

/// A set of characters of up to four bytes each. A longer sequence is no character and matches nothing.
struct CharacterSet {
    single: [bool; 256],
    longer: HashSet<u32>,
}

impl CharacterSet {
    fn of(set: &[u8]) -> Self {
        // The engine treats a NUL as the end of the set.
        let set = set.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut members = Self { single: [false; 256], longer: HashSet::new() };
        let mut at = 0;
        while at < set.len() {
            let mut next = at + 1;
            if set[at] >= 0xc0 {
                while next < set.len() && is_continuation(set[next]) {
                    next += 1;
                }
            }
            match next - at {
                1 => members.single[usize::from(set[at])] = true,
                2..=4 => {
                    members.longer.insert(packed(&set[at..next]));
                }
                _ => {}
            }
            at = next;
        }
        members
    }

    fn contain(&self, bytes: &[u8]) -> bool {
        match bytes {
            [byte] => self.single[usize::from(*byte)],
            [first, ..] => *first >= 0xc0 && !self.longer.is_empty() && self.longer.contains(&packed(bytes)),
            [] => false,
        }
    }
}

/// Packs up to four bytes into one number. Sequences of several bytes begin with a nonzero byte, so the numbers are
/// unique.
fn packed(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::types::Value;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            1 => Just(Value::Null),
            1 => (-20_i64..2000).prop_map(Value::Integer),
            1 => any::<f64>().prop_filter("NaN is NULL", |x| !x.is_nan()).prop_map(Value::Real),
            1 => (-1000_i32..1000).prop_map(|n| Value::Real(f64::from(n) / 8.0)),
            6 => "[ab éß€😀\0]{0,6}".prop_map(Value::Text),
            2 => "[0-9a-fA-F é€]{0,8}".prop_map(Value::Text),
            3 => proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(0x80), Just(0xc3), Just(0xa9), Just(0)], 0..6)
                .prop_map(Value::Blob),
        ]
    }

    proptest! {
        /// The results equal those of the engine's own functions, except for text that is not UTF-8.
        #[test]
        fn results_are_those_of_the_engine(x in value(), y in value(), z in value()) {
            let stock = Connection::open_in_memory().unwrap();
            let ours = Connection::open_in_memory().unwrap();
            replace_unbounded(&ours).unwrap();
            for sql in [
                "select instr(?1, ?2), typeof(?3)",
                "select cast(replace(?1, ?2, ?3) as blob), typeof(replace(?1, ?2, ?3))",
                "select cast(trim(?1, ?2) as blob), typeof(trim(?1, ?2)), ?3",
                "select cast(ltrim(?1, ?2) as blob), cast(rtrim(?1, ?2) as blob), ?3",
                "select unhex(?1, ?2), typeof(unhex(?1, ?2)), ?3",
                "select cast(trim(?1) as blob), cast(ltrim(?1) as blob), cast(rtrim(?1) as blob), ?2, ?3",
            ] {
                let ask = |connection: &Connection| -> (Value, Value) {
                    connection.query_row(sql, [&x, &y, &z], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
                };
                let (expected, got) = (ask(&stock), ask(&ours));
                let garbled = |value: &Value| matches!(value, Value::Blob(bytes) if std::str::from_utf8(bytes).is_err());
                if sql.contains("instr") || sql.contains("unhex") || ![&x, &y, &z].into_iter().any(garbled) {
                    prop_assert_eq!(expected, got, "{}", sql);
                }
            }
        }
    }
}
