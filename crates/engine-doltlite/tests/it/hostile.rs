//! Generated statements that try to leave their database. No statement may change what it must not, see data that is
//! not its own, or exceed its time.
//!
//! A default run takes seconds; `cargo xtask fuzz --target engine-read --minutes 60` runs for an hour
//! (docs/testing.md).

#[path = "hostile/grammar.rs"]
pub(crate) mod grammar;
#[path = "hostile/growth.rs"]
mod growth;
#[path = "hostile/mutations.rs"]
mod mutations;
#[path = "hostile/pushes.rs"]
mod pushes;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    Arguments, CancellationToken, Column, Engine as _, EngineError, ReadQuery, RowSink, SessionError, SqlFailure,
    SqlPower, SqlSession, StatementBounds, ValueRef,
};
use branchyard_domain::values::CommitHash;
use parking_lot::Mutex;

use crate::support::{EngineHarness, ada, id};
use crate::tested::{GRACE, RUNS_IN_THREAD, TARGETS, create_served};
use grammar::{Grammar, Words};

/// The time limit of a statement.
const TIME: Duration = Duration::from_millis(100);
/// Seconds after which a statement counts as hanging.
const HUNG: usize = 60;
/// Maximum memory of the process, including all memory held by statements.
const MEMORY_KB: u64 = 1 << 20;
/// Number of statements between two checks of the surroundings.
const BATCH: usize = 100;
/// Bytes after which no more rows are taken, as in the API.
const ANSWER: usize = 15 << 20;
/// A text stored where no statement may see it.
const CANARY: &str = "canary-0f3a77";

const TABLES: &str =
    "create table t(id integer primary key, v text); insert into t values (1, 'a'), (2, 'b'), (3, null);
    create table wide(a text primary key, b int); insert into wide values ('x', 1); create view v1 as select v from t;
    create index i on t(v)";

/// The port that a statement is passed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    ReadSession,
    WriteSession,
}

/// Files by path, with size and modification time.
type Files = BTreeMap<PathBuf, (u64, SystemTime)>;

struct Prison {
    harness: EngineHarness,
    at: CommitHash,
    listener: TcpListener,
    words: Words,
    /// The processor time within which a statement must have ended.
    ended_by: Duration,
}

impl Prison {
    /// Creates two databases of the hub and a served one, a file and a listener. Statements run on the first and on the
    /// served database; everything else is out of their reach.
    fn new() -> Self {
        let harness = EngineHarness::new();
        let at = harness.write(&harness.base, TABLES);
        let other = harness.engine.create(id(2), &ada(), "Create database").unwrap();
        harness.write_to(id(2), &other, &format!("create table secret(v); insert into secret values ('{CANARY}')"));
        create_served(&harness.engine, id(9));
        let folder = harness.folder.path().to_owned();
        fs::write(folder.join("secret.txt"), CANARY).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let database = files(&folder).into_keys().find(|path| path.to_string_lossy().contains("556602")).unwrap();
        let (folder, database) = (folder.display(), database.display());
        let places = [
            format!("{folder}/out.db"),
            format!("{folder}/secret.txt"),
            format!("file:{folder}/new.db?mode=rwc"),
            format!("file://{database}"),
            database.to_string(),
            "/etc/passwd".to_owned(),
            ":memory:".to_owned(),
            "../out.db".to_owned(),
            format!("http://127.0.0.1:{port}/x"),
        ];
        let words = Words::of_the_engine(places.into());
        // `cargo xtask sanitize` sets it: instrumented code is slower.
        let slowdown = number("FUZZ_SLOWDOWN").and_then(|factor| u32::try_from(factor).ok()).unwrap_or(1);
        Self { harness, at, listener, words, ended_by: TIME + GRACE * slowdown }
    }

