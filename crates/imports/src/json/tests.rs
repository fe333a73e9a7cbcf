//! The rules of the contract (v2 §5.7, §5.8), case by case.

use crate::format::{FileLimits, Format};
use crate::testing::{errors, int, read, read_bytes, rows_into, text, with_input, with_limits};
use crate::value::{Affinity, CellValue};

fn json(file: impl AsRef<[u8]>) -> crate::testing::ReadTable {
    read_bytes(Format::Json, file).unwrap()
}

fn wrong(file: impl AsRef<[u8]>) -> Vec<String> {
    errors(read_bytes(Format::Json, file))
}

#[test]
fn all_three_shapes_are_the_same_table() {
    let expected = vec![("id".to_owned(), "INTEGER"), ("name".to_owned(), "TEXT")];
    for file in [
        "[{\"id\":1,\"name\":\"a\"},{\"name\":\"b\"}]",
        "{\"rows\":[{\"id\":1,\"name\":\"a\"},{\"name\":\"b\"}]}",
        "{\"id\":1,\"name\":\"a\"}\n{\"name\":\"b\"}\n",
        "\u{feff}\n[\n  {\"id\": 1, \"name\": \"a\"},\n  {\"name\": \"b\", \"id\": null}\n]",
    ] {
        let (columns, rows) = json(file);
        assert_eq!(columns, expected, "{file}");
        let values: Vec<_> = rows.into_iter().map(|(_, values)| values).collect();
        assert_eq!(values, [vec![int(1), text("a")], vec![CellValue::Null, text("b")]], "{file}");
    }
}

#[test]
fn columns_are_keys_in_order_of_first_appearance() {
    let (columns, rows) = json("{\"b\":1}\n{\"a\":2,\"b\":3}\n{\"c\":4}");
    let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c"]);
    assert_eq!(rows[1].1, [int(3), int(2), CellValue::Null]);
}

