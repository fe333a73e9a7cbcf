//! The gateway to deployments: rejections, CORS, and streaming in both directions.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::GatewayHarness;
use crate::process::{Server, branchyard, succeed};

#[test]
fn guessing_is_limited_by_address_and_those_who_were_let_in_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let yard = GatewayHarness::start(dir.path());
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let good = |id: &str| {
        let request = yard.http.post(&url).bearer_auth(&yard.token).header("X-Request-Id", id);
        request.json(&json!({"requests": []})).send().unwrap().status().as_u16()
    };
    assert_eq!(good("a"), 200);
    let bad = |token: &str| {
        yard.http.post(&url).header("Authorization", token).json(&json!({"requests": []})).send().unwrap()
    };
    let unknown = format!("Bearer hsat.v1.{}3mhf8X", "A".repeat(43));
    let (mut rejected, mut limited) = (0, 0);
    let began = Instant::now();
    while limited == 0 {
        assert!(began.elapsed() < Duration::from_secs(300), "nothing is limited");
        // Sends many requests in parallel, because even a slow machine must answer more than ten of them within a second.
        let answers: Vec<_> = thread::scope(|scope| {
            let tokens = [unknown.as_str(), "Bearer x"].into_iter().cycle().take(24);
            let sent: Vec<_> = tokens.map(|token| scope.spawn(|| bad(token))).collect();
            sent.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for answer in answers {
            let challenge = answer.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(answer.headers()["content-type"], "application/json");
            assert!(answer.headers().contains_key("x-request-id"));
            match answer.status().as_u16() {
                401 => {
                    assert!(challenge.unwrap().ends_with("error=\"invalid_token\""));
                    rejected += 1;
                }
                429 => {
                    assert_eq!(answer.headers()["retry-after"], "1");
                    assert_eq!(answer.json::<Value>().unwrap()["code"], "RATE_LIMITED");
                    limited += 1;
                }
                other => panic!("{other}"),
            }
        }
    }
    assert!(rejected >= 10, "{rejected}");
    // A known caller is not locked out by other callers behind the same address, and a request without a credential is no guess.
    assert_eq!(good("b"), 200);
    let none = yard.http.post(&url).json(&json!({"requests": []})).send().unwrap();
    assert_eq!(none.status().as_u16(), 401);
    assert_eq!(none.headers()["www-authenticate"], "Bearer realm=\"branchyard\"");
    thread::sleep(Duration::from_millis(1_100));
    assert_eq!(bad(&unknown).status().as_u16(), 401, "a second later one may try again");
    yard.server.terminate();
}

#[test]
fn pages_of_allowed_origins_get_through_and_others_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let yard = GatewayHarness::start(dir.path());
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let header = |answer: &reqwest::blocking::Response, name: &str| {
        answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let preflight = |url: &str| {
        let request = yard.http.request(reqwest::Method::OPTIONS, url).header("Origin", "https://app.example");
        request.header("Access-Control-Request-Method", "POST").send().unwrap()
    };
    for url in [&url, &url.replace("/gauges/", "/nowhere/")] {
        let asked = preflight(url);
        assert_eq!(asked.status().as_u16(), 204, "{url}");
        assert_eq!(header(&asked, "access-control-allow-origin").unwrap(), "https://app.example");
        assert!(header(&asked, "access-control-allow-headers").unwrap().contains("Authorization"));
    }
    let ask = || {
        let request = yard.http.post(&url).bearer_auth(&yard.token).header("Origin", "https://app.example");
        let answer = request.json(&json!({"requests": []})).send().unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        header(&answer, "access-control-allow-origin")
    };
    assert_eq!(ask(), None);
    let allowed = json!({"overrides": {"listener_allowed_origins": "https://app.example"}});
    assert_eq!(yard.api("PATCH", "/deployments/ada/gauges/config", Some(&allowed)).0, 200);
    assert_eq!(ask().unwrap(), "https://app.example");
}

/// Sends a request to the gateway with the given part of its body.
fn begin(yard: &GatewayHarness, url: &str, headers: &str, body: &[u8]) -> TcpStream {
    let address = yard.server.origin.strip_prefix("http://").unwrap();
    let path = url.strip_prefix(&yard.server.origin).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n{headers}\r\n\r\n", yard.token);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

/// Reads the answer, including its head. The end of the body follows from its length, because the server may keep the connection
/// open.
fn answer(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "no answer: {}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    let head = String::from_utf8(text.clone()).unwrap().to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|length| length.parse().unwrap());
    match length {
        Some(length) => {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            text.extend(body);
        }
        None => drop(stream.read_to_end(&mut text).unwrap()),
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(target_os = "linux")]
fn resident_kib(server: u32) -> u64 {
    let server = procfs::process::Process::new(i32::try_from(server).unwrap()).unwrap();
    server.statm().unwrap().resident * procfs::page_size() / 1024
}

#[test]
fn bodies_pass_as_they_come_within_the_limits_of_the_instance() {
    let dir = tempfile::tempdir().unwrap();
    let yard = GatewayHarness::start(dir.path());
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    // The instance rejects the request by its declared length, before any byte of the body arrives.
    let refused = answer(begin(&yard, &url, "content-length: 8388609", b""));
    assert!(refused.starts_with("HTTP/1.1 413") && refused.contains("PAYLOAD_TOO_LARGE"), "{refused}");
    // A body within the limit arrives completely, with a declared length or in chunks.
    let statement = format!("select length('{}')", "x".repeat(500_000));
    let padding = " ".repeat(3 << 20);
    let pipeline = json!({"requests": [{"type": "execute", "stmt": {"sql": statement}}, {"type": "close"}]});
    let body = format!("{padding}{pipeline}").into_bytes();
    let declared = format!("connection: close\r\ncontent-length: {}", body.len());
    let chunked = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    for (headers, body) in [(declared.as_str(), &body), ("connection: close\r\ntransfer-encoding: chunked", &chunked)] {
        let passed = answer(begin(&yard, &url, headers, body));
        assert!(passed.starts_with("HTTP/1.1 200") && passed.contains("\"500000\""), "{passed}");
    }
    // A body that stops arriving is rejected.
    let began = Instant::now();
    let slow = answer(begin(&yard, &url, "content-length: 1000", b"{"));
    assert!(slow.starts_with("HTTP/1.1 400") && slow.contains("PROTOCOL_ERROR"), "{slow}");
    assert!(began.elapsed() < Duration::from_secs(29), "{:?}", began.elapsed());
    yard.server.terminate();
}

#[cfg(target_os = "linux")]
#[test]
fn bodies_that_never_end_hold_little_memory_of_the_server() {
    const LENGTH: usize = 6 << 20;
    let dir = tempfile::tempdir().unwrap();
    let yard = GatewayHarness::start(dir.path());
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let part = vec![b' '; LENGTH - 1];
    let before = resident_kib(yard.server.id());
    let declared = format!("content-length: {LENGTH}");
    let held: Vec<TcpStream> = (0..30).map(|_| begin(&yard, &url, &declared, &part)).collect();
    let grown = resident_kib(yard.server.id()).saturating_sub(before);
    // The bodies have 180 MiB in total. The server buffers only two chunks of each.
    assert!(grown < 60 << 10, "{grown} KiB");
    drop(held);
    yard.server.terminate();
}

/// The rows of these answers never end.
#[cfg(target_os = "linux")]
#[test]
fn answers_pass_as_they_come_and_wait_for_clients_that_take_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let yard = GatewayHarness::start(dir.path());
    let started = yard.create(&json!({}));
    let url = started["url"].as_str().unwrap();
    let sql = "with recursive c(n) as (select 1 union all select n + 1 from c) select n, hex(zeroblob(5000)) from c";
    let batch = json!({"batch": {"steps": [{"stmt": {"sql": sql}}]}}).to_string();
    let before = resident_kib(yard.server.id());
    let declared = format!("content-type: application/json\r\ncontent-length: {}", batch.len());
    let mut streams: Vec<TcpStream> =
        (0..8).map(|_| begin(&yard, &format!("{url}v3/cursor"), &declared, batch.as_bytes())).collect();
    for stream in &mut streams {
        let mut first = vec![0; 100_000];
        stream.read_exact(&mut first).unwrap();
        let first = String::from_utf8_lossy(&first);
        assert!(first.starts_with("HTTP/1.1 200") && first.contains("\"type\":\"row\""), "{first:.300}");
    }
    // The clients stop reading, so the server must stop reading from the instance, which produces hundreds of megabytes in this
    // time.
    thread::sleep(Duration::from_secs(3));
    let grown = resident_kib(yard.server.id()).saturating_sub(before);
    assert!(grown < 60 << 10, "{grown} KiB");
    // Reading resumes where it stopped.
    for mut stream in streams {
        std::io::copy(&mut (&mut stream).take(20 << 20), &mut std::io::sink()).unwrap();
    }
    // The limit on the length of a pipeline's answer is that of the instance.
    for (bytes, outcome) in [(4 << 20, "\"type\":\"ok\""), (6 << 20, "RESPONSE_TOO_LARGE")] {
        let sql = format!("select hex(zeroblob({bytes}))");
        let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]}).to_string();
        let declared = format!("connection: close\r\ncontent-length: {}", body.len());
        let passed = answer(begin(&yard, &format!("{url}v2/pipeline"), &declared, body.as_bytes()));
        assert!(passed.starts_with("HTTP/1.1 200") && passed.contains(outcome), "{passed:.300}");
    }
    yard.server.terminate();
}

