//! What clients of API v1alpha1 rely on: the closing checklist of the contract (v1alpha1 §8), a test a line, against a running
//! server with real stores. Every answer is held to the OpenAPI document by the test client.

mod credentials;
mod downloads;
mod lists;
mod operations;
mod reads;
mod uploads;
mod writes;

use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server, TestAnswer};
use reqwest::Method;
use reqwest::blocking::RequestBuilder;
use serde_json::{Value, json};

/// The API below its base.
pub(crate) const BASE: &str = "/api/v1alpha1";

/// Somebody who speaks v1alpha1 as its clients do.
pub(crate) struct Client {
    actor: Actor,
    authorization: Option<String>,
}

impl Client {
    /// With `token <T>`, the documented form; without one, anonymous.
    pub(crate) fn of(actor: &Actor) -> Self {
        Self { actor: actor.clone(), authorization: actor.token().map(|token| format!("token {token}")) }
    }

    /// With another value of the header.
    pub(crate) fn saying(actor: &Actor, authorization: &str) -> Self {
        Self { actor: actor.clone(), authorization: Some(authorization.to_owned()) }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.actor.plain(method, path);
        match &self.authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        }
    }

    /// Sends a request that was completed.
    pub(crate) fn send(&self, request: RequestBuilder) -> TestAnswer {
        self.actor.send(request)
    }

    /// GET below the API.
    pub(crate) fn get(&self, path: &str) -> TestAnswer {
        self.send(self.request(Method::GET, &format!("{BASE}{path}")))
    }

    /// GET of an absolute path.
    pub(crate) fn download(&self, path: &str) -> TestAnswer {
        self.send(self.request(Method::GET, path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> TestAnswer {
        self.send(self.request(Method::POST, &format!("{BASE}{path}")).json(body))
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> TestAnswer {
        self.send(self.request(Method::PATCH, &format!("{BASE}{path}")).json(body))
    }

    /// A read that has to go well.
    pub(crate) fn read(&self, at: &str, q: &str) -> Value {
        let answer = self.query(at, q).expect(200).json();
        assert_eq!(answer["query_execution_status"], "Success", "{answer}");
        answer
    }

    /// A read, however it ends.
    pub(crate) fn query(&self, at: &str, q: &str) -> TestAnswer {
        self.get(&format!("/{at}?q={}", encoded(q)))
    }

    /// Polls until it says done; gives the last answer.
    pub(crate) fn poll(&self, path: &str, name: &str) -> TestAnswer {
        let began = Instant::now();
        loop {
            let answer = self.get(&format!("{path}?operationName={}", encoded(name)));
            if answer.json()["done"] == true || answer.status != 200 {
                return answer;
            }
            assert!(began.elapsed() < Duration::from_secs(600), "never done: {}", answer.text);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts a write and follows it to its end.
    pub(crate) fn write(&self, database: &str, from: &str, to: &str, q: &str) -> Value {
        let path = format!("{BASE}/{database}/write/{from}/{to}?q={}", encoded(q));
        let started = self.send(self.request(Method::POST, &path)).expect(200).json();
        assert_eq!(started["query_execution_status"], "Success", "{started}");
        self.poll(&format!("/{database}/write"), text(&started["operation_name"])).expect(200).json()
    }

    /// A write that has to go well.
    pub(crate) fn wrote(&self, database: &str, from: &str, to: &str, q: &str) -> Value {
        let done = self.write(database, from, to, q);
        assert_eq!(done["res_details"]["query_execution_status"], "Success", "{done}");
        done
    }

    /// Starts an upload; the parts in this order.
    pub(crate) fn upload(&self, database: &str, parts: &[(&str, &str, &[u8])]) -> TestAnswer {
        let mut body = Vec::new();
        for (name, content_type, bytes) in parts {
            let file = if *name == "file" { "; filename=\"data\"" } else { "" };
            body.extend_from_slice(
                format!("--b0undary\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n").as_bytes(),
            );
            body.extend_from_slice(format!("Content-Type: {content_type}\r\n\r\n").as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--b0undary--\r\n");
        let request = self.request(Method::POST, &format!("{BASE}/{database}/upload"));
        self.send(request.header("content-type", "multipart/form-data; boundary=b0undary").body(body))
    }

    /// Uploads a table of `tree` as CSV.
    pub(crate) fn upload_trees(&self, database: &str, file: &str) -> TestAnswer {
        let params = params("main").to_string();
        self.upload(
            database,
            &[("file", "application/octet-stream", file.as_bytes()), ("params", "text/plain", params.as_bytes())],
        )
    }
}

/// `params` of an upload that updates `tree`.
pub(crate) fn params(branch: &str) -> Value {
    json!({"fileName": "trees.csv", "branchName": branch, "fileType": "Csv", "importOp": "Update", "tableName": "tree",
        "primaryKeys": ["id"]})
}

/// A text as the value of a parameter.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

pub(crate) const TREES: &str = "CREATE TABLE tree (name varchar(64), id INTEGER PRIMARY KEY, felled date); \
    INSERT INTO tree VALUES ('oak', 7, NULL), ('ash', 8, '2025-01-03')";

/// A server with `ana/trees`, public, and its owner.
pub(crate) fn trees() -> (Server, Actor, Client) {
    trees_with(|_| {})
}

pub(crate) fn trees_with(change: impl FnOnce(&mut branchyard::config::Config)) -> (Server, Actor, Client) {
    let server = Server::start_with(change);
    let ana = server.user("ana");
    let client = Client::of(&ana);
    create(&client, "trees", "public");
    client.wrote("ana/trees", "main", "main", TREES);
    (server, ana, client)
}

pub(crate) fn create(client: &Client, name: &str, visibility: &str) {
    let body = json!({"ownerName": "ana", "repoName": name, "visibility": visibility});
    client.post("/database", &body).expect(200);
}

/// Opens a pull from a branch that changed something; gives its id.
pub(crate) fn open_pull(client: &Client, branch: &str) -> String {
    client.wrote("ana/trees", "main", branch, "UPDATE tree SET name = 'elm' WHERE id = 7");
    let body = json!({"title": "Rename elm", "fromBranchName": branch, "toBranchName": "main"});
    text(&client.post("/ana/trees/pulls", &body).expect(200).json()["pull_id"]).to_owned()
}
