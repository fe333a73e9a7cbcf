//! Execution of the requests of a pipeline, or of the batch of a cursor, on a stream.
//!
//! A run returns when a statement has to wait for the write turn, and continues from there later, so that no thread is
//! blocked during the wait.

use std::time::{Duration, Instant};

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    Arguments, CancellationToken, RowSink, SessionEngine, SessionError, StatementBounds, StatementReport,
};
use branchyard_sqlite_lexer::ends_transaction;
use serde_json::json;

use super::answer::{Collector, LineSink, StepLines, error_json};
use super::check::{LONGEST_STORED, MOST_STORED};
use super::errors::{HttpError, StatementError};
use super::streams::Stream;
use super::values::append;
use super::wire::{Condition, HranaBatch, HranaRequest, SqlText, Stmt};

/// The settings that apply while a request runs.
#[derive(Debug, Clone)]
pub(crate) struct RunLimits {
    pub(crate) foreign_keys: bool,
    pub(crate) commits_transactions: bool,
    pub(crate) query_timeout: Duration,
    pub(crate) transaction_timeout: Duration,
    pub(crate) max_result_bytes: usize,
    pub(crate) max_sql_bytes: usize,
    pub(crate) max_batch_steps: usize,
    pub(crate) busy_timeout: Duration,
}

/// An observer of the statements that run.
pub(crate) trait Observer: Send + Sync {
    /// Returns `true` if the volume is full.
    fn is_full(&self) -> bool;

    /// Called after a statement has succeeded or failed.
    fn ran(&self, sql: &str, took: Duration, outcome: Result<&StatementReport, &StatementError>);

    /// Called before a statement, on its thread. May wait while other requests compute.
    fn between_statements(&self, canceled: &CancellationToken);
}

/// The environment of a run, besides its stream.
pub(crate) struct Around<'a> {
    pub(crate) engine: &'a dyn SessionEngine,
    pub(crate) limits: &'a RunLimits,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) canceled: &'a CancellationToken,
}

/// The progress of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunProgress {
    Done,
    /// The run needs the write turn. It continues once the caller has put the turn into the stream.
    NeedsTurn,
    /// The run was canceled. Nothing of it runs after that, so that a transaction whose statements were cut off is not
    /// committed by a later one.
    Canceled,
}

/// The reason why a statement did not complete.
enum StatementEnd {
    NeedsTurn,
    Canceled,
    Error(StatementError),
}

impl From<StatementError> for StatementEnd {
    fn from(error: StatementError) -> Self {
        Self::Error(error)
    }
}

/// Opens the session of a stream, so that a failure becomes an error of the request.
pub(crate) fn open(stream: &mut Stream, around: &Around<'_>) -> Result<(), HttpError> {
    match stream.session(around.engine, around.limits.foreign_keys) {
        Ok(_) => Ok(()),
        Err(SessionError::NoSuchBranch(name)) => Err(HttpError::NotFound(format!("no branch {name}"))),
        Err(error) => {
            tracing::error!(%error, "cannot open a session");
            Err(HttpError::Internal)
        }
    }
}

/// A batch in progress.
struct BatchRun {
    at: usize,
    results: Vec<Option<Vec<u8>>>,
    errors: Vec<Option<StatementError>>,
}

impl BatchRun {
    fn new() -> Self {
        Self { at: 0, results: Vec::new(), errors: Vec::new() }
    }

    fn holds(&self, condition: &Condition, is_autocommit: bool) -> bool {
        match condition {
            Condition::Ok { step } => self.results.get(*step).is_some_and(Option::is_some),
            Condition::Error { step } => self.errors.get(*step).is_some_and(Option::is_some),
            Condition::Not { cond } => !self.holds(cond, is_autocommit),
            Condition::And { conds } => conds.iter().all(|cond| self.holds(cond, is_autocommit)),
            Condition::Or { conds } => conds.iter().any(|cond| self.holds(cond, is_autocommit)),
            Condition::IsAutocommit => is_autocommit,
        }
    }

