//! What clients of API v1alpha1 rely on: the closing checklist of the contract (v1alpha1 §8), one test per line, against a running
//! server with real stores. The test client checks every response against the OpenAPI document.

mod credentials;
mod downloads;
mod lists;
mod operations;
mod reads;
mod uploads;
mod writes;

use branchyard_testkit::{AMPLE, Actor, Server, TestAnswer, wait_for};
use reqwest::Method;
use reqwest::blocking::RequestBuilder;
use serde_json::{Value, json};

/// The base path of the API.
pub(crate) const BASE: &str = "/api/v1alpha1";

/// A client of v1alpha1.
pub(crate) struct Client {
    actor: Actor,
    authorization: Option<String>,
}

impl Client {
    /// Creates a client that sends `token <T>`, the documented form, or no credential if the actor has no token.
    pub(crate) fn of(actor: &Actor) -> Self {
        Self { actor: actor.clone(), authorization: actor.token().map(|token| format!("token {token}")) }
    }

    /// Creates a client with another value of the `Authorization` header.
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

    /// Sends a request.
    pub(crate) fn send(&self, request: RequestBuilder) -> TestAnswer {
        self.actor.send(request)
    }

    /// Sends a GET request to a path relative to [`BASE`].
    pub(crate) fn get(&self, path: &str) -> TestAnswer {
        self.send(self.request(Method::GET, &format!("{BASE}{path}")))
    }

    /// Sends a GET request to an absolute path.
    pub(crate) fn download(&self, path: &str) -> TestAnswer {
        self.send(self.request(Method::GET, path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> TestAnswer {
        self.send(self.request(Method::POST, &format!("{BASE}{path}")).json(body))
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> TestAnswer {
        self.send(self.request(Method::PATCH, &format!("{BASE}{path}")).json(body))
    }

    /// Runs a query that has to succeed.
    pub(crate) fn read(&self, at: &str, q: &str) -> Value {
        let answer = self.query(at, q).expect(200).json();
        assert_eq!(answer["query_execution_status"], "Success", "{answer}");
        answer
    }

    /// Runs a query, which may fail.
    pub(crate) fn query(&self, at: &str, q: &str) -> TestAnswer {
        self.get(&format!("/{at}?q={}", encoded(q)))
    }

    /// Polls until the response says done or is not 200, and returns it.
    pub(crate) fn poll(&self, path: &str, name: &str) -> TestAnswer {
        wait_for("the end of the operation", AMPLE, || {
            let answer = self.get(&format!("{path}?operationName={}", encoded(name)));
            if answer.json()["done"] == true || answer.status != 200 { Ok(answer) } else { Err(answer.text) }
        })
    }

    /// Starts a write, polls until it is done, and returns the last response.
    pub(crate) fn write(&self, database: &str, from: &str, to: &str, q: &str) -> Value {
        let path = format!("{BASE}/{database}/write/{from}/{to}?q={}", encoded(q));
        let started = self.send(self.request(Method::POST, &path)).expect(200).json();
        assert_eq!(started["query_execution_status"], "Success", "{started}");
        self.poll(&format!("/{database}/write"), text(&started["operation_name"])).expect(200).json()
    }

    /// Runs a write that has to succeed.
    pub(crate) fn wrote(&self, database: &str, from: &str, to: &str, q: &str) -> Value {
        let done = self.write(database, from, to, q);
        assert_eq!(done["res_details"]["query_execution_status"], "Success", "{done}");
        done
    }

    /// Starts an upload with the parts in this order.
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

    /// Uploads CSV rows of the table `tree`.
    pub(crate) fn upload_trees(&self, database: &str, file: &str) -> TestAnswer {
        let params = params("main").to_string();
        self.upload(
            database,
            &[("file", "application/octet-stream", file.as_bytes()), ("params", "text/plain", params.as_bytes())],
        )
    }
}

/// Returns the `params` of an upload that updates `tree`.
pub(crate) fn params(branch: &str) -> Value {
    json!({"fileName": "trees.csv", "branchName": branch, "fileType": "Csv", "importOp": "Update", "tableName": "tree",
        "primaryKeys": ["id"]})
}

/// Percent-encodes the value of a query parameter.
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

/// Starts a server with the public database `ana/trees`, and returns it with the owner.
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

/// Opens a pull request from a branch with a change, and returns its id.
pub(crate) fn open_pull(client: &Client, branch: &str) -> String {
    client.wrote("ana/trees", "main", branch, "UPDATE tree SET name = 'elm' WHERE id = 7");
    let body = json!({"title": "Rename elm", "fromBranchName": branch, "toBranchName": "main"});
    text(&client.post("/ana/trees/pulls", &body).expect(200).json()["pull_id"]).to_owned()
}
