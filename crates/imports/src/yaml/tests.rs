//! The rules of the contract (v2 §5.7), case by case.

use crate::format::{FileLimits, Format};
use crate::testing::{errors, int, read, read_bytes, text, with_limits};
use crate::value::CellValue;

fn yaml(file: impl AsRef<[u8]>) -> crate::testing::ReadTable {
    read_bytes(Format::Yaml, file).unwrap()
}

fn wrong(file: impl AsRef<[u8]>) -> Vec<String> {
    errors(read_bytes(Format::Yaml, file))
}

#[test]
fn shapes() {
    let expected = vec![("id".to_owned(), "INTEGER"), ("name".to_owned(), "TEXT")];
    for (file, lines) in [
        ("- id: 1\n  name: a\n- name: b\n", [1, 3]),
        ("rows:\n  - id: 1\n    name: a\n  - name: b\n", [2, 4]),
        ("\u{feff}---\n# people\n[{id: 1, name: a},\n {name: 'b'}]\n...\n", [3, 4]),
        ("[{\"id\": 1, \"name\": \"a\"}, {\"name\": \"b\", \"id\": null}]", [1, 1]),
    ] {
        let (columns, rows) = yaml(file);
        assert_eq!(columns, expected, "{file}");
        let values = [vec![int(1), text("a")], vec![CellValue::Null, text("b")]];
        assert_eq!(rows, lines.into_iter().zip(values).collect::<Vec<_>>(), "{file}");
    }
}

#[test]
fn values_by_their_kind() {
    let (columns, rows) = yaml(
        "- int: 0x10\n  real: 1.5\n  truth: true\n  none: ~\n  word: yes\n  quoted: '12'\n  block: |\n    a\n    b\n  tagged: !!str 5\n  deep:\n    k: [1, 2.5, x, null, true]\n    'q\"': {}\n",
    );
    let types: Vec<_> = columns.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(types, ["INTEGER", "REAL", "INTEGER", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT"]);
    let expected = [
        int(16),
        CellValue::Real(1.5),
        int(1),
        CellValue::Null,
        text("yes"),
        text("12"),
        text("a\nb\n"),
        text("5"),
        text("{\"k\":[1,2.5,\"x\",null,true],\"q\\\"\":{}}"),
    ];
    assert_eq!(rows[0].1, expected);
}

#[test]
fn what_could_grow_without_end_is_refused() {
    assert_eq!(wrong("- &a {x: 1}\n- *a\n"), ["line 1: anchors are not allowed"]);
    assert_eq!(wrong("- {x: *a}\n").len(), 1);
    assert_eq!(wrong("- x: 1\n- x: !thing 2\n"), ["line 2: the tag !thing is not one of the core schema"]);
    assert_eq!(wrong("- x: !!binary aGk=\n").len(), 1);
}

#[test]
fn values_inside_values_are_held_to_the_same() {
    let twice = ["line 1: column a: the key 'k' occurs twice in an object inside the value"];
    assert_eq!(wrong("- a: {k: 1, k: 2}\n"), twice);
    assert_eq!(wrong("- a: [0, {x: {k: {k: 1}, 'k': 2}}]\n"), twice);
    let outside = wrong("- a: [1, 9223372036854775808]\n");
    assert_eq!(outside, ["line 1: column a: 9223372036854775808 is not a 64-bit integer"]);
    yaml("- a: {k: {k: 1}, x: [{k: 1}, {k: 2}]}\n");
}

#[test]
fn other_shapes_are_refused() {
    for file in ["a: 1\n", "rows: 1\n", "12", "rows: []\nmore: 1\n"] {
        assert!(wrong(file)[0].contains("neither a list of mappings"), "{file}: {:?}", wrong(file));
    }
    assert_eq!(wrong("- a: 1\n---\n- a: 2\n"), ["line 2: more than one document"]);
    assert_eq!(wrong("- a: 1\n- 2\n- a: 1\n  a: 2\n").last().unwrap(), "line 3: column a: the key occurs twice");
    assert_eq!(wrong("- a: 1\n- 2\n")[0], "line 2: the record is not a mapping");
    assert_eq!(wrong("- {[1]: 2}\n"), ["line 1: a key is not a scalar"]);
    assert_eq!(wrong("- a: 'open\n").len(), 1);
    assert_eq!(wrong("- a: 1\n- a: \"\u{1}\n")[0].split(':').next(), Some("line 2"));
    assert_eq!(wrong(""), ["the file has no columns"]);
    assert_eq!(wrong("[]"), ["the file has no columns"]);
    assert_eq!(wrong(b"- a: 1\n- a: \xff\n"), ["line 2: not valid UTF-8"]);
    assert_eq!(wrong(b"\xFE\xFF\0-"), ["line 1: the file is UTF-16, not UTF-8"]);
}

#[test]
fn limits_hold_at_their_number_and_not_past_it() {
    let limits = FileLimits { columns: 2, value_bytes: 64, ..FileLimits::default() };
    let told = |file: String| match with_limits(Format::Yaml, file, "t", limits, read) {
        Ok(_) => Vec::new(),
        failed => errors(failed),
    };
    assert_eq!(told("- {a: 1, b: 2}\n- {c: 3}\n".to_owned()), ["line 2: more than 2 columns"]);
    assert_eq!(told(format!("- a: {}\n", "x".repeat(64))), Vec::<String>::new());
    let too_long = ["line 1: column a: the value is longer than 64 bytes"];
    assert_eq!(told(format!("- a: {}\n", "x".repeat(65))), too_long);
    assert_eq!(told(format!("- a: [{}]\n", "x".repeat(61))), too_long);
    assert_eq!(told(format!("- a: [{}]\n", "1, ".repeat(40))), too_long);
    assert_eq!(told(format!("- a: {}\n", "x".repeat(1_000))), ["line 1: the value is longer than 64 bytes"]);
    let nested = |levels: usize| format!("- a: {}{}\n", "[".repeat(levels), "]".repeat(levels));
    yaml(nested(64));
    assert_eq!(wrong(nested(65)), ["line 1: nested deeper than 64 levels"]);
    assert_eq!(wrong(nested(100_000)).len(), 1);
    assert_eq!(wrong("- ".repeat(100_000)).len(), 1);
}