/// Actix sends `100 Continue` by itself as soon as the head has arrived. The rejection must follow without waiting for the body.
#[test]
fn a_client_that_asks_before_it_sends_is_refused_without_its_body() {
    const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
    let dir = tempfile::tempdir().unwrap();
    let mut yard = GatewayHarness::start(dir.path());
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let body = json!({"requests": []}).to_string();
    let declared = format!("expect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
    let ask = |yard: &GatewayHarness| {
        let mut stream = begin(yard, &url, &declared, b"");
        let mut line = vec![0; CONTINUE.len()];
        stream.read_exact(&mut line).unwrap();
        assert_eq!(String::from_utf8_lossy(&line), CONTINUE);
        stream
    };
    let good = std::mem::replace(&mut yard.token, format!("hsat.v1.{}3mhf8X", "A".repeat(43)));
    let refused = answer(ask(&yard));
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("UNAUTHENTICATED"), "{refused}");
    yard.token = good;
    let mut asked = ask(&yard);
    asked.write_all(body.as_bytes()).unwrap();
    let passed = answer(asked);
    assert!(passed.starts_with("HTTP/1.1 200"), "{passed}");
    yard.server.terminate();
}

/// The bounds of the gateway: requests in progress of one caller and in all.
const OF_CALLER: usize = 128;
const IN_ALL: usize = 256;

