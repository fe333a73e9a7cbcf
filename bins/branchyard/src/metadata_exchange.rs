//! What servers on one Postgres tell each other, and the clock that they share.

use std::sync::Arc;
use std::time::Instant;

use branchyard_domain::Hub;
use branchyard_domain::ports::Clock;
use branchyard_domain::usecases::Signal;
use branchyard_domain::values::Timestamp;
use branchyard_storage::{Exchange, ExchangeEvent, Store};

use crate::metrics::Metrics;

/// Difference between the clocks of this machine and of Postgres from which it is logged.
const NOTED_MICROS: i64 = 1_000_000;

/// Starts to exchange signals with other servers, and to follow the clock of Postgres. Returns `None` on SQLite.
pub(crate) fn start(
    hub: &Hub,
    store: &Store,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
    listens: bool,
) -> std::io::Result<Option<Exchange>> {
    let (receiver, clock, metrics) = (hub.clone(), Arc::clone(clock), Arc::clone(metrics));
    let mut is_off = false;
    let exchange = Exchange::start(store, listens, move |event| {
        let signal = match event {
            ExchangeEvent::Clock { micros, at } => {
                follow(clock.as_ref(), &metrics, micros, at, &mut is_off);
                return;
            }
            ExchangeEvent::Missed => Signal::Any,
            // A newer server may send what this one does not know.
            ExchangeEvent::Received(text) => text.parse().unwrap_or(Signal::Any),
        };
        if let Err(error) = receiver.receive(signal) {
            tracing::debug!(error = &error as &dyn std::error::Error, "a signal of another server was not followed");
        }
    })?;
    if let Some(exchange) = exchange.as_ref().filter(|_| listens) {
        let sender = exchange.sender();
        hub.signal_peers(move |signal| sender.send(signal.to_string()));
    }
    Ok(exchange)
}

/// Follows the clock of Postgres, which showed this time at this instant.
fn follow(clock: &dyn Clock, metrics: &Metrics, micros: i64, at: Instant, is_off: &mut bool) {
    let passed = i64::try_from(at.elapsed().as_micros()).unwrap_or(i64::MAX);
    let ahead_micros = clock.machine_time().as_micros().saturating_sub(micros.saturating_add(passed));
    clock.follow(Timestamp::from_micros(micros), at);
    #[expect(clippy::cast_precision_loss, reason = "a metric")]
    metrics.clock_offset.set(ahead_micros as f64 / 1e6);
    let was_off = std::mem::replace(is_off, ahead_micros.abs() > NOTED_MICROS);
    if *is_off && !was_off {
        tracing::warn!(
            ahead_ms = ahead_micros / 1_000,
            "the clock of this machine differs from that of Postgres, which records follow; check that both machines synchronize their clocks"
        );
    }
    if was_off && !*is_off {
        tracing::info!("the clock of this machine agrees with that of Postgres again");
    }
}
