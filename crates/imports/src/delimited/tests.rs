//! The rules of the contract on `csv` and `psv`, by example.

use super::*;

/// The records of a file with their lines, and its row errors.
type Outcome = (Vec<(u64, Vec<String>)>, Vec<String>);

fn read_with(file: &[u8], delimiter: Delimiter, limits: FileLimits) -> Result<Outcome, FileError> {
    let mut reader = DelimitedReader::new(file, delimiter, limits)?;
    let mut errors = RowErrors::default();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record(&mut errors)? {
        records.push((record.line(), record.iter().map(str::to_owned).collect()));
    }
    let shown = errors.as_slice().iter().map(ToString::to_string).collect();
    Ok((records, shown))
}

fn read(file: &str) -> Outcome {
    read_with(file.as_bytes(), Delimiter::COMMA, FileLimits::default()).unwrap()
}

fn refusal(file: &[u8]) -> String {
    let outcome = read_with(file, Delimiter::COMMA, FileLimits::default());
    outcome.unwrap_err().to_string()
}

#[test]
fn what_a_record_holds() {
    let cases: &[(&str, [&str; 2])] = &[
        ("1,2\n", ["1", "2"]),
        ("1,2\r\n", ["1", "2"]),
        ("1,2", ["1", "2"]),
        ("1,", ["1", ""]),
        (",", ["", ""]),
        ("\"\",\"\"", ["", ""]),
        ("\"1\",\"2\"\r\n", ["1", "2"]),
        ("\"a,b\",\"c\nd\"", ["a,b", "c\nd"]),
        ("\"a\r\nb\",\"\r\"", ["a\r\nb", "\r"]),
        ("\"\"\"\",\"a\"\"b\"", ["\"", "a\"b"]),
        ("a\"b,\"\"\"\"\"\"", ["a\"b", "\"\""]),
        ("5\",a\"\"", ["5\"", "a\"\""]),
        (" \"a\", b ", [" \"a\"", " b "]),
        ("\t,\u{a0}", ["\t", "\u{a0}"]),
        ("a\rb,\rc", ["a\rb", "\rc"]),
        ("a,b\r", ["a", "b\r"]),
        ("\r,\r\r\n", ["\r", "\r"]),
        ("\u{feff},\0", ["\u{feff}", "\0"]),
        ("a|b,c;d", ["a|b", "c;d"]),
    ];
    for (body, fields) in cases {
        let fields = fields.map(str::to_owned).to_vec();
        let expected = (vec![(2, fields)], vec![]);
        assert_eq!(read(&format!("x,y\n{body}")), expected, "{body:?}");
    }
}

#[test]
fn psv_differs_only_in_the_delimiter() {
    let file = b"x|y\n1,2|\"a|\"\"b\"\n";
    let (records, errors) = read_with(file, Delimiter::PIPE, FileLimits::default()).unwrap();
    assert_eq!(records, [(2, vec!["1,2".to_owned(), "a|\"b".to_owned()])]);
    assert!(errors.is_empty());
}

#[test]
fn empty_lines_are_skipped_but_counted() {
    let (records, errors) = read("\n\r\nx\n\n1\r\n\r\n\"\"\n \n\n");
    let lines: Vec<_> = records.iter().map(|(line, fields)| (*line, fields[0].as_str())).collect();
    assert_eq!(lines, [(5, "1"), (7, ""), (8, " ")]);
    assert!(errors.is_empty());
}

#[test]
fn a_record_is_on_the_line_it_begins() {
    let (records, errors) = read("\"x\ny\",z\n\"a\n\r\nb\",1\n2,\"\n\"\n3\n4,5\n");
    let lines: Vec<_> = records.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 6, 9]);
    assert_eq!(errors, ["line 8: 1 field, the header has 2"]);
}

#[test]
fn defects_of_rows() {
    let cases = [
        ("1", "line 2: 1 field, the header has 2"),
        ("1,2,", "line 2: 3 fields, the header has 2"),
        (" ", "line 2: 1 field, the header has 2"),
        ("\"1\"2,3", "line 2: column x: characters after a closing quote"),
        ("1,\"2\" ", "line 2: column y: characters after a closing quote"),
        ("1,\"2\"\r", "line 2: column y: characters after a closing quote"),
        ("1,\"2\"\r3", "line 2: column y: characters after a closing quote"),
        ("1,2,\"3\"4", "line 2: characters after a closing quote"),
        ("1,\"2", "line 2: column y: a quote is never closed"),
        ("1,\"", "line 2: column y: a quote is never closed"),
        ("\"1\"2,\"3", "line 2: column y: a quote is never closed"),
    ];
    for (body, expected) in cases {
        let outcome = read(&format!("x,y\n{body}"));
        assert_eq!(outcome, (vec![], vec![expected.to_owned()]), "{body:?}");
    }
}

