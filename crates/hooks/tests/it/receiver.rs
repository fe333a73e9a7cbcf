//! A receiver on the loopback interface with a configurable answer, and the requests it received.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver as Inbox};
use std::time::Duration;

use branchyard_domain::entities::{EventName, HookSecret};
use branchyard_domain::ports::{CancellationToken, WebhookRequest};
use branchyard_domain::values::{AttemptId, DeliveryId, Timestamp, TraceContext};
use branchyard_hooks::{AddressPolicy, HttpSender, SenderOptions};
use uuid::Uuid;

/// A request as received.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// What a receiver does with a connection after reading the request.
pub(crate) type Manner = fn(&mut TcpStream);

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) got: Inbox<Got>,
}

impl Receiver {
    /// Starts a receiver that answers every request in this manner.
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, got) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, tell) = (stream.unwrap(), tell.clone());
                std::thread::spawn(move || {
                    if tell.send(read(&mut stream)).is_ok() {
                        manner(&mut stream);
                    }
                });
            }
        });
        Self { address, got }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?a=b", self.address)
    }

    pub(crate) fn next(&self) -> Got {
        self.got.recv_timeout(Duration::from_secs(100)).unwrap()
    }
}

fn read(stream: &mut TcpStream) -> Got {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let line = lines.next().unwrap_or_default().to_owned();
    let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: BTreeMap<String, String> = lines.filter_map(pair).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    let _ = stream.read_exact(&mut body);
    Got { line, headers, body }
}

/// Writes an answer.
pub(crate) fn answer(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}

/// Returns a sender that may reach the loopback interface, with a short time limit.
pub(crate) fn sender() -> HttpSender {
    HttpSender::new(options()).unwrap()
}

pub(crate) fn options() -> SenderOptions {
    SenderOptions {
        policy: AddressPolicy::opening(&["127.0.0.0/8", "::1/128"]).unwrap(),
        timeout: Duration::from_millis(1_500),
        ..SenderOptions::default()
    }
}

pub(crate) const BODY: &str = r#"{"event_name":"ping","ü":"☂"}"#;
pub(crate) const SECRETS: [&str; 2] =
    ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="];

pub(crate) const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

pub(crate) fn parcel(url: &str) -> WebhookRequest {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    WebhookRequest {
        url: url.to_owned(),
        delivery: DeliveryId::from_uuid(Uuid::from_u128(1)),
        attempt: AttemptId::from_uuid(Uuid::from_u128(2)),
        at: Timestamp::from_seconds(now.try_into().unwrap()),
        event: EventName::Ping,
        body: BODY.to_owned(),
        secrets: vec![HookSecret::from_text(SECRETS[0].to_owned())],
        trace: TraceContext::parse(TRACEPARENT).ok(),
        canceled: CancellationToken::default(),
    }
}
