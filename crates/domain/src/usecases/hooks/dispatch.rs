//! Dispatch of events from the outbox to their receivers. All state is in the store, so the leases of a dispatcher that dies
//! simply expire.

use std::collections::HashMap;

use super::super::Inner;
use super::schedule::next_attempt;
use super::{delivery_id, queued};
use crate::entities::{Delivery, DeliveryStatus, DisabledReason, EventName, Hook, HookEvent, Request};
use crate::errors::PortError;
use crate::ports::{
    CancellationToken, DeliveryBacklog, DueDelivery, Durability, Lease, Places, RetryAfter, Sent, Transaction,
    WebhookRequest, WriteKeys,
};
use crate::usecases::observers::{DeliveryAttempt, DeliveryObserver, Unobserved};
use crate::values::{AttemptId, DeliveryId, EventId, HookId, Timestamp, TraceContext};

/// Number of attempts that the log keeps per delivery.
const ATTEMPTS_KEPT: usize = 50;
/// Seconds by which a lease outlives the longest attempt.
const LEASE_MARGIN_SECONDS: i64 = 15;
/// Limits of one fan-out transaction: the maximum number of events, and the number of deliveries after which no further
/// event is started.
const EVENTS_AT_ONCE: usize = 50;
const DELIVERIES_AT_ONCE: usize = 1_000;
/// Maximum number of deliveries removed in one transaction.
const PURGED_AT_ONCE: usize = 1_000;
/// Milliseconds for which attempts to one hook go on before they are recorded. The attempts recorded together share one
/// commit to disk. A hook that is disabled meanwhile receives attempts for that much longer.
const RUN_MS: u64 = 50;
/// Maximum number of deliveries that one lease covers.
const RUN_LENGTH: usize = 64;
/// HTTP status 410 (Gone, RFC 9110 §15.5.11): the receiver wants no further deliveries.
const GONE: u16 = 410;

/// A finished delivery attempt.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// The delivery that was attempted.
    pub delivery: DeliveryId,
    /// Id of the attempt.
    pub id: AttemptId,
    /// The address that the request went to.
    pub url: String,
    /// Start of the attempt, by the clock of the server.
    pub started_at: Timestamp,
    /// End of the attempt, by the clock of the server.
    pub ended_at: Timestamp,
    /// The outcome of the attempt.
    pub sent: Sent,
    /// When the event was recorded, if this was the first attempt.
    pub event_at: Option<Timestamp>,
}

/// Limits on the hooks that one turn may lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room<'a> {
    /// Maximum number of hooks.
    pub hooks: usize,
    /// Maximum number of hooks among them that are slow or whose last attempt failed.
    pub held_back: usize,
    /// Hooks that the dispatcher found to be slow.
    pub slow: &'a [HookId],
}

impl<'a> Room<'a> {
    fn places(self) -> Places<'a> {
        Places { hooks: self.hooks, held_back: self.held_back, run: RUN_LENGTH, slow: self.slow }
    }
}

/// The attempts made under one lease.
#[derive(Debug, Clone)]
pub struct Run {
    /// The lease, without its deliveries.
    pub lease: Lease,
    /// The attempts in order. Deliveries without an attempt stay due.
    pub attempted: Vec<Attempted>,
}

/// The result of a turn of the dispatcher.
#[derive(Debug)]
pub struct Turn {
    /// Leases whose deliveries may be attempted now.
    pub leases: Vec<Lease>,
    /// Hooks that the recorded attempts caused to be disabled.
    pub disabled: Vec<(HookId, DisabledReason)>,
    /// Number of deliveries that the recorded attempts completed.
    pub delivered: u64,
    /// Number of deliveries that failed for good, including those given up because their hook was disabled.
    pub failed: u64,
}

/// One moment on the clock of the server and on that of the machine, which may have been set back.
#[derive(Debug, Clone, Copy)]
struct Lead {
    server: Timestamp,
    machine: Timestamp,
}

impl Lead {
    /// Converts a date of the receiver, whose clock is like that of the machine, to the time of the server.
    fn on_the_server(self, patience: RetryAfter) -> RetryAfter {
        match patience {
            RetryAfter::Seconds(_) => patience,
            RetryAfter::At(at) => {
                let wait = at.as_micros().saturating_sub(self.machine.as_micros());
                RetryAfter::At(Timestamp::from_micros(self.server.as_micros().saturating_add(wait)))
            }
        }
    }
}

/// Use cases of the webhook dispatcher.
pub struct Dispatch<'a>(&'a Inner);

impl<'a> Dispatch<'a> {
    pub(in super::super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns `true` if an event waits for its deliveries to be created, or a delivery is due that `room` permits. Changes
    /// nothing.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn is_due(&self, room: Room<'_>) -> Result<bool, PortError> {
        let mut tx = self.0.ports.metadata.read()?;
        Ok(!tx.events().list_waiting(1)?.is_empty() || tx.deliveries().is_due(self.0.now(), room.places())?)
    }

