//! What servers on one Postgres tell each other, and the clock that they share.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use branchyard_storage::{Exchange, ExchangeEvent, Store};

use crate::home::Home;

const PATIENCE: Duration = Duration::from_secs(10);

fn start(store: &Store, notifies: bool) -> Option<(Exchange, Receiver<ExchangeEvent>)> {
    let (give, take) = channel();
    let report = move |event| {
        let _ = give.send(event);
    };
    Exchange::start(store, notifies, report).unwrap().map(|exchange| (exchange, take))
}

/// Waits for an event, and skips others.
fn wait_for(events: &Receiver<ExchangeEvent>, wanted: impl Fn(&ExchangeEvent) -> bool) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if wanted(&events.recv_timeout(PATIENCE).unwrap()) {
            return;
        }
    }
    panic!("the event did not come");
}

fn is_received(text: &str) -> impl Fn(&ExchangeEvent) -> bool {
    move |event| *event == ExchangeEvent::Received(text.to_owned())
}

#[test]
fn others_receive_what_a_server_sends_and_it_does_not() {
    let Some(home) = Home::postgres() else { return };
    let (one, other) = (home.open(), home.open());
    let (here, heard_here) = start(&one, true).unwrap();
    let (there, heard_there) = start(&other, true).unwrap();
    for heard in [&heard_here, &heard_there] {
        wait_for(heard, |event| *event == ExchangeEvent::Missed);
        wait_for(heard, |event| matches!(event, ExchangeEvent::Clock { .. }));
    }
    here.sender().send("from-here".to_owned());
    wait_for(&heard_there, is_received("from-here"));
    for number in 0..3_000 {
        there.sender().send(format!("n{number}"));
    }
    wait_for(&heard_here, |event| *event == ExchangeEvent::Missed || is_received("n0")(event));
    // It is left out, too, while too many messages wait.
    let until = Instant::now() + PATIENCE;
    while !heard_here.try_iter().any(|event| is_received("last")(&event)) {
        assert!(Instant::now() < until, "the last message does not arrive");
        there.sender().send("last".to_owned());
        std::thread::sleep(Duration::from_millis(20));
    }
    let own: Vec<_> = heard_there.try_iter().filter(is_received("last")).collect();
    assert!(own.is_empty());
}

#[test]
fn a_cut_connection_is_opened_again_and_reported() {
    let Some(home) = Home::postgres() else { return };
    let (one, other) = (home.open(), home.open());
    let (here, _heard) = start(&one, true).unwrap();
    let (_there, heard) = start(&other, true).unwrap();
    wait_for(&heard, |event| matches!(event, ExchangeEvent::Clock { .. }));
    home.lines(
        "SELECT CAST(count(pg_terminate_backend(pid)) AS TEXT) AS line FROM pg_stat_activity
         WHERE application_name = 'branchyard exchange' AND datname = current_database()",
    );
    wait_for(&heard, |event| *event == ExchangeEvent::Missed);
    // The other end may still be on its way back. What was sent meanwhile is sent then.
    let began = Instant::now();
    here.sender().send("again".to_owned());
    wait_for(&heard, |event| is_received("again")(event) || began.elapsed() > Duration::from_secs(3));
}

#[test]
fn without_notifications_only_the_clocks_are_compared() {
    let Some(home) = Home::postgres() else { return };
    let store = home.open();
    let (exchange, heard) = start(&store, false).unwrap();
    exchange.sender().send("nothing".to_owned());
    let first = heard.recv_timeout(PATIENCE).unwrap();
    let ExchangeEvent::Clock { micros, at } = first else { panic!("{first:?}") };
    let (read, then) = store.server_clock().unwrap().unwrap();
    let passed = i64::try_from((then - at).as_micros()).unwrap();
    assert!((read - micros - passed).abs() < 1_000_000, "the same clock");
    assert!(start(&Home::sqlite().ready(), true).is_none(), "SQLite is used by one server");
    assert!(Home::sqlite().ready().server_clock().unwrap().is_none());
}