#[test]
fn values_by_their_kind() {
    let (columns, rows) = json(
        r#"[{"i":-5,"r":1.5,"e":1e3,"t":true,"f":false,"n":null,"s":"é\n\u00e9","o":{ "a" : [1, "x y"] },"l":[ ]}]"#,
    );
    let types: Vec<_> = columns.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(types, ["INTEGER", "REAL", "REAL", "INTEGER", "INTEGER", "TEXT", "TEXT", "TEXT", "TEXT"]);
    let expected = [
        int(-5),
        CellValue::Real(1.5),
        CellValue::Real(1000.0),
        int(1),
        int(0),
        CellValue::Null,
        text("é\né"),
        text("{\"a\":[1,\"x y\"]}"),
        text("[]"),
    ];
    assert_eq!(rows[0].1, expected);
    let (columns, rows) = json(r#"[{"a":1},{"a":2.5},{"a":"x"},{"a":""}]"#);
    assert_eq!(columns[0].1, "TEXT");
    let values: Vec<_> = rows.iter().map(|(_, values)| values[0].clone()).collect();
    assert_eq!(values, [text("1"), text("2.5"), text("x"), text("")]);
}

#[test]
fn lines_are_physical_and_records_are_numbered_on_a_single_line() {
    assert_eq!(
        wrong("{\"a\":1}\n\n{\"a\":x}\n3"),
        ["line 3: not valid JSON: expected value", "line 4: the record is not an object",]
    );
    assert_eq!(
        wrong("[{\"a\":1},\n {\"a\":1,\"a\":2}, 7]"),
        ["line 2: column a: the key occurs twice", "line 2: the record is not an object",]
    );
    assert_eq!(
        wrong("[{\"a\":1},{\"a\":1,\"a\":2},7]\n"),
        ["line 2: column a: the key occurs twice", "line 3: the record is not an object",]
    );
    assert_eq!(wrong("[{\"a\":1},{\"a\""), ["line 2: the file ends within the record"]);
    assert_eq!(wrong("[{\"a\":1},\n\n{\"a\":\"\u{1}\"}]").len(), 1);
}

#[test]
fn numbers_outside_64_bits_are_row_errors() {
    assert_eq!(json("[{\"a\":9223372036854775807},{\"a\":-9223372036854775808}]").1[1].1, [int(i64::MIN)]);
    assert_eq!(
        wrong("[{\"a\":9223372036854775808}]"),
        ["line 1: column a: 9223372036854775808 is not a 64-bit integer"]
    );
    assert_eq!(wrong("[{\"a\":1e999}]"), ["line 1: column a: 1e999 is beyond the range of numbers"]);
}

#[test]
fn values_inside_values_are_held_to_the_same() {
    let inside = |value: &str| wrong(format!("[{{\"a\":{value}}}]"));
    let twice = ["line 1: column a: the key 'k' occurs twice in an object inside the value"];
    assert_eq!(inside(r#"{"k":1,"k":2}"#), twice);
    assert_eq!(inside(r#"[0,{"x":{"k":{"k":1},"\u006b":2}}]"#), twice);
    assert_eq!(inside("[1,9223372036854775808]"), ["line 1: column a: 9223372036854775808 is not a 64-bit integer"]);
    assert_eq!(inside(r#"{"k":-1e999}"#), ["line 1: column a: -1e999 is beyond the range of numbers"]);
    let kept = r#"{"k":{"k":"k"},"a\"}":["k","k",{"k":"k"}],"n":[9223372036854775807,-0.5e-3,true,null]}"#;
    assert_eq!(json(format!("[{{\"a\":{}}}]", kept.replace(':', " :\n "))).1[0].1, [text(kept)]);
}

#[test]
fn keys_must_be_names() {
    assert_eq!(wrong("[{\"\":1}]"), ["line 1: column 1 has no name"]);
    assert_eq!(wrong("[{\"a\":1,\"A\":1}]"), ["line 1: the column names 'a' and 'A' differ only in case"]);
}

#[test]
fn limits_hold_at_their_number_and_not_past_it() {
    let limits = FileLimits { columns: 2, value_bytes: 64, ..FileLimits::default() };
    let told = |file: String| match with_limits(Format::Json, file, "t", limits, read) {
        Ok(_) => Vec::new(),
        failed => errors(failed),
    };
    assert_eq!(told("[{\"a\":1,\"b\":2}]".to_owned()), Vec::<String>::new());
    assert_eq!(told("[{\"a\":1,\"b\":2},{\"c\":3}]".to_owned()), ["line 2: more than 2 columns"]);
    assert_eq!(told(format!("[{{\"a\":\"{}\"}}]", "x".repeat(64))), Vec::<String>::new());
    assert_eq!(
        told(format!("[{{\"a\":\"{}\"}}]", "x".repeat(65))),
        ["line 1: column a: the value is longer than 64 bytes"]
    );
    assert_eq!(
        told(format!("[{{\"a\":[\"{}\"]}}]", "x".repeat(61))),
        ["line 1: column a: the value is longer than 64 bytes"]
    );
    assert_eq!(
        told(format!("[{{\"a\":1}},{{\"a\":\"{}\"}},{{\"a\":x}}]", "x".repeat(300))),
        ["line 2: the record is longer than 256 bytes", "line 3: not valid JSON: expected value"]
    );
    let nested = |levels: usize| format!("[{{\"a\":{}{}}}]", "[".repeat(levels), "]".repeat(levels));
    json(nested(64));
    assert_eq!(wrong(nested(65)), ["line 1: column a: nested deeper than 64 levels"]);
    assert_eq!(wrong(nested(100_000)), ["line 1: column a: nested deeper than 64 levels"]);
}

#[test]
fn other_encodings_and_broken_ones_name_the_line() {
    assert_eq!(wrong(b"\xFF\xFE[\0"), ["line 1: the file is UTF-16, not UTF-8"]);
    assert_eq!(wrong(b"[{\"a\":1},\n{\"a\":\"\xff\"}]"), ["line 2: not valid UTF-8"]);
    assert_eq!(wrong(""), ["the file has no columns"]);
    assert_eq!(wrong("[]"), ["the file has no columns"]);
    assert_eq!(wrong("[{}]"), ["the file has no columns"]);
}

#[test]
fn a_table_present_decides_by_its_affinity() {
    let file = "[{\"a\":2.0},{\"a\":\"7\"},{\"a\":null}]";
    let into = |affinity| with_input(Format::Json, file, |input| rows_into(input, |_| affinity));
    assert_eq!(into(Affinity::Integer).unwrap(), [[int(2)], [int(7)], [CellValue::Null]]);
    assert_eq!(into(Affinity::None).unwrap(), [[CellValue::Real(2.0)], [text("7")], [CellValue::Null]]);
    assert_eq!(into(Affinity::Text).unwrap(), [[text("2.0")], [text("7")], [CellValue::Null]]);
}
