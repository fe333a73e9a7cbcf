//! The context of a call: the trace that it belongs to, and what it turned out to concern.
//!
//! A server handles many calls on few threads. An adapter enters the context of a call on each thread that works for the call.
//! Use cases read the trace from there when they record operations and events, and note the database and the operation that
//! the call concerns, for the adapter's log. Without a context, nothing is recorded, and everything else works alike.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::entities::{Database, DatabaseLocator, Role};
use crate::values::{AccountId, CommitHash, DatabaseId, OperationId, RefName, TraceContext};

thread_local! {
    static CURRENT: RefCell<Option<Arc<CallContext>>> = const { RefCell::new(None) };
}

/// The database and the operation that a call concerns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSubject {
    /// The database that the caller was allowed to see, and addressed first.
    pub database: Option<DatabaseLocator>,
    /// The operation that was accepted or read first.
    pub operation: Option<OperationId>,
}

/// The context of a call.
#[derive(Debug, Default)]
pub struct CallContext {
    trace: Option<TraceContext>,
    subject: Mutex<CallSubject>,
    foreseen: Mutex<Foreseen>,
}

/// What the first look-ups of a call found in one statement ([`Metadata::request_facts`](crate::ports::Metadata::request_facts)). Each
/// answers one look-up, once.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    /// Anything else may have changed by the time of a later look-up.
    read_at: Option<Instant>,
    pub(crate) access: Option<(AccountId, Database, Role)>,
    pub(crate) head: Option<(DatabaseId, Option<RefName>, CommitHash)>,
    pub(crate) format: Option<(DatabaseId, u32)>,
}

/// Maximum time from the statement to the look-up that it answers.
const FORESEEN_FOR: Duration = Duration::from_secs(1);

impl Foreseen {
    pub(crate) fn now() -> Self {
        Self { read_at: Some(Instant::now()), ..Self::default() }
    }
}

impl CallContext {
    /// Creates the context of a call.
    #[must_use]
    pub fn new(trace: Option<TraceContext>) -> Arc<Self> {
        Arc::new(Self { trace, ..Self::default() })
    }

    /// Returns the context that this thread works in.
    #[must_use]
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Runs `work` in this context, and restores the former one afterwards, also after a panic.
    pub fn enter<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let _entered = self.begin();
        work()
    }

    /// Enters this context until the returned value is dropped, which restores the former one.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> EnteredContext {
        EnteredContext { former: CURRENT.replace(Some(Arc::clone(self))), on_this_thread: PhantomData }
    }

    /// Returns what the call concerns, as far as that is known by now.
    #[must_use]
    pub fn subject(&self) -> CallSubject {
        self.subject.lock().clone()
    }
}

/// A context that a thread has entered.
#[derive(Debug)]
pub struct EnteredContext {
    former: Option<Arc<CallContext>>,
    /// It must be dropped on the thread that it was created on.
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for EnteredContext {
    fn drop(&mut self) {
        CURRENT.set(self.former.take());
    }
}

/// Returns the trace that the current call belongs to.
pub(crate) fn trace() -> Option<TraceContext> {
    CURRENT.with_borrow(|current| current.as_ref()?.trace)
}

fn note(change: impl FnOnce(&mut CallSubject)) {
    CURRENT.with_borrow(|current| {
        if let Some(context) = current {
            change(&mut context.subject.lock());
        }
    });
}

/// Records the database of the current call, unless one is recorded.
pub(crate) fn note_database(database: &DatabaseLocator) {
    note(|subject| {
        subject.database.get_or_insert_with(|| database.clone());
    });
}

/// Records the operation of the current call, unless one is recorded.
pub(crate) fn note_operation(operation: OperationId) {
    note(|subject| {
        subject.operation.get_or_insert(operation);
    });
}

/// Keeps what was read for the next look-ups of the current call.
pub(crate) fn foresee(foreseen: Foreseen) {
    CURRENT.with_borrow(|current| {
        if let Some(context) = current {
            *context.foreseen.lock() = foreseen;
        }
    });
}

/// Takes what was read for a look-up of the current call.
pub(crate) fn take_foreseen<T>(take: impl FnOnce(&mut Foreseen) -> Option<T>) -> Option<T> {
    CURRENT.with_borrow(|current| {
        let mut foreseen = current.as_ref()?.foreseen.lock();
        if foreseen.read_at?.elapsed() > FORESEEN_FOR {
            return None;
        }
        take(&mut foreseen)
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{CallContext, note_operation, trace};
    use crate::values::{OperationId, TraceContext};

    #[test]
    fn a_context_holds_on_its_thread_until_its_work_ends() {
        let outer = TraceContext::new([1; 16], [1; 8], true);
        let inner = TraceContext::new([2; 16], [2; 8], true);
        assert_eq!(trace(), None);
        CallContext::new(outer).enter(|| {
            assert_eq!(trace(), outer);
            let panicked = catch_unwind(AssertUnwindSafe(|| CallContext::new(inner).enter(|| panic!("as planned"))));
            assert!(panicked.is_err());
            assert_eq!(trace(), outer, "after a panic");
            std::thread::spawn(|| assert_eq!(trace(), None)).join().unwrap();
        });
        assert_eq!(trace(), None);
    }

    #[test]
    fn the_first_operation_counts() {
        let (first, second) =
            (OperationId::from_uuid(uuid::Uuid::from_u128(1)), OperationId::from_uuid(uuid::Uuid::nil()));
        note_operation(first);
        let context = CallContext::new(None);
        context.enter(|| {
            note_operation(first);
            note_operation(second);
        });
        assert_eq!(context.subject().operation, Some(first));
    }
}
