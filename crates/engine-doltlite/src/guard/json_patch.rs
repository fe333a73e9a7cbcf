//! `json_patch` and `jsonb_patch`, with the results of the engine's own functions.
//!
//! The engine's functions search each name of the patch from the first name of the target on, and move everything after
//! each change: with two objects of the same names their time is the product of the lengths. Here the engine only
//! parses and prints. The patch is applied to its binary form (JSONB), whose objects become hash tables of names.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::limits::Limit;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, ToSql, ffi};

use super::functions::{DeadlinePoll, utf8_read};
use super::limits::MAX_LENGTH;
use crate::memory::Charge;

/// Documents with fewer bytes in total than this are left to the engine.
const SHORT: usize = 4096;
/// The subtype that marks JSON for the engine's functions.
const JSON_SUBTYPE: std::ffi::c_uint = 74;
/// Maximum nesting depth of the engine.
const MAX_DEPTH: usize = 1000;
/// Approximate bytes per name in the table of an object.
const ENTRY: usize = 128;

thread_local! {
    /// A connection of this thread whose functions are the engine's own.
    static STOCK: OnceCell<Connection> = const { OnceCell::new() };
}

pub(super) fn install(connection: &Connection, flags: FunctionFlags) -> rusqlite::Result<()> {
    let returns_json = flags | FunctionFlags::SQLITE_RESULT_SUBTYPE;
    connection.create_scalar_function("json_patch", 2, returns_json, |context| {
        let patched = patch(context, "json")?;
        let subtype = matches!(patched, Value::Text(_)).then_some(JSON_SUBTYPE);
        Ok((patched, subtype))
    })?;
    connection.create_scalar_function("jsonb_patch", 2, flags, |context| patch(context, "jsonb"))
}

fn patch(context: &Context<'_>, kind: &str) -> rusqlite::Result<Value> {
    let values = [Argument(context.get_raw(0)), Argument(context.get_raw(1))];
    STOCK.with(|stock| {
        let stock = match stock.get() {
            Some(stock) => stock,
            None => {
                let connection = Connection::open_in_memory()?;
                connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_LENGTH)?;
                stock.get_or_init(|| connection)
            }
        };
        if values.iter().map(Argument::bytes).sum::<usize>() < SHORT {
            let sql = if kind == "json" { "SELECT json_patch(?, ?)" } else { "SELECT jsonb_patch(?, ?)" };
            return stock.prepare_cached(sql)?.query_row([&values[0], &values[1]], |row| row.get(0));
        }
        let parse = |value: &Argument<'_>| -> rusqlite::Result<Option<Vec<u8>>> {
            stock.prepare_cached("SELECT jsonb(?)")?.query_row([value], |row| row.get(0))
        };
        let Some(target) = parse(&values[0])? else { return Ok(Value::Null) };
        let Some(patch) = parse(&values[1])? else { return Ok(Value::Null) };
        let merged = merged(&target, &patch)?;
        drop((target, patch));
        if kind == "jsonb" {
            return Ok(Value::Blob(merged));
        }
        let value = Argument(ValueRef::Blob(&merged));
        stock.prepare_cached("SELECT json(?)")?.query_row([&value], |row| row.get(0))
    })
}

struct Argument<'a>(ValueRef<'a>);

impl Argument<'_> {
    fn bytes(&self) -> usize {
        match self.0 {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

impl ToSql for Argument<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(self.0))
    }
}

fn malformed() -> Error {
    failure(ffi::SQLITE_ERROR, "malformed JSON")
}

fn failure(code: i32, text: &str) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), Some(text.to_owned()))
}

/// Element types, in the low four bits of the first byte.
const NULL: u8 = 0;
const TEXT: u8 = 7;
const TEXT_RAW: u8 = 10;
const OBJECT: u8 = 12;

/// An element of a JSONB document. Its first byte holds its type and its length, or the size of the length.
#[derive(Debug, Clone, Copy)]
struct Element<'a> {
    /// The element with its header.
    whole: &'a [u8],
    content: &'a [u8],
}

impl<'a> Element<'a> {
    /// Parses the element at the start of `bytes`. Returns the element and the bytes after it.
    fn first(bytes: &'a [u8]) -> rusqlite::Result<(Self, &'a [u8])> {
        let first = bytes.first().ok_or_else(malformed)?;
        let (header, length) = match first >> 4 {
            length @ 0..=11 => (1, usize::from(length)),
            form => {
                let width = 1 << (form - 12);
                let digits = bytes.get(1..=width).ok_or_else(malformed)?;
                let length = digits.iter().fold(0_u64, |number, digit| number << 8 | u64::from(*digit));
                (1 + width, usize::try_from(length).map_err(|_| malformed())?)
            }
        };
        let end = header.checked_add(length).ok_or_else(malformed)?;
        let whole = bytes.get(..end).ok_or_else(malformed)?;
        Ok((Self { whole, content: &whole[header..] }, &bytes[end..]))
    }

