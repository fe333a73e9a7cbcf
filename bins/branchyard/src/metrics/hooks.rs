//! Metrics of events, deliveries, and attempts.

use branchyard_domain::entities::{AttemptError, DisabledReason, EventName};
use branchyard_domain::ports::Sent;
use branchyard_domain::usecases::{Attempted, Turn};
use branchyard_domain::values::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, seconds};

const EVENTS: [EventName; 3] = [EventName::Push, EventName::PullRequest, EventName::Branch];
const OUTCOMES: [&str; 11] = [
    "delivered",
    "status_4xx",
    "status_5xx",
    "status_other",
    "timeout",
    "refused",
    "dns",
    "tls",
    "blocked_address",
    "redirect",
    "connection",
];
const REASONS: [DisabledReason; 2] = [DisabledReason::Gone, DisabledReason::Failing];

/// Metrics of the webhook dispatcher.
pub(crate) struct HookMetrics {
    events: Family<Labels<1>, Counter>,
    attempts: Family<Labels<1>, Counter>,
    deliveries: Family<Labels<1>, Counter>,
    disabled: Family<Labels<1>, Counter>,
    duration: Histogram,
    lag: Histogram,
    in_flight: Gauge,
}

impl HookMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self {
            events: Family::default(),
            attempts: Family::default(),
            deliveries: Family::default(),
            disabled: Family::default(),
            duration: seconds(),
            lag: seconds(),
            in_flight: Gauge::default(),
        };
        EVENTS.into_iter().for_each(|event| drop(made.events.get_or_create(&[labelled(event)])));
        OUTCOMES.into_iter().for_each(|outcome| drop(made.attempts.get_or_create(&[("outcome", outcome.to_owned())])));
        REASONS.into_iter().for_each(|reason| drop(made.disabled.get_or_create(&[why(reason)])));
        made.delivered(0);
        made.failed(0);
        registry.register("hook_events", "Events recorded", made.events.clone());
        registry.register("hook_attempts", "Attempts to deliver", made.attempts.clone());
        registry.register("hook_deliveries", "Deliveries that ended", made.deliveries.clone());
        registry.register("hooks_disabled", "Hooks that the server switched off", made.disabled.clone());
        let (name, help) = ("hook_attempt_duration", "Duration of attempts");
        registry.register_with_unit(name, help, Unit::Seconds, made.duration.clone());
        let (name, help) = ("hook_delivery_lag", "Time from an event to the first attempt of a delivery");
        registry.register_with_unit(name, help, Unit::Seconds, made.lag.clone());
        registry.register("hook_attempts_in_flight", "Hooks with an attempt in progress", made.in_flight.clone());
        made
    }

    pub(crate) fn recorded(&self, event: EventName) {
        self.events.get_or_create(&[labelled(event)]).inc();
    }

    pub(crate) fn attempted(&self, attempted: &Attempted) {
        self.attempts.get_or_create(&[("outcome", outcome(&attempted.sent).to_owned())]).inc();
        self.duration.observe(between(attempted.started_at, attempted.ended_at));
        if let Some(event_at) = attempted.event_at {
            self.lag.observe(between(event_at, attempted.started_at));
        }
    }

    pub(crate) fn turned(&self, turn: &Turn) {
        self.delivered(turn.delivered);
        self.failed(turn.failed);
        for (_, reason) in &turn.disabled {
            self.disabled.get_or_create(&[why(*reason)]).inc();
        }
    }

    pub(crate) fn in_flight(&self, hooks: usize) {
        self.in_flight.set(i64::try_from(hooks).unwrap_or(i64::MAX));
    }

    fn delivered(&self, count: u64) {
        self.deliveries.get_or_create(&[("status", "delivered".to_owned())]).inc_by(count);
    }

    fn failed(&self, count: u64) {
        self.deliveries.get_or_create(&[("status", "failed".to_owned())]).inc_by(count);
    }
}

/// Returns the seconds between two times, or 0 if the clock was set back in between.
fn between(from: Timestamp, to: Timestamp) -> f64 {
    let micros = u64::try_from(to.as_micros().saturating_sub(from.as_micros())).unwrap_or(0);
    std::time::Duration::from_micros(micros).as_secs_f64()
}

fn labelled(event: EventName) -> (&'static str, String) {
    let word = match event {
        EventName::Push => "push",
        EventName::PullRequest => "pull_request",
        EventName::Branch => "branch",
        EventName::Ping => "ping",
    };
    ("event", word.to_owned())
}

fn why(reason: DisabledReason) -> (&'static str, String) {
    let word = match reason {
        DisabledReason::Gone => "gone",
        DisabledReason::Failing => "failing",
    };
    ("reason", word.to_owned())
}

fn outcome(sent: &Sent) -> &'static str {
    match (sent.error, sent.reply.as_ref().map(|reply| reply.status)) {
        (Some(AttemptError::Timeout), _) => "timeout",
        (Some(AttemptError::Refused), _) => "refused",
        (Some(AttemptError::Dns), _) => "dns",
        (Some(AttemptError::Tls), _) => "tls",
        (Some(AttemptError::BlockedAddress), _) => "blocked_address",
        (Some(AttemptError::Redirect), _) => "redirect",
        (Some(AttemptError::Connection), _) => "connection",
        (None, Some(200..=299)) => "delivered",
        (None, Some(400..=499)) => "status_4xx",
        (None, Some(500..=599)) => "status_5xx",
        (None, _) => "status_other",
    }
}
