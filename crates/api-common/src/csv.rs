//! Comma-separated values, the same in every version of the API (v2 §6.3, §6.5): every line ends in LF.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::ports::{Column, ValueRef};

use crate::cells::cell_text;

/// The names of the columns and a line end.
pub fn csv_header(buffer: &mut Vec<u8>, columns: &[Column]) {
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            buffer.push(b',');
        }
        csv_text(buffer, &column.name);
    }
    buffer.push(b'\n');
}

/// A row and its line end. NULL is an empty field, the empty text `""`, a blob base64.
pub fn csv_row(buffer: &mut Vec<u8>, row: &[ValueRef<'_>]) {
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            buffer.push(b',');
        }
        match value {
            ValueRef::Null => {}
            ValueRef::Text(bytes) => csv_text(buffer, &String::from_utf8_lossy(bytes)),
            ValueRef::Blob(bytes) => buffer.extend_from_slice(STANDARD.encode(bytes).as_bytes()),
            ValueRef::Integer(_) | ValueRef::Real(_) => {
                buffer.extend_from_slice(cell_text(*value).unwrap_or_default().as_bytes());
            }
        }
    }
    buffer.push(b'\n');
}

fn csv_text(buffer: &mut Vec<u8>, text: &str) {
    let quoted =
        text.is_empty() || text.starts_with(' ') || text.ends_with(' ') || text.contains([',', '"', '\r', '\n']);
    if !quoted {
        buffer.extend_from_slice(text.as_bytes());
        return;
    }
    buffer.push(b'"');
    buffer.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    buffer.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::csv_row;
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
}
