//! A server with TLS of its own: the same answers and limits over HTTP/1.1 and HTTP/2.

use std::io::{Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use branchyard::config::Config;
use branchyard_testkit::{AMPLE, Actor, Server, wait_until};
use rcgen::{CertificateParams, KeyPair};
use reqwest::blocking::{Body, Client, ClientBuilder};
use reqwest::{Certificate, Method, StatusCode, Version};
use serde_json::json;
use tempfile::TempDir;

/// A server with a certificate for 127.0.0.1 that it signed itself.
struct TlsServer {
    server: Server,
    files: TempDir,
    root: Certificate,
}

/// Writes a new certificate and its key, and returns the certificate.
fn write_certificate(dir: &Path) -> Certificate {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(dir.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    Certificate::from_pem(certificate.pem().as_bytes()).unwrap()
}

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

fn client(root: &Certificate, version: Version) -> ClientBuilder {
    let client = Client::builder().no_proxy().tls_certs_only([root.clone()]).timeout(AMPLE);
    if version == Version::HTTP_2 { client.http2_prior_knowledge() } else { client.http1_only() }
}

impl TlsServer {
    fn start(change: impl FnOnce(&mut Config)) -> Self {
        let files = tempfile::tempdir().unwrap();
        let root = write_certificate(files.path());
        let server = Server::start_with(|config| {
            config.tls.cert = Some(files.path().join("cert.pem"));
            config.tls.key = Some(files.path().join("key.pem"));
            config.metrics.listen = Some("127.0.0.1:0".to_owned());
            change(config);
        });
        Self { server, files, root }
    }

    fn client(&self, version: Version) -> Client {
        client(&self.root, version).build().unwrap()
    }

    fn anonymous(&self, version: Version) -> Actor {
        self.server.anonymous().with_client(self.client(version))
    }

    /// Creates a user, and returns an actor of the user for each protocol.
    fn user(&self, name: &str) -> [Actor; 2] {
        let actor = self.server.user(name);
        VERSIONS.map(|version| actor.clone().with_client(self.client(version)))
    }

    /// Returns `true` if a client that trusts `root` alone gets an answer on a new connection.
    fn is_trusted_by(&self, root: &Certificate) -> bool {
        let client = client(root, Version::HTTP_2).build().unwrap();
        client.get(format!("{}/healthz", self.server.address())).send().is_ok()
    }
}

#[test]
fn databases_are_written_and_read_over_both_protocols() {
    let tls = TlsServer::start(|_| {});
    assert!(tls.server.address().starts_with("https://127.0.0.1:"));
    for (actor, version) in tls.user("ada").into_iter().zip(VERSIONS) {
        let name = format!("rivers-{version:?}").to_lowercase().replace(['/', '.'], "-");
        let made = actor.post("/databases", &json!({"owner": "ada", "name": name, "visibility": "public"})).expect(201);
        assert_eq!(made.header("strict-transport-security"), "max-age=31536000");
        assert!(made.header("location").starts_with(&tls.server.address()));
        let write =
            json!({"from_branch": "main", "to_branch": "main", "q": "create table t (v); insert into t values ('x')"});
        let request = actor.request(Method::POST, &format!("/databases/ada/{name}/sql-writes")).json(&write);
        actor.send(request.header("Prefer", "wait=20")).expect(200);
        let answer = tls.anonymous(version).get(&format!("/databases/ada/{name}/sql?q=select+v+from+t")).expect(200);
        assert_eq!(answer.data()["rows"][0][0], "x");
        let answer = tls.client(version).get(format!("{}/sign-in", tls.server.address())).send().unwrap();
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, version));
        let cookies = answer.headers().get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap());
        assert!(cookies.into_iter().all(|cookie| cookie.starts_with("__Host-") && cookie.contains("; Secure")));
    }
}

#[test]
fn bodies_and_heads_have_their_limits() {
    let tls = TlsServer::start(|config| {
        config.http.max_head_bytes = 4_096;
        config.http.max_json_body_bytes = 2_000;
        config.sql.max_statement_bytes = 1_024;
    });
    for (actor, version) in tls.user("ada").into_iter().zip(VERSIONS) {
        let json = |actor: &Actor| actor.request(Method::POST, "/databases").header("Content-Type", "application/json");
        let endless = |length| Body::new(std::io::repeat(b' ').take(length));
        assert_eq!(actor.send(json(&actor).body(endless(2_001))).status, 413, "{version:?}: a body of unknown length");
        assert_eq!(actor.send(json(&actor).body(vec![b' '; 2_001])).status, 413, "{version:?}: a body of known length");
        assert_eq!(actor.send(json(&actor).body(vec![b' '; 2_000])).status, 400, "{version:?}: at the limit");
        let anonymous = tls.anonymous(version);
        let refused = anonymous.send(json(&anonymous).body(vec![b' '; (64 << 10) + 1]));
        assert!([401, 413].contains(&refused.status), "{version:?}: {}", refused.status);
        let head = |length| {
            let address = format!("{}/api/v2/databases", tls.server.address());
            tls.client(version).get(address).header("x-long", "a".repeat(length)).send().unwrap().status()
        };
        assert_eq!(head(3_900), StatusCode::OK, "{version:?}");
        assert_eq!(head(4_097), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "{version:?}");
    }
}

/// A body of which nothing more comes for a while.
struct Stalled {
    begun: bool,
    until: Instant,
}

