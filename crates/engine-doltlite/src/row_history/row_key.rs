//! The keys of rows as the nodes of a table's tree hold them.

use branchyard_domain::entities::Cell;

use crate::connection::Connection;
use crate::diff::TableSide;

/// First bytes of a part of a key, by the kind of its value.
mod tags {
    pub(super) const NULL: u8 = 0x05;
    pub(super) const NUMBER: u8 = 0x15;
    pub(super) const TEXT: u8 = 0x35;
    pub(super) const BLOB: u8 = 0x45;
}

/// The sign of an integer, or of a real number, in its highest bit.
const SIGN: u64 = 1 << 63;

/// A column of a key that is not the row id.
struct KeyPart {
    column: String,
    collation: String,
    is_descending: bool,
}

/// Returns the key as the tree of the table holds it. Returns `None` if the key of the table has other columns. A key that no row can
/// have is returned as no bytes.
pub(super) fn encode(
    connection: &Connection,
    table: &str,
    key: &[(String, Cell)],
) -> rusqlite::Result<Option<Vec<u8>>> {
    let Some(side) = TableSide::find(connection, table)? else { return Ok(None) };
    let has = |column: &String| key.iter().any(|(name, _)| name.eq_ignore_ascii_case(column));
    if side.is_view || side.key.len() != key.len() || !side.key.iter().all(has) {
        return Ok(None);
    }
    let parts = parts(connection, &side.name)?;
    if parts.is_empty() {
        // The only column of the key is the row id.
        return Ok(Some(match key {
            [(_, Cell::Integer(number))] => in_order(*number).to_vec(),
            _ => Vec::new(),
        }));
    }
    let mut encoded = Vec::new();
    for part in &parts {
        let Some((_, cell)) = key.iter().find(|(name, _)| name.eq_ignore_ascii_case(&part.column)) else {
            return Ok(None);
        };
        put(cell, part, &mut encoded);
    }
    Ok(Some(encoded))
}

/// Returns the parts of a primary key that has an index, in order. There are none if the key is the row id.
fn parts(connection: &Connection, table: &str) -> rusqlite::Result<Vec<KeyPart>> {
    let mut statement = connection.raw().prepare_cached(
        "SELECT x.name, x.coll, x.\"desc\" FROM pragma_index_list(?) AS l, pragma_index_xinfo(l.name) AS x
         WHERE l.origin = 'pk' AND x.key = 1 AND x.name IS NOT NULL ORDER BY x.seqno",
    )?;
    let part = |row: &rusqlite::Row<'_>| {
        Ok(KeyPart { column: row.get(0)?, collation: row.get(1)?, is_descending: row.get(2)? })
    };
    statement.query_map([table], part)?.collect()
}

fn put(cell: &Cell, part: &KeyPart, out: &mut Vec<u8>) {
    let begin = out.len();
    match cell {
        Cell::Null => out.push(tags::NULL),
        Cell::Integer(number) => put_integer(*number, part.is_descending, out),
        Cell::Real(number) => {
            // Zero has one form.
            put_real(if *number == 0.0 { 0 } else { number.to_bits() }, out);
            end_number(part.is_descending, out);
        }
        Cell::Text(text) => {
            let mut text = text.clone();
            if part.collation.eq_ignore_ascii_case("NOCASE") {
                text.make_ascii_lowercase();
            }
            if part.collation.eq_ignore_ascii_case("RTRIM") {
                text.truncate(text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1));
            }
            put_bytes(tags::TEXT, &text, out);
        }
        Cell::Blob(bytes) => put_bytes(tags::BLOB, bytes, out),
    }
    if part.is_descending {
        out[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the engine rounds in the same way")]
fn put_integer(number: i64, is_descending: bool, out: &mut Vec<u8>) {
    let real = number as f64;
    // The first number that is too large for an integer would be converted to the largest one.
    let is_exact = real < -(i64::MIN as f64) && real as i64 == number;
    let is_rounded_up = !is_exact && (real >= -(i64::MIN as f64) || real as i64 > number);
    let mut bits = real.to_bits();
    if is_rounded_up {
        bits = if bits & SIGN == 0 { bits - 1 } else { bits + 1 };
    }
    put_real(bits, out);
    if is_exact {
        end_number(is_descending, out);
    } else {
        out.push(0x80);
        out.extend(in_order(number));
    }
}

/// Appends a real number, whose bytes are in the order of the numbers.
fn put_real(bits: u64, out: &mut Vec<u8>) {
    out.push(tags::NUMBER);
    let ordered = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
    out.extend(ordered.to_be_bytes());
}

fn end_number(is_descending: bool, out: &mut Vec<u8>) {
    if is_descending {
        out.push(0);
    }
}

/// Appends bytes and their end. The engine's order needs a pair of zeros as the end, so a zero within gets a one behind it.
fn put_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(1);
        }
    }
    out.extend([0, 0]);
}

/// Returns the bytes of an integer, in the order of the numbers.
fn in_order(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ SIGN).to_be_bytes()
}
