//! The metrics listener. It is separate from the API and requires no credential: every client that can connect can read the
//! metrics.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::dev::{Server, ServerHandle};
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::Context as _;

use super::{Metrics, Sources};

/// Maximum number of connections; further ones wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 32;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The address and the stop handle of the metrics listener.
pub(crate) struct MetricsServer {
    pub(crate) address: SocketAddr,
    pub(crate) handle: ServerHandle,
}

/// Binds a server for `GET /metrics`. The caller spawns the returned [`Server`] on the current runtime.
///
/// # Errors
/// Fails if the address cannot be bound.
pub(crate) fn start(listen: &str, metrics: Arc<Metrics>, sources: Sources) -> anyhow::Result<(MetricsServer, Server)> {
    let listener = TcpListener::bind(listen)
        .with_context(|| format!("configuration: metrics.listen: cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    let shared = web::Data::new((metrics, sources));
    let server = HttpServer::new(move || App::new().app_data(shared.clone()).route("/metrics", web::get().to(scrape)))
        .workers(1)
        .max_connections(MAX_CONNECTIONS)
        .disable_signals()
        .listen(listener)?
        .run();
    Ok((MetricsServer { address, handle: server.handle() }, server))
}

async fn scrape(shared: web::Data<(Arc<Metrics>, Sources)>) -> HttpResponse {
    let rendered = web::block(move || {
        let (metrics, sources) = shared.get_ref();
        metrics.render(sources)
    });
    match rendered.await {
        Ok(Ok(text)) => HttpResponse::Ok().insert_header((CONTENT_TYPE, OPEN_METRICS)).body(text),
        Ok(Err(_)) | Err(_) => HttpResponse::InternalServerError().finish(),
    }
}