#[test]
fn reading_goes_on_after_a_defect() {
    let (records, errors) = read("x,y\n\"1\"2,\"a\nb\"\n3,4\n\"5\"\"\"6\n7,8\n");
    assert_eq!(records.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4, 6]);
    assert_eq!(
        errors,
        ["line 2: column x: characters after a closing quote", "line 5: column x: characters after a closing quote",]
    );
}

#[test]
fn a_header_is_required() {
    for file in ["", "\n", "\r\n\n\n", "\u{feff}", "\u{feff}\n"] {
        assert_eq!(refusal(file.as_bytes()), "line 1: the file has no header", "{file:?}");
    }
}

#[test]
fn names_are_given_and_distinct() {
    let cases = [
        ("a,,b", "line 1: column 2 has no name"),
        ("a,\n", "line 1: column 2 has no name"),
        ("\n\n\"\"\n", "line 3: column 1 has no name"),
        ("a,b,a", "line 1: two columns have the name 'a'"),
        ("id,ID", "line 1: the column names 'id' and 'ID' differ only in case"),
        ("a\0b", "line 1: the name of column 1 has a NUL character"),
        ("a,\"b\"c", "line 1: characters after a closing quote"),
        ("\n\"a,b", "line 2: a quote is never closed"),
    ];
    for (file, expected) in cases {
        assert_eq!(refusal(file.as_bytes()), expected, "{file:?}");
    }
    let reader =
        DelimitedReader::new("\u{feff}\"a\"\"b\", a,É,é\r\n".as_bytes(), Delimiter::COMMA, FileLimits::default());
    assert_eq!(reader.unwrap().columns(), ["a\"b", " a", "É", "é"]);
}

#[test]
fn other_encodings_are_named() {
    let cases: [(&[u8], &str); 6] = [
        (b"\xFF\xFEa\0", "line 1: the file is UTF-16, not UTF-8"),
        (b"\0\0\xFE\xFF", "line 1: the file is UTF-32, not UTF-8"),
        (b"\xFF", "line 1: not valid UTF-8"),
        (b"a\n1\n\n\xC3(\n", "line 4: not valid UTF-8"),
        (b"a\n\"1\n2\n\xE2\x82", "line 4: not valid UTF-8"),
        (b"a\n1\r\n\xED\xA0\x80", "line 3: not valid UTF-8"),
    ];
    for (file, expected) in cases {
        assert_eq!(refusal(file), expected, "{file:?}");
    }
}

#[test]
fn values_have_a_limit() {
    let limits = FileLimits { value_bytes: 3, ..FileLimits::default() };
    let file = b"x,y\nabc,\"d\"\"e\"\nabcd,1\n1,\"d\"\"ef\"\n1,2,34567\n1,2\n1,\"2345";
    let (records, errors) = read_with(file, Delimiter::COMMA, limits).unwrap();
    assert_eq!(records.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 6]);
    assert_eq!(
        errors,
        [
            "line 3: column x: the value is longer than 3 bytes",
            "line 4: column y: the value is longer than 3 bytes",
            "line 5: 3 fields, the header has 2",
            "line 7: column y: a quote is never closed",
        ]
    );
}

#[test]
fn the_default_value_limit_is_16_mib() {
    let mut file = String::from("x\n");
    file.push_str(&"a".repeat(16 << 20));
    assert_eq!(read(&file).0.len(), 1);
    file.push('a');
    assert_eq!(read(&file).1, ["line 2: column x: the value is longer than 16777216 bytes"]);
}

#[test]
fn columns_have_a_limit() {
    let header = |columns: usize| {
        let names: Vec<_> = (0..columns).map(|column| format!("c{column}")).collect();
        names.join(",")
    };
    let file = header(2_000);
    let reader = DelimitedReader::new(file.as_bytes(), Delimiter::COMMA, FileLimits::default());
    assert_eq!(reader.unwrap().columns().len(), 2_000);
    assert_eq!(refusal(header(2_001).as_bytes()), "line 1: more than 2000 columns");
    assert_eq!(refusal(&[b','; 100_000]), "line 1: more than 2000 columns");
}

#[test]
fn a_failing_input_is_not_the_files_fault() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::TimedOut.into())
        }
    }
    let input = b"a\n1\n".chain(Failing);
    let mut reader = DelimitedReader::new(input, Delimiter::COMMA, FileLimits::default()).unwrap();
    let mut errors = RowErrors::default();
    assert!(reader.next_record(&mut errors).unwrap().is_some());
    assert!(matches!(reader.next_record(&mut errors), Err(FileError::Io(_))));
}
