use reqwest::Method;
use serde_json::{Value, json};

use super::{BASE, Client, create, text, trees, trees_with};

const SERIES: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ROWS) SELECT i FROM n";

#[test]
fn keys_of_a_row_are_in_the_order_of_the_columns() {
    let (_server, _, client) = trees();
    let answer = client.query("ana/trees/main", "SELECT 1 AS b, 2 AS a, 3 AS c");
    assert!(answer.text.contains(r#""rows":[{"b":"1","a":"2","c":"3"}]"#), "{}", answer.text);
}

#[test]
fn every_cell_is_a_string_or_null() {
    let (_server, _, client) = trees();
    let read = client.read("ana/trees/main", "SELECT id, felled, 2.5, x'00', 1 = 1 AS yes FROM tree WHERE id = 7");
    assert_eq!(read["rows"], json!([{"id": "7", "felled": null, "2.5": "2.5", "x'00'": "<binary>", "yes": "1"}]));
}

#[test]
fn a_thousand_rows_are_success_and_one_more_is_the_limit() {
    let (_server, _, client) = trees();
    let read = |rows: &str| client.query("ana/trees/main", &SERIES.replace("ROWS", rows)).expect(200).json();
    let whole = read("1000");
    assert_eq!((&whole["query_execution_status"], whole["rows"].as_array().unwrap().len()), (&json!("Success"), 1000));
    let cut = read("1001");
    assert_eq!((&cut["query_execution_status"], cut["rows"].as_array().unwrap().len()), (&json!("RowLimit"), 1000));
    assert_eq!(cut["query_execution_message"], "only the first 1000 rows are returned");
}

#[test]
fn a_query_past_its_time_ends() {
    let (_server, _, client) = trees_with(|config| config.v1alpha1.read_timeout_ms = 300);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let json = client.query("ana/trees/main", endless).expect(200).json();
    assert_eq!(json["query_execution_status"], "Timeout");
    assert_eq!(json["query_execution_message"], "query error: query timed out after 300 ms");
    assert_eq!((&json["schema"], &json["rows"]), (&json!([]), &json!([])));
}

#[test]
fn an_unknown_ref_is_an_error_with_200() {
    let (_server, _, client) = trees();
    let json = client.query("ana/trees/nope", "SELECT 1").expect(200).json();
    assert_eq!(json["query_execution_status"], "Error");
    assert_eq!(json["query_execution_message"], "branch not found: nope");
    assert!(json.get("rows").is_none() && json.get("schema").is_none());
}

#[test]
fn failures_of_sql_have_fixed_texts_and_200() {
    let (_server, _, client) = trees();
    let message = |q: &str| {
        let json = client.query("ana/trees/main", q).expect(200).json();
        assert_eq!(json["query_execution_status"], "Error");
        text(&json["query_execution_message"]).to_owned()
    };
    assert_eq!(message("SELECT * FROM x"), "query error: table not found: x");
    let syntax = "query error: Error parsing SQL: syntax error at position 6 near 'selct'.";
    assert_eq!(message("selct 1"), syntax);
}

#[test]
fn a_read_without_a_statement_shows_the_tables() {
    let (_server, _, client) = trees();
    client.wrote(
        "ana/trees",
        "main",
        "main",
        "CREATE TABLE plot (id INTEGER); CREATE VIEW all_trees AS SELECT * FROM tree",
    );
    for path in ["/ana/trees/main", "/ana/trees", "/ana/trees/", "/ana/trees/main/?q=%20"] {
        let json = client.get(path).expect(200).json();
        assert_eq!(json["sql_query"], "SHOW TABLES;", "{path}");
        assert_eq!(json["schema"], json!([{"columnName": "Tables_in_trees", "columnType": "longtext"}]));
        let names: Vec<&Value> = json["rows"].as_array().unwrap().iter().map(|row| &row["Tables_in_trees"]).collect();
        assert_eq!(names, ["all_trees", "plot", "tree"], "{path}");
    }
}

#[test]
fn columns_have_two_keys_and_types_that_clients_know() {
    let (_server, _, client) = trees();
    let q = "SELECT `name`, id, felled, 1.5 AS r, 'x' AS t, x'00' AS b FROM `tree` LIMIT 1;";
    let schema = client.read("ana/trees/main", q)["schema"].clone();
    let columns: Vec<(String, &str)> = schema
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            assert_eq!(column.as_object().unwrap().len(), 2, "{column}");
            (text(&column["columnName"]).to_owned(), text(&column["columnType"]))
        })
        .collect();
    let kinds: Vec<&str> = columns.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds, ["varchar(64)", "bigint", "date", "double", "longtext", "longblob"]);
}

