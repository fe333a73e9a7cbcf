//! Runs the examples of the migration guide for v1alpha1. Both calls of every pair run, each on its own server with the same
//! database, and the fields that the guide names are compared.

use branchyard_testkit::{AMPLE, Actor, Server, wait_for};
use reqwest::Method;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../../docs/migrating-from-v1alpha1.md");

/// A section of the guide.
struct Pair {
    name: &'static str,
    calls: Vec<Vec<&'static str>>,
    fields: Vec<(&'static str, &'static str)>,
    is_body: bool,
}

fn pairs() -> Vec<Pair> {
    PAGE.split("\n## ").skip(1).map(pair).collect()
}

fn pair(section: &'static str) -> Pair {
    let name = section.lines().next().unwrap();
    let calls = section.split("```http\n").skip(1).map(|block| {
        let text = block.split("```").next().unwrap();
        text.lines().collect::<Vec<_>>()
    });
    let fields = section.lines().filter_map(|line| {
        let (old, new) = line.strip_prefix("- `")?.split_once("` → `")?;
        Some((old, new.strip_suffix('`')?))
    });
    Pair { name, calls: calls.collect(), fields: fields.collect(), is_body: section.contains("- the body") }
}

/// Starts a server with the database of the guide. Returns the server, the owner, and the head of `main`.
fn server() -> (Server, Actor, String) {
    let server = Server::start();
    let ana = server.user("ana");
    ana.database("trees");
    let head = ana.write(
        "ana/trees",
        "main",
        "CREATE TABLE tree (name varchar(64), id INTEGER PRIMARY KEY, felled date); \
         INSERT INTO tree VALUES ('oak', 7, NULL), ('ash', 8, '2025-01-03')",
    );
    let below = |rest: &str| format!("/databases/ana/trees/{rest}");
    ana.post(&below("branches"), &json!({"name": "fix-7", "from": {"branch": "main"}})).expect(201);
    ana.write("ana/trees", "fix-7", "UPDATE tree SET name = 'elm' WHERE id = 7");
    ana.post(&below("tags"), &json!({"name": "v2", "from": {"branch": "main"}, "message": "spring count"})).expect(201);
    let release = json!({"tag": "v2", "title": "v2", "commit_sha": head, "description": "spring count"});
    ana.post(&below("releases"), &release).expect(201);
    let place = |branch: &str| json!({"database": {"owner": "ana", "name": "trees"}, "branch_name": branch});
    let pull = json!({"title": "Elm", "from_branch": place("fix-7"), "to_branch": place("main")});
    ana.post(&below("pulls"), &pull).expect(201);
    ana.post("/organizations", &json!({"name": "grove"})).expect(201);
    (server, ana, head)
}

/// Sends a call of the guide and waits for its operation. Returns the JSON answer, or the text of an answer that is not JSON.
fn call(lines: &[&str], ana: &Actor, head: &str) -> Value {
    let (method, path) = lines[0].split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let old = !path.starts_with("/api/v2/");
    let mut request = match old {
        true => ana.plain(method, path).header("authorization", format!("token {}", ana.token().unwrap())),
        false => ana.request(method, path.strip_prefix("/api/v2").unwrap()),
    };
    for line in &lines[1..] {
        request = match line.strip_prefix("Accept: ") {
            Some(accept) => request.header("accept", accept),
            None => request.json(&serde_json::from_str::<Value>(&line.replace("{head}", head)).unwrap()),
        };
    }
    let answer = ana.send(request);
    assert!((200..300).contains(&answer.status), "{}: {}", lines[0], answer.text);
    if !answer.header("content-type").starts_with("application/json") {
        return Value::from(answer.text);
    }
    let json = answer.json();
    match old {
        true => follow(ana, path, json),
        false if answer.status == 202 => {
            let operation = ana.finish(&answer);
            let settled = matches!(operation["status"].as_str(), Some("succeeded" | "failed"));
            json!({"data": operation, "settled": settled})
        }
        false => json,
    }
}