impl Read for Stalled {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if std::mem::replace(&mut self.begun, true) {
            std::thread::sleep(self.until.saturating_duration_since(Instant::now()));
            return Ok(0);
        }
        buffer[0] = b' ';
        Ok(1)
    }
}

/// Without TLS the same is in `bodies`.
#[test]
fn a_body_that_stops_is_refused_for_its_pace() {
    let tls = TlsServer::start(|_| {});
    let actors = tls.user("ada");
    std::thread::scope(|scope| {
        for actor in &actors {
            scope.spawn(move || {
                let began = Instant::now();
                let body = Stalled { begun: false, until: began + Duration::from_secs(12) };
                let request = actor.request(Method::POST, "/databases").header("Content-Type", "application/json");
                let answer = actor.send(request.body(Body::new(body)));
                assert_eq!(answer.status, 400, "{}", answer.text);
                assert!(answer.text.contains("slow") || answer.text.contains("stop"), "{}", answer.text);
            });
        }
    });
}

/// A query whose result is longer than what the buffers and windows on the way hold.
const LONG: &str =
    "limit=10000&q=with+recursive+n(x)+as+(select+1+union+all+select+x+%2B+1+from+n)+select+hex(zeroblob(700))+from+n";
const QUICK: &str = "q=select+1";

#[test]
fn an_answer_that_is_not_taken_ends_and_its_connection_serves_others() {
    let tls = TlsServer::start(|config| config.http.write_stall_ms = 700);
    let [actor, _] = tls.user("ada");
    actor.database("rivers");
    let held = || tls.server.metric("branchyard_http_answers_in_flight_bytes");
    for version in VERSIONS {
        let client = tls.client(version);
        let address = |query: &str| format!("{}/api/v2/databases/ada/rivers/sql?{query}", tls.server.address());
        let mut unread = client.get(address(LONG)).send().unwrap();
        assert_eq!(unread.status(), StatusCode::OK);
        unread.read_exact(&mut [0; 1_000]).unwrap();
        wait_until("the end of the answer", AMPLE, || held() == 0.0);
        let quick = client.get(address(QUICK)).send().unwrap();
        assert_eq!(quick.status(), StatusCode::OK, "{version:?}");
        assert!(unread.read_to_end(&mut Vec::new()).is_err(), "{version:?}: the answer is cut off");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn connections_of_an_address_are_limited_before_their_handshake() {
    const MOST: usize = 4;
    let tls = TlsServer::start(|config| config.http.max_connections_per_address = MOST);
    // Threads take connections in any order, so the last one may find room.
    let mut held = Vec::new();
    wait_until("the limit", AMPLE, || {
        held.extend((0..MOST).map(|_| TcpStream::connect(tls.server.socket()).unwrap()));
        !tls.is_trusted_by(&tls.root)
    });
    assert!(tls.server.metric("branchyard_http_connections_refused_total") >= 1.0);
    let elsewhere = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let other = client(&tls.root, Version::HTTP_2).local_address(elsewhere).build().unwrap();
    let answer = other.get(format!("{}/healthz", tls.server.address())).send().unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "another address is served");
    drop(held);
    wait_until("a place", AMPLE, || tls.is_trusted_by(&tls.root));
}

/// One connection of HTTP/2 carries a hundred requests, so these count like connections of HTTP/1.1.
#[test]
fn requests_in_flight_of_an_address_are_limited_over_http_2() {
    const MOST: usize = 2;
    let tls = TlsServer::start(|config| config.http.max_connections_per_address = MOST);
    let [actor, _] = tls.user("ada");
    actor.database("rivers");
    drop(actor);
    let http2 = tls.client(Version::HTTP_2);
    let address = |query: &str| format!("{}/api/v2/databases/ada/rivers/sql?{query}", tls.server.address());
    let unread: Vec<_> = (0..MOST).map(|_| http2.get(address(LONG)).send().unwrap()).collect();
    let refused = http2.get(address(QUICK)).send().unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(refused.text().unwrap().contains("requests of this address"));
    drop(unread);
    wait_until("a place", AMPLE, || http2.get(address(QUICK)).send().unwrap().status() == StatusCode::OK);
}

#[test]
fn a_changed_certificate_is_used_within_ten_seconds_and_a_bad_one_never() {
    let tls = TlsServer::start(|_| {});
    let (address, open) = (format!("{}/healthz", tls.server.address()), tls.client(Version::HTTP_2));
    assert_eq!(open.get(&address).send().unwrap().status(), StatusCode::OK);
    let changed = write_certificate(tls.files.path());
    let began = Instant::now();
    wait_until("the new certificate", Duration::from_secs(10), || tls.is_trusted_by(&changed));
    println!("used after {:?}", began.elapsed());
    assert!(!tls.is_trusted_by(&tls.root));
    assert_eq!(open.get(&address).send().unwrap().status(), StatusCode::OK, "an open connection goes on");
    std::fs::write(tls.files.path().join("cert.pem"), "no certificate").unwrap();
    std::thread::sleep(Duration::from_secs(6));
    assert!(tls.is_trusted_by(&changed), "a file without a certificate changes nothing");
}

#[test]
fn a_request_without_tls_learns_the_scheme() {
    let tls = TlsServer::start(|_| {});
    let mut stream = TcpStream::connect(tls.server.socket()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
}
