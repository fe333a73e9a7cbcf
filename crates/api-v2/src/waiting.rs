//! Waiting for the end of an operation, as `Prefer: wait=<seconds>` asks for (v2 §4.5).
//!
//! A request that waits is a future with a timer: it holds no thread, no body and no claim on its idempotency key. The number of
//! such requests is bounded by that of connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use branchyard_domain::entities::{Operation, OperationStatus};
use branchyard_domain::errors::OperationError;
use branchyard_domain::usecases::ResultView;
use branchyard_http_common::{ApiResponse, HandlerError, HandlerResult, RequestContext};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::handlers::operations::{OperationPath, answer, named};
use crate::handlers::urls;
use crate::prefer;

/// Polling interval of a waiting request. Only the server that runs an operation is notified of its end, so a request on
/// another server has to poll.
const LOOK: Duration = Duration::from_secs(1);

/// Returns how long the client of a request prefers to wait; `None` if it does not say.
pub(crate) fn preferred(call: &RequestContext) -> Option<Duration> {
    prefer::wait(call.list_header("prefer").as_deref())
}

/// Completes a request whose effect is a queued operation. If the client prefers to wait and the operation ends in time, the
/// response is the operation. Otherwise it is `queued`, also if the operation cannot be read: it is accepted all the same. The
/// replay under an idempotency key waits as the first request does.
pub(crate) async fn completed(mut call: RequestContext, queued: HandlerResult) -> HandlerResult {
    let Some(wait) = preferred(&call) else { return queued };
    let queued = match queued {
        Ok(queued) => queued,
        Err(HandlerError::Replay(saved)) => *saved,
        Err(error) => return Err(error),
    };
    let Some(accepted) = accepted(&call, &queued) else { return Ok(queued) };
    call.release_body();
    match settled_within(&call, &Arc::new(accepted), Some(wait)).await {
        Ok((operation, view)) if operation.settled() => {
            Ok(answer(&operation, &view).applied(applied(wait)).standing_in_for(&queued))
        }
        Ok(_) | Err(_) => Ok(queued),
    }
}

/// Returns the value of `Preference-Applied` of a response that was waited for.
pub(crate) fn applied(wait: Duration) -> String {
    format!("wait={}", wait.as_secs())
}

/// Returns the operation that a 202 response refers to.
fn accepted(call: &RequestContext, queued: &ApiResponse) -> Option<OperationPath> {
    #[derive(Deserialize)]
    struct Enveloped {
        data: Reference,
    }
    #[derive(Deserialize)]
    struct Reference {
        id: String,
    }
    let Enveloped { data } = serde_json::from_str(queued.body()).ok()?;
    named(&data.id, urls(&call.state).root())
}

/// Returns an operation once it has settled, or as it is when `wait` is over or the server shuts down.
///
/// # Errors
/// 404 if the caller may not read the operation; 503 if the server is busy.
pub(crate) async fn settled_within(
    call: &RequestContext,
    named: &Arc<OperationPath>,
    wait: Option<Duration>,
) -> Result<(Operation, ResultView), HandlerError> {
    let until = wait.map(|wait| Instant::now() + wait);
    loop {
        let (notify, notified) = oneshot::channel();
        let watch = until.map(|_| {
            call.state.services.operations().watch(named.id, move |ended| {
                // Sending fails if the waiting request was dropped.
                let _ = notify.send(ended.clone());
            })
        });
        let (operation, view) = look(call, named).await?;
        let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        if operation.settled() || left.is_zero() || call.state.draining.load(Ordering::Relaxed) {
            return Ok((operation, view));
        }
        // Waits for the notification or the next poll. Polling is needed because another server may be running the operation.
        let notified = timeout(left.min(LOOK), notified).await;
        drop(watch);
        if let Ok(Ok(ended)) = notified
            && is_theirs(&ended, call)
        {
            return Ok((ended, ResultView::default()));
        }
    }
}

/// Returns `true` if the caller may see the complete result without another access check: the caller created the operation, and
/// the result names no database, which could have become hidden from the caller in the meantime.
fn is_theirs(operation: &Operation, call: &RequestContext) -> bool {
    let names_none = match &operation.status {
        OperationStatus::Succeeded(outcome) => outcome.database.is_none() && outcome.purged.is_none(),
        _ => true,
    };
    names_none && call.caller.user().is_some_and(|user| user.id == operation.created_by)
}

async fn look(call: &RequestContext, named: &Arc<OperationPath>) -> Result<(Operation, ResultView), HandlerError> {
    let (caller, named) = (call.caller.clone(), Arc::clone(named));
    call.read(move |hub| -> Result<_, OperationError> {
        let operation = hub.operations().get(&caller, named.id)?;
        if !named.is(hub, &caller, &operation)? {
            return Err(OperationError::NoSuchOperation);
        }
        let view = hub.operations().result_view(&caller, &operation)?;
        Ok((operation, view))
    })
    .await
}
