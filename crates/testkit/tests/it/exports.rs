//! Exports of commits and tables in every format.

use branchyard_testkit::{Actor, Server};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

const EXPORT: &str = "/databases/ada/d/export";

const TABLES: &str = "create table people (id integer primary key, name text not null, score real, photo blob, \
    initial text generated always as (substr(name, 1, 1)) virtual, check (id > 0));
    create table \"odd \"\" name\" (k text, n integer, primary key (n, k)) without rowid;
    create table notes (text text);
    create index by_name on people (name collate nocase) where score is not null;
    create view top as select name, score from people where score > 1;
    create trigger keep after insert on people begin insert into notes values (new.name); end;
    insert into people (id, name, score, photo) values
        (1, '=1+1', 1.5, x'00ff'), (2, 'it''s', null, null), (9007199254740993, 'Bjørn', 2.0, x'');
    insert into \"odd \"\" name\" values ('a', 2), ('b', 1)";

struct Sent {
    status: u16,
    headers: HeaderMap,
    bytes: Vec<u8>,
}

impl Sent {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).unwrap()
    }
}

fn fetch(actor: &Actor, query: &str, headers: &[(&str, &str)]) -> Sent {
    let mut request = actor.request(Method::GET, &format!("{EXPORT}?{query}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Sent { status, headers, bytes: response.bytes().unwrap().to_vec() }
}

fn world() -> (Server, Actor) {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    ada.write("ada/d", "main", TABLES);
    (server, ada)
}

/// Opens a SQLite file of bytes.
fn sqlite(bytes: &[u8]) -> (tempfile::TempDir, rusqlite::Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.sqlite");
    std::fs::write(&path, bytes).unwrap();
    let uri = format!("file:{}?doltlite_engine=sqlite", path.display());
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    (folder, rusqlite::Connection::open_with_flags(uri, flags).unwrap())
}

fn lines(connection: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let width = statement.column_count();
    let line = |row: &rusqlite::Row<'_>| {
        let cell = |at: usize| match row.get_ref(at)? {
            rusqlite::types::ValueRef::Null => Ok("NULL".to_owned()),
            rusqlite::types::ValueRef::Integer(number) => Ok(number.to_string()),
            rusqlite::types::ValueRef::Real(number) => Ok(format!("{number:?}")),
            rusqlite::types::ValueRef::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            rusqlite::types::ValueRef::Blob(bytes) => Ok(format!("{bytes:?}")),
        };
        (0..width).map(cell).collect::<rusqlite::Result<Vec<_>>>().map(|cells| cells.join("|"))
    };
    statement.query_map([], line).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn a_sqlite_file_has_everything_but_history() {
    let (_server, ada) = world();
    ada.write("ada/d", "main", "insert into notes values ('a secret of the past')");
    ada.write("ada/d", "main", "delete from notes where text = 'a secret of the past'");
    let sent = fetch(&ada, "format=sqlite", &[]);
    assert_eq!((sent.status, sent.header("content-type")), (200, "application/vnd.sqlite3"));
    assert_eq!(sent.header("content-length"), sent.bytes.len().to_string());
    assert_eq!(sent.header("content-disposition"), "attachment; filename=\"d-main.sqlite\"");
    assert!(sent.bytes.starts_with(b"SQLite format 3\0"));
    assert!(!String::from_utf8_lossy(&sent.bytes).contains("secret of the past"));
    let (_folder, file) = sqlite(&sent.bytes);
    assert_eq!(lines(&file, "pragma integrity_check"), ["ok"]);
    assert_eq!(
        lines(&file, "select type, name from sqlite_schema order by type, name"),
        ["index|by_name", "table|notes", "table|odd \" name", "table|people", "trigger|keep", "view|top"]
    );
    assert_eq!(
        lines(&file, "select * from people"),
        ["1|=1+1|1.5|[0, 255]|=", "2|it's|NULL|NULL|i", "9007199254740993|Bjørn|2.0|[]|B",]
    );
    assert_eq!(lines(&file, "select * from \"odd \"\" name\""), ["b|1", "a|2"]);
    assert_eq!(lines(&file, "select * from top"), ["=1+1|1.5", "Bjørn|2.0"]);
    assert_eq!(lines(&file, "select count(*) from notes"), ["3"], "the trigger did not run again");
    file.execute_batch("insert into people (id, name) values (4, 'new')").unwrap();
    assert_eq!(lines(&file, "select count(*) from notes"), ["4"], "it works in the file");
}

#[test]
fn a_script_makes_the_same_tables() {
    let (_server, ada) = world();
    let script = fetch(&ada, "format=sql", &[]);
    assert_eq!((script.status, script.header("content-type")), (200, "application/sql"));
    let (_folder, file) = sqlite(b"");
    file.execute_batch(&script.text()).unwrap();
    let everything = "select id, name, score, hex(photo), initial from people";
    assert_eq!(lines(&file, everything), ["1|=1+1|1.5|00FF|=", "2|it's|NULL||i", "9007199254740993|Bjørn|2.0||B"]);
    assert_eq!(lines(&file, "select count(*) from notes"), ["3"]);
    ada.database("again");
    let fields = json!({"table_name": "", "import_operation": "create"});
    let body = ada.upload("ada/again", "sql", &script.bytes, 1, &fields);
    let done = ada.finish(&ada.post("/databases/ada/again/imports", &body));
    assert_eq!(done["status"], "succeeded", "{done}");
    let rows = |database: &str| ada.read(database, "main", everything);
    assert_eq!(rows("ada/again"), rows("ada/d"));
    let objects = "select type, name, sql from sqlite_schema where name not like 'dolt%' order by 1, 2";
    assert_eq!(ada.read("ada/again", "main", objects), ada.read("ada/d", "main", objects));
}

#[test]
fn a_table_in_every_format() {
    let (_server, ada) = world();
    let csv = fetch(&ada, "format=csv&table=PEOPLE", &[]);
    assert_eq!(csv.header("content-disposition"), "attachment; filename=\"people.csv\"");
    let expected = "id,name,score,photo,initial\n1,=1+1,1.5,AP8=,=\n2,it's,,,i\n9007199254740993,Bjørn,2.0,,B\n";
    assert_eq!(csv.text(), expected);
    let safe = fetch(&ada, "format=csv&table=people&safe=true", &[]);
    assert_eq!(safe.text(), expected.replace("1,=1+1,1.5,AP8=,=", "1,'=1+1,1.5,AP8=,'="));

    let rows: Value = serde_json::from_slice(&fetch(&ada, "format=json&table=people", &[]).bytes).unwrap();
    assert_eq!(rows[0], json!({"id": 1, "name": "=1+1", "score": 1.5, "photo": "AP8=", "initial": "="}));
    assert_eq!(rows[1]["score"], Value::Null);
    assert_eq!(fetch(&ada, "format=json&table=top", &[]).text().lines().count(), 4, "views too");

    for file_type in ["parquet", "xlsx"] {
        let sent = fetch(&ada, &format!("format={file_type}&table=people"), &[]);
        assert_eq!(sent.status, 200, "{file_type}: {}", String::from_utf8_lossy(&sent.bytes));
        assert_eq!(sent.header("content-length"), sent.bytes.len().to_string());
        let back = json!({"table_name": "back", "import_operation": "overwrite"});
        let done = ada.import("ada/d", file_type, &sent.bytes, 1, &back);
        assert_eq!(done["status"], "succeeded", "{file_type}: {done}");
        let rows = ada.read("ada/d", "main", "select id, name, score from back order by 1");
        let exact = json!([["1", "=1+1", "1.5"], ["2", "it's", null], ["9007199254740993", "Bjørn", "2.0"]]);
        assert_eq!(rows.as_array().unwrap().len(), 3);
        if file_type == "parquet" {
            assert_eq!(rows, exact);
            let photo = ada.read("ada/d", "main", "select typeof(photo), hex(photo) from back where id = 1");
            assert_eq!(photo, json!([["blob", "00FF"]]));
        }
    }
    let zip = fetch(&ada, "format=zip", &[]);
    assert!(zip.bytes.starts_with(b"PK"));
    assert_eq!(zip.header("content-disposition"), "attachment; filename=\"d-main.zip\"");
}

#[test]
fn unchanged_exports_and_parts_of_files() {
    let (_server, ada) = world();
    for format in ["sqlite", "sql", "csv&table=people", "json&table=people", "parquet&table=people", "zip"] {
        let sent = fetch(&ada, &format!("format={format}"), &[]);
        let etag = sent.header("etag").to_owned();
        assert!(etag.starts_with('"'), "{format}");
        let known = fetch(&ada, &format!("format={format}"), &[("If-None-Match", &etag)]);
        assert_eq!((known.status, known.bytes.len()), (304, 0), "{format}");
    }
    let query = "format=sqlite&ref=main";
    let whole = fetch(&ada, query, &[]);
    let (etag, length) = (whole.header("etag").to_owned(), whole.bytes.len());
    assert_eq!(whole.header("accept-ranges"), "bytes");
    let part = fetch(&ada, query, &[("Range", "bytes=16-99"), ("If-Range", &etag)]);
    assert_eq!((part.status, part.header("content-range")), (206, format!("bytes 16-99/{length}").as_str()));
    assert_eq!(part.bytes, whole.bytes[16..100]);
    let last = fetch(&ada, query, &[("Range", "bytes=-10")]);
    assert_eq!((last.status, &last.bytes[..]), (206, &whole.bytes[length - 10..]));
    let beyond = fetch(&ada, query, &[("Range", &format!("bytes={length}-"))]);
    assert_eq!((beyond.status, beyond.header("content-range")), (416, format!("bytes */{length}").as_str()));
    let other = fetch(&ada, query, &[("Range", "bytes=0-9"), ("If-Range", "\"other\"")]);
    assert_eq!((other.status, other.bytes.len()), (200, length));

    ada.write("ada/d", "main", "insert into notes values ('more')");
    let changed = fetch(&ada, query, &[("If-None-Match", &etag), ("Range", "bytes=0-9"), ("If-Range", &etag)]);
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), etag);
    // A view may have other rows at the same commit.
    assert_eq!(fetch(&ada, "format=csv&table=top", &[]).header("etag"), "");
}

