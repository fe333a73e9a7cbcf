//! The log of the real binary: access lines, lines about operations and deliveries, secrets, and closed outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use branchyard_testkit::{AMPLE, Actor, RawConnection, Receiver, ServerProcess, ended_within, wait_for};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::program;

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// A valid `traceparent` but for its letters.
const INVALID: &str = "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01";
const ENDED: &str = "an attempt of an operation ended";
const DOCUMENT: &str = include_str!("../../../../docs/logs.md");

/// A server whose log is a file.
struct LoggedServer {
    dir: TempDir,
    server: ServerProcess,
    ada: Actor,
}

impl LoggedServer {
    fn start(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let token = program().user(&data, "ada");
        let mut command = program().serve(&data);
        command.stderr(File::create(log_of(&dir)).unwrap()).env_remove("RUST_LOG");
        command.envs(settings.iter().copied());
        let server = ServerProcess::try_start(&mut command).unwrap();
        let ada = Actor::new(server.origin.clone(), Some(token), "ada");
        Self { dir, server, ada }
    }

    /// Sends a request with an id, by which its lines are found.
    fn send(&self, id: &str, request: reqwest::blocking::RequestBuilder) -> branchyard_testkit::TestAnswer {
        self.ada.send(request.header("X-Request-Id", id))
    }

    /// Stops the server and returns the lines of its log.
    fn stop(self) -> Vec<Value> {
        self.server.terminate();
        lines(&fs::read_to_string(log_of(&self.dir)).unwrap())
    }

    /// Returns the lines logged so far.
    fn lines(&self) -> Vec<Value> {
        lines(&fs::read_to_string(log_of(&self.dir)).unwrap())
    }
}

fn log_of(dir: &TempDir) -> PathBuf {
    dir.path().join("log")
}

fn lines(text: &str) -> Vec<Value> {
    // The last line may not be whole yet.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Returns the only access line of a request.
fn access<'a>(lines: &'a [Value], id: &str) -> &'a Value {
    let of = |line: &&Value| line["message"] == "request" && line["request_id"] == id;
    let found: Vec<&Value> = lines.iter().filter(of).collect();
    assert_eq!(found.len(), 1, "{id}: {found:?}");
    found[0]
}

/// Returns the fields of a table of the documentation, with their types.
fn documented(heading: &str) -> BTreeMap<String, String> {
    let (_, section) = DOCUMENT.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        Some((cells.next()?.trim_end_matches('`').to_owned(), cells.next()?.to_owned()))
    };
    section.lines().filter_map(row).collect()
}

/// Checks that each field of each line is documented for lines of its kind, with its type.
fn check_fields(lines: &[Value]) {
    let common = documented("Every line");
    let access = documented("Access lines");
    let others = ["Access lines", "Operations", "Webhooks", "Other lines"].map(documented);
    for line in lines {
        for name in common.keys() {
            assert!(!line[name].is_null(), "{name} is missing in {line}");
        }
        for (name, value) in line.as_object().unwrap() {
            let is_access = line["message"] == "request";
            let tables = if is_access { std::slice::from_ref(&access) } else { &others[..] };
            let kind = common.get(name).or_else(|| tables.iter().find_map(|table| table.get(name)));
            let kind = kind.unwrap_or_else(|| panic!("{name} is not documented: {line}"));
            assert_eq!(if value.is_string() { "text" } else { "number" }, kind, "{name} in {line}");
        }
        let is_about =
            |field: &str| !line[field].is_null() && line["message"] != "request" && line["request_id"].is_null();
        for (id, heading) in [("operation_id", "Operations"), ("delivery_id", "Webhooks")] {
            if is_about(id) {
                for name in documented(heading)
                    .keys()
                    .filter(|name| ["kind", "database", "attempt", "hook_id"].contains(&name.as_str()))
                {
                    assert!(!line[name].is_null(), "{name} is missing in {line}");
                }
            }
        }
    }
}

