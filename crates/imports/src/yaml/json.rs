//! Conversion of lists and mappings inside a record to compact JSON text.

use std::collections::HashSet;
use std::io::Read;

use saphyr_parser::Event;

use super::events::{Events, PlacedEvent};
use super::scalar::{self, Scalar};
use crate::error::FileError;
use crate::format::FileLimits;
use crate::json::{too_deep, twice};
use crate::number;
use crate::value::CellValue;

/// A list or mapping that has not been closed.
struct OpenCollection {
    mapping: bool,
    /// Keys of the mapping.
    keys: HashSet<String>,
    /// Number of keys and values written so far.
    written: u64,
}

/// Converts the value that begins with `first`. The inner error is that of a value that cannot be converted and has been
/// skipped. A value that is nested too deeply fails the file, because the parser keeps every level in memory.
pub(super) fn text<R: Read + 'static>(
    events: &mut Events<R>,
    first: PlacedEvent,
    limits: FileLimits,
) -> Result<Result<CellValue, String>, FileError> {
    let mut text = String::new();
    let mut open: Vec<OpenCollection> = Vec::new();
    let mut fault = None;
    let mut next = first;
    loop {
        match &next.event {
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                separate(&mut text, &mut open, next.line, false)?;
                if open.len() == FileLimits::NESTING {
                    return Err(FileError::at(next.line, too_deep()));
                }
                let mapping = matches!(next.event, Event::MappingStart(..));
                text.push(if mapping { '{' } else { '[' });
                open.push(OpenCollection { mapping, keys: HashSet::new(), written: 0 });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let mapping = open.pop().is_some_and(|open| open.mapping);
                text.push(if mapping { '}' } else { ']' });
            }
            Event::Scalar(scalar, style, _, tag) => {
                let key = separate(&mut text, &mut open, next.line, true)?;
                match scalar::resolve(scalar, *style, tag.as_deref()) {
                    Err(detail) => fault = fault.or(Some(detail)),
                    Ok(_) if key => {
                        let first = open.last_mut().is_none_or(|open| open.keys.insert(scalar.to_string()));
                        if !first {
                            fault = fault.or_else(|| Some(twice(scalar)));
                        }
                        quote(scalar, &mut text);
                    }
                    Ok(resolved) => write(&resolved, &mut text),
                }
            }
            _ => return Err(FileError::at(next.line, "the file ends within a value")),
        }
        if text.len() > limits.value_bytes {
            // The value is invalid, so nothing more of it is kept.
            fault = fault.or_else(|| Some(limits.too_long()));
            text.clear();
            open.iter_mut().for_each(|open| open.keys.clear());
        }
        if open.is_empty() {
            return Ok(fault.map_or(Ok(CellValue::Text(text)), Err));
        }
        next = events.next()?;
    }
}

/// Writes the separator before the next key or value. Returns `true` if a key is next.
fn separate(text: &mut String, open: &mut [OpenCollection], line: u64, scalar: bool) -> Result<bool, FileError> {
    let Some(open) = open.last_mut() else { return Ok(false) };
    let key = open.mapping && open.written % 2 == 0;
    if key && !scalar {
        return Err(FileError::at(line, "a key is not a scalar"));
    }
    match open.written {
        0 => {}
        _ if open.mapping && !key => text.push(':'),
        _ => text.push(','),
    }
    open.written += 1;
    Ok(key)
}

fn write(scalar: &Scalar<'_>, text: &mut String) {
    match scalar {
        // JSON cannot represent NaN or infinities.
        Scalar::Null | Scalar::NotANumber => text.push_str("null"),
        Scalar::Real(real) if real.is_infinite() => quote(&number::shown(*real), text),
        Scalar::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        Scalar::Integer(integer) => text.push_str(&integer.to_string()),
        Scalar::Real(real) => text.push_str(&number::shown(*real)),
        Scalar::Text(string) => quote(string, text),
    }
}

fn quote(string: &str, text: &mut String) {
    text.push_str(&serde_json::Value::from(string).to_string());
}
