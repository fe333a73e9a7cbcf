//! Operations that pages wait for, briefly: most are over before anybody would have to look again.

use std::time::Duration;

use actix_web::rt::time::sleep;
use branchyard_domain::values::OperationId;

use crate::page_context::PageContext;

/// How often one looks.
const LOOKS: u32 = 10;
/// The first pause; each is longer than the one before. All of them together are just over a second.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until an operation of the visitor is settled, or not much longer than a second.
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
