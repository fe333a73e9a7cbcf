//! Waits briefly for operations. Most finish before the user would have to reload the page.

use std::time::Duration;

use actix_web::rt::time::sleep;
use branchyard_domain::entities::Operation;
use branchyard_domain::values::OperationId;
use branchyard_http_common::HandlerError;

use crate::page_context::PageContext;

/// How often the operation is polled.
const LOOKS: u32 = 10;
/// The first pause. Each further pause is longer; together they take just over a second.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until an operation of the viewer is settled, but not much longer than a second.
pub(crate) async fn soon(visit: &PageContext, id: OperationId) {
    for look in 1..=LOOKS {
        let caller = visit.caller.clone();
        let found = visit.read(move |hub| hub.operations().get(&caller, id)).await;
        if found.is_ok_and(|operation| operation.settled()) {
            return;
        }
        sleep(PAUSE * look).await;
    }
}

/// Waits as [`soon`] does, and returns the operation, which may still be under way.
///
/// # Errors
/// The operation cannot be read.
pub(crate) async fn read_soon(visit: &PageContext, id: OperationId) -> Result<Operation, HandlerError> {
    soon(visit, id).await;
    let caller = visit.caller.clone();
    visit.read(move |hub| hub.operations().get(&caller, id)).await
}
