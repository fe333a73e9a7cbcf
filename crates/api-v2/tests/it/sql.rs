use crate::harness::ApiHarness;
use branchyard_domain::usecases::Limits;
use serde_json::json;

const S: &str = "/databases/ada/rivers/sql";

async fn rivers() -> (ApiHarness, String) {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let statements = "CREATE TABLE t(id INTEGER PRIMARY KEY, a REAL); INSERT INTO t VALUES (1,2.0),(2,NULL),(3,0.5)";
    world.write(&ada, "ada/rivers", "main", statements).await;
    (world, ada)
}

#[actix_web::test]
async fn a_read_by_get_and_by_post() {
    let (world, _) = rivers().await;
    let got = world.get(None, &format!("{S}?q=select%20id,a%20from%20t%20order%20by%20id")).await.expect(200);
    assert_eq!(got.data()["rows"], json!([["1", "2.0"], ["2", null], ["3", "0.5"]]));
    assert_eq!((&got.data()["status"], &got.data()["warnings"]), (&json!("success"), &json!([])));
    assert_eq!(got.data()["columns"][1]["type"], "REAL");
    let etag = got.header("etag").to_owned();
    assert!(!etag.is_empty());
    let again = ApiHarness::request(None, "GET", &format!("{S}?q=select%20id,a%20from%20t%20order%20by%20id"))
        .insert_header(("If-None-Match", etag.clone()));
    assert_eq!(world.send(again).await.status, 304);
    let other = ApiHarness::request(None, "GET", &format!("{S}?q=select%20id,a%20from%20t"))
        .insert_header(("If-None-Match", etag));
    assert_eq!(world.send(other).await.status, 200);
    let posted = world
        .post(None, S, json!({"ref": "main", "q": "select id,a from t order by id", "limit": 1}))
        .await
        .expect(200);
    assert_eq!((&posted.data()["rows"], &posted.data()["status"]), (&json!([["1", "2.0"]]), &json!("success")));
    assert_eq!(posted.header("etag"), "");
}

#[actix_web::test]
async fn sql_failures_are_answers() {
    let (world, _) = rivers().await;
    let failed = world.get(None, &format!("{S}?q=select%20*%20from%20nope")).await.expect(200);
    let expected = json!({"columns": [], "rows": [], "status": "error", "message": "query error: table not found: nope", "warnings": []});
    assert_eq!((failed.data(), failed.header("etag")), (expected, ""));
}

#[actix_web::test]
async fn limits_are_ours_or_the_callers() {
    let world = ApiHarness::with(|config| {
        config.sql.default_limit = 2;
        config.sql.row_cap = 3;
    });
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let statements = "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1),(2),(3),(4)";
    world.write(&ada, "ada/rivers", "main", statements).await;
    for (limit, rows, status) in [("", 2, "row_limit"), ("&limit=3", 3, "success"), ("&limit=4", 3, "row_limit")] {
        let data = world.get(None, &format!("{S}?q=select%20*%20from%20t{limit}")).await.expect(200).data();
        assert_eq!((data["rows"].as_array().unwrap().len(), data["status"].as_str().unwrap()), (rows, status));
    }
}

#[actix_web::test]
async fn requests_off_the_rules() {
    let (world, _) = rivers().await;
    for (query, place) in [
        ("", "q"),
        ("?q=", "q"),
        ("?q=select&limit=0", "limit"),
        ("?q=select&limit=1e3", "limit"),
        ("?q=select&timeout_ms=x", "timeout_ms"),
        ("?q=select&ref=", "ref"),
    ] {
        world.get(None, &format!("{S}{query}")).await.refused_at(400, place);
    }
    world.get(None, &format!("{S}?q={}", "x".repeat(32 * 1024 + 1))).await.refused_at(400, "q");
    let answer = world.get(None, &format!("{S}?q=select%201&ref=nope")).await;
    answer.refused(404, "NOT_FOUND");
    assert_eq!(answer.json()["detail"], "no branch, tag or commit 'nope' in ada/rivers");
    for (body, place) in [
        (json!({}), "/q"),
        (json!({"q": ""}), "/q"),
        (json!({"q": "x", "limit": 0}), "/limit"),
        (json!({"q": "x", "ref": ""}), "/ref"),
    ] {
        world.post(None, S, body).await.refused_at(400, place);
    }
    world.post(None, S, json!({"q": "x".repeat((1 << 20) + 1)})).await.refused(413, "PAYLOAD_TOO_LARGE");
}