#[test]
fn what_cannot_be_exported() {
    let (server, ada) = world();
    let parameter = |query: &str| {
        let problem = ada.get(&format!("{EXPORT}?{query}")).expect(400).json();
        problem["errors"][0]["parameter"].as_str().unwrap().to_owned()
    };
    assert_eq!(parameter(""), "format");
    assert_eq!(parameter("format=doc"), "format");
    for format in ["csv", "json", "parquet", "xlsx"] {
        assert_eq!(parameter(&format!("format={format}")), "table");
    }
    assert_eq!(parameter("format=csv&table=people&safe=yes"), "safe");
    ada.get(&format!("{EXPORT}?format=csv&table=nope")).expect(404);
    ada.get(&format!("{EXPORT}?format=xlsx&table=nope")).expect(404);
    ada.get(&format!("{EXPORT}?format=sqlite&ref=nope")).expect(404);
    ada.write("ada/d", "main", "create view broken as select * from nowhere; create table wide (t text)");
    ada.get(&format!("{EXPORT}?format=csv&table=broken")).expect(422);
    ada.get(&format!("{EXPORT}?format=parquet&table=broken")).expect(422);
    ada.write("ada/d", "main", "insert into wide values (printf('%.*c', 32768, 'x'))");
    let long = ada.get(&format!("{EXPORT}?format=xlsx&table=wide")).expect(422).json();
    assert!(long["detail"].as_str().unwrap().contains("at most 32767 characters"), "{long}");

    ada.patch("/databases/ada/d", &json!({"visibility": "public"})).expect(200);
    let visitor = server.anonymous();
    visitor.request(Method::GET, &format!("{EXPORT}?format=sqlite")).send().unwrap().error_for_status().unwrap();
    ada.patch("/databases/ada/d", &json!({"visibility": "private"})).expect(200);
    visitor.get(&format!("{EXPORT}?format=sqlite")).expect(404);
    visitor.get(&format!("{EXPORT}?format=nonsense")).expect(404);
}
