//! `POST v3/cursor`: the rows of a batch, streamed as they are computed.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::rt::task::spawn_blocking;
use branchyard_deployments::ports::SqlCaller;
use branchyard_deployments::values::Setting;
use branchyard_domain::ports::CancellationToken;
use branchyard_domain::values::DatabaseId;
use bytes::Bytes;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::address::SqlTarget;
use super::pipeline::{WithBaton, malformed};
use super::requests::RunningRequest;
use super::slots::{OnThisThread, RunPermit, Slots};
use super::state::Child;
use crate::hrana::answer::{LineSink, line};
use crate::hrana::check;
use crate::hrana::errors::HttpError;
use crate::hrana::run::{self, Around, CursorRun, RunProgress};
use crate::hrana::streams::Stream;
use crate::hrana::wire::{Cursor, HranaBatch};

/// Target size of a piece in bytes.
const PIECE: usize = 16 << 10;
/// Maximum delay of a row while a piece fills up.
const SOON: Duration = Duration::from_millis(100);
/// Maximum number of pieces waiting for the client.
const PIECES: usize = 4;

/// The answer as a stream of pieces. Dropping it cancels the batch.
pub(super) struct CursorAnswer {
    pub(super) pieces: mpsc::Receiver<Bytes>,
    canceled: CancellationToken,
}

impl Drop for CursorAnswer {
    fn drop(&mut self) {
        self.canceled.cancel();
    }
}

/// Words without which no statement changes the state of its session.
const LEAVING: &[&str] =
    &["begin", "savepoint", "pragma", "temp", "dolt_branch", "dolt_checkout", "dolt_rebase", "commit", "rollback"];

/// Returns `true` if the batch certainly leaves a clean stream clean.
fn stays_clean(batch: &HranaBatch) -> bool {
    batch.steps.iter().all(|step| {
        let sql = step.stmt.sql.as_deref().map(str::to_ascii_lowercase);
        sql.is_some_and(|sql| !LEAVING.iter().any(|word| sql.contains(word)))
    })
}

/// Groups lines into pieces.
///
/// The first line contains the baton, which states whether the stream ends clean. The line is therefore held back until
/// the end, unless a piece has to be sent earlier.
struct LinePieces {
    sender: mpsc::Sender<Bytes>,
    runtime: Handle,
    slots: Arc<Slots>,
    slot: Option<RunPermit>,
    here: Option<OnThisThread>,
    /// Whether the request holds the write turn of its database.
    writes: bool,
    patience: Duration,
    /// The first line to send if a piece has to be sent before the end.
    early: Option<Vec<u8>>,
    gathered: Vec<u8>,
    sent_at: Instant,
    is_gone: bool,
}

