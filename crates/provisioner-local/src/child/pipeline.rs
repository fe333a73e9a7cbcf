//! `POST v2/pipeline` and `POST v3/pipeline`.

use std::sync::Arc;
use std::time::Instant;

use actix_web::rt::task::spawn_blocking;
use branchyard_deployments::ports::SqlCaller;
use branchyard_domain::ports::CancellationToken;
use branchyard_domain::values::DatabaseId;
use serde::Deserialize;

use super::address::SqlTarget;
use super::state::Child;
use crate::hrana::check;
use crate::hrana::errors::HttpError;
use crate::hrana::run::{self, Around, PipelineRun, RunProgress};
use crate::hrana::streams::Stream;
use crate::hrana::wire::Pipeline;

/// The part of a body that identifies the stream.
#[derive(Deserialize)]
pub(super) struct WithBaton {
    #[serde(default)]
    pub(super) baton: Option<String>,
}

pub(super) fn malformed(error: &serde_json::Error) -> HttpError {
    HttpError::Protocol(format!("the body cannot be read: {error}"))
}

impl Child {
    /// Returns a stream unchanged or closes it, depending on the error.
    pub(super) fn give_up(&self, stream: Stream, error: HttpError) -> HttpError {
        if error.keeps_stream() && stream.sequence > 0 {
            self.streams.put_back(stream, Instant::now());
        } else {
            self.streams.close(stream.id);
        }
        error
    }

    /// Takes the write turn if it is free, so that the run can continue on its thread.
    pub(super) fn take_free_turn(&self, stream: &mut Stream) -> bool {
        stream.turn = self.turn(stream.of.database).try_lock_owned().ok();
        stream.turn.is_some()
    }

    /// Waits for the write turn within the configured timeout. Returns `true` on timeout.
    pub(super) async fn wait_for_turn(&self, stream: &mut Stream) -> bool {
        let turn = self.turn(stream.of.database);
        stream.turn = tokio::time::timeout(self.limits().busy_timeout, turn.lock_owned()).await.ok();
        stream.turn.is_none()
    }
}

pub(super) async fn answer(
    child: Arc<Child>,
    caller: SqlCaller,
    database: DatabaseId,
    target: SqlTarget,
    body: bytes::Bytes,
    canceled: &CancellationToken,
) -> Result<Vec<u8>, HttpError> {
    let head: WithBaton = serde_json::from_slice(&body).map_err(|error| malformed(&error))?;
    let mut stream = child.enter(&caller, database, &target, head.baton.as_deref())?;
    let limits = child.limits();
    let stored = stream.stored.keys().copied().collect();
    let requests = serde_json::from_slice::<Pipeline>(&body)
        .map_err(|error| malformed(&error))
        .and_then(|read| check::pipeline(&read.requests, &stored, limits.max_batch_steps).map(|()| read.requests));
    drop(body);
    let mut run = match requests {
        Ok(requests) => PipelineRun::new(requests),
        Err(error) => return Err(child.give_up(stream, error)),
    };
    let Some(mut slot) = child.slots.enter().await else {
        return Err(child.give_up(stream, HttpError::Unavailable("too many requests are waiting; try again")));
    };
    loop {
        let id = stream.id;
        let (on, limits, canceled) = (Arc::clone(&child), limits.clone(), canceled.clone());
        let ran = spawn_blocking(move || {
            let here = slot.on_this_thread();
            let around = Around { engine: &*on.engine, limits: &limits, observer: &*on, canceled: &canceled };
            slot.set_writes(stream.turn.is_some());
            let progress = run::open(&mut stream, &around).map(|()| {
                let mut progress = run.advance(&mut stream, &around);
                while progress == RunProgress::NeedsTurn && on.take_free_turn(&mut stream) {
                    slot.set_writes(true);
                    progress = run.advance(&mut stream, &around);
                }
                progress
            });
            let clean = matches!(progress, Ok(RunProgress::Done)) && stream.settle();
            if run.is_closed && matches!(progress, Ok(RunProgress::Done)) {
                stream.session = None;
                stream.turn = None;
            }
            drop((here, slot));
            (stream, run, progress, clean)
        })
        .await;
        let Ok((back, ran, progress, clean)) = ran else {
            // The run panicked; the panic hook has logged it.
            child.streams.close(id);
            return Err(HttpError::Internal);
        };
        (stream, run) = (back, ran);
        match progress {
            Err(error) => {
                child.streams.close(stream.id);
                return Err(error);
            }
            // The client is gone, or the process ends. Dropping the stream rolls its transaction back.
            Ok(RunProgress::Canceled) => {
                child.streams.close(stream.id);
                drop(spawn_blocking(move || drop(stream)).await);
                return Err(HttpError::Unavailable("the request was canceled; try again"));
            }
            Ok(RunProgress::NeedsTurn) => run.was_denied = child.wait_for_turn(&mut stream).await,
            Ok(RunProgress::Done) if run.is_closed => {
                child.streams.close(stream.id);
                return Ok(run.answer(None));
            }
            Ok(RunProgress::Done) => {
                stream.sequence += 1;
                let baton = child.baton(&stream, stream.sequence, clean);
                child.streams.put_back(stream, Instant::now());
                return Ok(run.answer(Some(&baton)));
            }
        }
        slot = match child.slots.enter_again().await {
            Some(slot) => slot,
            None => {
                child.streams.close(stream.id);
                return Err(HttpError::Internal);
            }
        };
    }
}
