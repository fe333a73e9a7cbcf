//! Commits that no branch, tag, release, or pull request reaches are absent wherever a hash can be supplied or shown.

use branchyard_testkit::{Actor, Server};
use reqwest::Method;
use serde_json::{Value, json};

/// SQL reads that name a commit.
const STATEMENTS: &[&str] = &[
    "select * from dolt_at_t('$')",
    "select * from dolt_at_t('$') limit 0",
    "select * from dolt_log('$')",
    "select * from dolt_log('$~1')",
    "select * from dolt_log where commit_hash = '$'",
    "select * from dolt_history_t where commit_hash = '$'",
    "select * from dolt_diff_t('HEAD', '$')",
    "select * from dolt_diff where commit_hash = '$'",
    "select * from dolt_diff_stat('HEAD', '$')",
    "select * from dolt_diff_summary('HEAD', '$')",
    "select * from dolt_patch('HEAD', '$')",
    "select * from dolt_schema_diff('HEAD', '$')",
    "select dolt_hashof('$')",
    "select dolt_hashof_db('$')",
    "select dolt_hashof_table('t', '$')",
    "select dolt_merge_base('HEAD', '$')",
    "select l.message from (select lower(upper('$')) as h) x join dolt_log(x.h) l",
];

/// Sends every request that takes a commit hash and returns the answers. The hash and fields that differ per request are removed.
fn answers(ada: &Actor, hash: &str) -> Vec<(String, u16, String)> {
    let mut asked = Vec::new();
    let mut keep = |what: String, status: u16, text: &str| {
        let text = match serde_json::from_str::<Value>(text) {
            Ok(mut json) => {
                if let Some(object) = json.as_object_mut() {
                    object.remove("request_id");
                }
                json.to_string()
            }
            Err(_) => text.to_owned(),
        };
        asked.push((what, status, text.replace(hash, "$").replace(&hash[..8], "$8")));
    };
    for path in [
        "sql?ref=$&q=select%20*%20from%20t",
        "sql?ref=$~1&q=select%20*%20from%20t",
        "commits?ref=$",
        "schema?ref=$",
        "diff?from=main&to=$&table=t",
        "diff?from=$&to=main&table=t",
        "diff/tables?from=$&to=main",
    ] {
        let answer = ada.get(&format!("/databases/ada/d/{}", path.replace('$', hash)));
        keep(format!("GET {path}"), answer.status, &answer.text);
    }
    for (path, body) in [
        ("branches", json!({"name": "again", "from": {"commit": hash}})),
        ("tags", json!({"name": "again", "from": {"commit": hash}})),
        ("releases", json!({"tag": "again", "title": "x", "commit_sha": hash, "create_tag_if_not_exists": true})),
    ] {
        let answer = ada.post(&format!("/databases/ada/d/{path}"), &body);
        keep(format!("POST {path}"), answer.status, &answer.text);
    }
    for path in [
        "/api/v1alpha1/ada/d/$?q=select%20*%20from%20t",
        "/csv/ada/d/$/t",
        "/ada/d?ref=$",
        "/ada/d/commits/$",
        "/ada/d/commits?ref=$",
        "/ada/d/tables/t?ref=$",
        "/ada/d/schema?ref=$",
        "/ada/d/compare/main...$",
        "/ada/d/compare/$...main",
        "/ada/d/sql?ref=$&q=select%20*%20from%20t",
    ] {
        let response = ada.plain(Method::GET, &path.replace('$', hash)).send().unwrap();
        keep(format!("GET {path}"), response.status().as_u16(), &response.text().unwrap());
    }
    for statement in STATEMENTS {
        let body = json!({"ref": "main", "q": statement.replace('$', hash)});
        let mut result = ada.post("/databases/ada/d/sql", &body).expect(200).data();
        result.as_object_mut().unwrap().remove("execution_ms");
        keep((*statement).to_owned(), 200, &result.to_string());
    }
    asked
}

/// The answers must equal those for an unknown hash.
#[test]
fn commits_of_a_deleted_branch_are_absent() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    ada.write("ada/d", "main", "create table t (id integer primary key, v text); insert into t values (1, 'a')");
    ada.write("ada/d", "main", "insert into t values (2, 'b')");
    let body = json!({"from_branch": "main", "to_branch": "gone", "q":
        "insert into t values (7, 'SECRET'); alter table t add column SECRET_COLUMN; create table SECRET_TABLE(x)"});
    let written = ada.finish(&ada.post("/databases/ada/d/sql-writes", &body));
    let hash = written["result"]["commit_sha"].as_str().unwrap().to_owned();
    let tree = ada.read("ada/d", &hash, "select dolt_hashof_db()")[0][0].as_str().unwrap().to_owned();
    // Reads the commit while it is reachable, to check that no cached result outlives the branch.
    for statement in STATEMENTS {
        let body = json!({"ref": "main", "q": statement.replace('$', &hash)});
        let result = ada.post("/databases/ada/d/sql", &body).expect(200).data();
        assert_eq!(result["status"], "success", "{statement}: {result}");
    }
    assert_eq!(ada.read("ada/d", &hash, "select v from t where id = 7"), json!([["SECRET"]]));
    let listed = |there: bool| {
        let id = written["id"].as_str().unwrap();
        let one = ada.get(&format!("/operations/{id}")).expect(200).data();
        let list = ada.get("/databases/ada/d/operations").expect(200).data();
        let in_list = list.as_array().unwrap().iter().find(|found| found["id"] == id).unwrap();
        for found in [&one, in_list] {
            assert_eq!(found["status"], "succeeded");
            assert_eq!(found.get("result").is_some(), there, "{found}");
        }
        for path in [
            "/api/v1alpha1/ada/d/jobs",
            "/ada/d/operations",
            &format!("/ada/d/operations/{}", id.rsplit('/').next().unwrap()),
        ] {
            let text = ada.plain(Method::GET, path).send().unwrap().text().unwrap();
            assert!(there || !text.contains(&hash[..8]), "{path}: {text}");
        }
    };
    listed(true);
    ada.delete("/databases/ada/d/branches/gone").expect(200);
    listed(false);

    let unknown = "0123456789abcdef0123456789abcdef01234567";
    let expected = answers(&ada, unknown);
    assert_eq!(expected[0].1, 404, "{:?}", expected[0]);
    for absent in [&hash, &tree] {
        for (expected, answered) in expected.iter().zip(answers(&ada, absent)) {
            assert!(answered.1 < 500, "{answered:?}");
            assert!(!answered.2.to_uppercase().contains("SECRET") && !answered.2.contains("damaged"), "{answered:?}");
            if !answered.0.starts_with("GET /") {
                assert_eq!(*expected, answered);
            }
        }
    }
    assert_eq!(ada.read("ada/d", "main", "select count(*) from dolt_log"), json!([["3"]]));
}

