//! A server under test, and its application.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::http::header::{COOKIE, HOST};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{App, HttpRequest, HttpResponse, web};
use branchyard_https::{CertificateFiles, Certificates, Limits, connection_data, listen};
use futures_util::{StreamExt as _, stream};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

/// Time in which everything that should happen does.
pub(crate) const AMPLE: Duration = Duration::from_secs(60);

/// Requests that the application is busy with.
#[derive(Default)]
pub(crate) struct Busy {
    pub(crate) now: AtomicUsize,
    pub(crate) ever: AtomicUsize,
}

/// What a request holds while the application is busy with it.
struct Hold(Data<Busy>);

impl Hold {
    fn new(busy: &Data<Busy>) -> Self {
        busy.now.fetch_add(1, Ordering::SeqCst);
        busy.ever.fetch_add(1, Ordering::SeqCst);
        Self(busy.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the admission stores about a connection.
#[derive(Clone)]
struct Marked(&'static str);

/// A server that stops when it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) busy: Arc<Busy>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) dir: TempDir,
    pub(crate) root: CertificateDer<'static>,
    pub(crate) handle: ServerHandle,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Limits that no test meets by accident.
pub(crate) fn patient() -> Limits {
    Limits {
        workers: 1,
        connections_per_worker: 1_000,
        http1_keep_alive: AMPLE,
        http2_keep_alive: AMPLE,
        head: AMPLE,
        head_bytes: 16 << 10,
        write: AMPLE,
        linger: Duration::from_secs(5),
        shutdown_grace: Duration::from_secs(30),
    }
}

/// Writes a new certificate for `localhost` and its key to a folder.
pub(crate) fn write_certificate(dir: &Path) -> (CertificateFiles, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let files = CertificateFiles { cert: dir.join("cert.pem"), key: dir.join("key.pem") };
    std::fs::write(&files.cert, certificate.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    (files, certificate.der().clone())
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Limits)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (files, root) = write_certificate(dir.path());
        let certificates = Arc::new(Certificates::load(files).unwrap());
        let mut limits = patient();
        change(&mut limits);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let busy = Arc::new(Busy::default());
        let shared = Data::from(Arc::clone(&busy));
        let application = move || App::new().app_data(shared.clone()).configure(routes);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let used = Arc::clone(&certificates);
        // A test's own runtime drives the calling thread, and a thread drives one runtime at a time.
        let start = || {
            runtime.block_on(async move {
                listen(listener, used, limits, application, |_, data| {
                    data.insert(Marked("admitted"));
                    true
                })
            })
        };
        let server = std::thread::scope(|scope| scope.spawn(start).join()).unwrap().unwrap();
        let handle = server.handle();
        runtime.spawn(server);
        Self { address, busy, certificates, dir, root, handle, runtime: Some(runtime) }
    }

    /// Waits until the application is busy with this number of requests.
    pub(crate) async fn is_busy_with(&self, requests: usize) {
        let until = Instant::now() + AMPLE;
        while self.busy.now.load(Ordering::SeqCst) != requests {
            assert!(Instant::now() < until, "{} instead of {requests}", self.busy.now.load(Ordering::SeqCst));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(5)));
        }
    }
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/ok", web::route().to(async || HttpResponse::Ok().body("ok")))
        .route("/none", web::route().to(async || HttpResponse::NoContent().finish()))
        .route("/request", web::route().to(describe))
        .route("/length", web::post().to(length))
        .route("/wait", web::route().to(wait))
        .route("/unread", web::post().to(unread))
        .route("/endless", web::get().to(endless))
        .route("/broken", web::get().to(broken));
}

/// Describes the request as the application sees it.
async fn describe(request: HttpRequest) -> String {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("none").to_owned();
    let mark = connection_data::<Marked>(&request).map(|marked| marked.0);
    format!(
        "{:?} {} {} host={} cookie={} te={} mark={mark:?} peer={}",
        request.version(),
        request.method(),
        request.uri(),
        header(HOST.as_str()),
        header(COOKIE.as_str()),
        header("transfer-encoding"),
        request.peer_addr().is_some_and(|peer| peer.ip().is_loopback()),
    )
}

async fn length(mut body: Payload) -> HttpResponse {
    let mut length = 0;
    while let Some(piece) = body.next().await {
        match piece {
            Ok(piece) => length += piece.len(),
            Err(error) => return HttpResponse::BadRequest().body(error.to_string()),
        }
    }
    HttpResponse::Ok().body(length.to_string())
}

async fn wait(busy: Data<Busy>) -> HttpResponse {
    let _hold = Hold::new(&busy);
    std::future::pending().await
}

/// Answers without reading the body.
async fn unread() -> HttpResponse {
    HttpResponse::BadRequest().body("unread")
}

async fn endless(busy: Data<Busy>) -> HttpResponse {
    let hold = Hold::new(&busy);
    HttpResponse::Ok().streaming(stream::repeat_with(move || {
        let _ = &hold;
        Ok::<_, actix_web::Error>(Bytes::from_static(&[b'a'; 40_000]))
    }))
}

async fn broken() -> HttpResponse {
    let pieces = [Ok(Bytes::from_static(b"begun")), Err(actix_web::error::ErrorInternalServerError("broken"))];
    HttpResponse::Ok().streaming(stream::iter(pieces))
}
