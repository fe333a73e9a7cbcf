//! What access tokens allow.

use branchyard_remote_protocol::{encode_hashes, hash_of};
use branchyard_testkit::{Actor, TestAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use super::OAuthHarness;

/// The challenge of an answer to a token that may only read (RFC 6750 §3.1).
const CHALLENGE: &str = r#"Bearer realm="branchyard", error="insufficient_scope", scope="api_read_write""#;

/// The documents of the APIs, each with the least number of its operations that write.
const DOCUMENTS: [(&str, usize); 3] =
    [("/api/v2/openapi.json", 40), ("/api/v1alpha1/openapi.json", 10), ("/api/v1/openapi.json", 20)];

/// Creates the private database `ada/rivers` with a table of one row.
fn rivers(harness: &OAuthHarness) -> Actor {
    let ada = harness.server.actor_of("ada");
    ada.database("rivers");
    ada.patch("/databases/ada/rivers", &json!({"visibility": "private"})).expect(200);
    ada.write(
        "ada/rivers",
        "main",
        "create table r (id integer primary key, name text); insert into r values (1, 'Po')",
    );
    ada
}

/// Returns a path for a template of a document.
fn filled(template: &str) -> String {
    let value = |name: &str| match name {
        "owner" | "username" => "ada",
        "database" => "rivers",
        "branch" | "ref" | "from_branch" | "to_branch" => "main",
        "pull_number" | "pull_id" | "part_number" => "1",
        "organization" => "acme",
        "deployment" => "gauges",
        "tag" => "v1",
        "table" => "r",
        "metric" => "cpu",
        _ => "00000000-0000-7000-8000-000000000000",
    };
    let parts = template.split('/').map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) => value(name),
        None => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Returns the operations of a document that regard a credential, each as its method and a path.
fn operations(document: &Value) -> Vec<(Method, String)> {
    let mut found = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(security) = operation["security"].as_array() else { continue };
            if !security.is_empty() {
                found.push((method.to_uppercase().parse().unwrap(), filled(template)));
            }
        }
    }
    found
}

/// Checks that an answer refuses a token that may only read, and names the scope that the request needs.
#[track_caller]
fn refused(answer: &TestAnswer, what: &str) {
    assert_eq!((answer.status, answer.header("www-authenticate")), (403, CHALLENGE), "{what}: {}", answer.text);
    // Each API has its own form of errors.
    let json = answer.json();
    let texts = ["detail", "message", "query_execution_message"].map(|name| json[name].as_str().unwrap_or_default());
    assert!(texts.iter().any(|text| text.contains("api_read_write")), "{what}: {json}");
}

/// Returns what writes would change, as the owner sees it. Sizes of files may change in the background.
fn state(ada: &Actor) -> Vec<String> {
    let below = ["branches", "commits", "tags", "releases", "pulls", "forks", "hooks", "collaborators", "operations"];
    let paths = below.map(|name| format!("/databases/ada/rivers/{name}"));
    let account = ["/user", "/user/keys", "/user/organizations"].map(str::to_owned);
    let mut state: Vec<String> = paths.iter().chain(&account).map(|path| ada.get(path).expect(200).text).collect();
    let database = ada.get("/databases/ada/rivers").expect(200).data();
    let fields = ["description", "visibility", "default_branch", "last_write_at"];
    state.extend(fields.map(|name| database[name].to_string()));
    let names = |path: &str, name: &str| -> String {
        let list = ada.get(path).expect(200).data();
        list.as_array().unwrap().iter().map(|item| item[name].to_string()).collect()
    };
    // The last use of a token is recorded in the background, too.
    state.extend([names("/databases", "name"), names("/user/tokens", "id")]);
    state
}

