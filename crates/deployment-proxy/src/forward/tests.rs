//! Requests and responses on the wire, between a client and an instance that sends what a test says.

use std::net::SocketAddr;
use std::time::Duration;

use actix_web::web::{Data, Payload};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use branchyard_http_common::{BodyTimeouts, CallerKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::forward;
use crate::admission::AdmittedRequest;
use crate::in_progress::{InProgress, PER_CALLER};

/// Long enough for a slow machine.
const LONG: Duration = Duration::from_secs(300);

/// An instance that answers each request, none of which has a body, with the same bytes.
struct FakeInstance {
    address: SocketAddr,
    heads: mpsc::UnboundedReceiver<String>,
}

impl FakeInstance {
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, heads) = mpsc::unbounded_channel();
        actix_web::rt::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let sender = sender.clone();
                actix_web::rt::spawn(async move {
                    while let Some(head) = read_head(&mut stream).await {
                        sender.send(head).unwrap();
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        Self { address, heads }
    }

    async fn head(&mut self) -> String {
        self.heads.recv().await.unwrap()
    }
}

/// Reads a head, in lower case. Returns `None` at the end of the connection.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap().to_ascii_lowercase())
}

/// The proxy in front of one instance.
struct Proxy {
    address: SocketAddr,
    requests: Data<InProgress>,
}

async fn relay(
    request: HttpRequest,
    payload: Payload,
    instance: Data<SocketAddr>,
    client: Data<reqwest::Client>,
    requests: Data<InProgress>,
) -> HttpResponse {
    match requests.take(CallerKey::Address(1)) {
        Ok(permit) => {
            let admitted = AdmittedRequest { instance: **instance, permit };
            forward(&request, payload, admitted, &client, &BodyTimeouts::default()).await
        }
        Err(reason) => reason.into(),
    }
}

impl Proxy {
    fn start(instance: &FakeInstance, silence: Duration) -> Self {
        let (instance, client) = (Data::new(instance.address), crate::client(silence, 1).unwrap());
        let requests = Data::new(InProgress::default());
        let (counted, client) = (requests.clone(), Data::new(client));
        let server = HttpServer::new(move || {
            let app = App::new().app_data(instance.clone()).app_data(client.clone()).app_data(counted.clone());
            app.service(web::resource("/sql{tail:(?:/.*)?}").to(relay))
        });
        let server = server.workers(1).h1_allow_half_closed(false).disable_signals().bind("127.0.0.1:0").unwrap();
        let address = server.addrs()[0];
        actix_web::rt::spawn(server.run());
        Self { address, requests }
    }

    async fn send(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("{head}\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request with `Connection: close` among its headers and returns the whole response.
    async fn ask(&self, head: &str) -> String {
        let mut answer = String::new();
        self.send(head).await.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Waits until the number of requests in progress is this one.
    async fn until_in_progress(&self, count: usize) {
        let waiting = async {
            while self.requests.count() != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, waiting).await.unwrap();
    }
}

#[actix_web::test]
async fn headers_of_one_connection_do_not_reach_the_other() {
    let mut instance = FakeInstance::start(
        "HTTP/1.1 200 OK\r\nconnection: X-Of-Connection, keep-alive\r\nconnection: x-second\r\nx-of-connection: 1\r\n\
         x-second: 1\r\nkeep-alive: timeout=5\r\nproxy-connection: keep-alive\r\nproxy-authenticate: Basic\r\n\
         proxy-authentication-info: a=b\r\ntrailer: x-sum\r\nupgrade: h2c\r\nx-of-message: 1\r\nx-request-id: theirs\r\n\
         content-type: application/json\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 2\r\n\r\n{}",
    )
    .await;
    let proxy = Proxy::start(&instance, LONG);
    let answer = proxy
        .ask(
            "GET /sql/v3?a=%20b HTTP/1.1\r\nconnection: close, X-Of-Connection\r\nconnection: authorization,x-request-id\r\n\
             x-of-connection: 1\r\nauthorization: Bearer x\r\nx-request-id: mine\r\nkeep-alive: timeout=5\r\n\
             proxy-connection: keep-alive\r\nproxy-authorization: Basic eA==\r\nte: trailers\r\ntrailer: x-sum\r\n\
             upgrade: h2c\r\ncontent-type: text/plain\r\nx-of-message: 1",
        )
        .await
        .to_ascii_lowercase();

    let head = instance.head().await;
    assert!(head.starts_with("get /v3?a=%20b http/1.1\r\n"), "{head}");
    let of_connection =
        ["x-of-connection", "x-second", "keep-alive", "proxy-", "te: ", "trailer", "upgrade", "connection"];
    for name in of_connection.iter().chain(&["x-request-id"]) {
        assert!(!head.contains(&format!("\r\n{name}")), "{name}: {head}");
    }
    // A client that nominates its credential does not lose it on the way.
    for line in ["authorization: bearer x", "content-type: text/plain", "x-of-message: 1"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }

    assert!(answer.starts_with("http/1.1 200 ok\r\n"), "{answer}");
    // The server ends its own connection, as the client wants.
    assert_eq!(answer.matches("\r\nconnection:").count(), 1, "{answer}");
    for name in of_connection.iter().filter(|name| **name != "connection") {
        assert!(!answer.contains(&format!("\r\n{name}")), "{name}: {answer}");
    }
    let of_message = ["content-type: application/json", "x-of-message: 1", "x-request-id: theirs"];
    for line in of_message.iter().chain(&["set-cookie: a=1", "set-cookie: b=2"]) {
        assert!(answer.contains(&format!("\r\n{line}\r\n")), "{line}: {answer}");
    }
}

#[actix_web::test]
async fn a_redirection_is_passed_on_and_not_followed() {
    let other = FakeInstance::start("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret").await;
    let location = format!("http://{}/", other.address);
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    let instance = FakeInstance::start(answer.leak()).await;
    let answer = Proxy::start(&instance, LONG).ask("GET /sql/health HTTP/1.1\r\nconnection: close").await;
    assert!(answer.starts_with("HTTP/1.1 302") && answer.contains(&location), "{answer}");
}

#[actix_web::test]
async fn a_permit_comes_back_when_the_response_has_ended() {
    let instance = FakeInstance::start("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    let proxy = Proxy::start(&instance, LONG);
    let head = "GET /sql/v3 HTTP/1.1\r\nconnection: close";
    for _ in 0..3 {
        assert!(proxy.ask(head).await.ends_with("\r\n2\r\n{}\r\n0\r\n\r\n"));
    }
    proxy.until_in_progress(0).await;
}

#[actix_web::test]
async fn a_permit_comes_back_when_the_client_goes_away() {
    let head = "GET /sql/v3 HTTP/1.1";
    let silent = FakeInstance::start("").await;
    let proxy = Proxy::start(&silent, LONG);
    let waiting = proxy.send(head).await;
    proxy.until_in_progress(1).await;
    drop(waiting);
    proxy.until_in_progress(0).await;

    let endless = FakeInstance::start("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nrow").await;
    let proxy = Proxy::start(&endless, LONG);
    let mut reading = proxy.send(head).await;
    read_head(&mut reading).await.unwrap();
    let mut row = [0; 6];
    reading.read_exact(&mut row).await.unwrap();
    assert_eq!((&row, proxy.requests.count()), (b"3\r\nrow", 1));
    drop(reading);
    proxy.until_in_progress(0).await;
}

#[actix_web::test]
async fn a_caller_past_its_share_is_refused_and_goes_on_when_a_request_has_ended() {
    let silent = FakeInstance::start("").await;
    let proxy = Proxy::start(&silent, LONG);
    let head = "GET /sql/v3 HTTP/1.1\r\nconnection: close";
    let mut held = Vec::new();
    for _ in 0..PER_CALLER {
        held.push(proxy.send(head).await);
    }
    proxy.until_in_progress(PER_CALLER).await;
    let answer = proxy.ask(head).await.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 429") && answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(answer.contains("\r\ncontent-type: application/json\r\n"), "{answer}");
    assert!(answer.contains(r#""code":"rate_limited""#) && answer.contains(r#""message":""#), "{answer}");
    held.pop();
    proxy.until_in_progress(PER_CALLER - 1).await;
    held.push(proxy.send(head).await);
    proxy.until_in_progress(PER_CALLER).await;
}

#[actix_web::test]
async fn an_instance_that_falls_silent_holds_no_permit() {
    let (silence, head) = (Duration::from_millis(50), "GET /sql/v3 HTTP/1.1\r\nconnection: close");
    let silent = FakeInstance::start("").await;
    let proxy = Proxy::start(&silent, silence);
    let answer = proxy.ask(head).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("SERVICE_UNAVAILABLE"), "{answer}");
    proxy.until_in_progress(0).await;

    // The client sees that the response is incomplete: its last chunk is missing.
    let halting = FakeInstance::start("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nrow").await;
    let proxy = Proxy::start(&halting, silence);
    let answer = proxy.ask(head).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("3\r\nrow\r\n"), "{answer}");
    proxy.until_in_progress(0).await;
}
