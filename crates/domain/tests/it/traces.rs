//! The trace of a request: stored with its operations and events, and sent to receivers.

use parking_lot::Mutex;

use branchyard_domain::CallContext;
use branchyard_domain::access::Admin;
use branchyard_domain::entities::{HookEvent, Operation, OperationKind};
use branchyard_domain::ports::{CancellationToken, Metadata as _};
use branchyard_domain::usecases::{
    DeliveryAttempt, DeliveryObserver, NewHook, OperationAttempt, OperationObserver, Room,
};
use branchyard_domain::values::TraceContext;

use crate::harness::{DomainHarness, world};
use crate::refs::at;

const URL: &str = "https://hook.test/";
const INSERT: &str = "INSERT INTO t VALUES (2,'two')";

fn trace(n: u8) -> Option<TraceContext> {
    TraceContext::new([n; 16], [n; 8], true)
}

impl DomainHarness {
    fn hook_for_traces(&self) {
        let access = self.access::<Admin>(&self.ada);
        let url = self.hub.hooks().address(&access, URL).unwrap();
        let events = [HookEvent::Branch, HookEvent::Push].into();
        self.hub.hooks().create(&access, NewHook { url, events, active: true }, None).unwrap();
    }

    fn stored(&self, operation: &Operation) -> Operation {
        self.fakes.metadata.read().unwrap().operations().get(operation.id).unwrap().unwrap()
    }

    /// Makes all due attempts, and returns the traces that were sent, in order.
    fn sent_traces(&self, observer: &dyn DeliveryObserver) -> Vec<Option<TraceContext>> {
        let (dispatch, room) = (self.hub.dispatch(), Room { hooks: 9, held_back: 9, slow: &[] });
        while !dispatch.fan_out().unwrap().is_empty() {}
        let mut leases = dispatch.turn("w", &[], room).unwrap().leases;
        while !leases.is_empty() {
            let attempt = |lease| dispatch.attempt_observed(lease, &CancellationToken::default(), || true, observer);
            let done: Vec<_> = leases.into_iter().map(|lease| attempt(lease).unwrap()).collect();
            leases = dispatch.turn("w", &done, room).unwrap().leases;
        }
        self.fakes.sender.sent().iter().map(|request| request.trace).collect()
    }
}

/// Records the attempts, and makes them with a child of their trace.
#[derive(Default)]
struct Recorder {
    operations: Mutex<Vec<(OperationKind, String, u32)>>,
    deliveries: Mutex<Vec<(String, u32)>>,
}

impl OperationObserver for Recorder {
    fn attempt(&self, attempt: &OperationAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>)) {
        self.operations.lock().push((attempt.kind, attempt.database.to_string(), attempt.number));
        run(attempt.trace.map(|trace| trace.child([9; 8])));
    }
}

impl DeliveryObserver for Recorder {
    fn attempt(&self, attempt: &DeliveryAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>) -> bool) {
        self.deliveries.lock().push((attempt.database.to_string(), attempt.number));
        assert!(run(attempt.trace), "the receiver accepts");
    }
}

#[test]
fn a_trace_goes_from_the_request_over_the_operation_to_the_receiver() {
    let world = world();
    world.hook_for_traces();
    let context = CallContext::new(trace(1));
    let operation = context.enter(|| world.queue("main", "main", INSERT));
    assert_eq!(world.stored(&operation).trace, trace(1));
    assert_eq!(context.subject().operation, Some(operation.id));
    assert_eq!(context.subject().database, Some(operation.locator.clone()));
    CallContext::new(trace(2)).enter(|| world.branch("other", at("main")).unwrap());
    world.branch("untraced", at("main")).unwrap();
    let recorder = Recorder::default();
    world.hub.operations().run_next_observed("worker", &recorder).unwrap().unwrap();
    let attempts = recorder.operations.lock().clone();
    assert_eq!(attempts, [(OperationKind::SqlWrite, operation.locator.to_string(), 1)]);
    let pushed = trace(1).map(|trace| trace.child([9; 8]));
    assert_eq!(world.sent_traces(&recorder), [trace(2), None, pushed]);
    let attempt = (operation.locator.to_string(), 1);
    assert_eq!(*recorder.deliveries.lock(), [attempt.clone(), attempt.clone(), attempt]);
}

#[test]
fn without_a_trace_nothing_is_stored_and_sent() {
    let world = world();
    world.hook_for_traces();
    let operation = world.queue("main", "main", INSERT);
    world.work();
    assert_eq!(world.stored(&operation).trace, None);
    assert_eq!(world.sent_traces(&Recorder::default()), [None]);
}