#[test]
fn a_token_to_read_may_send_nothing_that_writes() {
    let harness = OAuthHarness::new();
    let ada = rivers(&harness);
    let read = harness.authorized("api_read").access;
    let before = state(&ada);
    for (document, least) in DOCUMENTS {
        let operations = operations(&harness.send(Method::GET, document, &read).expect(200).json());
        let mut refusals = 0;
        for (method, path) in operations {
            let answer = harness.send(method.clone(), &path, &read);
            let what = format!("{method} {path}");
            let reads = method == Method::GET || what == "POST /api/v2/databases/ada/rivers/sql";
            if reads {
                assert!(!answer.header("www-authenticate").contains("insufficient_scope"), "{what}: {}", answer.text);
                assert_ne!(answer.status, 401, "{what}: {}", answer.text);
            } else {
                refused(&answer, &what);
                refusals += 1;
            }
        }
        assert!(refusals >= least, "{document}: {refusals}");
    }
    assert_eq!(state(&ada), before);
}

#[test]
fn a_token_to_read_reads_with_every_api() {
    let harness = OAuthHarness::new();
    rivers(&harness);
    let read = harness.authorized("api_read").access;
    let program = Actor::new(harness.server.address(), Some(read.clone()), "ada");
    assert_eq!(program.get("/databases/ada/rivers").expect(200).data()["visibility"], "private");
    assert_eq!(
        program.get("/databases/ada/rivers/sql?q=select%20name%20from%20r").expect(200).data()["rows"][0][0],
        "Po"
    );
    assert_eq!(program.read("ada/rivers", "main", "select name from r"), json!([["Po"]]));
    // This path reads, whatever is sent.
    let q = json!({"q": "insert into r values (2, 'Rhine')"});
    let failed = program.post("/databases/ada/rivers/sql", &q).json();
    assert_ne!(failed["data"]["status"], "success", "{failed}");
    assert_eq!(program.read("ada/rivers", "main", "select count(*) from r"), json!([["1"]]));

    let rows = harness.send(Method::GET, "/api/v1alpha1/ada/rivers/main?q=select%20name%20from%20r", &read).expect(200);
    assert_eq!(rows.json()["rows"], json!([{"name": "Po"}]));
    assert_eq!(harness.send(Method::GET, "/csv/ada/rivers/main/r", &read).expect(200).text.lines().count(), 2);
    harness.send(Method::HEAD, "/api/v2/databases/ada/rivers", &read).expect(200);
    assert_eq!(harness.send(Method::GET, "/api/v1/user", &read).expect(200).data()["username"], "ada");
    harness.send(Method::GET, "/api/v1/deployments/ada", &read).expect(200);
    // Without the token the database is hidden.
    harness.visitor.get("/databases/ada/rivers").expect(404);
}

