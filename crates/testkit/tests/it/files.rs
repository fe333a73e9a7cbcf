//! Files to import, written by the usual libraries of their formats.

use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rust_xlsxwriter::Workbook;

/// The people in every file.
pub(crate) const PEOPLE: [(i64, &str); 3] = [(1, "Alice"), (2, "Bob"), (3, "Carol é")];

pub(crate) const JSON: &str =
    "[{\"id\": 1, \"name\": \"Alice\"},\n {\"id\": 2, \"name\": \"Bob\"},\n {\"id\": 3, \"name\": \"Carol \\u00e9\"}]";

pub(crate) const YAML: &str =
    "# people\nrows:\n- id: 1\n  name: Alice\n- {id: 2, name: 'Bob'}\n- id: 3\n  name: \"Carol \\xe9\"\n";

pub(crate) fn xlsx() -> Vec<u8> {
    let mut workbook = Workbook::new();
    workbook.add_worksheet().write(0, 0, "not this sheet").unwrap();
    let sheet = workbook.add_worksheet();
    sheet.set_name("People").unwrap().write(0, 0, "id").unwrap().write(0, 1, "name").unwrap();
    for (row, (id, name)) in (1..).zip(PEOPLE) {
        sheet.write(row, 0, id).unwrap().write(row, 1, name).unwrap();
    }
    workbook.save_to_buffer().unwrap()
}

pub(crate) fn parquet() -> Vec<u8> {
    let schema = parse_message_type("message m { required int64 id; required binary name (UTF8); }").unwrap();
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut ids = group.next_column().unwrap().unwrap();
    ids.typed::<Int64Type>().write_batch(&PEOPLE.map(|person| person.0), None, None).unwrap();
    ids.close().unwrap();
    let mut names = group.next_column().unwrap().unwrap();
    names.typed::<ByteArrayType>().write_batch(&PEOPLE.map(|person| ByteArray::from(person.1)), None, None).unwrap();
    names.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    file
}

pub(crate) const SCRIPT: &str = "-- people\ncreate table people (id integer primary key, name text);\ninsert into people values (1, 'Alice');\ninsert into people\n  values (2, 'Bob'), (3, 'Carol é');\n";

/// Returns a SQLite file in the standard format, with the result of these statements.
pub(crate) fn sqlite(statements: &str) -> Vec<u8> {
    use rusqlite::OpenFlags;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.sqlite");
    let uri = format!("file:{}?doltlite_engine=sqlite", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let connection = rusqlite::Connection::open_with_flags(uri, flags).unwrap();
    connection.execute_batch(statements).unwrap();
    connection.close().unwrap();
    std::fs::read(path).unwrap()
}

/// Returns a file of each type with the same people. Only the script and the SQLite file define a key.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("csv", "id,name\n1,Alice\n2,Bob\n3,Carol é\n".into()),
        ("psv", "id|name\n1|Alice\n2|Bob\n3|Carol é\n".into()),
        ("tsv", "id\tname\n1\tAlice\n2\tBob\n3\tCarol é\n".into()),
        ("json", JSON.into()),
        ("yaml", YAML.into()),
        ("xlsx", xlsx()),
        ("parquet", parquet()),
        ("sql", SCRIPT.into()),
        ("sqlite", sqlite(SCRIPT)),
    ]
}