#[actix_web::test]
async fn writes_off_the_rules() {
    let (world, ada) = rivers().await;
    let path = "/databases/ada/rivers/sql-writes";
    let body = |from: &str, to: &str, q: &str| json!({"from_branch": from, "to_branch": to, "q": q});
    for (sent, place) in [
        (body("", "x", "y"), "/from_branch"),
        (body("main", "", "y"), "/to_branch"),
        (body("main", "a b", "y"), "/to_branch"),
        (body("main", "x", ""), "/q"),
    ] {
        world.post(Some(&ada), path, sent).await.refused_at(400, place);
    }
    world.post(Some(&ada), path, body("nope", "x", "y")).await.refused(404, "NOT_FOUND");
    let long = "x".repeat((1 << 20) + 1);
    world.post(Some(&ada), path, body("main", "x", &long)).await.refused(413, "PAYLOAD_TOO_LARGE");
}

#[actix_web::test]
async fn a_dry_run_shows_what_a_write_would_change_and_keeps_nothing() {
    let (world, ada) = rivers().await;
    let path = "/databases/ada/rivers/sql-writes";
    let q = "UPDATE t SET a = 9.5 WHERE id = 1; CREATE TABLE u(x INTEGER)";
    let body = json!({"from_branch": "main", "to_branch": "main", "q": q, "dry_run": true});
    let operations = world.get(Some(&ada), "/databases/ada/rivers/operations").await.expect(200).data();
    let shown = world.post(Some(&ada), path, body.clone()).await.expect(200).data();
    assert_eq!(shown["tables"][0]["rows_modified"], 1);
    assert_eq!((&shown["tables"][1]["table"], &shown["tables"][1]["change"]), (&json!("u"), &json!("added")));
    assert_eq!(shown["rows"][0]["to"]["a"], "9.5");
    let commits = world.get(None, "/databases/ada/rivers/commits").await.expect(200).data();
    assert_eq!(commits[0]["sha"], shown["base_sha"]);
    assert_eq!(world.get(Some(&ada), "/databases/ada/rivers/operations").await.expect(200).data(), operations);

    // It reads what only writers may see, and waits for their turn.
    world.post(None, path, body.clone()).await.refused(401, "UNAUTHENTICATED");
    let failing = json!({"from_branch": "main", "to_branch": "main", "q": "DELETE FROM t WHERE id = 99; DELETE FROM gone WHERE a = 1", "dry_run": true});
    let refused = world.post(Some(&ada), path, failing).await;
    assert!(refused.text.contains("query error: table not found: gone (statement 2)"), "{}", refused.text);
    refused.refused(422, "UNPROCESSABLE");
    let bad = json!({"from_branch": "main", "to_branch": "main", "q": "x", "dry_run": "yes", "expected_head": "main"});
    let refused = world.post(Some(&ada), path, bad).await;
    for pointer in ["/dry_run", "/expected_head"] {
        assert!(refused.text.contains(pointer), "{}", refused.text);
    }
}

