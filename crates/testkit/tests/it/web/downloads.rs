//! Tables as files.

use super::browser::Browser;
use super::{database, open_server, sign_up};

/// Returns the names in the central directory at the end of an archive.
fn names(bytes: &[u8]) -> Vec<String> {
    let entries: Vec<usize> =
        (0..bytes.len().saturating_sub(46)).filter(|at| bytes[*at..].starts_with(b"PK\x01\x02")).collect();
    let name = |at: usize| {
        let length = usize::from(u16::from_le_bytes([bytes[at + 28], bytes[at + 29]]));
        String::from_utf8(bytes[at + 46..at + 46 + length].to_vec()).unwrap()
    };
    entries.into_iter().map(name).collect()
}

#[test]
fn all_tables_come_as_one_archive_at_the_ref_that_is_shown() {
    let server = open_server();
    let (ada, visitor) = (sign_up(&server, "ada"), Browser::at(&server));
    let actor = database(&server, &ada, "ada");
    actor
        .post("/databases/ada/rivers/branches", &serde_json::json!({"name": "old", "from": {"branch": "main"}}))
        .expect(201);
    actor.write("ada/rivers", "main", "create table \"../x\" (id integer primary key, t text)");
    let page = visitor.get("/ada/rivers?ref=old").expect(200);
    let page = page.shows("id=\"download-zip\"").shows("<input type=\"hidden\" name=\"ref\" value=\"old\">");
    drop(page);
    let (headers, bytes) = visitor.bytes("/ada/rivers/zip");
    assert_eq!(headers["content-type"], "application/zip");
    assert_eq!(headers["content-disposition"], "attachment; filename=\"rivers-main.zip\"");
    assert_eq!(names(&bytes), ["%2E.%2Fx.csv", "r.csv"]);
    assert_eq!(names(&visitor.bytes("/ada/rivers/zip?ref=old").1), ["r.csv"]);
    visitor.get("/ada/rivers/zip?ref=nothing").expect(404);
    actor.patch("/databases/ada/rivers", &serde_json::json!({"visibility": "private"})).expect(200);
    visitor.get("/ada/rivers/zip").expect(404);
}

#[test]
fn the_menu_of_a_table_keeps_its_filter_order_and_version() {
    let server = open_server();
    let (ada, visitor) = (sign_up(&server, "ada"), Browser::at(&server));
    let actor = database(&server, &ada, "ada");
    actor.write(
        "ada/rivers",
        "main",
        "create table lakes (id integer primary key, name text); insert into lakes values (1, '=Como'), (2, 'Iseo'), (3, null);
         create view named as select name from lakes where name is not null",
    );
    actor
        .post("/databases/ada/rivers/tags", &serde_json::json!({"name": "v1", "from": {"branch": "main"}}))
        .expect(201);
    actor.write("ada/rivers", "main", "delete from lakes");
    let shown = "column=name&test=some&value=&sort=id&desc=1&ref=v1";
    let page = visitor.get(&format!("/ada/rivers/tables/lakes?{shown}")).expect(200);
    let fields = page.hidden_fields("/ada/rivers/export");
    let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let names = ["table", "column", "test", "value", "sort", "desc", "ref"];
    let expected = ["lakes", "name", "some", "", "id", "1", "v1"];
    assert_eq!(names.map(|name| field(name).unwrap()), expected);
    for format in ["csv", "xlsx", "json", "parquet"] {
        assert!(page.text.contains(&format!("name=\"format\" value=\"{format}\"")), "{format}");
    }
    let csv = |query: &str| visitor.get(&format!("/ada/rivers/export?format=csv&{query}")).expect(200).text;
    assert_eq!(csv(&format!("table=lakes&{shown}")), "id,name\n2,Iseo\n1,=Como\n");
    assert_eq!(csv(&format!("table=lakes&safe=true&{shown}")), "id,name\n2,Iseo\n1,'=Como\n");
    assert_eq!(csv("table=named&ref=v1"), "name\n=Como\nIseo\n");
    assert_eq!(csv("table=lakes"), "id,name\n");
    visitor.get("/ada/rivers/tables/named?ref=v1").expect(200).shows("id=\"download-csv\"");
    let database = visitor.get("/ada/rivers").expect(200);
    database.shows("value=\"sqlite\"").shows("value=\"sql\"").shows("value=\"zip\"");
    assert!(visitor.bytes("/ada/rivers/export?format=sqlite&ref=v1").1.starts_with(b"SQLite format 3"));
    visitor.get("/ada/rivers/export?format=csv").expect(400);
    visitor.get("/ada/rivers/export?format=doc").expect(400);
    visitor.get("/ada/rivers/export?format=csv&table=nope").expect(404);
}
