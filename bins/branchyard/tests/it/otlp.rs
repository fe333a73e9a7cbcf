//! The export of traces to a receiver on this machine. Compiled only with the feature `otlp`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use branchyard_testkit::{AMPLE, Actor, ServerProcess, wait_for};
use parking_lot::Mutex;
use reqwest::Method;

use crate::process::program;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE_ID: [u8; 16] = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
const PARENT: [u8; 8] = 0xb7ad_6b71_6920_3331_u64.to_be_bytes();

/// The request lines and headers in lower case, and the bodies, that a receiver got.
type Exports = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Starts a receiver that answers each request with `status`.
fn receiver(status: &'static str) -> (String, Exports) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, exports) = (format!("http://{}", listener.local_addr().unwrap()), Exports::default());
    let for_thread = Arc::clone(&exports);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = answer(&stream, status, &for_thread);
        }
    });
    (url, exports)
}

fn answer(mut stream: &TcpStream, status: &str, exports: &Exports) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        head += &line.to_ascii_lowercase();
        line.clear();
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    exports.lock().push((head, body));
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

fn holds(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

/// Serves with an export to `endpoint`, and returns a caller.
fn serve(dir: &std::path::Path, endpoint: &str) -> (ServerProcess, Actor) {
    let token = program().user(dir, "ada");
    let server = ServerProcess::start(program().serve(dir).env("BRANCHYARD_OTLP__ENDPOINT", endpoint));
    let ada = Actor::new(server.origin.clone(), Some(token), "ada");
    (server, ada)
}

#[test]
fn spans_of_requests_and_operations_reach_the_receiver() {
    let dir = tempfile::tempdir().unwrap();
    let (url, exports) = receiver("200 OK");
    let (server, ada) = serve(dir.path(), &url);
    ada.database("rivers");
    let statement = serde_json::json!({"from_branch": "main", "to_branch": "main", "q": "create table t (n)"});
    let write = ada.request(Method::POST, "/databases/ada/rivers/sql-writes").header("traceparent", TRACE);
    let accepted = ada.send(write.json(&statement)).expect(202);
    ada.finish(&accepted);
    let parts: [&[u8]; 8] = [
        b"POST /api/v2/databases/{owner}/{database}/sql-writes",
        b"http.response.status_code",
        b"service.name",
        b"operation_id",
        b"sql_write",
        b"recovery",
        &TRACE_ID,
        &PARENT,
    ];
    wait_for("the spans", AMPLE, || {
        let missing = |part: &&[u8]| !exports.lock().iter().any(|(_, body)| holds(body, part));
        let missing: Vec<_> = parts.into_iter().filter(missing).map(String::from_utf8_lossy).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
    });
    for (head, body) in exports.lock().iter() {
        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        assert!(!holds(body, b"create table") && !holds(body, ada.token().unwrap().as_bytes()));
    }
    server.terminate();
}

#[test]
fn a_receiver_that_fails_or_is_gone_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let (url, exports) = receiver("500 Internal Server Error");
    let (server, ada) = serve(&dir.path().join("fails"), &url);
    ada.get("/user").expect(200);
    wait_for("a request to the receiver", AMPLE, || if exports.lock().is_empty() { Err("none") } else { Ok(()) });
    ada.get("/user").expect(200);
    server.terminate();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (server, ada) = serve(&dir.path().join("gone"), &format!("http://{closed}"));
    for _ in 0..100 {
        ada.get("/user").expect(200);
    }
    server.terminate();
}
