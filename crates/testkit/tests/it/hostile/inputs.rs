//! Strategies: inputs close to the rules of each target, and far from them.

use proptest::collection::vec;
use proptest::prelude::*;

use super::targets::HostileHarness;

type Bytes = BoxedStrategy<Vec<u8>>;

pub(super) fn of(name: &str, harness: &HostileHarness) -> Bytes {
    let bytes = vec(any::<u8>(), 0..300);
    match name {
        "cursor" => prop_oneof![text("[A-Za-z0-9_-]{0,1100}"), bytes, substituted(harness.cursor.clone())].boxed(),
        "token" => {
            let genuine = format!("Bearer {}", harness.secret());
            prop_oneof![
                text("(Bearer|bearer|Basic|token)?[ ,]{0,2}hsat\\.v[12]\\.[0-9A-Za-z]{47,51}( .{0,5})?"),
                bytes,
                substituted(genuine)
            ]
            .boxed()
        }
        "ref" => prop_oneof![
            text("[a-zA-Z0-9_./@{~^:-]{0,40}"),
            text("(a|/|\\.|\\.lock|@\\{|-|é|\u{7f}| |%2F|refs/heads/|HEAD){0,12}"),
            text("[0-9a-fA-F]{38,42}"),
            text("é{95,105}"),
            any::<String>().prop_map(String::into_bytes),
        ]
        .boxed(),
        "operation" => prop_oneof![
            text("(databases|ada|rivers|operations|/|%2F|%252F|cancel|https?://|[0-9a-f-]{36}|\\.\\.|\0){0,9}"),
            bytes,
            substituted(harness.operation.clone())
        ]
        .boxed(),
        "completion" => completions(harness),
        "csv" | "import-csv" => prop_oneof![text("[ab,|\"\r\n é😀\u{feff}0-9.e+-]{1,200}"), bytes].boxed(),
        "json" | "import-json" => prop_oneof![
            4 => documents().prop_map(|document| document.to_string().into_bytes()),
            2 => text("([\\[\\]{},:]|\"a\"|null|-?[0-9]{1,25}(\\.[0-9]+)?(e[0-9]{1,4})?|\\\\u[0-9a-f]{4}| |\n){0,60}"),
            1 => nested(),
            1 => bytes,
        ]
        .boxed(),
        "sql" | "sql-write" => prop_oneof![
            4 => text("(select |from t |where |insert into t values |delete from t |update t set v = |\\(|\\)|'|\"|`|;|,|\\*|1|v|\0|--|/\\*| union all |x'0|null |é|😀| ){0,40}"),
            1 => any::<String>().prop_map(String::into_bytes),
            1 => nested(),
            1 => (1usize..40, "(1\\+|not |select \\(|x|'|union all select 1 )").prop_map(|(k, part)| part.repeat(k * 1_000).into_bytes()),
        ]
        .boxed(),
        other => panic!("{other} has no strategy"),
    }
}

fn text(pattern: &'static str) -> Bytes {
    proptest::string::string_regex(pattern).unwrap().prop_map(String::into_bytes).boxed()
}

/// Replaces one byte of a good input.
fn substituted(good: String) -> Bytes {
    (0..good.len(), any::<u8>())
        .prop_map(move |(position, byte)| {
            let mut bytes = good.clone().into_bytes();
            bytes[position] = byte;
            bytes
        })
        .boxed()
}

/// Nests deeply, with or without the closing halves.
fn nested() -> Bytes {
    let pair =
        prop::sample::select(vec![("[", "]"), ("{\"a\":", "}"), ("(", ")"), ("select (", ")"), ("[{\"a\":", "}]")]);
    (pair, 1usize..5_000, any::<bool>())
        .prop_map(|((open, close), depth, closed)| {
            let end = if closed { close.repeat(depth) } else { String::new() };
            format!("{}1{end}", open.repeat(depth)).into_bytes()
        })
        .boxed()
}

fn documents() -> BoxedStrategy<serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    scalar
        .prop_recursive(5, 30, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::hash_map("[a-cr]{1,4}", inner, 0..4)
                    .prop_map(|map| serde_json::Value::from(serde_json::Map::from_iter(map))),
            ]
        })
        .boxed()
}

/// Replaces or removes one field of a good body.
fn completions(harness: &HostileHarness) -> Bytes {
    let good = harness.completion.clone();
    let fields: Vec<String> = good.as_object().unwrap().keys().cloned().collect();
    (prop::sample::select(fields), proptest::option::of(documents()))
        .prop_map(move |(field, other)| {
            let mut body = good.clone();
            match other {
                Some(other) => body[&field] = other,
                None => drop(body.as_object_mut().unwrap().remove(&field)),
            }
            body.to_string().into_bytes()
        })
        .boxed()
}
