use std::io::Read as _;

use branchyard_testkit::Server;
use reqwest::Method;
use serde_json::json;

use super::{BASE, Client, TREES, create, trees, trees_with};

#[test]
fn anybody_downloads_a_public_table() {
    let (server, _, client) = trees();
    let nobody = Client::of(&server.anonymous());
    let expected = "name,id,felled\noak,7,\nash,8,2025-01-03\n";
    for query in ["", "?include_bom=0"] {
        let answer = nobody.download(&format!("/csv/ana/trees/main/tree{query}")).expect(200);
        assert_eq!((answer.text.as_str(), answer.header("content-type")), (expected, "text/csv; charset=utf-8"));
        assert_eq!(answer.header("content-disposition"), "attachment; filename=\"tree.csv\"");
    }
    let marked = nobody.download("/csv/ana/trees/main/tree?include_bom=1").expect(200);
    assert_eq!(marked.text, format!("\u{feff}{expected}"));
    client.wrote("ana/trees", "main", "ci%2Fshard-1", "DELETE FROM tree WHERE id = 8");
    for path in ["ci/shard-1/tree", "ci%2Fshard-1/tree"] {
        let answer = nobody.download(&format!("/csv/ana/trees/{path}")).expect(200);
        assert_eq!(answer.text, "name,id,felled\noak,7,\n", "{path}");
    }
    for (path, message) in [
        ("ana/trees/main/treez", "table not found: treez"),
        ("ana/trees/nope/tree", "branch not found: nope/tree"),
        ("ana/nothing/main/tree", "no such repository"),
    ] {
        let answer = nobody.download(&format!("/csv/{path}")).expect(404);
        assert_eq!(answer.json(), json!({"status": "Error", "message": message}));
    }
    let bad = Client::saying(&server.anonymous(), "Basic x").download("/csv/ana/trees/main/tree").expect(400);
    assert_eq!(bad.json()["message"], "invalid authorization header");
}

#[test]
fn null_and_the_empty_string_differ_and_lines_end_in_lf() {
    let (_server, _, client) = trees();
    let create = "CREATE TABLE odd (id INTEGER PRIMARY KEY, v TEXT, b BLOB); \
        INSERT INTO odd VALUES (3, NULL, NULL), (1, '', x'6162'), (2, 'a\r\nb', NULL); CREATE VIEW seen AS SELECT 1";
    client.wrote("ana/trees", "main", "main", create);
    let answer = client.download("/csv/ana/trees/main/odd").expect(200);
    assert_eq!(answer.text, "id,v,b\n1,\"\",YWI=\n2,\"a\r\nb\",\n3,,\n");
    client.download("/csv/ana/trees/main/seen").expect(404);
    let request = client.request(Method::GET, "/csv/ana/trees/main");
    let response = request.send().unwrap();
    assert_eq!(response.headers()["content-type"], "application/zip");
    assert_eq!(response.headers()["content-disposition"], "attachment; filename=\"trees-main.zip\"");
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(response.bytes().unwrap())).unwrap();
    let names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    assert_eq!(names, ["odd.csv", "tree.csv"]);
    let mut text = String::new();
    archive.by_name("tree.csv").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "name,id,felled\noak,7,\nash,8,2025-01-03\n");
}

#[test]
fn large_tables_stream_whole() {
    let (_server, _, client) = trees();
    let fill = "CREATE TABLE wide (id INTEGER PRIMARY KEY, v TEXT); WITH RECURSIVE n(i) AS \
        (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) INSERT INTO wide SELECT i, printf('%0100d', i) FROM n";
    client.wrote("ana/trees", "main", "main", fill);
    let answer = client.download("/csv/ana/trees/main/wide").expect(200);
    assert_eq!(answer.text.lines().count(), 20_001);
    assert!(answer.text.ends_with(&format!("20000,{:0100}\n", 20_000)));
}

