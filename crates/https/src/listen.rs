//! The listener: admission, TLS, and the dispatcher of the protocol that was negotiated.

use std::fmt::Debug;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::body::{BoxBody, MessageBody};
use actix_http::{Protocol, Request, Response};
use actix_service::{IntoServiceFactory, Service, ServiceFactory, fn_factory, fn_service};
use actix_web::Error;
use actix_web::dev::{AppConfig, Extensions, Server};
use actix_web::rt::net::TcpStream;

use crate::certificates::Certificates;
use crate::handshake;
use crate::http1::{self, Admitted, Application};
use crate::http2::{self, ConnectionContext};

/// Limits of a listener and its connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Number of threads that serve connections.
    pub workers: usize,
    /// Maximum number of connections of each thread. Further ones wait in the kernel's backlog.
    pub connections_per_worker: usize,
    /// Maximum time of a connection without a request over HTTP/1.1.
    pub http1_keep_alive: Duration,
    /// Maximum time of a connection without a request over HTTP/2, also if the client sends other frames.
    pub http2_keep_alive: Duration,
    /// Deadline for the first head of a connection, after its TLS handshake.
    pub head: Duration,
    /// Maximum size in bytes of a head. Over HTTP/2 a larger one is answered 431, and one that is four times as large ends the
    /// connection.
    pub head_bytes: usize,
    /// Maximum time in which a client takes nothing of a response over HTTP/2. Its stream is reset then.
    pub write: Duration,
    /// How long a client has to end a connection after the server has asked for it.
    pub linger: Duration,
    /// Deadline for requests in progress once the server stops.
    pub shutdown_grace: Duration,
}

/// Serves an application over TLS on a listener, as HTTP/1.1 or HTTP/2, whichever the client prefers.
///
/// `admit` is called for each connection before its TLS handshake, and may store data about it, which
/// [`connection_data`](crate::connection_data) returns for each request. If it returns `false`, the connection is closed.
///
/// # Errors
/// Fails if the listener cannot be used.
pub fn listen<F, I, S, B, A>(
    listener: TcpListener,
    certificates: Arc<Certificates>,
    limits: Limits,
    application: F,
    admit: A,
) -> io::Result<Server>
where
    F: Fn() -> I + Send + Clone + 'static,
    I: IntoServiceFactory<S, Request>,
    S: ServiceFactory<Request, Config = AppConfig> + 'static,
    S::Error: Into<Error> + 'static,
    S::InitError: Debug,
    S::Response: Into<Response<B>> + 'static,
    S::Service: 'static,
    B: MessageBody + 'static,
    A: Fn(&TcpStream, &mut Extensions) -> bool + Send + Clone + 'static,
{
    let builder = Server::build();
    let drain = builder.graceful_shutdown_signal();
    let builder = builder
        .workers(limits.workers)
        .max_concurrent_connections(limits.connections_per_worker)
        .shutdown_timeout(limits.shutdown_grace.as_secs())
        .disable_signals();
    let server = builder.listen("https", listener, move || {
        let (application, certificates, admit) = (application.clone(), Arc::clone(&certificates), admit.clone());
        let (limits, drain) = (Rc::new(limits.clone()), drain.clone());
        fn_factory(move || {
            // The configuration is what actix would build URLs from. The application builds its own.
            let started = application().into_factory().new_service(AppConfig::default());
            let (certificates, admit) = (Arc::clone(&certificates), admit.clone());
            let (limits, drain) = (Rc::clone(&limits), drain.clone());
            async move {
                let failed = |error| tracing::error!(?error, "the application cannot start");
                let application = boxed(started.await.map_err(failed)?);
                let drained = move || {
                    let drain = drain.clone();
                    async move { drain.notified().await }
                };
                let http1 = http1::service(Rc::clone(&application), &limits, drained.clone()).new_service(()).await?;
                let worker = Rc::new(Worker { http1, application, certificates, limits, admit, drained });
                Ok::<_, ()>(fn_service(move |stream: TcpStream| {
                    let worker = Rc::clone(&worker);
                    async move {
                        worker.serve(stream).await;
                        Ok::<_, ()>(())
                    }
                }))
            }
        })
    })?;
    Ok(server.run())
}

/// Hides the type of an application, so that both dispatchers share one.
fn boxed<S, B>(application: S) -> Application
where
    S: Service<Request> + 'static,
    S::Error: Into<Error>,
    S::Response: Into<Response<B>>,
    B: MessageBody + 'static,
{
    Rc::new(move |request| {
        let response = application.call(request);
        Box::pin(async move {
            match response.await {
                Ok(response) => response.into().map_into_boxed_body(),
                Err(error) => Response::<BoxBody>::from(error.into()),
            }
        })
    })
}

/// What the connections of a thread share.
struct Worker<H, A, D> {
    http1: H,
    application: Application,
    certificates: Arc<Certificates>,
    limits: Rc<Limits>,
    admit: A,
    /// Returns a future that resolves when the server stops.
    drained: D,
}

impl<H, A, D, Stopped> Worker<H, A, D>
where
    H: Service<(Admitted, Protocol, Option<std::net::SocketAddr>)>,
    A: Fn(&TcpStream, &mut Extensions) -> bool,
    D: Fn() -> Stopped,
    Stopped: Future<Output = ()>,
{
    async fn serve(&self, stream: TcpStream) {
        let mut data = Extensions::new();
        if !(self.admit)(&stream, &mut data) {
            return;
        }
        let peer = stream.peer_addr().ok();
        // Small records, such as those of the handshake, would wait for acknowledgements. If this fails, they do.
        let _ = stream.set_nodelay(true);
        let Some(stream) = handshake::accept(stream, self.certificates.config()).await else { return };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            let (application, limits) = (Rc::clone(&self.application), Rc::clone(&self.limits));
            let context = ConnectionContext { application, data: Rc::new(data), peer, limits };
            http2::serve(stream, context, (self.drained)()).await;
        } else {
            // Its errors are those of clients.
            let _ = self.http1.call((Admitted::new(stream, data), Protocol::Http1, peer)).await;
        }
    }
}
