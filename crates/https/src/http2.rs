//! The HTTP/2 dispatcher: a connection and its streams.

mod exchange;
mod request;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix_web::dev::Extensions;
use bytes::Bytes;
use h2::server::{Builder, Connection};
use h2::{Reason, RecvStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::frame_meter::{Flood, Metered};
use crate::http1::Application;
use crate::listen::Limits;

/// Maximum number of requests in flight on a connection. Further ones are refused with `REFUSED_STREAM`.
pub const STREAMS: u32 = 100;
/// Bytes of a request body that a client may send before the application reads them.
const STREAM_WINDOW: u32 = 256 << 10;
/// Bytes of all request bodies of a connection that a client may send before the application reads them.
const CONNECTION_WINDOW: u32 = 512 << 10;
/// Maximum number of bytes of a response that are held for a client that does not read.
const SEND_BUFFER: usize = 64 << 10;
/// Maximum number of streams of a connection that break the protocol or exceed [`STREAMS`].
const BROKEN_STREAMS: usize = 200;
/// Maximum number of headers of a request, as in HTTP/1.1.
const HEADERS: usize = 96;
/// What HTTP/2 adds to the size of each header (RFC 9113, section 6.5.2).
const HEADER_OVERHEAD: usize = 32;
/// Longest interval between two looks at a connection.
const LOOK: Duration = Duration::from_secs(1);

/// What the requests of a connection share.
#[derive(Clone)]
pub(crate) struct ConnectionContext {
    pub(crate) application: Application,
    pub(crate) data: Rc<Extensions>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) limits: Rc<Limits>,
}

/// Serves a connection until it ends. `drain` resolves when the server stops.
pub(crate) async fn serve<T>(io: T, context: ConnectionContext, drain: impl Future<Output = ()>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let flood = Rc::new(Flood::default());
    let handshake = builder(&context.limits).handshake(Metered::new(io, Rc::clone(&flood)));
    let Ok(Ok(connection)) = tokio::time::timeout(context.limits.head, handshake).await else { return };
    let now = Instant::now();
    let session = Session {
        connection,
        requests: JoinSet::new(),
        quiet_limit: context.limits.head,
        last_request: now,
        last_stream: now,
        closing: None,
        context,
        flood,
    };
    session.run(drain).await;
}

fn builder(limits: &Limits) -> Builder {
    // The application measures a head as HTTP/1.1 sends it, without the overhead.
    let head = limits.head_bytes + HEADERS * HEADER_OVERHEAD + 1_024;
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_local_error_reset_streams(Some(BROKEN_STREAMS));
    builder
}

/// A connection and the requests in flight on it. Dropping the value cancels these.
struct Session<T> {
    connection: Connection<T, Bytes>,
    requests: JoinSet<()>,
    context: ConnectionContext,
    flood: Rc<Flood>,
    /// How long the connection may have no stream. The first head has more time than later ones.
    quiet_limit: Duration,
    /// The last time that a request was in progress.
    last_request: Instant,
    /// The last time that a stream was open. A stream whose request has ended is open until its response has been sent.
    last_stream: Instant,
    /// When the client was asked to end the connection.
    closing: Option<Instant>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Session<T> {
    async fn run(mut self, drain: impl Future<Output = ()>) {
        let mut drain = pin!(drain);
        let flood = Rc::clone(&self.flood);
        let mut is_draining = false;
        let mut looks =
            tokio::time::interval((self.context.limits.http2_keep_alive / 5).clamp(Duration::from_millis(20), LOOK));
        loop {
            tokio::select! {
                accepted = self.connection.accept() => match accepted {
                    Some(Ok((request, respond))) => self.begin(request, respond),
                    // The connection has ended, or the client has broken the protocol.
                    Some(Err(_)) | None => return,
                },
                Some(_) = self.requests.join_next() => {}
                () = flood.noticed() => {
                    tracing::debug!("closing an HTTP/2 connection with too many control frames");
                    self.requests.abort_all();
                    self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                    self.closing = Some(Instant::now());
                }
                () = &mut drain, if !is_draining => {
                    is_draining = true;
                    self.close();
                }
                _ = looks.tick() => if !self.goes_on() { return },
            }
        }
    }

    fn begin(&mut self, request: http::Request<RecvStream>, respond: h2::server::SendResponse<Bytes>) {
        if self.flood.is_on() {
            return;
        }
        self.quiet_limit = self.context.limits.http2_keep_alive;
        self.requests.spawn_local(exchange::run(request, respond, self.context.clone()));
    }

    /// Asks the client to end the connection once its requests have ended.
    fn close(&mut self) {
        self.connection.graceful_shutdown();
        self.closing.get_or_insert(Instant::now());
    }

    /// Looks at the progress of the connection. Returns `false` if it has to end at once.
    fn goes_on(&mut self) -> bool {
        let (now, limits) = (Instant::now(), &self.context.limits);
        if !self.requests.is_empty() {
            (self.last_request, self.last_stream) = (now, now);
            return true;
        }
        if self.connection.has_streams() {
            self.last_stream = now;
            // The client does not take the end of its responses.
            return now - self.last_request <= limits.write;
        }
        match self.closing {
            Some(since) => now - since.max(self.last_stream) <= limits.linger,
            None => {
                if now - self.last_stream > self.quiet_limit {
                    self.close();
                }
                true
            }
        }
    }
}