#[test]
fn each_request_has_one_access_line() {
    let server = LoggedServer::start(&[]);
    let ada = &server.ada;
    ada.database("rivers");
    let get = |path: &str| ada.request(Method::GET, path);
    let shown = server.send("a-shown", get("/databases/ADA/rivers")).expect(200);
    let missing = server.send("a-missing", get("/no/such/route")).expect(404);
    server.send("a-hidden", get("/databases/ada/nothing")).expect(404);
    server.send("a-head", ada.request(Method::HEAD, "/databases/ada/rivers")).expect(200);
    server.send("a-page", ada.plain(Method::GET, "/explore")).expect(200);
    server.send("a-health", ada.plain(Method::GET, "/healthz")).expect(200);
    let statement = json!({"from_branch": "main", "to_branch": "main", "q": "create table t (n)"});
    let write = ada.request(Method::POST, "/databases/ada/rivers/sql-writes").header("traceparent", TRACE);
    let accepted = server.send("a-write", write.json(&statement)).expect(202);
    ada.finish(&accepted);
    let invalid = get("/user").header("traceparent", INVALID);
    server.send("a-invalid", invalid).expect(200);
    server.ada.write("ada/rivers", "main", "create table s (n)");
    // A client that sends half of a body and leaves.
    let mut raw = RawConnection::open(server.server.socket());
    let half = format!(
        "POST /api/v2/databases HTTP/1.1\r\nhost: x\r\nx-request-id: a-cut\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        ada.token().unwrap()
    );
    raw.send(half.as_bytes());
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(raw);
    wait_for("the line of the request that was cut off", AMPLE, || {
        let lines = server.lines();
        if lines.iter().any(|line| line["request_id"] == "a-cut") { Ok(()) } else { Err(lines.len()) }
    });
    let lines = server.stop();
    check_fields(&lines);

    let line = access(&lines, "a-shown");
    assert_eq!(line["method"], "GET");
    assert_eq!(line["route"], "/api/v2/databases/{owner}/{database}");
    assert_eq!(line["status"], 200);
    assert_eq!(line["bytes"], shown.text.len());
    assert_eq!(line["database"], "ada/rivers", "as it is spelled, not as it was addressed");
    assert!(line["latency_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(line["user_id"].as_str().unwrap().len(), 36);
    assert!(line["operation_id"].is_null() && line["trace_id"].is_null());
    let line = access(&lines, "a-missing");
    assert_eq!((&line["route"], &line["status"]), (&json!("none"), &json!(404)));
    assert_eq!(line["bytes"], missing.text.len());
    assert!(access(&lines, "a-hidden")["database"].is_null());
    assert_eq!(access(&lines, "a-head")["bytes"], 0);
    assert_eq!(access(&lines, "a-page")["route"], "/explore");
    assert!(access(&lines, "a-page")["user_id"].is_null());
    assert_eq!(access(&lines, "a-health")["route"], "/healthz");
    assert!(access(&lines, "a-invalid")["trace_id"].is_null());
    let cut = access(&lines, "a-cut");
    assert_eq!(cut["route"], "/api/v2/databases");
    assert!(cut["status"] == 499 || cut["status"] == 400, "{cut}");

    let line = access(&lines, "a-write");
    assert_eq!(line["trace_id"], TRACE_ID);
    assert_eq!(line["database"], "ada/rivers");
    let operation = line["operation_id"].as_str().unwrap();
    assert_eq!(operation.len(), 36);
    let is_end = |line: &&Value| line["operation_id"] == operation && line["message"] == ENDED;
    let ended: Vec<&Value> = lines.iter().filter(is_end).collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["trace_id"], TRACE_ID);
    assert_eq!(ended[0]["kind"], "sql_write");
    assert_eq!((&ended[0]["database"], &ended[0]["attempt"]), (&json!("ada/rivers"), &json!(1)));
    assert_eq!(ended[0]["outcome"], "succeeded");
}

#[test]
fn without_access_lines_other_lines_stay() {
    let server = LoggedServer::start(&[("BRANCHYARD_LOG__ACCESS", "0")]);
    server.ada.database("rivers");
    server.ada.write("ada/rivers", "main", "create table t (n)");
    let lines = server.stop();
    assert!(lines.iter().all(|line| line["message"] != "request"), "{lines:?}");
    assert!(lines.iter().any(|line| line["message"] == ENDED));
}

#[test]
fn the_format_is_a_setting() {
    let server = LoggedServer::start(&[("BRANCHYARD_LOG__FORMAT", "text")]);
    server.send("a-user", server.ada.request(Method::GET, "/user")).expect(200);
    server.server.terminate();
    let text = fs::read_to_string(log_of(&server.dir)).unwrap();
    let line = text.lines().find(|line| line.contains("request_id=\"a-user\"")).unwrap();
    assert!(line.contains(" INFO access: request ") && line.contains(" status=200 "), "{line}");
}

#[test]
fn a_failing_webhook_is_logged_with_its_ids_and_gets_the_trace() {
    let server = LoggedServer::start(&[("BRANCHYARD_HOOKS__ALLOWED_CIDRS", "127.0.0.0/8,::1/128")]);
    let ada = &server.ada;
    ada.database("rivers");
    let receiver = Receiver::with(|_| Some(500));
    let hook = json!({"url": receiver.url(), "events": ["on_branch"]});
    let hook = ada.post("/databases/ada/rivers/hooks", &hook).expect(201).data();
    let branch = |name: &str, trace: &str| {
        let body = json!({"name": name, "from": {"branch": "main"}});
        let request = ada.request(Method::POST, "/databases/ada/rivers/branches").header("traceparent", trace);
        ada.send(request.json(&body)).expect(201);
    };
    branch("traced", TRACE);
    let first = receiver.wait_for(1).remove(0);
    assert_eq!(first.headers.get("traceparent").map(String::as_str), Some(TRACE));
    let failed = wait_for("the line of the failed attempt", AMPLE, || {
        let lines = server.lines();
        let found = lines.iter().find(|line| !line["delivery_id"].is_null()).cloned();
        found.ok_or(lines.len())
    });
    assert_eq!(failed["hook_id"], hook["id"]);
    assert_eq!(failed["delivery_id"], first.header("webhook-id"));
    assert_eq!((&failed["database"], &failed["attempt"]), (&json!("ada/rivers"), &json!(1)));
    assert_eq!((&failed["trace_id"], &failed["status"]), (&json!(TRACE_ID), &json!(500)));
    let other = Receiver::start();
    let hook = json!({"url": other.url(), "events": ["on_branch"]});
    ada.post("/databases/ada/rivers/hooks", &hook).expect(201);
    branch("untraced", INVALID);
    assert_eq!(other.wait_for(1)[0].headers.get("traceparent"), None);
    check_fields(&server.stop());
}

/// Returns a parameter in the encoding of queries and forms.
fn encoded(name: &str, value: &str) -> String {
    let url = reqwest::Url::parse_with_params("http://x/", [(name, value)]).unwrap();
    url.query().unwrap().to_owned()
}

#[test]
fn no_secret_statement_or_row_is_in_the_log() {
    const SECRET: &str = "s3cret-planted-value";
    let server = LoggedServer::start(&[("RUST_LOG", "info,branchyard=trace")]);
    let ada = &server.ada;
    ada.database("rivers");
    ada.write("ada/rivers", "main", &format!("create table t (v); insert into t values ('{SECRET}')"));
    ada.read("ada/rivers", "main", &format!("select v from t where v = '{SECRET}'"));
    let query = encoded("q", &format!("select '{SECRET}' from nowhere"));
    ada.get(&format!("/databases/ada/rivers/sql?{query}"));
    let wrong = format!("insert into nowhere values ('{SECRET}')");
    let failed =
        ada.post("/databases/ada/rivers/sql-writes", &json!({"from_branch": "main", "to_branch": "main", "q": wrong}));
    assert_eq!(ada.finish(&failed)["status"], "failed");
    ada.get(&format!("/databases/ada/{SECRET}")).expect(404);
    let stranger = Actor::new(server.server.origin.clone(), Some(format!("hsat.v1.{SECRET}")), "x");
    stranger.get("/user").expect(401);
    let form = ada.plain(Method::POST, "/sign-in").header("content-type", "application/x-www-form-urlencoded");
    form.body(format!("name=ada&{}", encoded("password", SECRET))).send().unwrap();
    ada.plain(Method::GET, &format!("/sign-up?invitation={SECRET}")).send().unwrap();
    let token = ada.token().unwrap().to_owned();
    let log = log_of(&server.dir);
    server.server.terminate();
    let text = fs::read_to_string(log).unwrap();
    assert!(text.lines().count() > 5, "{text}");
    for planted in [SECRET, &token, "hsat.", "create table", "insert into"] {
        assert!(!text.contains(planted), "{planted} is in\n{text}");
    }
}

#[test]
fn the_first_sign_up_link_follows_the_address_and_stays_out_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program().serve(&dir.path().join("data"));
    let log = dir.path().join("log");
    let mut child = command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let origin = address.strip_prefix("listening on ").unwrap();
    let link = lines.next().unwrap().unwrap();
    let secret = link.split_once(&format!("{origin}/sign-up?invitation=")).map(|(_, secret)| secret.to_owned());
    let secret = secret.unwrap_or_else(|| panic!("{link}"));
    rustix::process::kill_process(pid(&child), rustix::process::Signal::TERM).unwrap();
    assert!(ended_within(&mut child, AMPLE).unwrap().success());
    assert!(!fs::read_to_string(&log).unwrap().contains(&secret));
}

