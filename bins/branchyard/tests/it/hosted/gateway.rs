//! The gateway to deployments: rejections, CORS, and streaming in both directions.

use std::io::Read as _;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, RawConnection, ServerProcess, process_status, wait_for, wait_until};
use serde_json::{Value, json};

use super::harness::GatewayHarness;
use crate::process::program;

#[test]
fn guessing_is_limited_by_address_and_those_who_were_let_in_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let good = |id: &str| {
        let request = harness.http.post(&url).bearer_auth(&harness.token).header("X-Request-Id", id);
        request.json(&json!({"requests": []})).send().unwrap().status().as_u16()
    };
    assert_eq!(good("a"), 200);
    let bad = |token: &str| {
        harness.http.post(&url).header("Authorization", token).json(&json!({"requests": []})).send().unwrap()
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
    let none = harness.http.post(&url).json(&json!({"requests": []})).send().unwrap();
    assert_eq!(none.status().as_u16(), 401);
    assert_eq!(none.headers()["www-authenticate"], "Bearer realm=\"branchyard\"");
    thread::sleep(Duration::from_millis(1_100));
    assert_eq!(bad(&unknown).status().as_u16(), 401, "a second later one may try again");
    harness.server.terminate();
}

#[test]
fn pages_of_allowed_origins_get_through_and_others_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let header = |answer: &reqwest::blocking::Response, name: &str| {
        answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let preflight = |url: &str| {
        let request = harness.http.request(reqwest::Method::OPTIONS, url).header("Origin", "https://app.example");
        request.header("Access-Control-Request-Method", "POST").send().unwrap()
    };
    for url in [&url, &url.replace("/gauges/", "/nowhere/")] {
        let asked = preflight(url);
        assert_eq!(asked.status().as_u16(), 204, "{url}");
        assert_eq!(header(&asked, "access-control-allow-origin").unwrap(), "https://app.example");
        assert!(header(&asked, "access-control-allow-headers").unwrap().contains("Authorization"));
    }
    let ask = || {
        let request = harness.http.post(&url).bearer_auth(&harness.token).header("Origin", "https://app.example");
        let answer = request.json(&json!({"requests": []})).send().unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        header(&answer, "access-control-allow-origin")
    };
    assert_eq!(ask(), None);
    let allowed = json!({"overrides": {"listener_allowed_origins": "https://app.example"}});
    assert_eq!(harness.api("PATCH", "/deployments/ada/gauges/config", Some(&allowed)).0, 200);
    assert_eq!(ask().unwrap(), "https://app.example");
}

/// Sends a request to the gateway with the given part of its body.
fn begin(harness: &GatewayHarness, url: &str, headers: &str, body: &[u8]) -> RawConnection {
    let path = url.strip_prefix(&harness.server.origin).unwrap();
    let mut connection = RawConnection::open(harness.server.socket());
    let headers = format!("authorization: Bearer {}\r\n{headers}", harness.token);
    connection.begin(&format!("POST {path}"), &headers, body);
    connection
}

fn resident_kib(harness: &GatewayHarness) -> u64 {
    process_status(harness.server.id(), "VmRSS")
}

#[test]
fn bodies_pass_as_they_come_within_the_limits_of_the_instance() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    // The instance rejects the request by its declared length, before any byte of the body arrives.
    let refused = begin(&harness, &url, "content-length: 8388609", b"").answer().expect(413).text();
    assert!(refused.contains("PAYLOAD_TOO_LARGE"), "{refused}");
    // A body within the limit arrives completely, with a declared length or in chunks.
    let statement = format!("select length('{}')", "x".repeat(500_000));
    let padding = " ".repeat(3 << 20);
    let pipeline = json!({"requests": [{"type": "execute", "stmt": {"sql": statement}}, {"type": "close"}]});
    let body = format!("{padding}{pipeline}").into_bytes();
    let declared = format!("connection: close\r\ncontent-length: {}", body.len());
    let chunked = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    for (headers, body) in [(declared.as_str(), &body), ("connection: close\r\ntransfer-encoding: chunked", &chunked)] {
        let passed = begin(&harness, &url, headers, body).answer().expect(200).text();
        assert!(passed.contains("\"500000\""), "{passed}");
    }
    // A body that stops arriving is rejected.
    let slow = begin(&harness, &url, "content-length: 1000", b"{").answer().expect(400).text();
    assert!(slow.contains("PROTOCOL_ERROR") && slow.contains("too slowly"), "{slow}");
    harness.server.terminate();
}