#[actix_web::test]
async fn history_is_listed() {
    let (world, ada) = rivers().await;
    world.write(&ada, "ada/rivers", "main", "UPDATE t SET a = 9.5 WHERE id = 1").await;
    let commits = world.get(None, "/databases/ada/rivers/commits").await.expect(200).data();
    assert_eq!(commits.as_array().unwrap().len(), 3);
    assert_eq!(commits[0]["author"], json!({"name": "ada", "email": "ada@example.test"}));
    assert_eq!(commits[0]["parents"][0], commits[1]["sha"]);
    let first = world.get(None, "/databases/ada/rivers/commits?page_size=1").await.json();
    let token = first["meta"]["next_page_token"].as_str().unwrap();
    world.write(&ada, "ada/rivers", "main", "UPDATE t SET a = 9.75 WHERE id = 1").await;
    let second = world.get(None, &format!("/databases/ada/rivers/commits?page_size=1&page_token={token}")).await.json();
    assert_eq!(second["data"][0], commits[1]);
    let sha = |n: usize| commits[n]["sha"].as_str().unwrap().to_owned();
    let (from, to) = (sha(1), sha(0));
    let diff =
        world.get(None, &format!("/databases/ada/rivers/diff?from={from}&to={to}&table=t")).await.expect(200).data();
    let row = |a: &str| json!({"id": "1", "a": a});
    let expected =
        json!([{"table": "t", "change": "modified", "primary_key": {"id": "1"}, "from": row("2.0"), "to": row("9.5")}]);
    assert_eq!(diff, expected);
    let tables =
        world.get(None, &format!("/databases/ada/rivers/diff/tables?from={}&to={to}", sha(2))).await.expect(200).data();
    assert_eq!(
        (&tables[0]["table"], &tables[0]["change"], &tables[0]["rows_added"]),
        (&json!("t"), &json!("added"), &json!(3))
    );
    world.get(None, "/databases/ada/rivers/diff?from=main").await.refused_at(400, "to");
    world.get(None, "/databases/ada/rivers/diff?from=main&to=nope").await.refused(404, "NOT_FOUND");
    world.get(None, "/databases/ada/rivers/diff?from=main&to=main&table=nope").await.refused(404, "NOT_FOUND");
    world.get(None, "/databases/ada/rivers/diff/tables?from=main&to=main&table=nope").await.refused(404, "NOT_FOUND");
    let schema = world.get(None, "/databases/ada/rivers/schema?table=t").await.expect(200).data();
    assert_eq!((&schema[0]["kind"], &schema[0]["primary_key"]), (&json!("table"), &json!(["id"])));
    world.get(None, "/databases/ada/rivers/schema?table=nope").await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn a_difference_is_paged_row_by_row() {
    let (world, ada) = rivers().await;
    let base = world.get(None, "/databases/ada/rivers/commits?page_size=1").await.data()[0]["sha"]
        .as_str()
        .unwrap()
        .to_owned();
    let statements =
        "CREATE TABLE u(id INTEGER PRIMARY KEY); INSERT INTO u VALUES (1),(2); INSERT INTO t VALUES (4,1.0),(5,1.0)";
    world.write(&ada, "ada/rivers", "main", statements).await;
    let mut seen = Vec::new();
    let mut token = String::new();
    for _ in 0..10 {
        let path = format!("/databases/ada/rivers/diff?from={base}&to=main&page_size=1&page_token={token}");
        let page = world.get(None, &path).await.expect(200).json();
        for row in page["data"].as_array().unwrap() {
            seen.push(format!("{}{}", row["table"].as_str().unwrap(), row["primary_key"]["id"].as_str().unwrap()));
        }
        match page["meta"]["next_page_token"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ["t4", "t5", "u1", "u2"]);
}

#[actix_web::test]
async fn whole_results_are_streamed() {
    let world = ApiHarness::with(|config| config.sql.row_cap = 2);
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let statements = "CREATE TABLE t(id INTEGER PRIMARY KEY, a REAL); INSERT INTO t VALUES (1,2.0),(2,NULL),(3,0.5)";
    world.write(&ada, "ada/rivers", "main", statements).await;
    let ask = |accept: &'static str, q: &str| {
        ApiHarness::request(None, "GET", &format!("{S}?q={}", q.replace(' ', "%20"))).insert_header(("Accept", accept))
    };
    let csv = world.send(ask("text/csv", "select id, a from t order by id")).await.expect(200);
    assert_eq!((csv.text.as_str(), csv.header("content-type")), ("id,a\n1,2.0\n2,\n3,0.5\n", "text/csv"));
    let etag = csv.header("etag").to_owned();
    assert!(!etag.is_empty());
    let again = ask("text/csv", "select id, a from t order by id").insert_header(("If-None-Match", etag.clone()));
    assert_eq!(world.send(again).await.status, 304);
    let other = ask("application/x-ndjson", "select id, a from t order by id").insert_header(("If-None-Match", etag));
    let lines = world.send(other).await.expect(200);
    assert_eq!(lines.header("content-type"), "application/x-ndjson");
    let lines: Vec<serde_json::Value> = lines.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["columns"][1]["type"], "REAL");
    assert_eq!(
        lines[1..],
        [json!([1, 2.0]), json!([2, null]), json!([3, 0.5]), json!({"status": "success", "row_count": 3})]
    );
    world.send(ask("text/csv", "select * from nope")).await.refused(422, "UNPROCESSABLE");
    let failed = world.send(ask("application/x-ndjson", "select * from nope")).await.expect(200);
    assert_eq!(failed.text, "{\"status\":\"error\",\"message\":\"query error: table not found: nope\"}\n");
    assert_eq!(failed.header("etag"), "");
    assert!(world.send(ask("*/*, text/csv", "select id from t")).await.expect(200).data()["rows"].is_array());
}

#[actix_web::test]
async fn long_results_come_in_pieces() {
    let (world, ada) = rivers().await;
    let rows: Vec<String> = (10..20_000).map(|n| format!("({n},{n}.5)")).collect();
    world.write(&ada, "ada/rivers", "main", &format!("INSERT INTO t VALUES {}", rows.join(","))).await;
    let body = json!({"q": "select id, a from t order by id", "limit": 19_000});
    let ask = ApiHarness::request(None, "POST", S).insert_header(("Accept", "application/x-ndjson")).set_json(body);
    let answer = world.send(ask).await.expect(200);
    assert_eq!(answer.text.lines().count(), 19_002);
    assert!(answer.text.ends_with("{\"status\":\"success\",\"row_count\":19000}\n"));
    assert_eq!(answer.header("etag"), "");
}

