//! Types of columns, delimiters and encodings that an import names.

use branchyard_testkit::{Actor, Server};
use serde_json::{Value, json};

/// Values whose spelling numbers do not keep.
const SPELLED: &str = "phone,version,code,amount\n+4712345678,1.10,1e5,1\n+4787654321,1.2,007,2.5\n";

fn ada(server: &Server) -> Actor {
    let ada = server.user("ada");
    ada.database("d");
    ada
}

fn imported(ada: &Actor, file_type: &str, file: &[u8], fields: &Value) {
    let mut all = json!({"import_operation": "overwrite"});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let done = ada.import("ada/d", file_type, file, 1, &all);
    assert_eq!(done["status"], "succeeded", "{done}");
}

fn types(ada: &Actor) -> Value {
    ada.read("ada/d", "main", "select group_concat(type, ' ') from pragma_table_info('t')")[0][0].clone()
}

#[test]
fn without_column_types_the_values_decide() {
    let server = Server::start();
    let ada = ada(&server);
    imported(&ada, "csv", SPELLED.as_bytes(), &json!({}));
    assert_eq!(types(&ada), "INTEGER REAL TEXT REAL");
    let rows = ada.read("ada/d", "main", "select * from t");
    assert_eq!(rows, json!([["4712345678", "1.1", "1e5", "1.0"], ["4787654321", "1.2", "007", "2.5"]]));
    imported(&ada, "csv", b"code\n1e5\n", &json!({}));
    assert_eq!(ada.read("ada/d", "main", "select code, typeof(code) from t"), json!([["100000.0", "real"]]));
}

#[test]
fn column_types_keep_the_spelling_of_values() {
    let server = Server::start();
    let ada = ada(&server);
    let chosen = json!({"phone": "TEXT", "VERSION": "TEXT", "amount": "NUMERIC"});
    imported(&ada, "csv", SPELLED.as_bytes(), &json!({"column_types": chosen}));
    assert_eq!(types(&ada), "TEXT TEXT TEXT NUMERIC");
    let rows = ada.read("ada/d", "main", "select *, typeof(amount) from t");
    assert_eq!(
        rows,
        json!([["+4712345678", "1.10", "1e5", "1", "integer"], ["+4787654321", "1.2", "007", "2.5", "real"]])
    );
    let blobs = json!({"column_types": {"b": "BLOB", "n": "REAL"}});
    imported(&ada, "csv", b"b,n\nYWI=,1\n,\n", &blobs);
    let rows = ada.read("ada/d", "main", "select hex(b), typeof(b), n from t");
    assert_eq!(rows, json!([["6162", "blob", "1.0"], ["", "null", null]]));
    imported(
        &ada,
        "json",
        br#"[{"b": "1.10", "n": 1}, {"b": 7}]"#,
        &json!({"column_types": {"b": "TEXT", "n": "TEXT"}}),
    );
    assert_eq!(ada.read("ada/d", "main", "select b, n from t"), json!([["1.10", "1"], ["7", null]]));
}

#[test]
fn values_that_do_not_fit_are_row_errors() {
    let server = Server::start();
    let ada = ada(&server);
    let fails = |file: &str, fields: Value| {
        let failed = ada.import("ada/d", "csv", file.as_bytes(), 1, &fields);
        assert_eq!(failed["error"]["code"], "OPERATION_FAILED", "{failed}");
        failed["error"]["errors"].clone()
    };
    let errors = fails("a,b\n1,2\nx,1.5\n", json!({"column_types": {"a": "INTEGER", "b": "INTEGER"}}));
    assert_eq!(
        errors,
        json!([
            {"line": 3, "column": "a", "detail": "'x' is not an integer"},
            {"line": 3, "column": "b", "detail": "'1.5' is not an integer"},
        ])
    );
    let errors = fails("a\nhello\n", json!({"column_types": {"a": "BLOB"}}));
    assert_eq!(errors[0]["detail"], "'hello' is not base64");
    // An existing table keeps its types. Values have to fit the chosen one too.
    ada.write("ada/d", "main", "create table t (a text)");
    let update = json!({"import_operation": "replace", "column_types": {"a": "INTEGER"}});
    assert_eq!(fails("a\n1.5\n", update.clone())[0]["detail"], "'1.5' is not an integer");
    let done = ada.import("ada/d", "csv", b"a\n+5\n", 1, &update);
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(ada.read("ada/d", "main", "select a, typeof(a) from t"), json!([["+5", "text"]]));
}