    /// Runs a statement. Returns an error if its outcome violates an invariant.
    fn attempt(
        &self,
        kind: Kind,
        session: &mut Option<Box<dyn SqlSession>>,
        sql: &str,
    ) -> Result<&'static str, String> {
        let computing = Computing::now();
        let mut taken = Watcher::default();
        let ended = match kind {
            Kind::Read => {
                self.harness.engine.read(id(1), &self.at, &ReadQuery::new(sql, TIME), &mut taken).map(|_| "succeeded")
            }
            Kind::Write => self.harness.try_write(id(1), &self.at, sql, TIME).map(|_| "succeeded"),
            Kind::ReadSession | Kind::WriteSession => {
                let power = if kind == Kind::ReadSession { SqlPower::Read } else { SqlPower::Write };
                let session =
                    session.get_or_insert_with(|| crate::tested::session(&self.harness.engine, id(9), power).unwrap());
                let bounds = StatementBounds {
                    timeout: TIME,
                    canceled: CancellationToken::default(),
                    has_turn: true,
                    commits_transactions: false,
                };
                match session.run(sql, &Arguments::None, &bounds, &mut taken) {
                    Ok(_) => Ok("succeeded"),
                    Err(SessionError::Engine(error)) => Err(error),
                    Err(SessionError::TimedOut(_)) => Ok("ended"),
                    Err(_) => Ok("refused"),
                }
            }
        };
        let took = computing.elapsed();
        if took > self.ended_by {
            return Err(format!("it computed for {took:?}"));
        }
        if taken.canary {
            return Err("it saw what is not its own".into());
        }
        match ended {
            Ok(outcome) => Ok(outcome),
            Err(EngineError::Sql { failure: SqlFailure::TimedOut(_), .. } | EngineError::TimedOut(_)) => Ok("ended"),
            Err(EngineError::Sql { .. }) => Ok("refused"),
            Err(other) => Err(format!("the engine failed: {other:?}")),
        }
    }

    /// Checks that the surroundings of the statements are unchanged.
    fn intact(&self, before: &Files, kind: Kind) -> Result<(), String> {
        let now = files(self.harness.folder.path());
        // The databases that statements of this kind may write.
        let own = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (kind == Kind::Write && name.contains("556601")) || (kind == Kind::WriteSession && name.contains("556609"))
        };
        for (path, state) in before {
            if !own(path) && now.get(path) != Some(state) {
                return Err(format!("{} was {state:?}, is {:?}", path.display(), now.get(path)));
            }
        }
        if let Some(new) = now.keys().find(|path| !own(path) && !before.contains_key(*path)) {
            return Err(format!("{} is new", new.display()));
        }
        match self.listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return Err(format!("somebody called: {other:?}")),
        }
        let peak = peak_kb();
        if peak > MEMORY_KB { Err(format!("the process took {peak} KiB")) } else { Ok(()) }
    }

    /// Checks that the next statement finds the connections in order.
    fn works(&self) -> Result<(), String> {
        let rows = self.harness.read(&self.at, "select count(*), max(v), 'a' like 'A', changes() from t, wide");
        let wanted = [Cell::Integer(3), Cell::Text(b"b".to_vec()), Cell::Integer(1)];
        if rows[0][..3] == wanted { Ok(()) } else { Err(format!("a read gives {rows:?}")) }
    }
}

/// A sink that searches rows for the canary, up to the size of an answer.
#[derive(Default)]
struct Watcher {
    bytes: usize,
    canary: bool,
}

impl RowSink for Watcher {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        for value in row {
            if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = value {
                self.bytes += bytes.len();
                self.canary |=
                    memchr::memmem::find(bytes, CANARY.as_bytes()).is_some() || bytes.starts_with(b"root:x:0:0");
            }
        }
        if self.bytes > ANSWER { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn files(folder: &Path) -> Files {
    let mut found = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            // Temporary files of a statement may disappear meanwhile.
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() {
                folders.push(entry.path());
            } else {
                found.insert(entry.path(), (data.len(), data.modified().unwrap()));
            }
        }
    }
    found
}

/// Measures the processor time of this thread where the system reports it and statements run on it. A statement cannot
/// request anything that blocks, so any further time is time spent waiting for the machine: a processor, a disk, memory.
pub(crate) struct Computing(Instant, Option<Duration>);

impl Computing {
    pub(crate) fn now() -> Self {
        let told = if RUNS_IN_THREAD { fs::read_to_string("/proc/thread-self/schedstat").ok() } else { None };
        let nanos = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Self(Instant::now(), nanos.map(Duration::from_nanos))
    }

    /// Returns the processor time since then, or the elapsed time if the system does not report it.
    pub(crate) fn elapsed(&self) -> Duration {
        let now = Self::now();
        now.1.zip(self.1).map_or(now.0 - self.0, |(now, then)| now.saturating_sub(then))
    }
}