    fn kind(&self) -> u8 {
        self.whole.first().map_or(NULL, |first| first & 0x0f)
    }

    /// Returns the text of a name without escapes.
    fn name(&self) -> rusqlite::Result<Cow<'a, [u8]>> {
        match self.kind() {
            TEXT | TEXT_RAW => Ok(Cow::Borrowed(self.content)),
            8 | 9 => Ok(if self.content.contains(&b'\\') {
                Cow::Owned(unescaped(self.content))
            } else {
                Cow::Borrowed(self.content)
            }),
            _ => Err(malformed()),
        }
    }
}

/// Removes the escapes of a name, as the engine compares names: up to a NUL, with invalid characters unchanged.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut name, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        if text[at] != b'\\' {
            name.push(text[at]);
            at += 1;
            continue;
        }
        match unescape(text, &mut at) {
            0 => break,
            character => match char::from_u32(character) {
                Some(character) => name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                // Half of a surrogate pair, or an invalid escape: equal only to itself.
                None => name.extend_from_slice(&[&[0xff][..], &character.to_be_bytes()].concat()),
            },
        }
    }
    name
}

/// The character that the engine uses for an invalid escape.
const INVALID: u32 = 0x9_9999;

/// Decodes the escape at `at` as the engine does, and moves `at` past it.
fn unescape(text: &[u8], at: &mut usize) -> u32 {
    let rest = &text[*at..];
    let hex = |from: usize, digits: usize| {
        rest[from..from + digits].iter().fold(0, |number, digit| number << 4 | hex_digit(*digit))
    };
    let (length, character) = match rest.get(1) {
        None => (rest.len(), INVALID),
        Some(b'u') if rest.len() < 6 => (rest.len(), INVALID),
        Some(b'u') => {
            let high = hex(2, 4);
            let low = if rest.len() >= 12 && rest[6..8] == *b"\\u" { hex(8, 4) } else { 0 };
            if high & 0xfc00 == 0xd800 && low & 0xfc00 == 0xdc00 {
                (12, ((high & 0x3ff) << 10) + (low & 0x3ff) + 0x1_0000)
            } else {
                (6, high)
            }
        }
        Some(b'b') => (2, 0x08),
        Some(b'f') => (2, 0x0c),
        Some(b'n') => (2, 0x0a),
        Some(b'r') => (2, 0x0d),
        Some(b't') => (2, 0x09),
        Some(b'v') => (2, 0x0b),
        Some(b'0') => (2, if rest.get(2).is_some_and(u8::is_ascii_digit) { INVALID } else { 0 }),
        Some(plain @ (b'\'' | b'"' | b'/' | b'\\')) => (2, u32::from(*plain)),
        Some(b'x') if rest.len() < 4 => (rest.len(), INVALID),
        Some(b'x') => (4, hex(2, 2)),
        Some(0xe2 | b'\r' | b'\n') => {
            let skipped = line_ends(rest);
            if skipped == 0 {
                (rest.len(), INVALID)
            } else if skipped == rest.len() {
                (rest.len(), 0)
            } else {
                *at += skipped;
                return if text[*at] == b'\\' { unescape(text, at) } else { utf8_read(text, at) };
            }
        }
        Some(_) => (2, INVALID),
    };
    *at += length;
    character
}

fn hex_digit(digit: u8) -> u32 {
    char::from(digit).to_digit(16).unwrap_or(0)
}

/// Returns the number of bytes of escaped line ends at the start of a text. They stand for nothing.
fn line_ends(text: &[u8]) -> usize {
    let mut at = 0;
    while text.get(at) == Some(&b'\\') {
        let rest = &text[at + 1..];
        at += match rest {
            [b'\n', ..] => 2,
            [b'\r', b'\n', ..] => 3,
            [b'\r', ..] => 2,
            [0xe2, 0x80, 0xa8 | 0xa9, ..] => 4,
            _ => break,
        };
    }
    at
}

/// A value while it is merged.
enum MergedValue<'a> {
    Whole(&'a [u8]),
    Object(Box<Object<'a>>),
}

#[derive(Default)]
struct Object<'a> {
    entries: Vec<MergedMember<'a>>,
    /// The first remaining entry of each name.
    names: HashMap<Cow<'a, [u8]>, usize>,
    /// Bytes of the entries, once measured.
    length: usize,
    charges: Vec<Charge>,
}

