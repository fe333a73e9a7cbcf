//! Signals between processes on one metadata store.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use branchyard_domain::Hub;
use branchyard_domain::usecases::Signal;

use crate::harness::world;

#[test]
fn what_is_committed_is_signalled_and_what_is_received_is_not() {
    let world = world();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&sent);
    world.hub.signal_peers(move |signal| kept.lock().unwrap().push(signal));
    let queued = world.queue("main", "main", "INSERT INTO t VALUES (2,'two')");
    assert_eq!(*sent.lock().unwrap(), [Signal::Operation]);
    world.work();
    assert!(sent.lock().unwrap().contains(&Signal::Settled(queued.id)));
    sent.lock().unwrap().clear();
    for signal in
        [Signal::Operation, Signal::Event, Signal::Fetch, Signal::Revocation, Signal::Settled(queued.id), Signal::Any]
    {
        world.hub.receive(signal).unwrap();
    }
    assert!(sent.lock().unwrap().is_empty(), "signals do not go round");
}

#[test]
fn who_waits_for_an_operation_learns_that_another_process_settled_it() {
    let world = world();
    let (give, take) = mpsc::channel();
    let queued = world.queue("main", "main", "INSERT INTO t VALUES (2,'two')");
    // Another process, on the same metadata.
    let fakes = &world.fakes;
    let other =
        Hub::builder(fakes.metadata.clone(), fakes.engine.clone()).build(fakes.clock.clone(), fakes.ids.clone());
    let watch =
        |give: mpsc::Sender<_>| other.operations().watch(queued.id, move |operation| give.send(operation.id).unwrap());
    let _watch = watch(give.clone());
    other.receive(Signal::Settled(queued.id)).unwrap();
    assert!(take.try_recv().is_err(), "it has not settled");
    world.work();
    assert!(take.try_recv().is_err(), "no signal has come");
    other.receive(Signal::Settled(queued.id)).unwrap();
    assert_eq!(take.recv_timeout(Duration::from_secs(5)).unwrap(), queued.id);
    let _again = watch(give);
    other.receive(Signal::Any).unwrap();
    assert_eq!(take.recv_timeout(Duration::from_secs(5)).unwrap(), queued.id);
}

#[test]
fn a_received_signal_wakes_who_waits() {
    let world = world();
    let operations = world.hub.operations();
    let seen = operations.signals();
    world.hub.receive(Signal::Operation).unwrap();
    let began = std::time::Instant::now();
    operations.wait(seen, Duration::from_secs(30));
    assert!(began.elapsed() < Duration::from_secs(10));
}
