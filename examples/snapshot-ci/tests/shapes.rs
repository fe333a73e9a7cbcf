//! The shapes that this project reads. `cargo insta review` shows what an upgrade of the server changes.

use std::{io::BufRead as _, io::BufReader, process};

use branchyard_api_snapshots::shape_of;
use branchyard_openapi_check::{CheckedAnswer, Checker};
use serde_json::{Value, json};
use ureq::http::HeaderValue;

struct Server {
    process: process::Child,
    origin: String,
    token: String,
    document: Checker,
    _folder: tempfile::TempDir,
}

fn branchyard(arguments: &[&str]) -> process::Command {
    // The program under test: a path, or what the shell finds.
    let mut command = process::Command::new(std::env::var("BRANCHYARD").unwrap_or_else(|_| "branchyard".to_owned()));
    command.args(arguments).stdout(process::Stdio::piped());
    command
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_str().unwrap();
        let mut process = branchyard(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data]).spawn().unwrap();
        let first = BufReader::new(process.stdout.as_mut().unwrap()).lines().next().unwrap().unwrap();
        let origin = first.strip_prefix("listening on ").unwrap().to_owned();
        let run = |arguments: &[&str]| branchyard(arguments).args(["--data-dir", data]).output().unwrap().stdout;
        run(&["user", "create", "ada", "--email", "ada@example.org"]);
        let token = run(&["token", "create", "--user", "ada", "--name", "ci", "--expires", "30d"]);
        let document = ureq::get(format!("{origin}/api/v2/openapi.json")).call().unwrap().body_mut().read_to_string();
        let token = format!("Bearer {}", String::from_utf8(token).unwrap().trim());
        Self { process, origin, token, document: Checker::new(&document.unwrap()), _folder: folder }
    }

    /// Sends a request, checks the answer against the API's document, and returns its shape.
    fn shape(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (path, url) = (format!("/api/v2{path}"), format!("{}/api/v2{path}", self.origin));
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let answer = match body {
            Some(body) => agent.post(url).header("authorization", &self.token).send_json(body),
            None => agent.get(url).header("authorization", &self.token).call(),
        };
        let mut answer = answer.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap());
        let text_of = |(name, value): (&_, &HeaderValue)| (format!("{name}"), value.to_str().unwrap().to_owned());
        let (headers, path) = (answer.headers().iter().map(text_of).collect(), path.split('?').next().unwrap());
        self.document.check(&CheckedAnswer { method, path, status, headers, body: text.as_bytes() }).unwrap();
        json!({"status": status, "body": shape_of(&serde_json::from_str(&text).unwrap())})
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().and_then(|()| self.process.wait()).unwrap();
    }
}

#[test]
fn the_shapes_that_we_read() {
    let server = Server::start();
    let new = json!({"owner": "ada", "name": "rivers", "visibility": "public"});
    insta::assert_json_snapshot!("create", server.shape("POST", "/databases", Some(new)));
    insta::assert_json_snapshot!("read", server.shape("GET", "/databases/ada/rivers/sql?q=select+1+as+one", None));
    insta::assert_json_snapshot!("missing", server.shape("GET", "/databases/ada/lakes", None));
}