struct MergedMember<'a> {
    label: &'a [u8],
    /// `None` once the entry is removed.
    value: Option<MergedValue<'a>>,
    /// The next entry with the same name.
    next: Option<usize>,
}

impl<'a> Object<'a> {
    /// Parses the content of an object.
    fn read(content: &'a [u8], pace: &DeadlinePoll) -> rusqlite::Result<Self> {
        let mut object = Self::default();
        let mut last = HashMap::new();
        let mut rest = content;
        while !rest.is_empty() {
            pace.step()?;
            let (label, behind) = Element::first(rest)?;
            let (value, behind) = Element::first(behind)?;
            rest = behind;
            let at = object.push(label.whole, MergedValue::Whole(value.whole))?;
            let name = label.name()?;
            if let Some(first) = object.names.get(&name) {
                // The engine finds the first of several entries with the same name.
                let previous = last.insert(*first, at).unwrap_or(*first);
                object.entries[previous].next = Some(at);
            } else {
                object.names.insert(name, at);
            }
        }
        Ok(object)
    }

    fn push(&mut self, label: &'a [u8], value: MergedValue<'a>) -> rusqlite::Result<usize> {
        let at = self.entries.len();
        if at > 0 && at.is_multiple_of(1024) {
            let charge = Charge::take(1024 * ENTRY);
            self.charges.push(charge.ok_or_else(|| Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_NOMEM), None))?);
        }
        self.entries.push(MergedMember { label, value: Some(value), next: None });
        Ok(at)
    }

    /// Applies a patch to the object.
    fn merge(&mut self, patch: &'a [u8], depth: usize, pace: &DeadlinePoll) -> rusqlite::Result<()> {
        let mut rest = patch;
        while !rest.is_empty() {
            pace.step()?;
            let (label, behind) = Element::first(rest)?;
            let (value, behind) = Element::first(behind)?;
            rest = behind;
            let name = label.name()?;
            let found = self.names.get(&name).copied();
            match found {
                Some(at) if value.kind() == NULL => {
                    self.entries[at].value = None;
                    match self.entries[at].next {
                        Some(next) => self.names.insert(name, next),
                        None => self.names.remove(&name),
                    };
                }
                Some(at) => {
                    deeper(depth)?;
                    let present = self.entries[at].value.take();
                    self.entries[at].value = Some(MergedValue::patched(present, value, depth + 1, pace)?);
                }
                None if value.kind() == NULL => {}
                None => {
                    let node = if value.kind() == OBJECT {
                        deeper(depth)?;
                        MergedValue::patched(None, value, depth + 1, pace)?
                    } else {
                        MergedValue::Whole(value.whole)
                    };
                    let at = self.push(label.whole, node)?;
                    self.names.insert(name, at);
                }
            }
        }
        Ok(())
    }
}

fn deeper(depth: usize) -> rusqlite::Result<()> {
    if depth >= MAX_DEPTH { Err(failure(ffi::SQLITE_ERROR, "JSON nested too deep")) } else { Ok(()) }
}

impl<'a> MergedValue<'a> {
    fn patched(target: Option<Self>, patch: Element<'a>, depth: usize, pace: &DeadlinePoll) -> rusqlite::Result<Self> {
        if patch.kind() != OBJECT {
            return Ok(Self::Whole(patch.whole));
        }
        let mut object = match target {
            Some(Self::Object(object)) => object,
            Some(Self::Whole(bytes)) if bytes.first().is_some_and(|first| first & 0x0f == OBJECT) => {
                Box::new(Object::read(Element::first(bytes)?.0.content, pace)?)
            }
            _ => Box::default(),
        };
        object.merge(patch.content, depth, pace)?;
        Ok(Self::Object(object))
    }

    /// Returns the size in bytes, including the header.
    fn measure(&mut self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Object(object) => {
                let length = |entry: &mut MergedMember<'_>| match &mut entry.value {
                    Some(value) => entry.label.len() + value.measure(),
                    None => 0,
                };
                object.length = object.entries.iter_mut().map(length).sum();
                header(object.length).len() + object.length
            }
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Whole(whole) => bytes.extend_from_slice(whole),
            Self::Object(object) => {
                bytes.extend_from_slice(&header(object.length));
                for entry in &object.entries {
                    if let Some(value) = &entry.value {
                        bytes.extend_from_slice(entry.label);
                        value.write(bytes);
                    }
                }
            }
        }
    }
}

/// Returns the header of an object with content of `length` bytes.
fn header(length: usize) -> Vec<u8> {
    let bytes = length.to_be_bytes();
    let tail = |width: usize| &bytes[bytes.len() - width..];
    match length {
        0..=11 => vec![tail(1)[0] << 4 | OBJECT],
        12..=0xff => [&[0xc0 | OBJECT], tail(1)].concat(),
        0x100..=0xffff => [&[0xd0 | OBJECT], tail(2)].concat(),
        _ => [&[0xe0 | OBJECT], tail(4)].concat(),
    }
}