/// Begins as many requests as a caller may have in progress, and one more, which is refused. Returns the others.
fn fill(yard: &GatewayHarness, url: &str) -> Vec<TcpStream> {
    // A long beginning earns the body the time in which its rest has to arrive.
    let part = vec![b' '; 128 << 10];
    let declared = format!("content-length: {}", part.len() + 1);
    let mut held: Vec<_> = (0..=OF_CALLER).map(|_| begin(yard, url, &declared, &part)).collect();
    let began = Instant::now();
    loop {
        let answered = |stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            let answered = stream.peek(&mut [0]).is_ok();
            stream.set_nonblocking(false).unwrap();
            answered
        };
        if let Some(at) = held.iter().position(answered) {
            let refused = answer(held.swap_remove(at));
            assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("RATE_LIMITED"), "{refused}");
            assert_eq!(held.iter().filter(|stream| answered(stream)).count(), 0);
            return held;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "none is refused");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn requests_in_progress_are_bounded_by_caller_and_in_all_and_make_room_when_they_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = branchyard();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
    command
        .env("BRANCHYARD_HOSTED__PORT_RANGE", "21400-21999")
        .env("BRANCHYARD_HTTP__MAX_CONNECTIONS_PER_ADDRESS", "0");
    let server = Server::start_as(&mut command);
    let mut tokens = ["ada", "bob", "eve"].map(|user| {
        succeed(dir.path(), &["user", "create", user, "--email", &format!("{user}@example.test")]);
        succeed(dir.path(), &["token", "create", "--user", user, "--name", "t", "--expires", "30d"])
    });
    let mut yard = GatewayHarness { server, http: reqwest::blocking::Client::new(), token: tokens[0].clone() };
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    for user in ["bob", "eve"] {
        let role = json!({"role": "reader"});
        let (status, _) = yard.api("PUT", &format!("/deployments/ada/gauges/collaborators/{user}"), Some(&role));
        assert!(matches!(status, 200 | 201), "{status}");
    }
    let patient = json!({"overrides": {"listener_read_timeout_millis": "300000"}});
    assert_eq!(yard.api("PATCH", "/deployments/ada/gauges/config", Some(&patient)).0, 200);
    let ask = |yard: &GatewayHarness| {
        let answer = yard.send("POST", &url, Some(&json!({"requests": []})));
        let retry_after = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), retry_after, answer.json::<Value>().unwrap()["code"].clone())
    };
    let until_admitted = |yard: &GatewayHarness| {
        let began = Instant::now();
        while ask(yard).0 != 200 {
            assert!(began.elapsed() < Duration::from_secs(300));
            thread::sleep(Duration::from_millis(20));
        }
    };

    let mut of_ada = fill(&yard, &url);
    let full = (429, Some("1".to_owned()), json!("RATE_LIMITED"));
    assert_eq!(ask(&yard), full);
    std::mem::swap(&mut yard.token, &mut tokens[1]);
    let of_bob = fill(&yard, &url);
    assert_eq!(ask(&yard), full);
    assert_eq!(of_ada.len() + of_bob.len(), IN_ALL);
    std::mem::swap(&mut yard.token, &mut tokens[2]);
    assert_eq!(ask(&yard), (503, Some("1".to_owned()), json!("SERVICE_UNAVAILABLE")));
    // The API does not share the bound.
    assert_eq!(yard.api("GET", "/deployments/ada/gauges", None).0, 200);

    // A client that goes away makes room for all; one that sends its rest is answered.
    drop(of_ada.pop());
    until_admitted(&yard);
    let mut rest = of_ada.pop().unwrap();
    rest.write_all(b" ").unwrap();
    let answered = answer(rest);
    assert!(answered.starts_with("HTTP/1.1 400") && answered.contains("PROTOCOL_ERROR"), "{answered}");
    drop((of_ada, of_bob));
    yard.token.clone_from(&tokens[1]);
    until_admitted(&yard);
    yard.server.terminate();
}

#[test]
fn a_client_cannot_take_its_credential_off_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let yard = GatewayHarness::start(dir.path());
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let pipeline = json!({"requests": [{"type": "execute", "stmt": {"sql": "select 1"}}]}).to_string();
    let headers = format!(
        "connection: close, authorization, X-Request-Id, content-type\r\nx-request-id: mine\r\n\
         content-type: application/json\r\ncontent-length: {}",
        pipeline.len()
    );
    let passed = answer(begin(&yard, &url, &headers, pipeline.as_bytes()));
    assert!(passed.starts_with("HTTP/1.1 200") && passed.contains("\"type\":\"ok\""), "{passed}");
    // The id was for the server only, so the instance makes one of its own.
    assert!(!passed.contains("mine") && passed.contains("x-request-id: req_"), "{passed}");
    yard.server.terminate();
}