fn pid(child: &std::process::Child) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap()
}

#[test]
fn closed_outputs_are_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = program().on(&data, &["serve", "--listen", &port.to_string()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Nothing is read from either output.
    drop((child.stdout.take(), child.stderr.take()));
    let url = format!("http://{port}/healthz");
    wait_for("the server", AMPLE, || match reqwest::blocking::get(&url) {
        Ok(answer) if answer.status() == 200 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    for _ in 0..100 {
        assert_eq!(reqwest::blocking::get(&url).unwrap().status(), 200);
    }
    rustix::process::kill_process(pid(&child), rustix::process::Signal::TERM).unwrap();
    assert!(ended_within(&mut child, AMPLE).unwrap().success());
}

#[test]
fn an_output_that_is_not_read_delays_no_request() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program().serve(&dir.path().join("data"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let url = format!("{}/healthz", address.trim().strip_prefix("listening on ").unwrap());
    let client = reqwest::blocking::Client::new();
    // A pipe holds 64 KiB, and each line has more than 200 bytes.
    for _ in 0..1_000 {
        assert_eq!(client.get(&url).send().unwrap().status(), 200);
    }
    let mut stderr = child.stderr.take().unwrap();
    rustix::process::kill_process(pid(&child), rustix::process::Signal::TERM).unwrap();
    let status = ended_within(&mut child, AMPLE).unwrap();
    assert!(status.success(), "the end does not wait for the pipe: {status}");
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    assert!(text.contains("\"message\":\"request\""));
}

#[cfg(not(feature = "otlp"))]
#[test]
fn without_the_feature_a_server_refuses_an_endpoint_for_traces() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program().serve(dir.path());
    let refused = command.env("BRANCHYARD_OTLP__ENDPOINT", "http://127.0.0.1:4318").output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && text.contains("otlp.endpoint") && text.contains("feature otlp"), "{text}");
}

#[test]
fn each_field_in_the_source_is_documented() {
    let all: BTreeSet<String> = ["Every line", "Access lines", "Operations", "Webhooks", "Other lines"]
        .iter()
        .flat_map(|heading| documented(heading).into_keys())
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut files, mut found) = (vec![root.join("crates"), root.join("bins")], 0);
    while let Some(path) = files.pop() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            // Deployments have a log of their own, and tests log nothing.
            if !["target", "tests", "benches", "examples", "child", "hrana"].contains(&name.as_str()) {
                files.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            continue;
        }
        if !name.ends_with(".rs") || ["child.rs", "spec.rs", "keep.rs", "tests.rs"].contains(&name.as_str()) {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for field in fields_of(product) {
            assert!(all.contains(&field), "{field} in {} is not in docs/logs.md", path.display());
            found += 1;
        }
    }
    assert!(found > 80, "{found}");
}

/// Returns the text up to the closing parenthesis of a call, or up to its first string.
fn arguments(call: &str) -> &str {
    let mut depth = 1;
    let is_end = |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 || character == '"'
    };
    &call[..call.find(is_end).unwrap_or(call.len())]
}

/// Returns the names of the fields of all events and spans in a source text.
fn fields_of(source: &str) -> Vec<String> {
    let mut fields = Vec::new();
    for macro_name in ["error!(", "warn!(", "info!(", "debug!(", "error_span!("] {
        for call in source.split(&format!("tracing::{macro_name}")).skip(1) {
            // The name of a span precedes its fields, and the message of an event follows them.
            let call =
                if macro_name == "error_span!(" { call.split_once(',').map_or("", |(_, rest)| rest) } else { call };
            for part in arguments(call).split(',') {
                let name = part.split('=').next().unwrap().trim().trim_start_matches(['%', '?']);
                let name = name.trim_end_matches([')', '\n', ' ', '}']).trim();
                if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
                    fields.push(name.to_owned());
                }
            }
        }
    }
    fields
}