/// Commits that a tag names, or from which the read branch descends, remain reachable.
#[test]
fn what_is_reached_stays() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let first =
        ada.write("ada/d", "main", "create table t (id integer primary key, v text); insert into t values (1, 'a')");
    let body = json!({"from_branch": "main", "to_branch": "side", "q": "insert into t values (2, 'b')"});
    let side = ada.finish(&ada.post("/databases/ada/d/sql-writes", &body));
    let side = side["result"]["commit_sha"].as_str().unwrap().to_owned();
    ada.post("/databases/ada/d/tags", &json!({"name": "kept", "from": {"branch": "side"}})).expect(201);
    ada.delete("/databases/ada/d/branches/side").expect(200);
    for (hash, rows) in [(&first, 1), (&side, 2)] {
        let count = format!("select count(*) from dolt_at_t('{hash}')");
        assert_eq!(ada.read("ada/d", "main", &count), json!([[rows.to_string()]]));
        assert_eq!(ada.read("ada/d", hash, "select count(*) from t"), json!([[rows.to_string()]]));
    }
    ada.delete("/databases/ada/d/tags/kept").expect(200);
    let body = json!({"ref": "main", "q": format!("select count(*) from dolt_at_t('{side}')")});
    let result = ada.post("/databases/ada/d/sql", &body).expect(200).data();
    assert_eq!(result["message"], format!("query error: no such commit: {side}"), "{result}");
}

/// Returns the present time as a request names it, apart from what happens before and after.
fn moment(server: &Server) -> String {
    std::thread::sleep(std::time::Duration::from_millis(5));
    let now = branchyard_http_common::rfc3339(server.hub().now());
    std::thread::sleep(std::time::Duration::from_millis(5));
    now
}

/// What a branch left behind is absent like a hash that never was, also after a collection, until a restore brings it back.
#[test]
fn what_a_restore_can_reach_no_read_can() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let created = "create table t (id integer primary key, v text); insert into t values (1, 'a')";
    let first = ada.write("ada/d", "main", created);
    let at_first = moment(&server);
    let hash = ada.write("ada/d", "main", "insert into t values (7, 'SECRET')");
    let at_hash = moment(&server);
    let restore = |at: &str, to: &str| {
        let body = json!({"branch": "main", "at": at, "to_branch": to});
        let operation = ada.finish(&ada.post("/databases/ada/d/restore", &body));
        assert_eq!((&operation["type"], &operation["status"]), (&json!("restore"), &json!("succeeded")), "{operation}");
        operation["result"]["commit_sha"].as_str().unwrap().to_owned()
    };
    assert_eq!(restore(&at_first, "main"), first);
    let expected = answers(&ada, "0123456789abcdef0123456789abcdef01234567");
    assert_eq!(expected[0].1, 404, "{:?}", expected[0]);
    let check = || {
        for (expected, answered) in expected.iter().zip(answers(&ada, &hash)) {
            assert!(answered.1 < 500 && !answered.2.to_uppercase().contains("SECRET"), "{answered:?}");
            if !answered.0.starts_with("GET /") {
                assert_eq!(*expected, answered);
            }
        }
    };
    check();
    let [(id, _)] = server.hub().collections().find(None).unwrap()[..] else { panic!("there is one database") };
    server.hub().collections().collect_now(id, "test/collector").unwrap();
    check();
    assert_eq!(restore(&at_hash, "main"), hash);
    assert_eq!(ada.read("ada/d", "main", "select v from t where id = 7"), json!([["SECRET"]]));

    for (body, status) in [
        (json!({"branch": "main", "at": "2020-01-01T00:00:00Z", "to_branch": "main"}), 422),
        (json!({"branch": "main", "at": "2999-01-01T00:00:00Z", "to_branch": "main"}), 400),
        (json!({"branch": "main", "at": "yesterday", "to_branch": "main"}), 400),
        (json!({"branch": "none", "at": at_hash, "to_branch": "main"}), 404),
    ] {
        let refused = ada.post("/databases/ada/d/restore", &body).expect(status).json();
        assert!(refused["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{refused}");
    }
    assert_eq!(restore(&at_first, "main"), first);
    ada.finish(&ada.post("/databases/ada/d/purge", &json!({})));
    let body = json!({"branch": "main", "at": at_hash, "to_branch": "main"});
    let refused = ada.post("/databases/ada/d/restore", &body).expect(422).json();
    assert!(refused["detail"].as_str().unwrap().contains("it begins at 20"), "{refused}");
}
