//! The state that all requests of a process share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use branchyard_deployments::ports::SqlCaller;
use branchyard_deployments::values::{Setting, Settings};
use branchyard_domain::ports::{
    CancellationToken, Clock, Ids, SessionCaller, SessionEngine, SqlPower, StatementReport,
};
use branchyard_domain::values::DatabaseId;
use branchyard_sqlite_lexer::redact;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, mpsc};

use super::Tools;
use super::address::SqlTarget;
use super::callers::CallerCache;
use super::counters::Counters;
use super::databases::ServedDatabases;
use super::log::LogLevel;
use super::requests::Requests;
use super::resource_usage::UsageFiles;
use super::resources;
use super::slots::{self, Slots};
use super::volume_fill::VolumeFill;
use crate::control::FromProcess;
use crate::folder::InstanceFolder;
use crate::hrana::batons::{Baton, BatonKey};
use crate::hrana::errors::{HttpError, StatementError};
use crate::hrana::run::{Observer, RunLimits};
use crate::hrana::streams::{NoStream, Stream, StreamOf, Streams};
use crate::spec::Spec;

/// The settings in force.
struct CurrentSettings {
    revision: i64,
    settings: Arc<Settings>,
}

type WriteTurns = HashMap<DatabaseId, Arc<tokio::sync::Mutex<()>>>;

pub(crate) struct Child {
    pub(super) spec: Spec,
    pub(super) folder: InstanceFolder,
    pub(super) engine: Arc<dyn SessionEngine>,
    pub(super) databases: ServedDatabases,
    pub(super) callers: CallerCache,
    pub(super) streams: Streams,
    pub(super) slots: Arc<Slots>,
    pub(super) counters: Arc<Counters>,
    pub(super) usage: UsageFiles,
    pub(super) batons: BatonKey,
    pub(super) clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// Whether requests are served.
    pub(super) is_ready: AtomicBool,
    /// Whether new requests are refused.
    pub(super) is_draining: AtomicBool,
    /// Whether the process ends because it uses too much memory.
    pub(super) is_over_memory: AtomicBool,
    /// Notified once, when the process has to end.
    pub(super) drained: Notify,
    pub(super) requests: Arc<Requests>,
    pub(super) fill: VolumeFill,
    settings: RwLock<CurrentSettings>,
    level: Arc<LogLevel>,
    turns: Mutex<WriteTurns>,
    /// The channel to the server. `None` while the server is away.
    server: Mutex<Option<mpsc::Sender<FromProcess>>>,
}

impl Child {
    #[expect(clippy::too_many_arguments, reason = "what a process is made of, put together once")]
    pub(super) fn new(
        spec: Spec,
        folder: InstanceFolder,
        settings: Settings,
        engine: Arc<dyn SessionEngine>,
        databases: ServedDatabases,
        tools: Tools,
        usage: UsageFiles,
        level: Arc<LogLevel>,
        threads: usize,
    ) -> Option<Self> {
        let batons = BatonKey::new(spec.baton_key.bytes()?);
        level.set(settings.get(Setting::LogLevel));
        let current = CurrentSettings { revision: spec.settings_revision, settings: Arc::new(settings) };
        Some(Self {
            spec,
            folder,
            engine,
            databases,
            callers: CallerCache::default(),
            streams: Streams::default(),
            slots: Arc::new(Slots::new(threads)),
            counters: Arc::new(Counters::default()),
            usage,
            batons,
            clock: tools.clock,
            ids: tools.ids,
            is_ready: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            is_over_memory: AtomicBool::new(false),
            drained: Notify::new(),
            requests: Arc::default(),
            fill: VolumeFill::default(),
            settings: RwLock::new(current),
            level,
            turns: Mutex::default(),
            server: Mutex::default(),
        })
    }