#[test]
fn a_default_branch_of_another_name_is_used_and_echoed() {
    let (_server, ana, client) = trees();
    let body = json!({"owner": "ana", "name": "woods", "visibility": "public", "default_branch": "trunk"});
    ana.post("/databases", &body).expect(201);
    assert_eq!(client.read("ana/woods", "SELECT 1")["commit_ref"], "trunk");
}

#[test]
fn refs_with_slashes_work_raw_and_encoded_and_like_routes() {
    let (_server, _, client) = trees();
    client.wrote("ana/trees", "main", "ci%2Fshard-1", "INSERT INTO tree VALUES ('yew', 9, NULL)");
    client.wrote("ana/trees", "main", "jobs", "DELETE FROM tree WHERE id = 8");
    let count = |at: &str| {
        let read = client.read(&format!("ana/trees/{at}"), "SELECT count(*) AS n FROM tree");
        (text(&read["commit_ref"]).to_owned(), text(&read["rows"][0]["n"]).to_owned())
    };
    assert_eq!(count("ci/shard-1"), ("ci/shard-1".to_owned(), "3".to_owned()));
    assert_eq!(count("ci%2Fshard-1"), count("ci/shard-1"));
    assert_eq!(count("refs/heads/jobs").1, "1");
    assert_eq!(client.get("/ana/trees/jobs").expect(200).json()["status"], "Success", "the route");
}

#[test]
fn statements_of_mysql_about_tables_answer() {
    let (_server, _, client) = trees();
    let columns = client.read("ana/trees/main", "SHOW COLUMNS FROM tree")["rows"].clone();
    let fields: Vec<&str> = columns.as_array().unwrap().iter().map(|row| text(&row["Field"])).collect();
    assert_eq!(fields, ["name", "id", "felled"]);
    assert_eq!(client.read("ana/trees/main", "DESCRIBE `tree`;")["rows"], columns);
    let shown = client.read("ana/trees/main", "SHOW CREATE TABLE tree")["rows"].clone();
    assert!(text(&shown[0]["Create Table"]).starts_with("CREATE TABLE tree"), "{shown}");
}

#[test]
fn long_statements_fit_and_browsers_may_ask() {
    let (server, _, client) = trees_with(|config| config.cors.allowed_origins = vec!["*".to_owned()]);
    let statement = format!("SELECT 1 AS a, '{}' AS b", "x".repeat(15_400));
    let read = client.read("ana/trees/main", &statement);
    assert_eq!(text(&read["rows"][0]["b"]).len(), 15_400);
    let nobody = Client::of(&server.anonymous());
    let request = nobody.request(Method::GET, &format!("{BASE}/ana/trees/main?q=SELECT%201"));
    let answer = nobody.send(request.header("origin", "https://page.example"));
    assert_eq!(answer.expect(200).header("access-control-allow-origin"), "*");
    let too_long = client.query("ana/trees/main", &"x".repeat(33_000)).expect(400).json();
    assert!(text(&too_long["query_execution_message"]).starts_with("invalid q: "), "{too_long}");
    create(&client, "empty", "public");
    assert_eq!(client.read("ana/empty", "")["rows"], json!([]));
}
