//! Clients: TLS with chosen versions and protocols, HTTP/2 by the `h2` crate, and single frames.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{Method, Request};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::server::{AMPLE, Served};

pub(crate) type Stream = TlsStream<TcpStream>;

/// Connects with the given root certificate, versions and protocols.
pub(crate) async fn connect(
    server: &Served,
    root: &CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> std::io::Result<Stream> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

/// Connects as most clients do, for one protocol.
pub(crate) async fn open(server: &Served, protocol: &str) -> Stream {
    connect(server, &server.root, rustls::ALL_VERSIONS, &[protocol]).await.unwrap()
}

/// A connection of the `h2` crate, and the task that drives it.
pub(crate) struct Http2 {
    pub(crate) send: SendRequest<Bytes>,
    pub(crate) connection: JoinHandle<Result<(), h2::Error>>,
}

/// An answer of HTTP/2.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: http::response::Parts,
    pub(crate) body: String,
}

impl Http2 {
    pub(crate) async fn open(server: &Served) -> Self {
        Self::open_with(server, &Builder::new()).await
    }

    pub(crate) async fn open_with(server: &Served, builder: &Builder) -> Self {
        let (send, connection) = builder.handshake(open(server, "h2").await).await.unwrap();
        Self { send, connection: tokio::spawn(connection) }
    }

    /// Sends a request without a body, and reads its whole answer.
    pub(crate) async fn ask(&self, request: Request<()>) -> Result<Answer, h2::Error> {
        let mut send = self.send.clone().ready().await?;
        let (response, _) = send.send_request(request, true)?;
        read(response.await?).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, h2::Error> {
        self.ask(request(Method::GET, path)).await
    }

    /// Sends a body as fast as the server reads it, and reads the answer.
    pub(crate) async fn post(&self, path: &str, mut body: Bytes) -> Result<Answer, h2::Error> {
        let mut send = self.send.clone().ready().await?;
        let (response, mut stream) = send.send_request(request(Method::POST, path), false)?;
        while !body.is_empty() {
            stream.reserve_capacity(body.len());
            let room = std::future::poll_fn(|task| stream.poll_capacity(task)).await.unwrap()?;
            stream.send_data(body.split_to(room.min(body.len())), false)?;
        }
        stream.send_data(Bytes::new(), true)?;
        read(response.await?).await
    }
}

pub(crate) fn request(method: Method, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("https://localhost{path}")).body(()).unwrap()
}

pub(crate) async fn read(response: http::Response<h2::RecvStream>) -> Result<Answer, h2::Error> {
    let (head, mut stream) = response.into_parts();
    let mut body = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece?;
        stream.flow_control().release_capacity(piece.len())?;
        body.extend_from_slice(&piece);
    }
    Ok(Answer { head, body: String::from_utf8(body).unwrap() })
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// Returns a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the compressed head of a request.
pub(crate) fn block(method: &str, path: &str) -> Vec<u8> {
    let literal = |index: u8, text: &str| [&[index, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // Names of the static table: 1 is the authority, 2 the method, 4 the path. 0x87 is the scheme `https`.
    [literal(2, method), vec![0x87], literal(4, path), literal(1, "localhost")].concat()
}

/// Returns the frame that opens a request without a body.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block("GET", path))
}

/// A frame of the server.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// Returns the error code of a frame that ends a stream or the connection.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A connection that sends single frames.
pub(crate) struct Frames(pub(crate) Stream);

impl Frames {
    /// Connects, and sends settings: numbers and values.
    pub(crate) async fn open(server: &Served, settings: &[(u16, u32)]) -> Self {
        let mut connection = Self(open(server, "h2").await);
        let payload: Vec<u8> =
            settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        connection.send(&frame(SETTINGS, 0, 0, &payload)).await;
        connection
    }

    /// Sends bytes. Returns `false` if the server has closed the connection.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok() && self.0.flush().await.is_ok()
    }

    /// Reads the next frame. Returns `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        tokio::time::timeout(AMPLE, self.0.read_exact(&mut head)).await.expect("a frame or an end").ok()?;
        let [high, middle, low, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)];
        self.0.read_exact(&mut payload).await.ok()?;
        Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload })
    }

    /// Reads until a frame of this kind. Returns `None` at the end of the connection.
    pub(crate) async fn until(&mut self, kind: u8) -> Option<Frame> {
        loop {
            match self.next().await {
                Some(frame) if frame.kind == kind => return Some(frame),
                Some(_) => {}
                None => return None,
            }
        }
    }

    /// Returns `true` if the connection ends in time, whatever comes before.
    pub(crate) async fn ends_within(&mut self, limit: Duration) -> bool {
        let end = async { while self.next().await.is_some() {} };
        tokio::time::timeout(limit, end).await.is_ok()
    }
}