#[test]
fn it_counts_what_a_thread_computes_and_not_what_it_waits() {
    if !RUNS_IN_THREAD {
        return;
    }
    let (computing, began) = (Computing::now(), Instant::now());
    while began.elapsed() < Duration::from_millis(100) {
        std::hint::spin_loop();
    }
    // The thread may have had to share the processors.
    assert!(computing.elapsed() > Duration::from_millis(5));
    let waiting = Computing::now();
    std::thread::sleep(Duration::from_millis(100));
    assert!(waiting.elapsed() < Duration::from_millis(50));
}

/// Returns the peak memory of this process in KiB.
fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The message with which rusqlite panics, and catches the panic, if an authorizer is called with a name that is not
/// UTF-8, as in `pragma_table_info(x'ff')`. The panic refuses such a statement (docs/decisions/0004-one-sqlite-in-the-process.md).
const REFUSED_BY_PANIC: &str = "received non-utf8 string as authorizer param";

/// Records the panics on this thread, including caught ones.
fn panics() -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let (sink, thread) = (Arc::clone(&seen), std::thread::current().id());
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string();
        if std::thread::current().id() == thread {
            if text.contains(REFUSED_BY_PANIC) {
                return;
            }
            sink.lock().push(text);
        }
        before(panic);
    }));
    seen
}

/// Replaces the number of a statement after the last one.
const DONE: usize = usize::MAX;

/// Aborts the process if a statement hangs, because the statement cannot be ended. Seconds in which this thread did not
/// run do not count.
#[expect(clippy::print_stderr, reason = "the process ends next, and nothing else says why")]
fn watch(trying: Arc<Mutex<(usize, String)>>) {
    std::thread::spawn(move || {
        let mut last = (0, 0);
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let trying = trying.lock();
            if trying.0 == DONE {
                return;
            }
            last = if last.0 == trying.0 { (last.0, last.1 + 1) } else { (trying.0, 0) };
            if last.1 > HUNG {
                eprintln!("hangs: {}", trying.1);
                std::process::abort();
            }
        }
    });
}

/// Returns the number in a variable of the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn fuzz() {
    let (seconds, seed) = (number("FUZZ_SECONDS"), number("FUZZ_SEED").unwrap_or(1));
    let only = std::env::var("FUZZ_TARGET").ok();
    let chosen: Vec<_> = TARGETS.iter().filter(|(name, ..)| only.as_deref().is_none_or(|only| only == *name)).collect();
    assert!(
        !chosen.is_empty(),
        "FUZZ_TARGET is none of {:?}",
        TARGETS.iter().map(|(name, ..)| name).collect::<Vec<_>>()
    );
    let trying = Arc::new(Mutex::new((0, String::new())));
    watch(Arc::clone(&trying));
    let panics = panics();
    for (name, kind, rounds) in chosen {
        let prison = Prison::new();
        let mut grammar = Grammar::new(seed, &prison.words);
        let (mut session, mut outcomes, mut count) = (None, BTreeMap::<&str, usize>::new(), 0);
        // The first statements create what connections need.
        for sql in ["select * from t", "select 1"] {
            prison.attempt(*kind, &mut session, sql).unwrap();
        }
        let mut before = files(prison.harness.folder.path());
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let mut batch = Vec::new();
        while until.map_or(count < *rounds, |until| Instant::now() < until) {
            let sql = grammar.statement();
            {
                let mut trying = trying.lock();
                *trying = (trying.0 + 1, sql.clone());
            }
            let outcome = prison.attempt(*kind, &mut session, &sql);
            let outcome = panics.lock().pop().map_or(outcome, |panic| Err(format!("it panicked: {panic}")));
            let outcome =
                outcome.unwrap_or_else(|fault| panic!("{name}, seed {seed}, statement {count}: {fault}\n{sql}"));
            *outcomes.entry(outcome).or_default() += 1;
            count += 1;
            batch.push(sql);
            if batch.len() == BATCH {
                let fine = prison.intact(&before, *kind).and_then(|()| prison.works());
                fine.unwrap_or_else(|fault| {
                    panic!("{name}, seed {seed}, by statement {count}: {fault}\n{}", batch.join("\n\n"))
                });
                batch.clear();
                // A session keeps its transaction and its temporary objects, so each batch starts with a new session.
                session = None;
                before = files(prison.harness.folder.path());
            }
        }
        println!("{name}: {count} statements, {outcomes:?}, at most {} MiB", peak_kb() >> 10);
        assert!(outcomes.len() > 1 || count < 500, "every statement ended alike, so nothing was tried");
    }
    // Other tests of the process may run for longer than a statement may hang.
    trying.lock().0 = DONE;
}
