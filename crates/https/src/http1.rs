//! HTTP/1.1 over TLS, by actix's own dispatcher.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_http::body::BoxBody;
use actix_http::{HttpService, Protocol, Request, Response};
use actix_service::{Service, ServiceFactory, fn_service};
use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use futures_util::future::LocalBoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::listen::Limits;

/// Answers a request, whatever its protocol.
pub(crate) type Application = Rc<dyn Fn(Request) -> LocalBoxFuture<'static, Response<BoxBody>>>;

/// A connection with what its admission stored about it, until the dispatcher takes that over.
pub(crate) struct Admitted {
    stream: TlsStream<TcpStream>,
    data: Cell<Option<Extensions>>,
}

impl Admitted {
    pub(crate) fn new(stream: TlsStream<TcpStream>, data: Extensions) -> Self {
        Self { stream, data: Cell::new(Some(data)) }
    }
}

/// Creates the service of HTTP/1.1 connections. It has the settings of a server without TLS.
pub(crate) fn service<D, F>(
    application: Application,
    limits: &Limits,
    drain: D,
) -> impl ServiceFactory<
    (Admitted, Protocol, Option<SocketAddr>),
    Config = (),
    Response = (),
    InitError = (),
    Service: Service<(Admitted, Protocol, Option<SocketAddr>), Future: 'static>,
> + use<D, F>
where
    D: Fn() -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    HttpService::build()
        .graceful_shutdown_signal(drain)
        .keep_alive(limits.http1_keep_alive)
        .h1_allow_half_closed(false)
        .client_request_timeout(limits.head)
        .client_disconnect_timeout(limits.linger)
        .on_connect_ext(|connection: &Admitted, data: &mut Extensions| {
            if let Some(admitted) = connection.data.take() {
                data.extend(admitted);
            }
        })
        .finish(fn_service(move |request: Request| {
            let response = application(request);
            async move { Ok::<_, Response<BoxBody>>(response.await) }
        }))
}

impl AsyncRead for Admitted {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Admitted {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