impl LinePieces {
    fn send(&mut self) -> ControlFlow<()> {
        self.sent_at = Instant::now();
        if self.is_gone {
            return ControlFlow::Break(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.gathered));
        if let Err(mpsc::error::TrySendError::Full(piece)) = self.sender.try_send(piece) {
            // While the client is slow, other requests may use the slot.
            self.here = None;
            self.slot = None;
            let sent = self.runtime.block_on(tokio::time::timeout(self.patience, self.sender.send(piece)));
            self.slot = self.runtime.block_on(self.slots.enter_again());
            self.begin_on_this_thread(self.writes);
            self.is_gone = !matches!(sent, Ok(Ok(())));
        }
        self.is_gone |= self.sender.is_closed();
        if self.is_gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Makes the statements of this thread those of the request.
    fn begin_on_this_thread(&mut self, writes: bool) {
        self.here = None;
        self.writes = writes;
        if let Some(slot) = &self.slot {
            slot.set_writes(writes);
            self.here = Some(slot.on_this_thread());
        }
    }

    /// Sends the remaining lines. If no piece was sent yet, `first` goes before them.
    fn finish(mut self, first: Vec<u8>) {
        if self.early.take().is_some() {
            let rest = std::mem::replace(&mut self.gathered, first);
            self.gathered.extend_from_slice(&rest);
        }
        if !self.gathered.is_empty() {
            _ = self.send();
        }
    }
}

impl LineSink for LinePieces {
    fn line(&mut self, line: Vec<u8>) -> ControlFlow<()> {
        let is_row = line.starts_with(br#"{"type":"row""#);
        self.gathered.extend_from_slice(&line);
        if self.gathered.len() < PIECE && !(is_row && self.sent_at.elapsed() >= SOON) {
            return ControlFlow::Continue(());
        }
        if let Some(first) = self.early.take() {
            let rest = std::mem::replace(&mut self.gathered, first);
            self.gathered.extend_from_slice(&rest);
        }
        self.send()
    }
}

pub(super) async fn answer(
    child: Arc<Child>,
    caller: SqlCaller,
    database: DatabaseId,
    target: SqlTarget,
    body: Bytes,
    running: RunningRequest,
) -> Result<CursorAnswer, HttpError> {
    let head: WithBaton = serde_json::from_slice(&body).map_err(|error| malformed(&error))?;
    let stream = child.enter(&caller, database, &target, head.baton.as_deref())?;
    let stored = stream.stored.keys().copied().collect();
    let most = child.limits().max_batch_steps;
    let batch = serde_json::from_slice::<Cursor>(&body)
        .map_err(|error| malformed(&error))
        .and_then(|read| check::batch(&read.batch, &stored, most).map(|()| read.batch));
    let batch = match batch {
        Ok(batch) => batch,
        Err(error) => return Err(child.give_up(stream, error)),
    };
    let Some(slot) = child.slots.enter().await else {
        return Err(child.give_up(stream, HttpError::Unavailable("too many requests are waiting; try again")));
    };
    let canceled = running.canceled().clone();
    let (on, id, cancel) = (Arc::clone(&child), stream.id, canceled.clone());
    let opened = spawn_blocking(move || {
        let mut stream = stream;
        let limits = on.limits();
        let around = Around { engine: &*on.engine, limits: &limits, observer: &*on, canceled: &cancel };
        run::open(&mut stream, &around).map(|()| stream)
    })
    .await;
    let stream = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            child.streams.close(id);
            return Err(error);
        }
        Err(_) => {
            child.streams.close(id);
            return Err(HttpError::Internal);
        }
    };
    let (sender, pieces) = mpsc::channel(PIECES);
    let predicted = stream.stored.is_empty()
        && stays_clean(&batch)
        && stream.session.as_ref().is_some_and(|session| session.is_clean());
    let first = |baton: String| line(&json!({"baton": baton, "base_url": null}));
    let pieces_out = LinePieces {
        sender,
        runtime: Handle::current(),
        slots: Arc::clone(&child.slots),
        slot: Some(slot),
        here: None,
        writes: false,
        patience: child.millis(Setting::ListenerWriteTimeoutMillis),
        early: Some(first(child.baton(&stream, stream.sequence + 1, predicted))),
        gathered: Vec::new(),
        sent_at: Instant::now(),
        is_gone: false,
    };
    actix_web::rt::spawn(run_on(child, stream, CursorRun::new(batch), pieces_out, running));
    Ok(CursorAnswer { pieces, canceled })
}

async fn run_on(
    child: Arc<Child>,
    mut stream: Stream,
    mut run: CursorRun,
    mut pieces: LinePieces,
    running: RunningRequest,
) {
    let id = stream.id;
    loop {
        let (on, cancel) = (Arc::clone(&child), running.canceled().clone());
        let ran = spawn_blocking(move || {
            let limits = on.limits();
            let around = Around { engine: &*on.engine, limits: &limits, observer: &*on, canceled: &cancel };
            pieces.begin_on_this_thread(stream.turn.is_some());
            let mut progress = run.advance(&mut stream, &around, &mut pieces);
            while progress == RunProgress::NeedsTurn && on.take_free_turn(&mut stream) {
                pieces.begin_on_this_thread(true);
                progress = run.advance(&mut stream, &around, &mut pieces);
            }
            pieces.here = None;
            let clean = progress == RunProgress::Done && stream.settle();
            (stream, run, pieces, progress, clean)
        })
        .await;
        let Ok((back, ran, lines, progress, clean)) = ran else {
            child.streams.close(id);
            return;
        };
        (stream, run, pieces) = (back, ran, lines);
        if progress == RunProgress::Done {
            stream.sequence += 1;
            let baton = child.baton(&stream, stream.sequence, clean);
            child.streams.put_back(stream, Instant::now());
            let first = line(&json!({"baton": baton, "base_url": null}));
            // Sending may block on the client.
            drop(spawn_blocking(move || pieces.finish(first)).await);
            return;
        }
        pieces.slot = None;
        run.was_denied = child.wait_for_turn(&mut stream).await;
        pieces.slot = child.slots.enter_again().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_surely_leaves_nothing_behind_is_clean() {
        let batch = |sql: &str| -> HranaBatch {
            serde_json::from_str(&json!({"steps": [{"stmt": {"sql": sql}}]}).to_string()).unwrap()
        };
        assert!(stays_clean(&batch("select * from t")));
        for sql in ["BEGIN", "create TEMP table x(a)", "select dolt_checkout('x')", "pragma foreign_keys=off", "COMMIT"]
        {
            assert!(!stays_clean(&batch(sql)), "{sql}");
        }
        let stored: HranaBatch = serde_json::from_str(r#"{"steps": [{"stmt": {"sql_id": 1}}]}"#).unwrap();
        assert!(!stays_clean(&stored));
    }
}