/// Sends an import that is refused, and returns the pointers and details of its errors.
fn refused(ada: &Actor, file_type: &str, file: &[u8], fields: &Value) -> Vec<(String, String)> {
    let body = ada.upload("ada/d", file_type, file, 1, fields);
    let problem = ada.post("/databases/ada/d/imports", &body).expect(400).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let errors = problem["errors"].as_array().unwrap().iter();
    errors.map(|error| (text(&error["pointer"]), text(&error["detail"]))).collect()
}

#[test]
fn unknown_columns_and_types_are_refused_at_once() {
    let server = Server::start();
    let ada = ada(&server);
    let pointers = |file_type: &str, file: &[u8], fields: Value| {
        refused(&ada, file_type, file, &fields).into_iter().map(|(pointer, _)| pointer).collect::<Vec<_>>()
    };
    assert_eq!(
        pointers("csv", b"a\n1\n", json!({"column_types": {"a": "INT", "b": "text"}})),
        ["/column_types/a", "/column_types/b"]
    );
    let unknown = json!({"column_types": {"a": "TEXT", "x/y": "TEXT"}, "table_name": "sqlite_x"});
    assert_eq!(pointers("csv", b"a\n1\n", unknown), ["/table_name", "/column_types/x~1y"]);
    for (file_type, file) in crate::files::all() {
        let found = pointers(file_type, &file, json!({"table_name": "people", "column_types": {"nope": "TEXT"}}));
        let expected = if file_type == "sql" { "/column_types" } else { "/column_types/nope" };
        assert_eq!(found, [expected], "{file_type}");
    }
    let twice = refused(&ada, "csv", b"a\n1\n", &json!({"column_types": {"A": "TEXT", "a": "REAL"}}));
    assert_eq!(twice, [("/column_types/a".to_owned(), "another member names the same column".to_owned())]);
}

#[test]
fn delimiters_and_encodings() {
    let server = Server::start();
    let ada = ada(&server);
    let utf16 = |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let text = "navn;by\nBjørn;Tromsø 😀\n";
    let files = [
        ("utf-16", utf16(text, u16::to_le_bytes)),
        ("utf-16", utf16(text, u16::to_be_bytes)),
        ("utf-16", utf16(&format!("\u{feff}{text}"), u16::to_le_bytes)),
        ("utf-16", utf16(&format!("\u{feff}{text}"), u16::to_be_bytes)),
        ("utf-8", format!("\u{feff}{text}").into_bytes()),
    ];
    for (encoding, file) in files {
        imported(&ada, "csv", &file, &json!({"delimiter": ";", "encoding": encoding}));
        assert_eq!(ada.read("ada/d", "main", "select navn, by from t"), json!([["Bjørn", "Tromsø 😀"]]), "{encoding}");
    }
    imported(&ada, "tsv", b"a\tb\n\x80\t\xf8\n", &json!({"encoding": "windows-1252"}));
    assert_eq!(ada.read("ada/d", "main", "select a, b from t"), json!([["€", "ø"]]));
    imported(&ada, "tsv", "a§b\n1\t2§3\n".as_bytes(), &json!({"delimiter": "§"}));
    assert_eq!(ada.read("ada/d", "main", "select a, b from t"), json!([["1\t2", "3"]]));

    let failed = ada.import("ada/d", "csv", b"a\nok\n\x81\n", 1, &json!({"encoding": "windows-1252"}));
    assert_eq!(failed["error"]["detail"], "line 3: not valid Windows-1252", "{failed}");
    let failed = ada.import("ada/d", "csv", &utf16("a\nb\n", u16::to_le_bytes)[..7], 1, &json!({"encoding": "utf-16"}));
    assert_eq!(failed["error"]["detail"], "line 2: not valid UTF-16", "{failed}");

    for (file_type, fields, pointer) in [
        ("csv", json!({"delimiter": ""}), "/delimiter"),
        ("csv", json!({"delimiter": ";;"}), "/delimiter"),
        ("csv", json!({"delimiter": "\""}), "/delimiter"),
        ("csv", json!({"encoding": "latin1"}), "/encoding"),
        ("psv", json!({"delimiter": ";"}), "/delimiter"),
        ("psv", json!({"encoding": "utf-16"}), "/encoding"),
        ("json", json!({"delimiter": ","}), "/delimiter"),
    ] {
        assert_eq!(refused(&ada, file_type, b"[1]", &fields)[0].0, pointer, "{file_type} {fields}");
    }
}
