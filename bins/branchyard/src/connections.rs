//! Limits on connections: closes connections that make no progress, and bounds the number of connections in total and per
//! address.
//!
//! The HTTP library closes a connection whose first head does not arrive. This module closes the others: one that is idle between
//! two requests for too long, one on which a later head started but does not end, and one whose client reads nothing of the
//! response.

use std::cell::RefCell;
use std::net::{IpAddr, Shutdown};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Extensions, Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::http::Version;
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::middleware::Next;
use actix_web::rt::net::TcpStream;
use actix_web::web::{Bytes, Data};
use actix_web::{Error, HttpMessage as _, HttpResponse};
use branchyard_http_common::{AppState, KeepsConnection, Proxies, rate_limited};
use branchyard_https::connection_data;
use futures_util::Stream;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{SockRef, Socket};

use crate::metrics::Metrics;
use crate::per_address::{AddressPermit, PerAddress};

/// Maximum number of connections; further ones wait in the kernel's backlog.
const MOST: usize = 10_000;
/// File descriptors reserved for other uses, mostly database files.
const OTHER_FILES: u64 = 1_024;
/// Maximum idle time of a connection between two requests.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The same for a connection whose last request was one of a client of the engine, which computes between its requests.
pub(crate) const REMOTE_KEEP_ALIVE: Duration = Duration::from_secs(80);
/// Time between two looks at a connection.
const LOOK: Duration = Duration::from_secs(1);
/// How long further input of a client is discarded after its request was rejected.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// Timeouts of connections that make no progress.
#[derive(Clone, Copy)]
pub(crate) struct ProgressTimeouts {
    /// Deadline for receiving a request head.
    pub(crate) head: Duration,
    /// Maximum time in which the client reads nothing.
    pub(crate) write: Duration,
}

/// The response to a connection above the limit of its address. No request is read from such a connection.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n";

/// The limits that apply to each connection.
#[derive(Clone)]
pub(crate) struct ConnectionLimits {
    patience: ProgressTimeouts,
    /// Connections per address. Connections of trusted proxies do not count.
    connections: PerAddress,
    /// Requests in flight per client that a trusted proxy names, and per address over HTTP/2, where a connection has many.
    requests: PerAddress,
    proxies: Proxies,
    state: AppState,
    metrics: Arc<Metrics>,
}

impl ConnectionLimits {
    /// Creates limits that allow `per_address` connections, and as many forwarded requests, per address; 0 means no limit.
    pub(crate) fn new(
        patience: ProgressTimeouts,
        per_address: usize,
        proxies: Proxies,
        state: AppState,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (connections, requests) = (PerAddress::new(per_address), PerAddress::new(per_address));
        Self { patience, connections, requests, proxies, state, metrics }
    }
}

/// How a connection counts against the limit per address.
enum ConnectionPlace {
    /// The connection holds a permit of its address until it ends, and each request over HTTP/2 holds one of `requests`.
    Counted {
        #[expect(dead_code, reason = "held until the connection has ended")]
        permit: AddressPermit,
        address: IpAddr,
        requests: PerAddress,
    },
    /// The peer address is unknown: the client has already disconnected.
    Gone,
    /// Each request holds a permit of the client that the proxy names.
    Forwarded(PerAddress),
    /// The address is at its limit. Requests on the connection are rejected.
    Refused,
}

/// Returns the maximum number of connections of each of `workers`. Raises the process's limit on open files as far as allowed
/// first; each connection needs two file descriptors.
pub(crate) fn room(workers: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = files.saturating_sub(OTHER_FILES).max(files / 2) / 2;
    (usize::try_from(room).unwrap_or(MOST).min(MOST) / workers).max(1)
}

/// Activity of a connection. Shared by its requests and the watchdog task.
#[derive(Clone)]
struct TrackedConnection(Arc<ConnectionState>);

struct ConnectionState {
    socket: Socket,
    under_way: AtomicUsize,
    idle_since: Mutex<Instant>,
    /// Whether a request was answered.
    has_answered: AtomicBool,
    /// Whether the last response keeps the connection for longer than others do.
    is_kept: AtomicBool,
}