/// Polls the operation that a v1alpha1 call started, at the address that the guide describes.
fn follow(ana: &Actor, path: &str, started: Value) -> Value {
    let Some(name) = started["operation_name"].as_str() else { return started };
    let path = path.split('?').next().unwrap();
    let poll = match path.split_once("/write/") {
        Some((database, _)) => format!("{database}/write"),
        None => path.to_owned(),
    };
    wait_for("the end of the operation", AMPLE, || {
        let request = ana.plain(Method::GET, &format!("{poll}?operationName={}", name.replace('/', "%2F")));
        let json = ana.send(request).expect(200).json();
        if json["done"] == true { Ok(json) } else { Err(json) }
    })
}

fn field<'a>(value: &'a Value, path: &str) -> &'a Value {
    let pointer = format!("/{}", path.replace('.', "/"));
    value.pointer(&pointer).unwrap_or_else(|| panic!("no {path} in {value}"))
}

/// Normalizes a value for the comparison: text in lowercase, arrays by length, and other values as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_lowercase(),
        Value::Array(items) => format!("{} items", items.len()),
        other => other.to_string(),
    }
}

#[test]
fn both_calls_of_every_pair_have_the_same_outcome() {
    let pairs = pairs();
    assert!(pairs.len() >= 24, "{}", pairs.len());
    for pair in pairs.iter().filter(|pair| pair.name != "Import a file") {
        let [old, new] = pair.calls.as_slice() else { panic!("{}: two calls", pair.name) };
        assert!(pair.is_body || !pair.fields.is_empty(), "{}: nothing is compared", pair.name);
        let [was, is] = [old, new].map(|lines| {
            let (_server, ana, head) = server();
            call(lines, &ana, &head)
        });
        if pair.is_body {
            assert_eq!(was, is, "{}", pair.name);
        }
        for (old, new) in &pair.fields {
            assert_eq!(plain(field(&was, old)), plain(field(&is, new)), "{}: {old} and {new}", pair.name);
        }
    }
}

#[test]
fn an_import_has_the_same_outcome() {
    let pair = pairs().into_iter().find(|pair| pair.name == "Import a file").unwrap();
    const FILE: &str = "id,name\n7,fir\n";
    let (_server, ana, _) = server();
    let params = json!({"fileName": "trees.csv", "branchName": "main", "fileType": "Csv", "importOp": "Update",
        "tableName": "tree", "primaryKeys": ["id"]});
    let form = format!(
        "--xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"trees.csv\"\r\n\r\n{FILE}\r\n\
         --xx\r\nContent-Disposition: form-data; name=\"params\"\r\n\r\n{params}\r\n--xx--\r\n"
    );
    let path = pair.calls[0][0].strip_prefix("POST ").unwrap();
    let request = ana.plain(Method::POST, path).header("authorization", format!("token {}", ana.token().unwrap()));
    let request = request.header("content-type", "multipart/form-data; boundary=xx").body(form);
    let was = follow(&ana, path, ana.send(request).expect(200).json());
    let (_server, ben, _) = server();
    let more = json!({"table_name": "tree", "import_operation": "update", "primary_keys": ["id"],
        "pull_request_branch_name": "ana/import"});
    let is = json!({"data": ben.import("ana/trees", "csv", FILE.as_bytes(), 1, &more)});
    for (old, new) in pair.fields {
        assert_eq!(plain(field(&was, old)), plain(field(&is, new)));
    }
    let read = |actor: &Actor, branch: &str| actor.read("ana/trees", branch, "SELECT name FROM tree ORDER BY id");
    let branch = ana.get("/databases/ana/trees/pulls/2").expect(200).data();
    assert_eq!(read(&ana, branch["from_branch"]["branch_name"].as_str().unwrap()), read(&ben, "ana/import"));
}