    /// Creates the deliveries of the next events, in the order in which the events were recorded, and returns the names of
    /// these events. The deliveries of one event are created in one transaction, so no other transaction sees only some of
    /// them.
    ///
    /// # Errors
    /// [`PortError`]; no deliveries were created then.
    pub fn fan_out(&self) -> Result<Vec<EventName>, PortError> {
        if self.0.ports.metadata.read()?.events().list_waiting(1)?.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let FannedOut { events, deliveries } = fan_out(self.0, tx.as_mut())?;
        match deliveries {
            // No hook subscribes to these events. If the commit is lost, the events are found again.
            0 => tx.commit(Durability::Unsynced)?,
            // The ids of deliveries are final from here on, because receivers use them to recognize duplicates.
            _ => tx.commit(Durability::Synced)?,
        }
        Ok(events)
    }

    /// Records the attempts made under leases and ends these leases, then leases hooks with due deliveries, as many as
    /// `room` permits. Failing and slow hooks get only a part of `room`, so that they cannot crowd out the others.
    ///
    /// # Errors
    /// [`PortError`]; neither step took effect then, and the call can be repeated.
    pub fn turn(&self, holder: &str, done: &[Run], room: Room<'_>) -> Result<Turn, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let (mut released, mut disabled) = (Vec::with_capacity(done.len()), Vec::new());
        let (mut delivered, mut failed) = (0, 0);
        let leases: Vec<_> = done.iter().map(|run| (run.lease.hook.id, run.lease.until)).collect();
        let held = tx.deliveries().held(holder, &leases)?.into_iter();
        let mut held: HashMap<_, _> = held.map(|(hook, until)| ((hook.id, until), hook)).collect();
        let ids: Vec<_> = done.iter().flat_map(|run| &run.attempted).map(|attempted| attempted.delivery).collect();
        let known = tx.deliveries().get_all(&ids)?.into_iter();
        let mut known: HashMap<_, _> = known.map(|delivery| (delivery.id, delivery)).collect();
        for Run { lease, attempted } in done {
            // A dispatcher that lost its lease cannot record attempts, because another one repeats them. The same applies if
            // the hook was deleted.
            let Some(mut hook) = held.remove(&(lease.hook.id, lease.until)) else { continue };
            let before = hook.clone();
            for attempted in attempted {
                let Some(delivery) = known.remove(&attempted.delivery) else { continue };
                match self.record(tx.as_mut(), &mut hook, delivery, attempted)? {
                    DeliveryStatus::Delivered { .. } => delivered += 1,
                    DeliveryStatus::Failed { .. } => failed += 1,
                    DeliveryStatus::Pending { .. } => {}
                }
            }
            if hook != before {
                tx.hooks().update(&hook)?;
            }
            if let (true, false, Some(last)) = (before.active, hook.active, attempted.last()) {
                failed += tx.deliveries().give_up(hook.id, last.ended_at)?;
                disabled.extend(hook.disabled_reason.map(|reason| (hook.id, reason)));
            }
            released.push(hook.id);
        }
        tx.deliveries().release(&released)?;
        let leases = match room.hooks {
            0 => Vec::new(),
            _ => {
                let now = self.0.now();
                let until = now.plus_millis(self.0.limits.hook_timeout_ms).plus_seconds(LEASE_MARGIN_SECONDS);
                tx.deliveries().lease(holder, now, until, room.places())?
            }
        };
        match done {
            // Only leases were taken. If the commit is lost, their deliveries are due as before.
            [] => tx.commit(Durability::Unsynced)?,
            _ => tx.commit(Durability::Synced)?,
        }
        Ok(Turn { leases, disabled, delivered, failed })
    }

    /// Builds the request for a delivery, with a new attempt id. Returns `None` if the hook's present secret cannot be opened.
    fn parcel(
        &self,
        hook: &Hook,
        due: DueDelivery,
        trace: Option<TraceContext>,
        canceled: &CancellationToken,
    ) -> Option<WebhookRequest> {
        let DueDelivery { delivery, body, trace: _ } = due;
        let now = self.0.now();
        let vault = &self.0.ports.vault;
        let previous = hook.previous_secret.as_ref().filter(|previous| previous.until > now);
        // A previous secret whose key was lost is left out: the receiver was given the present one because of that.
        let previous = previous.and_then(|previous| vault.open(hook.id, &previous.secret));
        Some(WebhookRequest {
            url: hook.url.clone(),
            delivery: delivery.id,
            attempt: AttemptId::from_uuid(self.0.ports.ids.uuid(now)),
            at: self.0.ports.clock.machine_time(),
            event: delivery.event,
            body,
            secrets: std::iter::once(vault.open(hook.id, &hook.secret)?).chain(previous).collect(),
            trace,
            canceled: canceled.clone(),
        })
    }

