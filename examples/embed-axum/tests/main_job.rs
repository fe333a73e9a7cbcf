//! Runs the service as its users would: create, branch, write, pull, merge, read; with the engine in its own process and
//! in worker processes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

struct Running {
    child: Child,
    address: String,
    token: Option<String>,
    _output: BufReader<ChildStdout>,
}

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_embed-axum"));
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(folder).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut token = None;
        let address = loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the service ended");
            if let Some(found) = line.trim().strip_prefix("token ") {
                token = Some(found.to_owned());
            } else if let Some(found) = line.trim().strip_prefix("listening on http://") {
                break found.to_owned();
            }
        };
        Self { child, address, token, _output: output }
    }

    fn call(&self, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main_job(arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let service = Running::start(folder.path(), arguments);
    let token = service.token.clone().unwrap();
    let post = |path: &str, body: Value| {
        let (status, answer) = service.call("POST", path, &token, &body);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    post("/databases", json!({"name": "rivers"}));
    post("/databases/rivers/branches", json!({"name": "draft", "from": "main"}));
    let sql = "CREATE TABLE gauges(id INTEGER PRIMARY KEY, level REAL); INSERT INTO gauges VALUES (4, 1.5)";
    assert_eq!(post("/databases/rivers/branches/draft/writes", json!({"sql": sql}))["rows_affected"], 1);
    let pull = post("/databases/rivers/pulls", json!({"title": "A gauge", "from": "draft", "to": "main"}));
    assert_eq!(pull["number"], "1");
    assert!(post("/databases/rivers/pulls/1/merge", json!({}))["commit"].is_string());

    let rows = "/databases/rivers/branches/main/rows?sql=SELECT+*+FROM+gauges";
    assert_eq!(
        service.call("GET", rows, &token, &json!({})),
        (200, json!({"columns": ["id", "level"], "rows": ["4|1.5"]}))
    );
    let failures = [
        ("GET", "/databases/lakes/branches/main/rows?sql=SELECT+1", token.as_str(), 404),
        ("GET", "/databases/rivers/branches/main/rows?sql=SELEC", &token, 422),
        ("GET", rows, "hsat.v1.wrong", 401),
        ("POST", "/databases/rivers/pulls/7/merge", &token, 422),
    ];
    for (method, path, token, expected) in failures {
        let (status, answer) = service.call(method, path, token, &json!({}));
        assert_eq!(status, expected, "{path}: {answer}");
        assert!(answer["error"].is_string(), "{path}: {answer}");
    }

    // Everything acknowledged is there after the process was killed.
    drop(service);
    let service = Running::start(folder.path(), arguments);
    assert_eq!(service.token, None, "there is an owner already");
    assert_eq!(service.call("GET", rows, &token, &json!({})).0, 200);
}

#[test]
fn the_main_job_with_the_engine_in_process() {
    main_job(&[]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_main_job_with_worker_processes() {
    main_job(&["--workers"]);
}
