//! The priority of threads at the processor. A thread that computes for a slow call lowers its priority, so that short calls precede
//! it. Without a privilege a thread cannot raise its priority again, so that it ends with its call.

use std::cell::Cell;

use crate::sync::{OsThread, thread_local};

thread_local! {
    static IS_LOWERED: Cell<bool> = const { Cell::new(false) };
}

/// Lowers the priority of this thread for the rest of its life.
pub(crate) fn lower() {
    if !IS_LOWERED.replace(true) {
        OsThread::lower_current();
    }
}

/// Returns `true` if the priority of this thread was lowered.
pub(crate) fn is_lowered() -> bool {
    IS_LOWERED.get()
}

/// Records on this thread that another thread has lowered its priority ([`OsThread::lower`]).
pub(crate) fn mark_as_lowered() {
    IS_LOWERED.set(true);
}