/// Takes a permit for a new connection and starts to watch its progress, or rejects the connection with a response.
pub(crate) fn admit_or_answer(stream: &TcpStream, extensions: &mut Extensions, limits: &ConnectionLimits) {
    if !admit(stream, extensions, limits) {
        let socket = SockRef::from(stream);
        // The send buffer of a new connection has room for this short response. If it has none, the connection is closed without
        // one.
        let _ = socket.send(TOO_MANY);
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// Takes a permit for a new connection and starts to watch its progress. Returns `false` if its address has too many.
pub(crate) fn admit(stream: &TcpStream, extensions: &mut Extensions, limits: &ConnectionLimits) -> bool {
    let (socket, patience) = (SockRef::from(stream), limits.patience);
    let place = place(stream.peer_addr().ok().map(|peer| peer.ip().to_canonical()), limits);
    let is_refused = matches!(place, ConnectionPlace::Refused);
    extensions.insert(Rc::new(place));
    if is_refused {
        limits.metrics.requests.connection_refused();
        return false;
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = socket.set_tcp_user_timeout(Some(patience.write)) {
        tracing::warn!(%error, "cannot set the write timeout of a connection");
    }
    match socket.try_clone() {
        Ok(socket) => {
            let state = ConnectionState {
                socket,
                under_way: AtomicUsize::new(0),
                idle_since: Mutex::new(Instant::now()),
                has_answered: AtomicBool::new(false),
                is_kept: AtomicBool::new(false),
            };
            let connection = TrackedConnection(Arc::new(state));
            extensions.insert(connection.clone());
            actix_web::rt::spawn(end_when_stuck(connection, limits.state.clone(), patience.head));
        }
        Err(error) => tracing::warn!(%error, "cannot enforce the head timeout of a connection after its first request"),
    }
    true
}

fn place(peer: Option<IpAddr>, limits: &ConnectionLimits) -> ConnectionPlace {
    let Some(address) = peer else { return ConnectionPlace::Gone };
    let requests = limits.requests.clone();
    if limits.proxies.trust(address) {
        return ConnectionPlace::Forwarded(requests);
    }
    match limits.connections.enter(address) {
        Some(permit) => ConnectionPlace::Counted { permit, address, requests },
        None => ConnectionPlace::Refused,
    }
}

/// Closes a connection that has no request under way and no unsent response: once it is idle for its time, or at once when the
/// server stops; or, if a head has begun to arrive, after the deadline of heads in addition.
async fn end_when_stuck(connection: TrackedConnection, state: AppState, head: Duration) {
    let socket = &connection.0.socket;
    let look = (head / 4).min(LOOK);
    let mut was_stuck = false;
    // The other strong reference belongs to the connection.
    while Arc::strong_count(&connection.0) > 1 {
        let is_stuck = connection.is_over(head, state.draining.load(Ordering::Relaxed)) && takes_more(socket);
        // Requires two checks in a row, because a long response may look finished for a moment between two chunks.
        if is_stuck && was_stuck {
            let _ = socket.shutdown(Shutdown::Both);
            return;
        }
        was_stuck = is_stuck;
        actix_web::rt::time::sleep(look).await;
    }
}

/// Returns how long ago the last bytes arrived on a connection. `None` if the system does not say.
#[cfg(target_os = "linux")]
fn silent_for(socket: &Socket) -> Option<Duration> {
    use std::os::fd::AsRawFd as _;
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    #[expect(unsafe_code, reason = "the option has no safe wrapper")]
    // SAFETY: the socket is open, `info` has `length` bytes, and any bytes make up the structure.
    let info = unsafe {
        let found = libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        );
        (found == 0).then(|| info.assume_init())?
    };
    Some(Duration::from_millis(info.tcpi_last_data_recv.into()))
}

#[cfg(not(target_os = "linux"))]
fn silent_for(_: &Socket) -> Option<Duration> {
    None
}

/// Returns `true` if the kernel's send buffer has room. It has none for most of the time while a response is unsent.
fn takes_more(socket: &Socket) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok_and(|_| asked[0].revents().contains(PollFlags::OUT))
}

impl TrackedConnection {
    /// Makes the kernel acknowledge at once what has arrived. A client that sends the body apart from the head, without
    /// `TCP_NODELAY`, waits with it for that, for 40 ms by default.
    fn acknowledge_at_once(&self) {
        #[cfg(target_os = "linux")]
        // If this fails, the body comes later.
        let _ = self.0.socket.set_tcp_quickack(true);
    }

    /// Returns `true` if the connection is idle for longer than it may be.
    fn is_over(&self, head: Duration, is_draining: bool) -> bool {
        let idle = self.idle_for();
        let kept = self.0.is_kept.load(Ordering::Relaxed);
        let limit = if kept { REMOTE_KEEP_ALIVE } else { KEEP_ALIVE };
        if idle > limit + head {
            return true;
        }
        let is_due = idle > limit || (is_draining && idle > LOOK);
        // What arrived since the last response is the beginning of a head. A little of the time is that of the last request.
        let is_silent = || silent_for(&self.0.socket).is_some_and(|silent| silent + LOOK > idle);
        is_due && self.0.has_answered.load(Ordering::Relaxed) && is_silent()
    }

    fn idle_for(&self) -> Duration {
        if self.0.under_way.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        self.0.idle_since.lock().elapsed()
    }
}

/// A request from its head to the end of its response body.
struct RunningExchange(TrackedConnection);

impl RunningExchange {
    fn begin(connection: TrackedConnection) -> Self {
        connection.0.under_way.fetch_add(1, Ordering::Relaxed);
        Self(connection)
    }
}

impl Drop for RunningExchange {
    fn drop(&mut self) {
        *self.0.0.idle_since.lock() = Instant::now();
        self.0.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request body that stays alive until the response has been sent, even if the handler stopped reading it.
///
/// If a handler drops a chunked body before its end, the HTTP library drains the rest to keep the connection open. If its read buffer is full at that
/// moment, the connection stalls for good, even after the client disconnects. As long as the body is alive, the library closes the connection after
/// [`LINGER`] instead, as it does for bodies with a known length.
#[derive(Clone)]
struct KeptPayload(Rc<RefCell<Payload>>);

impl Stream for KeptPayload {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_next(context)
    }
}

/// Keeps a chunked request body alive. Returns `None` for other bodies.
fn keep_body(request: &mut ServiceRequest) -> Option<KeptPayload> {
    if !request.headers().contains_key(TRANSFER_ENCODING) {
        return None;
    }
    let kept = KeptPayload(Rc::new(RefCell::new(request.take_payload())));
    request.set_payload(Payload::Stream { payload: Box::pin(kept.clone()) });
    Some(kept)
}

/// A request body whose client learns at once what has arrived. Clients of the engine wait for that before they send the end of a
/// body, and the kernel puts acknowledgements off again while more arrives.
struct AcknowledgedPayload {
    payload: Payload,
    connection: TrackedConnection,
}

impl Stream for AcknowledgedPayload {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.payload).poll_next(context);
        if polled.is_pending() {
            self.connection.acknowledge_at_once();
        }
        polled
    }
}

