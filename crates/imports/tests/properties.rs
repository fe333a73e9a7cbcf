//! Properties of all files: written values are read back, and the sizes of reads make no difference.

use std::io::{self, Read};

use branchyard_imports::delimited::{DelimitedReader, Delimiter};
use branchyard_imports::{
    Affinity, CellValue, FileError, FileLimits, Format, Input, RowErrors, TextOptions, convert, rows, scan,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A reader that returns a few bytes at a time, like a network connection.
struct Chunked<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl<'a> Chunked<'a> {
    fn new(bytes: &'a [u8], sizes: Vec<usize>) -> Self {
        let sizes = sizes.into_iter().cycle();
        Self { bytes, sizes }
    }
}

impl Read for Chunked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().unwrap_or(1).min(buffer.len());
        self.bytes.read(&mut buffer[..size])
    }
}

/// Calls `use_it` with an in-memory file.
fn with_file<T>(format: Format, file: impl AsRef<[u8]>, use_it: impl FnOnce(&Input<'_>) -> T) -> T {
    let bytes = file.as_ref().to_vec();
    let open = move || Ok(Box::new(io::Cursor::new(bytes.clone())) as Box<_>);
    use_it(&Input { format, table: "t", limits: FileLimits::default(), text: TextOptions::default(), open: &open })
}

/// Runs both passes over a file, into a new table.
fn table(format: Format, file: impl AsRef<[u8]>) -> Result<Vec<Vec<CellValue>>, FileError> {
    with_file(format, file, |input| {
        let found = scan(input)?;
        let mut rows = rows(input, &found, |column| found.affinity(column))?;
        let mut errors = RowErrors::default();
        let mut values = Vec::new();
        while let Some(row) = rows.next_row(&mut errors)? {
            values.push(row.values.clone());
        }
        errors.into_result().map(|()| values)
    })
}

/// A JSON document of records with arbitrary keys and values.
fn json_records() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        prop::num::f64::NORMAL.prop_map(serde_json::Value::from),
        "[ -~é😀\n\t\"\\\\]{0,12}".prop_map(serde_json::Value::from),
    ];
    let value = scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            prop::collection::hash_map("[a-c]", inner, 0..3)
                .prop_map(|map| serde_json::Value::from(serde_json::Map::from_iter(map))),
        ]
    });
    let record = prop::collection::hash_map("[a-e]", value, 1..4)
        .prop_map(|map| serde_json::Value::from(serde_json::Map::from_iter(map)));
    vec(record, 1..5).prop_map(serde_json::Value::from)
}

#[derive(Debug, Clone)]
struct Style {
    delimiter: Delimiter,
    line_end: &'static str,
    mark: &'static str,
    last_line_end: bool,
    always_quote: bool,
}

fn styles() -> impl Strategy<Value = Style> {
    (
        prop::sample::select(vec![Delimiter::COMMA, Delimiter::PIPE, Delimiter::TAB]),
        prop::sample::select(vec!["\n", "\r\n"]),
        prop::sample::select(vec!["", "\u{feff}"]),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(delimiter, line_end, mark, last_line_end, always_quote)| Style {
            delimiter,
            line_end,
            mark,
            last_line_end,
            always_quote,
        })
}

/// Rows of equal width, with many significant characters.
fn tables() -> impl Strategy<Value = Vec<Vec<String>>> {
    let field = prop_oneof![
        3 => "[ab,|\"\r\n é😀\u{feff}]{0,8}",
        1 => any::<String>(),
    ];
    (1usize..5).prop_flat_map(move |width| vec(vec(field.clone(), width), 0..8))
}

fn chunk_sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(1usize..8, 1..6)
}

fn write_field(field: &str, style: &Style, file: &mut String) {
    let special = |c: char| matches!(c, ',' | '|' | '\t' | '"' | '\r' | '\n');
    if style.always_quote || field.is_empty() || field.contains(special) {
        file.push('"');
        file.push_str(&field.replace('"', "\"\""));
        file.push('"');
    } else {
        file.push_str(field);
    }
}

fn write(table: &[Vec<String>], style: &Style) -> String {
    let delimiter = style.delimiter.as_char();
    let lines: Vec<String> = table
        .iter()
        .map(|row| {
            let mut line = String::new();
            for (position, field) in row.iter().enumerate() {
                line.extend((position > 0).then_some(delimiter));
                write_field(field, style, &mut line);
            }
            line
        })
        .collect();
    let mut file = style.mark.to_owned() + &lines.join(style.line_end);
    if style.last_line_end {
        file.push_str(style.line_end);
    }
    file
}

fn with_header(mut table: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let width = table.first().map_or(1, Vec::len);
    table.insert(0, (0..width).map(|column| format!("c{column}")).collect());
    table
}

type Records = Vec<(u64, Vec<String>)>;

/// All results of a reader: the records, the row errors and the error that stopped it.
fn read_all(input: impl Read, delimiter: Delimiter) -> (Records, RowErrors, Option<String>) {
    let mut records = Records::new();
    let mut errors = RowErrors::default();
    let stopped_by = DelimitedReader::new(input, delimiter, FileLimits::default()).and_then(|mut reader| {
        while let Some(record) = reader.next_record(&mut errors)? {
            records.push((record.line(), record.iter().map(str::to_owned).collect()));
        }
        Ok(())
    });
    (records, errors, stopped_by.err().map(|error| error.to_string()))
}