fn merged(target: &[u8], patch: &[u8]) -> rusqlite::Result<Vec<u8>> {
    let pace = DeadlinePoll::default();
    let (target, _) = Element::first(target)?;
    let (patch, _) = Element::first(patch)?;
    let mut node = MergedValue::patched(Some(MergedValue::Whole(target.whole)), patch, 0, &pace)?;
    let mut bytes = Vec::with_capacity(node.measure());
    node.write(&mut bytes);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[abc]",
            1 => Just("\\u0061".to_owned()),
            1 => Just("é".to_owned()),
            1 => Just("\\u00e9".to_owned()),
            1 => Just("\\ud83d\\ude00".to_owned()),
            1 => Just("\\n\\\"".to_owned()),
            1 => Just(String::new()),
        ]
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            3 => Just("null".to_owned()),
            1 => Just("true".to_owned()),
            1 => Just("12.50".to_owned()),
            1 => Just("0x1F".to_owned()),
            1 => Just("\"a\\u0062\"".to_owned()),
            1 => Just("'it'".to_owned()),
            1 => "\"[a-z]{0,30}\"",
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                4 => proptest::collection::vec((name(), inner.clone()), 0..6).prop_map(|entries| {
                    let entries: Vec<String> = entries.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                    format!("{{{}}}", entries.join(","))
                }),
                1 => proptest::collection::vec(inner, 0..4).prop_map(|values| format!("[{}]", values.join(","))),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        /// The results equal those of the engine's own function. The engine's binary form may have longer headers than
        /// necessary, so texts are compared.
        #[test]
        fn results_are_those_of_the_engine(target in json(), patch in json()) {
            let stock = Connection::open_in_memory().unwrap();
            let bytes = |sql: &str| -> Vec<u8> { stock.query_row(sql, [&target, &patch], |row| row.get(0)).unwrap() };
            let ours = merged(&bytes("select jsonb(?1), ?2"), &bytes("select jsonb(?2), ?1")).unwrap();
            let text: String = stock.query_row("select json(?1)", [&ours], |row| row.get(0)).unwrap();
            let expected: String = stock.query_row("select json_patch(?1, ?2)", [&target, &patch], |row| row.get(0)).unwrap();
            prop_assert_eq!(text, expected, "{} {}", target, patch);
        }
    }

    #[test]
    fn long_and_short_documents_are_patched_alike() {
        let stock = Connection::open_in_memory().unwrap();
        let ours = Connection::open_in_memory().unwrap();
        install(&ours, FunctionFlags::SQLITE_UTF8).unwrap();
        let object = |count: usize, value: &str| {
            let entries: Vec<String> = (0..count).map(|n| format!("\"k{n}\":{value}")).collect();
            format!("{{{}}}", entries.join(","))
        };
        let documents = [
            "null".to_owned(),
            "[1]".to_owned(),
            "{a:1}".to_owned(),
            "nonsense".to_owned(),
            object(400, "{\"a\":[1,2]}"),
            object(500, "null"),
            object(300, "{\"a\":null,\"b\":{\"c\":7}}"),
        ];
        for target in &documents {
            for patch in &documents {
                for sql in [
                    "select json_patch(?1, ?2), typeof(json_patch(?1, ?2))",
                    "select json(jsonb_patch(?1, ?2)), typeof(jsonb_patch(?1, ?2))",
                    "select json_array(json_patch(?1, ?2)), json_patch(?1, null)",
                    "select json_patch(jsonb(?1), jsonb(?2)), json_patch(null, ?2)",
                ] {
                    let ask = |connection: &Connection| -> Result<(Value, Value), String> {
                        let row = connection.query_row(sql, [target, patch], |row| Ok((row.get(0)?, row.get(1)?)));
                        row.map_err(|error| error.to_string())
                    };
                    assert_eq!(ask(&stock), ask(&ours), "{sql} {target:.40} {patch:.40}");
                }
            }
        }
    }

    #[test]
    fn names_are_compared_without_their_escapes() {
        for (escaped, plain) in
            [("a\\u0062c", "abc"), ("\\x41\\n", "A\n"), ("a\\u0000b", "a"), ("\\ud83d\\ude00", "😀"), ("a\\\nb", "ab")]
        {
            assert_eq!(unescaped(escaped.as_bytes()), plain.as_bytes(), "{escaped}");
        }
        assert_ne!(unescaped(b"\\ud83d"), unescaped(b"\\ud83e"));
    }
}