    pub(super) fn fresh_id(&self) -> uuid::Uuid {
        self.ids.uuid(self.clock.now())
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().settings)
    }

    /// Applies new settings. Ignores settings that are older than those in force. Settings that take effect at the next start
    /// are already in the file.
    pub(super) fn apply(&self, settings: Settings, revision: Option<i64>) {
        let mut current = self.settings.write();
        let revision = revision.unwrap_or(current.revision);
        if revision >= current.revision {
            self.level.set(settings.get(Setting::LogLevel));
            *current = CurrentSettings { revision, settings: Arc::new(settings) };
        }
    }

    /// Sets the channel to the server. `None` marks the server as away.
    pub(super) fn reach(&self, server: Option<mpsc::Sender<FromProcess>>) {
        *self.server.lock() = server;
    }

    /// Sends a message to the server if it is connected and accepts the message.
    pub(super) fn tell(&self, message: FromProcess) {
        let server = self.server.lock().clone();
        if let Some(server) = server
            && server.try_send(message).is_err()
        {
            tracing::warn!("the server does not read the control socket");
        }
    }

    /// Reports to the server and the log whether the volume is full. `news` is `None` if nothing changed.
    pub(super) fn tell_fill(&self, news: Option<bool>) {
        if let Some(full) = news {
            let used = self.counters.disk_used.load(Ordering::Relaxed);
            let volume = resources::volume(self.spec.volume_gb);
            tracing::warn!(full, used, volume, "the fill state of the volume changed");
            self.tell(FromProcess::VolumeFull { full });
        }
    }

    /// Fails unless requests are served.
    pub(super) fn check_open(&self) -> Result<(), HttpError> {
        if self.is_draining.load(Ordering::Acquire) {
            Err(HttpError::Unavailable("the deployment is stopping"))
        } else if self.is_ready.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(HttpError::Unavailable("the deployment is starting"))
        }
    }

    pub(super) fn number(&self, setting: Setting) -> u64 {
        self.settings().number(setting).unwrap_or(0)
    }

    pub(super) fn millis(&self, setting: Setting) -> Duration {
        Duration::from_millis(self.number(setting))
    }

    /// Returns the write turn of a database: a lock that is granted in the order of requests.
    pub(super) fn turn(&self, database: DatabaseId) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.turns.lock().entry(database).or_default())
    }

    /// Returns the limits in force.
    pub(super) fn limits(&self) -> RunLimits {
        let settings = self.settings();
        let number = |setting| settings.number(setting).unwrap_or(0);
        let bytes = |setting| usize::try_from(number(setting)).unwrap_or(usize::MAX);
        let millis = |setting| Duration::from_millis(number(setting));
        RunLimits {
            foreign_keys: settings.flag(Setting::BehaviorForeignKeys),
            commits_transactions: settings.flag(Setting::BehaviorDoltTransactionCommit),
            query_timeout: millis(Setting::QueryTimeoutMillis),
            transaction_timeout: millis(Setting::TransactionTimeoutMillis),
            max_result_bytes: bytes(Setting::QueryMaxResultBytes),
            max_sql_bytes: bytes(Setting::QueryMaxSqlBytes),
            max_batch_steps: bytes(Setting::QueryMaxBatchSteps),
            busy_timeout: millis(Setting::QueryBusyTimeoutMillis),
        }
    }

    /// Returns the stream that the baton identifies, or opens a new one.
    pub(super) fn enter(
        &self,
        caller: &SqlCaller,
        database: DatabaseId,
        target: &SqlTarget,
        baton: Option<&str>,
    ) -> Result<Stream, HttpError> {
        let settings = self.settings();
        let power = if settings.flag(Setting::BehaviorReadOnly) { SqlPower::Read } else { caller.power };
        let of = StreamOf {
            user: caller.user,
            caller: SessionCaller { name: caller.name.clone(), email: caller.email.clone() },
            power,
            database,
            branch: target.branch.clone(),
        };
        let Some(text) = baton else { return self.open(of) };
        let baton = self.batons.open(text).ok_or(HttpError::BatonInvalid)?;
        if baton.user != of.user || baton.database != database {
            return Err(HttpError::BatonInvalid);
        }
        match self.streams.take(baton.stream, baton.sequence) {
            Ok(stream) if stream.session.is_some() && stream.of.power > power => {
                // The caller's role is now lower than when the session began. Dropping the stream rolls its transaction
                // back.
                self.streams.close(stream.id);
                drop(stream);
                Err(HttpError::StreamExpired)
            }
            Ok(mut stream) => {
                if stream.session.is_none() {
                    stream.of.power = power;
                    stream.of.caller = of.caller;
                }
                Ok(stream)
            }
            Err(NoStream::InUse) => Err(HttpError::BatonReused),
            Err(NoStream::Gone) if baton.renews(self.clock.now()) => self.open(of),
            Err(NoStream::Gone) => Err(HttpError::StreamExpired),
        }
    }

    fn open(&self, of: StreamOf) -> Result<Stream, HttpError> {
        let most = self.number(Setting::ListenerMaxConnections);
        let opened = self.streams.open(of, self.fresh_id(), usize::try_from(most).unwrap_or(0), Instant::now());
        opened.ok_or(HttpError::TooManyStreams(most))
    }

    /// Returns the baton for the next request on a stream.
    pub(super) fn baton(&self, stream: &Stream, sequence: u64, clean: bool) -> String {
        self.batons.seal(&Baton {
            stream: stream.id,
            sequence,
            user: stream.of.user,
            database: stream.of.database,
            issued_at: self.clock.now(),
            clean,
        })
    }
}

impl Observer for Child {
    fn is_full(&self) -> bool {
        self.fill.is_used_up()
    }

    fn ran(&self, sql: &str, took: Duration, outcome: Result<&StatementReport, &StatementError>) {
        self.counters.took(took);
        match outcome {
            Ok(report) if report.wrote => self.fill.wrote(),
            Err(error) if error.code == "SQLITE_FULL" => self.tell_fill(self.fill.was_refused()),
            Ok(_) | Err(_) => {}
        }
        let counter = match outcome {
            Ok(report) if report.wrote => &self.counters.writes,
            Ok(_) => &self.counters.reads,
            Err(_) => &self.counters.errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let settings = self.settings();
        let slow = took.as_millis() >= u128::from(settings.number(Setting::SlowQueryMillis).unwrap_or(0));
        let tells = match settings.get(Setting::LogQueries) {
            "all" => true,
            "slow" => slow,
            _ => false,
        };
        if tells {
            let most = usize::try_from(settings.number(Setting::MaxLoggedQueryLen).unwrap_or(0)).unwrap_or(0);
            let code = outcome.err().map_or("ok", |error| error.code.as_str());
            tracing::info!(millis = took.as_secs_f64() * 1000.0, code, sql = redact(sql, most), "query");
        }
    }

    fn between_statements(&self, canceled: &CancellationToken) {
        if let Some(slot) = slots::here() {
            // A canceled request ends before its next statement.
            let _ = slot.go_on(canceled);
        }
    }
}