/// Returns the line on which each record of a written table begins.
fn begins(table: &[Vec<String>], style: &Style) -> Vec<u64> {
    let mut line = 1;
    let begins = table.iter().map(|row| {
        let begin = line;
        let one_row = std::slice::from_ref(row);
        let written = write(one_row, &Style { last_line_end: true, ..style.clone() });
        line += written.matches('\n').map(|_| 1).sum::<u64>();
        begin
    });
    begins.collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read(table in tables(), style in styles(), sizes in chunk_sizes()) {
        let table = with_header(table);
        let file = write(&table, &style);
        let (records, errors, stopped_by) = read_all(Chunked::new(file.as_bytes(), sizes), style.delimiter);
        let expected: Records = begins(&table, &style).into_iter().zip(table).skip(1).collect();
        prop_assert_eq!(stopped_by, None);
        prop_assert_eq!(errors, RowErrors::default());
        prop_assert_eq!(records, expected);
    }

    #[test]
    fn chunks_make_no_difference(file in "(x,y\r?\n)?[ab,\"\r\n😀]{0,40}", sizes in chunk_sizes()) {
        let whole = read_all(file.as_bytes(), Delimiter::COMMA);
        let chunked = read_all(Chunked::new(file.as_bytes(), sizes), Delimiter::COMMA);
        prop_assert_eq!(whole, chunked);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        header in prop::sample::select(vec!["", "a,b\n"]),
        bytes in vec(prop_oneof![any::<u8>(), prop::sample::select(b",\"\r\n1".to_vec())], 0..200),
        sizes in chunk_sizes(),
    ) {
        let file = [header.as_bytes(), &bytes].concat();
        let whole = read_all(&file[..], Delimiter::COMMA);
        prop_assert_eq!(whole, read_all(Chunked::new(&file, sizes), Delimiter::COMMA));
    }

    /// The second pass accepts what the first one found.
    #[test]
    fn a_scanned_file_converts(lines in vec("[-+]?(0|[1-9][0-9]{0,19})?([.][0-9]{0,3})?(e[0-9]{1,3})?|x?", 0..6)) {
        let file = format!("c\n{}", lines.join("\n"));
        let found = with_file(Format::Csv, &file, scan).unwrap();
        let values = table(Format::Csv, &file).unwrap();
        prop_assert_eq!(u64::try_from(values.len()).unwrap(), found.rows);
    }

    /// The layout of a JSON document does not affect the table.
    #[test]
    fn json_is_read_alike_in_every_shape(document in json_records()) {
        let compact = table(Format::Json, document.to_string()).unwrap();
        let pretty = serde_json::to_string_pretty(&document).unwrap();
        prop_assert_eq!(&table(Format::Json, &pretty).unwrap(), &compact);
        prop_assert_eq!(&table(Format::Json, format!("{{\"rows\": {pretty}}}")).unwrap(), &compact);
        let lines: Vec<_> = document.as_array().unwrap().iter().map(ToString::to_string).collect();
        prop_assert_eq!(&table(Format::Json, lines.join("\n")).unwrap(), &compact);
        prop_assert_eq!(compact.len(), lines.len());
    }

    /// No bytes make a reader panic, including those with a valid beginning.
    #[test]
    fn any_bytes_are_a_table_or_an_error(
        (format, start) in prop::sample::select(vec![
            (Format::Json, &b"[{\"a\":"[..]),
            (Format::Json, b"{\"rows\":["),
            (Format::Yaml, b"- a: "),
            (Format::Xlsx, b"PK\x03\x04"),
            (Format::Parquet, b"PAR1"),
        ]),
        bytes in vec(prop_oneof![any::<u8>(), prop::sample::select(b"[]{}:,\"\\ \n-1".to_vec())], 0..60),
        end in prop::sample::select(vec![&b""[..], b"]", b"}]", b"\x04\0\0\0PAR1", b"PK\x05\x06"]),
    ) {
        // Both results are acceptable. Only a panic is not.
        let _ = table(format, [start, &bytes, end].concat());
    }

    #[test]
    fn integers_and_reals_convert_to_themselves(integer: i64, real in prop::num::f64::NORMAL) {
        let converted = convert(&integer.to_string(), Affinity::Integer);
        prop_assert_eq!(converted, Ok(CellValue::Integer(integer)));
        prop_assert_eq!(convert(&format!("{real:e}"), Affinity::Real), Ok(CellValue::Real(real)));
    }
}

#[test]
fn a_large_file_passes_through_a_fixed_buffer() {
    let row = b"1,\"two \xF0\x9F\x98\x80\"\r\n";
    let found = with_file(Format::Csv, [b"id,name\r\n", &row.repeat(200_000)[..]].concat(), scan).unwrap();
    assert_eq!(found.rows, 200_000);
}

#[test]
fn row_errors_are_capped_but_counted() {
    let file = format!("a,b\n{}", "1\n".repeat(250));
    let Err(FileError::Rows(errors)) = with_file(Format::Csv, file, scan) else { panic!("every row is too short") };
    assert_eq!((errors.as_slice().len(), errors.total()), (100, 250));
}
