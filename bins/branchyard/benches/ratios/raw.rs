//! The baselines: the engine without the server, and a bare actix handler.

use std::net::{SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::web::ServiceConfig;
use actix_web::{App, HttpServer};
use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{Column, Engine as _, MergeOutcome, ReadQuery, RowSink, ValueRef, WriteJob};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use uuid::Uuid;

use crate::table::Table;

/// One database of an otherwise unused engine.
pub(crate) struct Raw {
    pub(crate) engine: DoltliteEngine,
    pub(crate) database: DatabaseId,
    pub(crate) head: CommitHash,
    pub(crate) author: Signature,
    _dir: tempfile::TempDir,
}

impl Raw {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = DoltliteEngine::open(dir.path().join("databases"), EngineOptions::default()).unwrap();
        let at = Timestamp::from_seconds(1_788_523_200);
        let author = Signature { name: "bench".into(), email: "bench@example.test".into(), at };
        let database = DatabaseId::from_uuid(Uuid::from_u128(7));
        let head = engine.create(database, &author, "Create database").unwrap();
        Self { engine, database, head, author, _dir: dir }
    }

    /// Creates a database that holds `table`.
    pub(crate) fn with(table: Table) -> Self {
        let mut raw = Self::new();
        table.script().iter().for_each(|statements| raw.write(statements));
        raw
    }

    /// Runs statements and commits them.
    pub(crate) fn write(&mut self, statements: &str) {
        let timeout = Duration::from_secs(600);
        let (base, message, author) = (&self.head, "Run SQL query", &self.author);
        let job = WriteJob { base, statements, message, then_merge: None, author, timeout };
        self.head = match self.engine.write(self.database, &job).unwrap().outcome {
            MergeOutcome::Head(head) => head,
            MergeOutcome::Conflicts(_) => unreachable!("nothing is merged"),
        };
    }

    /// Returns the rows of a read as text values, as a handler would serialize them.
    pub(crate) fn read(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let mut rows = Texts::default();
        let query = ReadQuery::new(sql, Duration::from_secs(60));
        self.engine.read(self.database, &self.head, &query, &mut rows).unwrap();
        rows.0
    }
}

/// A sink that collects rows as text values.
#[derive(Default)]
struct Texts(Vec<Vec<Option<String>>>);

impl RowSink for Texts {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        let text = |value: &ValueRef<'_>| match value {
            ValueRef::Null => None,
            ValueRef::Integer(number) => Some(number.to_string()),
            ValueRef::Real(number) => Some(number.to_string()),
            ValueRef::Text(text) | ValueRef::Blob(text) => Some(String::from_utf8_lossy(text).into_owned()),
        };
        self.0.push(row.iter().map(text).collect());
        ControlFlow::Continue(())
    }
}

/// An actix server with only the given routes. Stops when dropped.
pub(crate) struct Bare {
    pub(crate) address: SocketAddr,
    handle: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Bare {
    pub(crate) fn start(routes: impl Fn(&mut ServiceConfig) + Send + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let server = HttpServer::new(move || App::new().configure(routes.clone()));
                let server = server.disable_signals().listen(listener).unwrap().run();
                send.send(server.handle()).unwrap();
                server.await.unwrap();
            });
        });
        Self { address, handle: receive.recv().unwrap(), thread: Some(thread) }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        actix_web::rt::System::new().block_on(self.handle.stop(false));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