#[cfg(target_os = "linux")]
#[test]
fn bodies_that_never_end_hold_little_memory_of_the_server() {
    const LENGTH: usize = 6 << 20;
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let part = vec![b' '; LENGTH - 1];
    let before = resident_kib(&harness);
    let declared = format!("content-length: {LENGTH}");
    let held: Vec<RawConnection> = (0..30).map(|_| begin(&harness, &url, &declared, &part)).collect();
    let grown = resident_kib(&harness).saturating_sub(before);
    // The bodies have 180 MiB in total. The server buffers only two chunks of each.
    assert!(grown < 60 << 10, "{grown} KiB");
    drop(held);
    harness.server.terminate();
}

/// The rows of these answers never end.
#[cfg(target_os = "linux")]
#[test]
fn answers_pass_as_they_come_and_wait_for_clients_that_take_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let url = started["url"].as_str().unwrap();
    let sql = "with recursive c(n) as (select 1 union all select n + 1 from c) select n, hex(zeroblob(5000)) from c";
    let batch = json!({"batch": {"steps": [{"stmt": {"sql": sql}}]}}).to_string();
    let before = resident_kib(&harness);
    let declared = format!("content-type: application/json\r\ncontent-length: {}", batch.len());
    let mut streams: Vec<RawConnection> =
        (0..8).map(|_| begin(&harness, &format!("{url}v3/cursor"), &declared, batch.as_bytes())).collect();
    for stream in &mut streams {
        let mut first = vec![0; 100_000];
        stream.stream().read_exact(&mut first).unwrap();
        let first = String::from_utf8_lossy(&first);
        assert!(first.starts_with("HTTP/1.1 200") && first.contains("\"type\":\"row\""), "{first:.300}");
    }
    // The clients stop reading, so the server must stop reading from the instance, which produces hundreds of megabytes in this
    // time.
    thread::sleep(Duration::from_secs(3));
    let grown = resident_kib(&harness).saturating_sub(before);
    assert!(grown < 60 << 10, "{grown} KiB");
    // Reading resumes where it stopped.
    for mut stream in streams {
        std::io::copy(&mut stream.stream().take(20 << 20), &mut std::io::sink()).unwrap();
    }
    // The limit on the length of a pipeline's answer is that of the instance.
    for (bytes, outcome) in [(4 << 20, "\"type\":\"ok\""), (6 << 20, "RESPONSE_TOO_LARGE")] {
        let sql = format!("select hex(zeroblob({bytes}))");
        let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]}).to_string();
        let declared = format!("connection: close\r\ncontent-length: {}", body.len());
        let passed =
            begin(&harness, &format!("{url}v2/pipeline"), &declared, body.as_bytes()).answer().expect(200).text();
        assert!(passed.contains(outcome), "{passed:.300}");
    }
    harness.server.terminate();
}

/// Actix sends `100 Continue` by itself as soon as the head has arrived. The rejection must follow without waiting for the body.
#[test]
fn a_client_that_asks_before_it_sends_is_refused_without_its_body() {
    const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
    let dir = tempfile::tempdir().unwrap();
    let mut harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let body = json!({"requests": []}).to_string();
    let declared = format!("expect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
    let ask = |harness: &GatewayHarness| {
        let mut stream = begin(harness, &url, &declared, b"");
        let mut line = vec![0; CONTINUE.len()];
        stream.stream().read_exact(&mut line).unwrap();
        assert_eq!(String::from_utf8_lossy(&line), CONTINUE);
        stream
    };
    let good = std::mem::replace(&mut harness.token, format!("hsat.v1.{}3mhf8X", "A".repeat(43)));
    let refused = ask(&harness).answer().expect(401).text();
    assert!(refused.contains("UNAUTHENTICATED"), "{refused}");
    harness.token = good;
    let mut asked = ask(&harness);
    asked.send(body.as_bytes());
    asked.answer().expect(200);
    harness.server.terminate();
}

/// The bounds of the gateway: requests in progress of one caller and in all.
const OF_CALLER: usize = 128;
const IN_ALL: usize = 256;

/// Begins as many requests as a caller may have in progress, and one more, which is refused. Returns the others.
fn fill(harness: &GatewayHarness, url: &str) -> Vec<RawConnection> {
    // A long beginning earns the body the time in which its rest has to arrive.
    let part = vec![b' '; 128 << 10];
    let declared = format!("content-length: {}", part.len() + 1);
    let mut held: Vec<_> = (0..=OF_CALLER).map(|_| begin(harness, url, &declared, &part)).collect();
    let answered = |connection: &mut RawConnection| {
        let stream = connection.stream();
        stream.set_nonblocking(true).unwrap();
        let answered = stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).unwrap();
        answered
    };
    let at = wait_for("a request is refused", AMPLE, || held.iter_mut().position(answered).ok_or("none"));
    let refused = held.swap_remove(at).answer().expect(429).text();
    assert!(refused.contains("RATE_LIMITED"), "{refused}");
    assert_eq!(held.iter_mut().filter_map(|connection| answered(connection).then_some(())).count(), 0);
    held
}