    /// Attempts the deliveries of a lease one after the other, and blocks until the last attempt has ended. Stops when an
    /// attempt fails, `go_on` returns `false`, the lease does not cover another attempt, or 50 ms have passed. Returns
    /// `None` if the hook's present secret cannot be opened; the lease then expires, and the delivery is attempted again.
    ///
    /// Once `canceled`, the attempt under way is aborted and no further one is made. The aborted delivery stays due.
    pub fn attempt(&self, lease: Lease, canceled: &CancellationToken, go_on: impl Fn() -> bool) -> Option<Run> {
        self.attempt_observed(lease, canceled, go_on, &Unobserved)
    }

    /// Attempts the deliveries of a lease as [`Dispatch::attempt`] does, and lets `observer` observe each attempt.
    pub fn attempt_observed(
        &self,
        mut lease: Lease,
        canceled: &CancellationToken,
        go_on: impl Fn() -> bool,
        observer: &dyn DeliveryObserver,
    ) -> Option<Run> {
        let mut attempted: Vec<Attempted> = Vec::new();
        for due in std::mem::take(&mut lease.deliveries) {
            let delivery = due.delivery.clone();
            let now = self.0.now();
            let covered = now.plus_millis(self.0.limits.hook_timeout_ms) < lease.until;
            let in_time = attempted.first().is_none_or(|first| now < first.started_at.plus_millis(RUN_MS));
            if !covered || !in_time || canceled.is_canceled() || !go_on() {
                break;
            }
            let subject = DeliveryAttempt {
                delivery: &delivery,
                database: &lease.database,
                number: delivery.attempt_count.saturating_add(1),
                trace: due.trace,
            };
            let (mut due, mut sent) = (Some(due), None);
            observer.attempt(&subject, &mut |trace| {
                let parcel = due.take().and_then(|due| self.parcel(&lease.hook, due, trace, canceled));
                sent = parcel.map(|parcel| (self.0.ports.sender.send(&parcel), parcel));
                sent.as_ref().is_some_and(|(sent, _)| sent.as_ref().is_some_and(Sent::delivered))
            });
            let (sent, parcel) = sent?;
            // An aborted attempt does not count: the delivery is repeated, and the receiver recognizes it by its id.
            let Some(mut sent) = sent else { break };
            let (delivered, ended_at) = (sent.delivered(), self.0.now());
            if let Some(reply) = &mut sent.reply {
                let lead = Lead { server: ended_at, machine: self.0.ports.clock.machine_time() };
                reply.retry_after = reply.retry_after.map(|patience| lead.on_the_server(patience));
            }
            let WebhookRequest { attempt: id, url, .. } = parcel;
            let event_at = (delivery.attempt_count == 0).then(|| recorded_at(delivery.event_id)).flatten();
            attempted.push(Attempted { delivery: delivery.id, id, url, started_at: now, ended_at, sent, event_at });
            if !delivered {
                break;
            }
        }
        Some(Run { lease, attempted })
    }

    /// Aborts the attempts under way and prevents further ones, for a server that has to stop at once.
    pub fn abort(&self) {
        self.0.ports.sender.abort();
    }

    /// Records an attempt and returns the new status of the delivery.
    fn record(
        &self,
        tx: &mut dyn Transaction,
        hook: &mut Hook,
        mut delivery: Delivery,
        attempted: &Attempted,
    ) -> Result<DeliveryStatus, PortError> {
        let Attempted { delivery: _, id, url, started_at, ended_at, sent, event_at: _ } = attempted;
        let micros = ended_at.as_micros().saturating_sub(started_at.as_micros());
        let attempt = sent.attempt(*id, *started_at, u64::try_from(micros / 1_000).unwrap_or(0));
        let request = Request { url: url.clone(), headers: sent.headers.clone() };
        delivery.attempt_count += 1;
        delivery.run_attempts += 1;
        // A delivery that was given up while the attempt ran stays failed, unless the receiver accepted it.
        if sent.delivered() {
            delivery.status = DeliveryStatus::Delivered { finished_at: *ended_at };
        } else if delivery.is_pending() {
            delivery.status = self.after_failure(&delivery.event, delivery.run_attempts, *ended_at, sent);
        }
        tx.attempts().add(&delivery, &attempt, &request, ATTEMPTS_KEPT)?;
        if delivery.event != EventName::Ping {
            self.judge(hook, !delivery.is_pending(), *ended_at, sent);
        }
        Ok(delivery.status)
    }