#[test]
fn a_token_to_write_does_what_its_user_may() {
    let harness = OAuthHarness::new();
    let owner = rivers(&harness);
    let (read, write) = (harness.authorized("api_read").access, harness.authorized("api_read_write").access);
    let program = |access: &str| Actor::new(harness.server.address(), Some(access.to_owned()), "ada");
    let (reader, writer) = (program(&read), program(&write));
    let insert =
        |id: u8| json!({"from_branch": "main", "to_branch": "main", "q": format!("insert into r values ({id}, 'x')")});
    let before = state(&owner);
    let alpha = "/api/v1alpha1/ada/rivers/write/main/main?q=insert%20into%20r%20values%20(7,%20'x')";
    let hosted = json!({"owner": "ada", "name": "gauges"});
    let create = |access: &str| {
        let request = harness.visitor.plain(Method::POST, "/api/v1/deployments").bearer_auth(access);
        harness.visitor.send(request.json(&hosted))
    };
    let branch = json!({"name": "b", "from": {"branch": "main"}});
    let database = json!({"owner": "ada", "name": "lakes", "visibility": "public"});
    let description = json!({"description": "Rivers"});
    refused(&reader.post("/databases/ada/rivers/sql-writes", &insert(2)), "a write");
    refused(&reader.post("/databases/ada/rivers/branches", &branch), "a branch");
    refused(&reader.post("/databases", &database), "a database");
    refused(&reader.patch("/databases/ada/rivers", &description), "a description");
    refused(&reader.delete("/databases/ada/rivers"), "a deletion");
    refused(&harness.send(Method::POST, alpha, &read), "a write of v1alpha1");
    refused(&create(&read), "a deployment");
    assert_eq!(state(&owner), before);

    let written = writer.finish(&writer.post("/databases/ada/rivers/sql-writes", &insert(2)));
    assert_eq!(written["status"], "succeeded", "{written}");
    writer.post("/databases/ada/rivers/branches", &branch).expect(201);
    writer.post("/databases", &database).expect(201);
    writer.patch("/databases/ada/rivers", &description).expect(200);
    let started = harness.send(Method::POST, alpha, &write).expect(200).json();
    assert_eq!(started["query_execution_status"], "Success", "{started}");
    create(&write).expect(400);
    writer.delete("/databases/ada/lakes").expect(200);
    assert_eq!(reader.read("ada/rivers", "main", "select count(*) from r where id < 3"), json!([["2"]]));

    // The token is that of ada, who may do nothing to the databases of other users.
    let bob = harness.server.user("bob");
    bob.database("lakes");
    writer.post("/databases/bob/lakes/branches", &branch).expect(403);
}

#[test]
fn a_token_to_read_clones_and_does_not_push() {
    let harness = OAuthHarness::new();
    let ada = rivers(&harness);
    let (read, write) = (harness.authorized("api_read").access, harness.authorized("api_read_write").access);
    let before = state(&ada);
    let send = |method: Method, endpoint: &str, access: &str| {
        let request = harness.visitor.plain(method, &format!("/ada/rivers/{endpoint}"));
        let request = request.header("content-type", "application/octet-stream").bearer_auth(access);
        let answer = request.body(encode_hashes(&[hash_of(b"a")])).send().unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        TestAnswer { status, headers, text: String::from_utf8_lossy(&answer.bytes().unwrap()).into_owned() }
    };
    let pushes =
        [(Method::POST, "has-chunks"), (Method::POST, "chunks"), (Method::PUT, "refs-if"), (Method::POST, "commit")];
    for access in [&read, &write] {
        send(Method::GET, "refs", access).expect(200);
        send(Method::POST, "get-chunks", access).expect(200);
    }
    for (method, endpoint) in pushes.clone() {
        let answer = send(method, endpoint, &read);
        refused(&answer, endpoint);
        assert_eq!(answer.json()["code"], "forbidden", "{endpoint}");
    }
    for (method, endpoint) in pushes {
        assert_ne!(send(method, endpoint, &write).status, 403, "{endpoint}");
    }
    assert_eq!(state(&ada), before);
}

#[test]
fn pages_take_no_access_tokens() {
    let harness = OAuthHarness::new();
    let (read, write) = (harness.authorized("api_read").access, harness.authorized("api_read_write").access);
    let post = |path: &str, access: &str| {
        let request = harness.visitor.plain(Method::POST, path).bearer_auth(access);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        harness.visitor.send(request.body("name=laptop&expires=30d"))
    };
    for path in ["/settings/tokens", "/settings/applications", "/new"] {
        let answer = post(path, &read).expect(403);
        assert_eq!(answer.header("www-authenticate"), CHALLENGE, "{path}");
        assert!(answer.text.contains("api_read_write"), "{path}: {}", answer.text);
        let answer = post(path, &write).expect(403);
        assert_eq!(answer.header("www-authenticate"), "", "{path}");
        assert!(answer.text.contains("Your session changed"), "{path}: {}", answer.text);
        for access in [&read, &write] {
            let page = harness.visitor.plain(Method::GET, path).bearer_auth(access);
            assert!(harness.visitor.send(page).text.contains("id=\"sign-in-form\""), "{path}");
        }
    }
}