#[test]
fn requests_in_progress_are_bounded_by_caller_and_in_all_and_make_room_when_they_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(
        program()
            .serve(dir.path())
            .env("BRANCHYARD_HOSTED__PORT_RANGE", "21400-21999")
            .env("BRANCHYARD_HTTP__MAX_CONNECTIONS_PER_ADDRESS", "0"),
    );
    let mut tokens = ["ada", "bob", "eve"].map(|user| program().user(dir.path(), user));
    let mut harness = GatewayHarness { server, http: reqwest::blocking::Client::new(), token: tokens[0].clone() };
    let started = harness.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    for user in ["bob", "eve"] {
        let role = json!({"role": "reader"});
        let (status, _) = harness.api("PUT", &format!("/deployments/ada/gauges/collaborators/{user}"), Some(&role));
        assert!(matches!(status, 200 | 201), "{status}");
    }
    let patient = json!({"overrides": {"listener_read_timeout_millis": "300000"}});
    assert_eq!(harness.api("PATCH", "/deployments/ada/gauges/config", Some(&patient)).0, 200);
    let ask = |harness: &GatewayHarness| {
        let answer = harness.send("POST", &url, Some(&json!({"requests": []})));
        let retry_after = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), retry_after, answer.json::<Value>().unwrap()["code"].clone())
    };
    let until_admitted = |harness: &GatewayHarness| {
        wait_until("the request is admitted", AMPLE, || ask(harness).0 == 200);
    };

    let mut of_ada = fill(&harness, &url);
    let full = (429, Some("1".to_owned()), json!("RATE_LIMITED"));
    assert_eq!(ask(&harness), full);
    std::mem::swap(&mut harness.token, &mut tokens[1]);
    let of_bob = fill(&harness, &url);
    assert_eq!(ask(&harness), full);
    assert_eq!(of_ada.len() + of_bob.len(), IN_ALL);
    std::mem::swap(&mut harness.token, &mut tokens[2]);
    assert_eq!(ask(&harness), (503, Some("1".to_owned()), json!("SERVICE_UNAVAILABLE")));
    // The API does not share the bound.
    assert_eq!(harness.api("GET", "/deployments/ada/gauges", None).0, 200);

    // A client that goes away makes room for all; one that sends its rest is answered.
    drop(of_ada.pop());
    until_admitted(&harness);
    let mut rest = of_ada.pop().unwrap();
    rest.send(b" ");
    let answered = rest.answer().expect(400).text();
    assert!(answered.contains("PROTOCOL_ERROR"), "{answered}");
    drop((of_ada, of_bob));
    harness.token.clone_from(&tokens[1]);
    until_admitted(&harness);
    harness.server.terminate();
}

#[test]
fn a_client_cannot_take_its_credential_off_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let pipeline = json!({"requests": [{"type": "execute", "stmt": {"sql": "select 1"}}]}).to_string();
    let headers = format!(
        "connection: close, authorization, X-Request-Id, content-type\r\nx-request-id: mine\r\n\
         content-type: application/json\r\ncontent-length: {}",
        pipeline.len()
    );
    let passed = begin(&harness, &url, &headers, pipeline.as_bytes()).answer().expect(200);
    assert!(passed.text().contains("\"type\":\"ok\""), "{}", passed.text());
    // The id was for the server only, so the instance makes one of its own.
    assert!(passed.header("x-request-id").is_some_and(|id| id.starts_with("req_")), "{}", passed.head);
    harness.server.terminate();
}

#[test]
fn forty_inserts_at_once_into_the_smallest_deployment_wait_for_their_turn() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let started = harness.create(&json!({}));
    let url = started["url"].as_str().unwrap();
    harness.sql(url, "create table t(id integer primary key)");
    std::thread::scope(|scope| {
        for number in 0..40 {
            let harness = &harness;
            scope.spawn(move || harness.sql(url, &format!("insert into t values ({number}) returning id")));
        }
    });
    assert_eq!(harness.sql(url, "select count(*) from t"), "40");
    harness.server.terminate();
}