    fn after_failure(&self, event: &EventName, attempts: u32, now: Timestamp, sent: &Sent) -> DeliveryStatus {
        let mut random = [0; 4];
        self.0.ports.ids.fill(&mut random);
        let retry_after = sent.reply.as_ref().and_then(|reply| reply.retry_after);
        let delays = &self.0.limits.hook_retry_delays_ms;
        match next_attempt(delays, *event, attempts, now, u32::from_be_bytes(random), retry_after) {
            Some(next_attempt_at) => DeliveryStatus::Pending { next_attempt_at },
            None => DeliveryStatus::Failed { finished_at: now },
        }
    }

    /// Updates the failure state of a hook after an attempt. Disables the hook if it has failed for too long or replied with
    /// [`GONE`].
    fn judge(&self, hook: &mut Hook, last: bool, now: Timestamp, sent: &Sent) {
        if sent.delivered() {
            hook.succeeded();
            return;
        }
        let failing = hook.failed(now, last, self.0.limits.hook_disable_after_seconds);
        if sent.reply.as_ref().is_some_and(|reply| reply.status == GONE) {
            hook.disable(DisabledReason::Gone, now);
        } else if failing {
            hook.disable(DisabledReason::Failing, now);
        }
    }

    /// Ends the leases that a former process of this holder left behind, and returns their number.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn recover(&self, holder: &str) -> Result<u64, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let freed = tx.deliveries().recover(holder)?;
        tx.commit(Durability::Synced)?;
        Ok(freed)
    }

    /// Removes deliveries whose retention has passed, and events without remaining deliveries.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn tidy(&self) -> Result<(), PortError> {
        let before = self.0.now().plus_seconds(-self.0.limits.hook_log_retention_seconds);
        loop {
            let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
            let removed = tx.deliveries().purge(before, PURGED_AT_ONCE)?;
            if removed < u64::try_from(PURGED_AT_ONCE).unwrap_or(u64::MAX) {
                tx.events().purge()?;
                tx.commit(Durability::Synced)?;
                return Ok(());
            }
            tx.commit(Durability::Synced)?;
        }
    }

    /// Returns the number of waiting events and deliveries.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn backlog(&self) -> Result<DeliveryBacklog, PortError> {
        Ok(self.0.ports.metadata.read()?.deliveries().backlog(self.0.now())?)
    }

    /// Returns how often the outbox was signaled in this process. Pass a count that was read before looking for work to
    /// [`Dispatch::wait`], so that no signal is missed.
    pub fn signals(&self) -> u64 {
        self.0.outbox.count()
    }

    /// Waits until the outbox has been signaled since `seen`, for at most `at_most`.
    pub fn wait(&self, seen: u64, at_most: std::time::Duration) {
        self.0.outbox.wait(seen, at_most);
    }

    /// Wakes a waiting dispatcher, because work ended or the server shuts down.
    pub fn wake(&self) {
        self.0.outbox.one();
    }
}

/// Returns when an event was recorded, in milliseconds precision, from its version 7 UUID.
fn recorded_at(event: EventId) -> Option<Timestamp> {
    let (seconds, nanos) = event.as_uuid().get_timestamp()?.to_unix();
    let seconds = Timestamp::from_seconds(i64::try_from(seconds).ok()?);
    Some(seconds.plus_millis(u64::from(nanos / 1_000_000)))
}

/// The events of a fan-out, and the number of their deliveries.
struct FannedOut {
    events: Vec<EventName>,
    deliveries: usize,
}

/// Creates the deliveries of a batch of events. See [`Dispatch::fan_out`].
fn fan_out(inner: &Inner, tx: &mut dyn Transaction) -> Result<FannedOut, PortError> {
    let (mut events, mut deliveries) = (Vec::new(), 0);
    for event in tx.events().list_waiting(EVENTS_AT_ONCE)? {
        let now = inner.now();
        let name = event.kind.name();
        let wanted = match HookEvent::of(name) {
            Some(wanted) => tx.hooks().list_subscribed(event.database_id, wanted)?,
            None => Vec::new(),
        };
        deliveries += wanted.len();
        let queue = |(hook, last)| queued(hook, event.id, name, delivery_id(inner, now, last), now);
        tx.deliveries().add(&wanted.into_iter().map(queue).collect::<Vec<_>>())?;
        tx.events().mark_dispatched(event.id, now)?;
        events.push(name);
        if deliveries >= DELIVERIES_AT_ONCE {
            break;
        }
    }
    Ok(FannedOut { events, deliveries })
}

/// Creates the deliveries of all events recorded so far, so that a hook about to be added or changed receives none of them
/// on its new terms.
pub(super) fn settle_waiting(inner: &Inner, tx: &mut dyn Transaction) -> Result<(), PortError> {
    while !fan_out(inner, tx)?.events.is_empty() {}
    Ok(())
}