#[test]
fn every_answer_says_that_the_api_is_deprecated_and_what_comes_after() {
    let (server, ana, client) = trees();
    let nobody = Client::of(&server.anonymous());
    let link = |path: &str| format!("<{}/api/v2{path}>; rel=\"successor-version\"", server.address());
    for (path, status, v2) in [
        ("/user", 401, Some("/user")),
        ("/ana/trees", 200, Some("/databases/ana/trees/sql")),
        ("/ana/trees/ci/x?q=SELECT%201", 200, Some("/databases/ana/trees/sql")),
        ("/ana/trees/branches", 200, Some("/databases/ana/trees/branches")),
        ("/ana/nothing/tags", 400, Some("/databases/ana/nothing/tags")),
        ("/ana/trees/pulls/1", 400, Some("/databases/ana/trees/pulls/1")),
        ("/ana/trees/jobs", 200, Some("/databases/ana/trees/operations")),
        (
            "/ana/trees/write?operationName=operations%2F019B7CA9-8C88-7a10-8d11-3e5f7a9b1c2d",
            400,
            Some("/operations/019b7ca9-8c88-7a10-8d11-3e5f7a9b1c2d"),
        ),
        ("/ana/trees/upload", 400, None),
        ("/users/ana/operations", 400, None),
        ("/nothing", 404, None),
    ] {
        let answer = nobody.get(path).expect(status);
        assert_eq!(answer.header("deprecation"), "@1767225600", "{path}");
        assert!(answer.header("x-request-id").starts_with("req_") && answer.header("sunset").is_empty(), "{path}");
        assert_eq!(answer.header("link"), v2.map(link).unwrap_or_default(), "{path}");
    }
    let csv = nobody.download("/csv/ana/trees/main/tree").expect(200);
    assert_eq!(
        (csv.header("deprecation"), csv.header("link")),
        ("@1767225600", link("/databases/ana/trees/sql").as_str())
    );
    let method = client.send(client.request(Method::PUT, &format!("{BASE}/ana/trees/tags"))).expect(405);
    assert_eq!((method.header("allow"), method.header("deprecation")), ("GET, HEAD, POST, OPTIONS", "@1767225600"));
    assert_eq!(client.get("/ana/trees/tags").header("cache-control"), "no-store");
    assert_eq!(nobody.get("/ana/trees/tags").header("cache-control"), "public, no-cache");
    let body = json!({"parentOwnerName": "ana", "parentDatabaseName": "trees", "ownerName": "ana"});
    assert_eq!(client.post("/fork", &body).expect(400).header("link"), link("/databases/ana/trees/forks"));
    assert_eq!(ana.get("/databases/ana/trees").header("deprecation"), "", "v2 is not");
}

#[test]
fn a_sunset_is_told_when_it_is_configured() {
    let server = Server::start_with(|config| {
        config.v1alpha1.sunset_at = Some("2027-01-01".to_owned());
        config.v1alpha1.deprecation_url = Some("https://yard.example/news".to_owned());
    });
    let answer = Client::of(&server.anonymous()).get("/user").expect(401);
    assert_eq!(answer.header("sunset"), "Fri, 01 Jan 2027 00:00:00 GMT");
    let links: Vec<_> = answer.headers.get_all("link").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(links[1], "<https://yard.example/news>; rel=\"deprecation\"; type=\"text/html\"");
}

#[test]
fn a_table_that_takes_too_long_is_refused_before_its_first_byte() {
    let (_server, _, client) = trees_with(|config| config.v1alpha1.export_timeout_ms = 1);
    create(&client, "large", "public");
    client.wrote("ana/large", "main", "main", TREES);
    let fill = "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n LIMIT 100000) \
        INSERT INTO tree SELECT printf('%05d', i % 997), i, NULL FROM n";
    client.wrote("ana/large", "main", "main", fill);
    // A second response may have begun, but it must not end as if it were complete.
    let request = client.request(Method::GET, "/csv/ana/large/main/tree");
    let response = request.send().unwrap();
    match response.status().as_u16() {
        400 => assert!(response.text().unwrap().contains("query timed out after 1 ms")),
        200 => assert!(response.bytes().is_err(), "broken off"),
        other => panic!("{other}"),
    }
}