#[actix_web::test]
async fn a_result_that_is_kept_is_still_guarded_and_still_that_of_its_commit() {
    let (world, ada) = rivers().await;
    let path = format!("{S}?q=select%20id,a%20from%20t%20order%20by%20id");
    let first = world.get(Some(&ada), &path).await.expect(200);
    let again = world.get(Some(&ada), &path).await.expect(200);
    assert_eq!((first.data(), first.header("etag")), (again.data(), again.header("etag")));
    assert!(world.state.results.get(first.header("etag")).is_some());
    let fewer = world.get(Some(&ada), &format!("{path}&limit=1")).await.expect(200);
    assert_eq!(fewer.data()["rows"], json!([["1", "2.0"]]), "limits are part of what is asked");
    world.write(&ada, "ada/rivers", "main", "DELETE FROM t WHERE id = 1").await;
    let moved = world.get(Some(&ada), &path).await.expect(200);
    assert_eq!(moved.data()["rows"], json!([["2", null], ["3", "0.5"]]));
    world.patch(Some(&ada), "/databases/ada/rivers", json!({"visibility": "private"})).await.expect(200);
    world.get(None, &path).await.expect(404);
    world.get(Some(&ada), &path).await.expect(200);
}

/// Every way to run a read without a credential.
async fn anonymous_reads(world: &ApiHarness) -> Vec<u16> {
    let query = format!("{S}?q=select%20id%20from%20t");
    let mut statuses = Vec::new();
    for accept in ["application/json", "text/csv", "application/x-ndjson"] {
        let request = ApiHarness::request(None, "GET", &query).insert_header(("Accept", accept));
        statuses.push(world.send(request).await.status);
    }
    statuses.push(world.post(None, S, json!({"q": "select id from t"})).await.status);
    // The request is invalid, but the missing credential comes first.
    statuses.push(world.get(None, S).await.status);
    statuses
}

#[actix_web::test]
async fn a_database_refuses_sql_without_a_credential() {
    let (world, ada) = rivers().await;
    let path = "/databases/ada/rivers";
    assert_eq!(world.get(None, path).await.expect(200).data()["anonymous_sql"], json!(true));
    assert_eq!(anonymous_reads(&world).await, [200, 200, 200, 200, 400]);
    let etag = world.get(None, &format!("{S}?q=select%20id%20from%20t")).await.header("etag").to_owned();
    world.patch(Some(&ada), path, json!({"anonymous_sql": "no"})).await.refused(400, "VALIDATION_FAILED");
    let changed = world.patch(Some(&ada), path, json!({"anonymous_sql": false})).await.expect(200);
    assert_eq!(changed.data()["anonymous_sql"], json!(false));
    assert_eq!(anonymous_reads(&world).await, [401, 401, 401, 401, 401]);
    let again = ApiHarness::request(None, "GET", &format!("{S}?q=select%20id%20from%20t"))
        .insert_header(("If-None-Match", etag));
    assert_eq!(world.send(again).await.status, 401, "not even that a copy is still valid");
    world.get(None, "/databases/ada/rivers/schema").await.expect(200);
    let bob = world.user("bob");
    world.get(Some(&bob), &format!("{S}?q=select%20id%20from%20t")).await.expect(200);
    world.get(None, "/databases/ada/absent/sql?q=select%201").await.refused(404, "NOT_FOUND");
    // A fork starts with the setting of its source.
    let fork = world.post(Some(&bob), "/databases/ada/rivers/forks", json!({"owner": "bob"})).await;
    assert_eq!(world.finish(&bob, &fork).await["status"], "succeeded");
    assert_eq!(world.get(None, "/databases/bob/rivers").await.data()["anonymous_sql"], json!(false));
    world.patch(Some(&ada), path, json!({"anonymous_sql": true})).await.expect(200);
    assert_eq!(anonymous_reads(&world).await, [200, 200, 200, 200, 400]);
}

#[actix_web::test]
async fn a_server_refuses_sql_without_a_credential() {
    let world = ApiHarness::limited(Limits { anonymous_sql: false, ..Limits::default() });
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    world.write(&ada, "ada/rivers", "main", "CREATE TABLE t(id INTEGER PRIMARY KEY)").await;
    world.patch(Some(&ada), "/databases/ada/rivers", json!({"anonymous_sql": true})).await.expect(200);
    assert_eq!(anonymous_reads(&world).await, [401, 401, 401, 401, 401]);
    world.get(Some(&ada), &format!("{S}?q=select%20id%20from%20t")).await.expect(200);
    world.get(None, "/databases/ada/rivers/schema").await.expect(200);
    world.database(&ada, "ada", "secret", "private").await;
    world.get(None, "/databases/ada/secret/sql?q=select%201").await.refused(404, "NOT_FOUND");
}