/// Acknowledges a body of known length as it arrives.
fn acknowledge_body(request: &mut ServiceRequest, connection: &TrackedConnection) {
    if !request.headers().contains_key(CONTENT_LENGTH) {
        return;
    }
    connection.acknowledge_at_once();
    let payload = AcknowledgedPayload { payload: request.take_payload(), connection: connection.clone() };
    request.set_payload(Payload::Stream { payload: Box::pin(payload) });
}

/// Records that a request is under way. Rejects the request if its client has too many.
pub(crate) async fn note(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let request_body = keep_body(&mut request);
    let connection = connection_data::<TrackedConnection>(request.request());
    if let Some(connection) = &connection {
        acknowledge_body(&mut request, connection);
    }
    let under_way = connection.clone().map(RunningExchange::begin);
    let (answer, open) = match enter(&request) {
        Ok(open) => (next.call(request).await?.map_into_boxed_body(), open),
        Err(refusal) => (request.into_response(*refusal), None),
    };
    if let Some(TrackedConnection(connection)) = connection {
        let is_kept = answer.response().extensions().contains::<KeepsConnection>();
        connection.is_kept.store(is_kept, Ordering::Relaxed);
        connection.has_answered.store(true, Ordering::Relaxed);
    }
    Ok(answer.map_body(|_, body| Noted { body, held: RequestHold { under_way, open, request_body } }))
}

/// Takes a permit for a request if it is counted besides its connection, or instead of it.
fn enter(request: &ServiceRequest) -> Result<Option<AddressPermit>, Box<HttpResponse>> {
    let Some(place) = connection_data::<Rc<ConnectionPlace>>(request.request()) else { return Ok(None) };
    let (requests, address) = match &*place {
        ConnectionPlace::Counted { address, requests, .. } if request.version() == Version::HTTP_2 => {
            (requests, Some(*address))
        }
        ConnectionPlace::Counted { .. } | ConnectionPlace::Gone => return Ok(None),
        ConnectionPlace::Refused => return Err(Box::new(HttpResponse::TooManyRequests().force_close().finish())),
        ConnectionPlace::Forwarded(requests) => (requests, None),
    };
    let Some(state) = request.app_data::<Data<AppState>>() else { return Ok(None) };
    // A proxy's own requests, such as health probes, name no client.
    let named = || state.client_address(request.request()).filter(|client| !state.config.proxies.trust(*client));
    let Some(client) = address.or_else(named) else { return Ok(None) };
    let detail = "too many requests of this address are in progress; wait for one to finish";
    requests.enter(client).map(Some).ok_or_else(|| Box::new(rate_limited(state, request.request(), detail)))
}

/// Values that a request holds until its response has been sent.
struct RequestHold {
    #[expect(dead_code, reason = "held until the answer has been sent")]
    under_way: Option<RunningExchange>,
    #[expect(dead_code, reason = "held until the answer has been sent")]
    open: Option<AddressPermit>,
    #[expect(dead_code, reason = "held until the answer has been sent")]
    request_body: Option<KeptPayload>,
}

struct Noted {
    body: BoxBody,
    #[expect(dead_code, reason = "held until the answer has been sent")]
    held: RequestHold,
}

impl MessageBody for Noted {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }

    // `try_into_bytes` is not implemented: an implementation would drop `held` before the bytes have been sent.
}
