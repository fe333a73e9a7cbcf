//! The CSV format, shared by every version of the API (v2 §6.3, §6.5). Every line ends in LF.

use branchyard_domain::ports::{Column, ValueRef};
use branchyard_exports::is_formula;

use crate::cells::{write_integer, write_real};
use crate::row_out::{PIECE, RowOut, write_base64, write_pieces};

/// Writes the header line with the column names.
pub fn csv_header(buffer: &mut Vec<u8>, columns: &[Column]) {
    write_header(buffer, columns, false);
}

/// Writes the header line. With `is_safe`, protects names that a spreadsheet may take for formulas.
pub(crate) fn write_header(buffer: &mut Vec<u8>, columns: &[Column], is_safe: bool) {
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            buffer.push(b',');
        }
        protected(buffer, column.name.as_bytes(), is_safe);
    }
    buffer.push(b'\n');
}

/// Writes a row and its line end: NULL as an empty field, the empty text as `""`, a blob as base64. Returns `false` if the output
/// accepts no more.
pub fn csv_row(out: &mut impl RowOut, row: &[ValueRef<'_>]) -> bool {
    write_row(out, row, false)
}

/// Writes a row as [`csv_row`] does. With `is_safe`, an apostrophe protects texts that a spreadsheet may take for formulas.
pub(crate) fn write_row(out: &mut impl RowOut, row: &[ValueRef<'_>], is_safe: bool) -> bool {
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            out.buffer().push(b',');
        }
        let goes_on = match value {
            ValueRef::Null => true,
            ValueRef::Text(bytes) => protected(out, bytes, is_safe),
            ValueRef::Blob(bytes) => write_base64(out, bytes),
            ValueRef::Integer(number) => {
                write_integer(out.buffer(), *number);
                true
            }
            ValueRef::Real(number) => {
                write_real(out.buffer(), *number);
                true
            }
        };
        if !goes_on {
            return false;
        }
    }
    out.buffer().push(b'\n');
    out.flush_if_due()
}

fn protected(out: &mut impl RowOut, text: &[u8], is_safe: bool) -> bool {
    if is_safe && is_formula(text) { csv_text(out, &[b"'", text].concat()) } else { csv_text(out, text) }
}

fn csv_text(out: &mut impl RowOut, text: &[u8]) -> bool {
    let is_special = |byte: &u8| matches!(byte, b',' | b'"' | b'\r' | b'\n');
    // All bytes are looked at, which the processor does many at a time.
    let has_special = text.iter().fold(false, |found, byte| found | is_special(byte));
    let is_quoted = text.is_empty() || text.starts_with(b" ") || text.ends_with(b" ") || has_special;
    if !is_quoted && text.len() <= PIECE && std::str::from_utf8(text).is_ok() {
        out.buffer().extend_from_slice(text);
        return true;
    }
    if is_quoted {
        out.buffer().push(b'"');
    }
    let goes_on = write_pieces(out, text, |buffer, piece| {
        if is_quoted {
            buffer.extend_from_slice(piece.replace('"', "\"\"").as_bytes());
        } else {
            buffer.extend_from_slice(piece.as_bytes());
        }
    });
    if is_quoted {
        out.buffer().push(b'"');
    }
    goes_on
}

#[cfg(test)]
mod tests {
    use super::{csv_row, write_row};
    use branchyard_domain::ports::ValueRef;

    #[test]
    fn values() {
        let row = [
            ValueRef::Null,
            ValueRef::Integer(-4),
            ValueRef::Real(2.0),
            ValueRef::Real(f64::INFINITY),
            ValueRef::Text(b"a\xff"),
            ValueRef::Text(b""),
            ValueRef::Text(b"a \"b\",\n"),
            ValueRef::Text(b" x"),
            ValueRef::Blob(b"ab"),
        ];
        let mut buffer = Vec::new();
        csv_row(&mut buffer, &row);
        let expected = ",-4,2.0,Inf,a\u{fffd},\"\",\"a \"\"b\"\",\n\",\" x\",YWI=\n";
        assert_eq!(String::from_utf8(buffer).unwrap(), expected);
    }

    #[test]
    fn formulas_are_protected() {
        let row = [ValueRef::Text(b"=1+1"), ValueRef::Text(b"-2, x"), ValueRef::Integer(-4), ValueRef::Text(b"a=1")];
        let mut buffer = Vec::new();
        write_row(&mut buffer, &row, true);
        assert_eq!(String::from_utf8(buffer).unwrap(), "'=1+1,\"'-2, x\",-4,a=1\n");
    }
}