    fn push(&mut self, outcome: Option<Result<Vec<u8>, StatementError>>) {
        let (result, error) = match outcome {
            None => (None, None),
            Some(Ok(result)) => (Some(result), None),
            Some(Err(error)) => (None, Some(error)),
        };
        self.results.push(result);
        self.errors.push(error);
        self.at += 1;
    }
}

/// A pipeline in progress.
pub(crate) struct PipelineRun {
    requests: Vec<HranaRequest>,
    at: usize,
    /// Entries of `results` so far, separated by commas.
    results: Vec<u8>,
    batch: Option<BatchRun>,
    /// Number of bytes of the current sequence that have run.
    done: usize,
    /// Whether the wait for the write turn timed out. The statement that needs the turn then fails.
    pub(crate) was_denied: bool,
    pub(crate) is_closed: bool,
}

impl PipelineRun {
    pub(crate) fn new(requests: Vec<HranaRequest>) -> Self {
        Self { requests, at: 0, results: Vec::new(), batch: None, done: 0, was_denied: false, is_closed: false }
    }

    /// Returns the answer of a completed run.
    pub(crate) fn answer(&self, baton: Option<&str>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.results.len() + 64);
        out.extend_from_slice(br#"{"baton":"#);
        append(&mut out, &baton);
        out.extend_from_slice(br#","base_url":null,"results":["#);
        out.extend_from_slice(&self.results);
        out.extend_from_slice(b"]}");
        out
    }

    /// Continues until the run is done or has to wait.
    pub(crate) fn advance(&mut self, stream: &mut Stream, around: &Around<'_>) -> RunProgress {
        // Taken out because `self` is borrowed mutably below.
        let requests = std::mem::take(&mut self.requests);
        let mut progress = RunProgress::Done;
        while let Some(request) = requests.get(self.at) {
            let outcome = if self.is_closed {
                Err(StatementEnd::Error(StatementError::new(
                    "STREAM_CLOSED",
                    "the stream was closed by an earlier request",
                )))
            } else {
                self.request(request, stream, around)
            };
            match outcome {
                Err(StatementEnd::NeedsTurn) => {
                    progress = RunProgress::NeedsTurn;
                    break;
                }
                Err(StatementEnd::Canceled) => {
                    progress = RunProgress::Canceled;
                    break;
                }
                Ok(response) => self.push(br#"{"type":"ok","response":"#, &response),
                Err(StatementEnd::Error(error)) => {
                    let mut told = Vec::new();
                    append(&mut told, &error_json(&error));
                    self.push(br#"{"type":"error","error":"#, &told);
                }
            }
            self.at += 1;
        }
        self.requests = requests;
        progress
    }

    fn push(&mut self, head: &[u8], body: &[u8]) {
        if self.at > 0 {
            self.results.push(b',');
        }
        self.results.extend_from_slice(head);
        self.results.extend_from_slice(body);
        self.results.push(b'}');
    }

    fn request(
        &mut self,
        request: &HranaRequest,
        stream: &mut Stream,
        around: &Around<'_>,
    ) -> Result<Vec<u8>, StatementEnd> {
        let plain = |value: serde_json::Value| {
            let mut out = Vec::new();
            append(&mut out, &value);
            out
        };
        match request {
            HranaRequest::Execute { stmt } => {
                let budget = self.budget(0, around);
                let result = execute(stream, around, stmt, budget, &mut self.was_denied)?;
                Ok(wrap("execute", &result))
            }
            HranaRequest::Batch { batch } => {
                let mut run = self.batch.take().unwrap_or_else(BatchRun::new);
                let ran = self.batch(batch, &mut run, stream, around);
                if let Err(stop) = ran {
                    self.batch = Some(run);
                    return Err(stop);
                }
                Ok(wrap("batch", &batch_json(&run)))
            }
            HranaRequest::Sequence(text) => {
                self.sequence(text, stream, around)?;
                self.done = 0;
                Ok(plain(json!({"type": "sequence"})))
            }
            HranaRequest::Describe(text) => {
                let sql = resolve(text.sql.as_deref(), text.sql_id, stream)?;
                check_length(&sql, around.limits)?;
                let session = stream.session(around.engine, around.limits.foreign_keys).map_err(failed)?;
                let told = session.describe(&sql).map_err(failed)?;
                let parameters: Vec<_> = told.parameters.iter().map(|name| json!({"name": name})).collect();
                let columns: Vec<_> =
                    told.columns.iter().map(|(name, declared)| json!({"name": name, "decltype": declared})).collect();
                Ok(plain(json!({"type": "describe", "result": {
                    "params": parameters, "cols": columns, "is_explain": told.is_explain, "is_readonly": told.is_readonly,
                }})))
            }
            HranaRequest::StoreSql { sql_id, sql } => {
                if sql.len() > LONGEST_STORED {
                    return Err(StatementError::new(
                        "SQL_STORE_TOO_LARGE",
                        format!("a stored text has at most {LONGEST_STORED} bytes"),
                    )
                    .into());
                }
                if stream.stored.len() >= MOST_STORED {
                    return Err(StatementError::new(
                        "SQL_STORE_TOO_MANY",
                        format!("a stream stores at most {MOST_STORED} texts"),
                    )
                    .into());
                }
                stream.stored.insert(*sql_id, sql.clone());
                Ok(plain(json!({"type": "store_sql"})))
            }
            HranaRequest::CloseSql { sql_id } => {
                stream.stored.remove(sql_id);
                Ok(plain(json!({"type": "close_sql"})))
            }
            HranaRequest::GetAutocommit => {
                let is_autocommit = stream.session.as_ref().is_none_or(|session| session.is_autocommit());
                Ok(plain(json!({"type": "get_autocommit", "is_autocommit": is_autocommit})))
            }
            HranaRequest::Close => {
                self.is_closed = true;
                Ok(plain(json!({"type": "close"})))
            }
        }
    }

    fn budget(&self, pending: usize, around: &Around<'_>) -> usize {
        around.limits.max_result_bytes.saturating_sub(self.results.len() + pending)
    }

    fn batch(
        &mut self,
        batch: &HranaBatch,
        run: &mut BatchRun,
        stream: &mut Stream,
        around: &Around<'_>,
    ) -> Result<(), StatementEnd> {
        while let Some(step) = batch.steps.get(run.at) {
            let is_autocommit = stream.session.as_ref().is_none_or(|session| session.is_autocommit());
            if step.condition.as_ref().is_some_and(|condition| !run.holds(condition, is_autocommit)) {
                run.push(None);
                continue;
            }
            let pending = run.results.iter().flatten().map(Vec::len).sum();
            match execute(stream, around, &step.stmt, self.budget(pending, around), &mut self.was_denied) {
                Err(end @ (StatementEnd::NeedsTurn | StatementEnd::Canceled)) => return Err(end),
                Ok(result) => run.push(Some(Ok(result))),
                Err(StatementEnd::Error(error)) => run.push(Some(Err(error))),
            }
        }
        Ok(())
    }

    fn sequence(&mut self, text: &SqlText, stream: &mut Stream, around: &Around<'_>) -> Result<(), StatementEnd> {
        let sql = resolve(text.sql.as_deref(), text.sql_id, stream)?;
        check_length(&sql, around.limits)?;
        while self.done < sql.len() {
            let rest = &sql[self.done..];
            let mut step = 0;
            let ran = guarded(stream, around, rest, &mut self.was_denied, 1, |session, bounds| {
                session.step(rest, bounds).map(|(done, report)| {
                    step = done;
                    report
                })
            });
            match ran {
                Ok(_) => self.done += step,
                Err(StatementEnd::NeedsTurn) => return Err(StatementEnd::NeedsTurn),
                Err(error) => {
                    self.done = 0;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

fn wrap(kind: &str, result: &[u8]) -> Vec<u8> {
    let mut out = format!(r#"{{"type":"{kind}","result":"#).into_bytes();
    out.extend_from_slice(result);
    out.push(b'}');
    out
}

fn batch_json(run: &BatchRun) -> Vec<u8> {
    let mut out = br#"{"step_results":["#.to_vec();
    for (at, result) in run.results.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(result.as_deref().unwrap_or(b"null"));
    }
    out.extend_from_slice(br#"],"step_errors":"#);
    let errors: Vec<_> = run.errors.iter().map(|error| error.as_ref().map(error_json)).collect();
    append(&mut out, &errors);
    out.push(b'}');
    out
}

/// A batch of a cursor in progress.
pub(crate) struct CursorRun {
    batch: HranaBatch,
    run: BatchRun,
    pub(crate) was_denied: bool,
}

impl CursorRun {
    pub(crate) fn new(batch: HranaBatch) -> Self {
        Self { batch, run: BatchRun::new(), was_denied: false }
    }

    /// Continues until the run is done, has to wait, or the receiver of the lines stops.
    pub(crate) fn advance(
        &mut self,
        stream: &mut Stream,
        around: &Around<'_>,
        lines: &mut dyn LineSink,
    ) -> RunProgress {
        while let Some(step) = self.batch.steps.get(self.run.at) {
            let is_autocommit = stream.session.as_ref().is_none_or(|session| session.is_autocommit());
            if step.condition.as_ref().is_some_and(|condition| !self.run.holds(condition, is_autocommit)) {
                self.run.push(None);
                continue;
            }
            let mut sink = StepLines::new(self.run.at, step.stmt.want_rows.unwrap_or(true), &mut *lines);
            let ran = statement(stream, around, &step.stmt, &mut self.was_denied, 10, &mut sink);
            let (outcome, flow) = match ran {
                Err(StatementEnd::NeedsTurn) => return RunProgress::NeedsTurn,
                // The client has read as many rows as it wanted. Its stream goes on.
                Err(StatementEnd::Canceled) => break,
                // Conditions only check whether there is a result.
                Ok(report) => (Ok(Vec::new()), sink.end(&report)),
                Err(StatementEnd::Error(error)) => {
                    let flow = sink.fail(&error);
                    (Err(error), flow)
                }
            };
            self.run.push(Some(outcome));
            if flow.is_break() {
                break;
            }
        }
        RunProgress::Done
    }
}

/// Runs a statement of a pipeline and returns its result.
fn execute(
    stream: &mut Stream,
    around: &Around<'_>,
    stmt: &Stmt,
    budget: usize,
    was_denied: &mut bool,
) -> Result<Vec<u8>, StatementEnd> {
    let mut collector = Collector::new(stmt.want_rows.unwrap_or(true), budget);
    let began = Instant::now();
    let report = statement(stream, around, stmt, was_denied, 1, &mut collector)?;
    if collector.is_too_large {
        return Err(StatementError::response_too_large(around.limits.max_result_bytes).into());
    }
    Ok(collector.result(&report, began.elapsed().as_secs_f64() * 1000.0))
}

fn statement(
    stream: &mut Stream,
    around: &Around<'_>,
    stmt: &Stmt,
    was_denied: &mut bool,
    patience: u32,
    sink: &mut dyn RowSink,
) -> Result<StatementReport, StatementEnd> {
    let sql = resolve(stmt.sql.as_deref(), stmt.sql_id, stream)?;
    check_length(&sql, around.limits)?;
    let arguments = arguments(stmt)?;
    guarded(stream, around, &sql, was_denied, patience, |session, bounds| session.run(&sql, &arguments, bounds, sink))
}

/// Runs `work` on the session of a stream within all limits, and tracks the write turn and the transaction.
fn guarded(
    stream: &mut Stream,
    around: &Around<'_>,
    sql: &str,
    was_denied: &mut bool,
    patience: u32,
    work: impl FnOnce(
        &mut Box<dyn branchyard_domain::ports::SqlSession>,
        &StatementBounds,
    ) -> Result<StatementReport, SessionError>,
) -> Result<StatementReport, StatementEnd> {
    around.observer.between_statements(around.canceled);
    if around.canceled.is_canceled() {
        return Err(StatementEnd::Canceled);
    }
    let limits = around.limits;
    let overdue = StatementError::transaction_timeout(millis(limits.transaction_timeout));
    let now = Instant::now();
    if stream.transaction_until.is_some_and(|until| until <= now) {
        stream.expire_transaction();
    }
    if stream.overdue {
        // Statements that follow belong to the expired transaction until the client ends it.
        stream.overdue = !ends_transaction(sql);
        return Err(overdue.into());
    }
    if std::mem::take(was_denied) {
        return Err(StatementError::busy().into());
    }
    let left = stream.transaction_until.map(|until| until.saturating_duration_since(now));
    let timeout = limits.query_timeout.saturating_mul(patience);
    let bounds = StatementBounds {
        timeout: left.map_or(timeout, |left| left.min(timeout)),
        canceled: around.canceled.clone(),
        has_turn: stream.turn.is_some(),
        commits_transactions: limits.commits_transactions,
    };
    let session = stream.session(around.engine, limits.foreign_keys).map_err(failed)?;
    let outcome = work(session, &bounds);
    let is_autocommit = session.is_autocommit();
    if let Err(SessionError::NeedsTurn { frees_space }) = outcome {
        if around.observer.is_full() && !frees_space {
            return Err(StatementError::full().into());
        }
        return Err(StatementEnd::NeedsTurn);
    }
    if is_autocommit {
        stream.turn = None;
        stream.transaction_until = None;
    } else if stream.transaction_until.is_none() {
        stream.transaction_until = Some(now + limits.transaction_timeout);
    }
    let ran_out = left.is_some_and(|left| left < timeout);
    let outcome = match outcome {
        Ok(report) => Ok(report),
        Err(SessionError::TimedOut(_)) if ran_out => {
            stream.expire_transaction();
            stream.overdue = false;
            Err(overdue)
        }
        Err(error) => {
            if let SessionError::Engine(cause) = &error {
                tracing::error!(error = %cause, "the engine failed");
            }
            Err(StatementError::from(&error))
        }
    };
    around.observer.ran(sql, now.elapsed(), outcome.as_ref());
    if outcome.is_err() && around.canceled.is_canceled() {
        return Err(StatementEnd::Canceled);
    }
    outcome.map_err(StatementEnd::Error)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn failed(error: SessionError) -> StatementError {
    StatementError::from(&error)
}

fn resolve(sql: Option<&str>, sql_id: Option<i32>, stream: &Stream) -> Result<String, StatementError> {
    let found = match (sql, sql_id) {
        (Some(sql), _) => Some(sql.to_owned()),
        (None, Some(id)) => stream.stored.get(&id).cloned(),
        (None, None) => None,
    };
    found.ok_or_else(|| StatementError::new("SQL_NO_STATEMENT", "no text is stored under this id"))
}

fn check_length(sql: &str, limits: &RunLimits) -> Result<(), StatementError> {
    if sql.len() > limits.max_sql_bytes {
        return Err(StatementError::new(
            "SQLITE_TOOBIG",
            format!("the SQL text has more than {} bytes; query_max_sql_bytes says so", limits.max_sql_bytes),
        ));
    }
    Ok(())
}

fn arguments(stmt: &Stmt) -> Result<Arguments, StatementError> {
    let positional = stmt.args.as_deref().unwrap_or_default();
    let named = stmt.named_args.as_deref().unwrap_or_default();
    match (positional, named) {
        ([], []) => Ok(Arguments::None),
        (values, []) => Ok(Arguments::Positional(values.iter().map(|value| value.0.clone()).collect())),
        ([], values) => Ok(Arguments::Named(
            values.iter().map(|arg| (arg.name.clone(), arg.value.0.clone())).collect::<Vec<(String, Cell)>>(),
        )),
        _ => Err(StatementError::new(
            "ARGS_BOTH_POSITIONAL_AND_NAMED",
            "arguments are given by position or by name, not both",
        )),
    }
}

#[cfg(test)]
mod tests;
