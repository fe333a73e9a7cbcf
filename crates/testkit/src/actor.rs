//! The clients of a test.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{AMPLE, TestAnswer, wait_for};

/// How long an idle connection is kept. The server keeps it longer, so no request meets a connection that the server closes.
const IDLE: Duration = Duration::from_secs(2);

/// Limit of the time that an operation takes, longer than the server's own limits.
const OPERATION: Duration = Duration::from_secs(600);

/// An HTTP client of the server under test, with or without a token. Paths are relative to `/api/v2`.
#[derive(Debug, Clone)]
pub struct Actor {
    origin: String,
    token: Option<String>,
    name: String,
    request_id: Option<&'static str>,
    client: reqwest::blocking::Client,
}

impl Actor {
    /// Creates a client of the server at `origin`. Without a token, its requests carry no credential.
    pub fn new(origin: String, token: Option<String>, name: &str) -> Self {
        let client = reqwest::blocking::Client::builder().no_proxy().timeout(Duration::from_secs(600));
        let client = client.pool_idle_timeout(IDLE).build().unwrap();
        Self { origin, token, name: name.to_owned(), request_id: None, client }
    }

    /// Returns the actor with one `X-Request-Id` for all its requests.
    pub(crate) fn with_request_id(self, id: &'static str) -> Self {
        Self { request_id: Some(id), ..self }
    }

    /// Returns the actor with another HTTP client, for example one that speaks HTTP/2.
    pub fn with_client(self, client: reqwest::blocking::Client) -> Self {
        Self { client, ..self }
    }

    /// Returns a copy of the actor without a token.
    pub(crate) fn signed_out(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// Returns the origin that the requests go to.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the user name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the token, if the actor has one.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Starts a request to a path relative to `/api/v2`, or to an absolute URL from a response. The request goes to the server under
    /// test even if the URL names another origin.
    pub fn request(&self, method: Method, path: &str) -> reqwest::blocking::RequestBuilder {
        let below = match path.split_once("://").and_then(|(_, rest)| rest.split_once('/')) {
            Some((_, rest)) if path.starts_with("http") => format!("/{rest}"),
            _ => format!("/api/v2{path}"),
        };
        let mut request = self.client.request(method, format!("{}{below}", self.origin));
        if let Some(id) = self.request_id {
            request = request.header("X-Request-Id", id);
        }
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Starts a request to an absolute path, such as `/api/v1alpha1/user`, without a credential.
    pub fn plain(&self, method: Method, path: &str) -> reqwest::blocking::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.origin))
    }

    /// Sends a request. A response that the OpenAPI document does not allow fails the test.
    pub fn send(&self, request: reqwest::blocking::RequestBuilder) -> TestAnswer {
        let request = request.build().unwrap();
        let method = request.method().to_string();
        TestAnswer::read(&method, self.client.execute(request).unwrap())
    }

    /// Sends a GET request.
    pub fn get(&self, path: &str) -> TestAnswer {
        self.send(self.request(Method::GET, path))
    }

    /// Gets a view of a pull request (its diff, tables or conflicts), retrying until the commits of its source are fetched.
    pub fn get_shown(&self, path: &str) -> TestAnswer {
        wait_for("the commits of the pull request", AMPLE, || {
            let answer = self.get(path);
            if answer.status != 503 {
                return Ok(answer);
            }
            assert_eq!(answer.header("retry-after"), "1", "{}", answer.text);
            Err(answer.text)
        })
    }

    /// Sends a POST request with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> TestAnswer {
        self.send(self.request(Method::POST, path).json(body))
    }

    /// Sends a PATCH request with a JSON body.
    pub fn patch(&self, path: &str, body: &Value) -> TestAnswer {
        self.send(self.request(Method::PATCH, path).json(body))
    }

    /// Sends a DELETE request.
    pub fn delete(&self, path: &str) -> TestAnswer {
        self.send(self.request(Method::DELETE, path))
    }

    /// Creates a public database that the actor owns.
    pub fn database(&self, name: &str) -> Value {
        let body = json!({"owner": self.name, "name": name, "visibility": "public"});
        self.post("/databases", &body).expect(201).data()
    }

    /// Polls the operation of a 202 response until it has succeeded or failed, and returns it.
    pub fn finish(&self, accepted: &TestAnswer) -> Value {
        assert_eq!(accepted.status, 202, "{}", accepted.text);
        let href = accepted.data()["href"].as_str().unwrap().to_owned();
        wait_for("the end of the operation", OPERATION, || {
            let operation = self.get(&href).expect(200).data();
            if operation["status"] == "succeeded" || operation["status"] == "failed" {
                Ok(operation)
            } else {
                Err(operation)
            }
        })
    }

    /// Runs SQL that writes on a branch, expects it to succeed, and returns the hash of the new head.
    pub fn write(&self, database: &str, branch: &str, statements: &str) -> String {
        let body = json!({"from_branch": branch, "to_branch": branch, "q": statements});
        let operation = self.finish(&self.post(&format!("/databases/{database}/sql-writes"), &body));
        assert_eq!(operation["status"], "succeeded", "{operation}");
        operation["result"]["commit_sha"].as_str().unwrap().to_owned()
    }

    /// Runs a SQL query at a ref, expects it to succeed, and returns the rows.
    pub fn read(&self, database: &str, at: &str, statement: &str) -> Value {
        let body = json!({"ref": at, "q": statement});
        let result = self.post(&format!("/databases/{database}/sql"), &body).expect(200).data();
        assert_eq!(result["status"], "success", "{result}");
        result["rows"].clone()
    }
}
