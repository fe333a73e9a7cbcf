//! SQL writes that run while their client waits (v2 §4.5), without being queued first.

use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::errors::{OperationError, PortError};
use branchyard_domain::usecases::{DirectProgress, DirectWaiter, KeepAnswer, ResultView, SqlWrite};
use branchyard_http_common::{ApiError, ClaimedKey, HandlerResult, RequestContext, Urls};
use branchyard_problem_details::Problem;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use crate::handlers::operations::answer;
use crate::handlers::{accepted, urls};
use crate::waiting;

/// An SQL write whose request has been checked.
pub(crate) struct CheckedWrite {
    pub(crate) access: DatabaseAccess<Write>,
    pub(crate) key: ClaimedKey,
    pub(crate) wanted: SqlWrite,
}

/// How a direct write ended.
pub(crate) enum DirectEnd {
    /// With this response.
    Answered(HandlerResult),
    /// It has not run, and has to be queued.
    Queue(Box<CheckedWrite>),
}

/// The request that waits.
struct WaitingRequest {
    sender: UnboundedSender<DirectProgress>,
    urls: Urls,
    /// Held until the write has ended, or until it is queued.
    key: Mutex<Option<ClaimedKey>>,
}

impl DirectWaiter for WaitingRequest {
    fn notify(&self, progress: DirectProgress) -> Result<(), DirectProgress> {
        self.sender.send(progress).map_err(|unsent| unsent.0)
    }

    fn with_key(&self, keep: &mut KeepAnswer<'_>) -> Result<(), PortError> {
        match &*self.key.lock() {
            Some(key) => key.with_record(|operation| accepted(operation, &self.urls), keep),
            None => keep(None),
        }
    }
}

/// Runs a write while its client waits, for up to `wait` and until it ends once it has begun.
pub(crate) async fn run(call: &RequestContext, write: CheckedWrite, wait: Duration) -> DirectEnd {
    let services = &call.state.services;
    let CheckedWrite { access, key, wanted } = write;
    if services.is_storage_low() || services.is_read_only() {
        return DirectEnd::Queue(Box::new(CheckedWrite { access, key, wanted }));
    }
    let (sender, mut inbox) = unbounded_channel();
    let key = Mutex::new(Some(key));
    let waiting = Arc::new(WaitingRequest { sender, urls: urls(&call.state), key });
    let queue = |access, wanted| {
        let key = waiting.key.lock().take().unwrap_or_else(ClaimedKey::none);
        DirectEnd::Queue(Box::new(CheckedWrite { access, key, wanted }))
    };
    let Some(place) = services.operations().write_directly(&access, &wanted, Arc::clone(&waiting) as _) else {
        return queue(access, wanted);
    };
    let mut until = Some(Instant::now() + wait);
    loop {
        let progress = match until {
            Some(until) => timeout_at(until, inbox.recv()).await,
            None => Ok(inbox.recv().await),
        };
        match progress {
            Ok(Some(DirectProgress::Run(turn))) => {
                let run = call.write(move |hub| -> Result<(), ApiError> {
                    turn.run(hub);
                    Ok(())
                });
                // The turn was passed on, and may hold this write if it is no longer in the line.
                if let Err(error) = run.await
                    && place.leave()
                {
                    return DirectEnd::Answered(Err(error));
                }
            }
            Ok(Some(DirectProgress::Ended(operation))) => {
                // The client may repeat the request as soon as it is answered.
                drop(waiting.key.lock().take());
                let answer = answer(&operation, &ResultView::default()).applied(waiting::applied(wait));
                return DirectEnd::Answered(Ok(answer));
            }
            Ok(Some(DirectProgress::Queue)) => return queue(access, wanted),
            Ok(Some(DirectProgress::Fault(fault))) => {
                let failed = call.read(move |_| Err(OperationError::Port(fault))).await;
                return DirectEnd::Answered(failed);
            }
            Ok(None) => return DirectEnd::Answered(Err(Problem::internal().into())),
            Err(_) if place.leave() => return queue(access, wanted),
            Err(_) => until = None,
        }
    }
}
