//! From the outbox to the receivers, step by step. All of it is in the store: a dispatcher that dies leaves leases that run out.

use std::collections::HashMap;

use super::super::Inner;
use super::schedule::next_attempt;
use super::{delivery_id, queued};
use crate::entities::{Delivery, DeliveryStatus, DisabledReason, EventName, Hook, HookEvent, Request};
use crate::errors::Fault;
use crate::ports::{CancellationToken, DeliveryBacklog, Durability, Lease, Places, Sent, Transaction, WebhookRequest};
use crate::values::{AttemptId, DeliveryId, EventId, HookId, Timestamp};

/// Attempts that the log keeps of a delivery.
const ATTEMPTS_KEPT: usize = 50;
/// Seconds that a lease outlives the longest attempt.
const LEASE_MARGIN_SECONDS: i64 = 15;
/// Events whose deliveries are made in one transaction, and deliveries after which no further event is begun in it.
const EVENTS_AT_ONCE: usize = 50;
const DELIVERIES_AT_ONCE: usize = 1_000;
/// Deliveries that are removed in one transaction.
const PURGED_AT_ONCE: usize = 1_000;
/// How long attempts to one hook go on before they are recorded: all of them share a commit to disk, and a hook that is switched off
/// meanwhile is asked so much longer.
const RUN_MS: u64 = 50;
/// Deliveries that one lease covers at most.
const RUN_LENGTH: usize = 64;
/// Never again.
const GONE: u16 = 410;

/// An attempt that was made.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// For which delivery.
    pub delivery: DeliveryId,
    /// Its id.
    pub id: AttemptId,
    /// Where it went.
    pub url: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it went.
    pub sent: Sent,
    /// When the event was recorded, if this was the first attempt.
    pub event_at: Option<Timestamp>,
}

/// Hooks that a turn may lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room<'a> {
    /// Hooks in all.
    pub hooks: usize,
    /// Of these, hooks whose last attempt failed, and slow ones.
    pub held_back: usize,
    /// Hooks that the dispatcher found to be slow.
    pub slow: &'a [HookId],
}

impl<'a> Room<'a> {
    fn places(self) -> Places<'a> {
        Places { hooks: self.hooks, held_back: self.held_back, run: RUN_LENGTH, slow: self.slow }
    }
}

/// What was done with a lease.
#[derive(Debug, Clone)]
pub struct Run {
    /// The lease, without its deliveries.
    pub lease: Lease,
    /// The attempts, in their order. Deliveries without one are due as before.
    pub attempted: Vec<Attempted>,
}

/// What a turn of the dispatcher brought.
#[derive(Debug)]
pub struct Turn {
    /// What may be attempted now.
    pub leases: Vec<Lease>,
    /// Hooks that were switched off by what was recorded.
    pub disabled: Vec<(HookId, DisabledReason)>,
    /// Deliveries that receivers have by what was recorded.
    pub delivered: u64,
    /// Deliveries that failed for good by it, those of hooks that were switched off included.
    pub failed: u64,
}

/// The steps of a dispatcher.
pub struct Dispatch<'a>(&'a Inner);

impl<'a> Dispatch<'a> {
    pub(in super::super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Whether there is an event to become deliveries, or something due for which there is room; changes nothing.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn is_due(&self, room: Room<'_>) -> Result<bool, Fault> {
        let mut tx = self.0.ports.metadata.read()?;
        Ok(!tx.events().list_waiting(1)?.is_empty() || tx.deliveries().is_due(self.0.now(), room.places())?)
    }

    /// Makes the deliveries of the next events, in the order in which they were recorded; gives what these were. What an
    /// event becomes is decided as a whole: no other transaction sees some of its deliveries only.
    ///
    /// # Errors
    /// [`Fault`]; then nothing was made.
    pub fn fan_out(&self) -> Result<Vec<EventName>, Fault> {
        if self.0.ports.metadata.read()?.events().list_waiting(1)?.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.0.ports.metadata.write()?;
        let FannedOut { events, deliveries } = fan_out(self.0, tx.as_mut())?;
        match deliveries {
            // Nobody wanted any of it, which would be found again.
            0 => tx.commit(Durability::Unsynced)?,
            // The ids of deliveries stay the same from here on: receivers know by them what they have already.
            _ => tx.commit(Durability::Synced)?,
        }
        Ok(events)
    }

    /// Records what was done with leases and ends them, then leases hooks that have something due, as many as there is room for. Those that fail
    /// or are slow have a part of it, so that they cannot take all places from those that work.
    ///
    /// # Errors
    /// [`Fault`]; then neither was done, and both can be asked for again.
    pub fn turn(&self, holder: &str, done: &[Run], room: Room<'_>) -> Result<Turn, Fault> {
        let mut tx = self.0.ports.metadata.write()?;
        let (mut released, mut disabled) = (Vec::with_capacity(done.len()), Vec::new());
        let (mut delivered, mut failed) = (0, 0);
        let leases: Vec<_> = done.iter().map(|run| (run.lease.hook.id, run.lease.until)).collect();
        let held = tx.deliveries().held(holder, &leases)?.into_iter();
        let mut held: HashMap<_, _> = held.map(|(hook, until)| ((hook.id, until), hook)).collect();
        let ids: Vec<_> = done.iter().flat_map(|run| &run.attempted).map(|attempted| attempted.delivery).collect();
        let known = tx.deliveries().get_all(&ids)?.into_iter();
        let mut known: HashMap<_, _> = known.map(|delivery| (delivery.id, delivery)).collect();
        for Run { lease, attempted } in done {
            // Who lost the lease has nothing to say: the attempts are made again by somebody else. So it is when the hook is gone.
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
            // Only leases, and deliveries that are due as before when they are taken back.
            [] => tx.commit(Durability::Unsynced)?,
            _ => tx.commit(Durability::Synced)?,
        }
        Ok(Turn { leases, disabled, delivered, failed })
    }

    /// What to send for a delivery, and the id of the attempt. `None` when the hook's secret cannot be read.
    fn parcel(
        &self,
        hook: &Hook,
        delivery: &Delivery,
        body: String,
        canceled: &CancellationToken,
    ) -> Option<WebhookRequest> {
        let now = self.0.now();
        let previous = hook.previous_secret.as_ref().filter(|previous| previous.until > now);
        let sealed = std::iter::once(&hook.secret).chain(previous.map(|previous| &previous.secret));
        Some(WebhookRequest {
            url: hook.url.clone(),
            delivery: delivery.id,
            attempt: AttemptId::from_uuid(self.0.ports.ids.uuid(now)),
            at: now,
            event: delivery.event,
            body,
            secrets: sealed.map(|sealed| self.0.ports.vault.open(hook.id, sealed)).collect::<Option<_>>()?,
            canceled: canceled.clone(),
        })
    }

    /// Attempts the deliveries of a lease one after the other and waits for the end: as long as they succeed, `go_on` says so, the lease
    /// covers another attempt, and no more than 50 ms have passed. `None` when the hook's secret cannot be read; the lease then runs out, and
    /// the attempt is made again.
    ///
    /// Once `canceled`, the attempt under way is cut short and no further one is made: what was cut short is due as before.
    pub fn attempt(&self, mut lease: Lease, canceled: &CancellationToken, go_on: impl Fn() -> bool) -> Option<Run> {
        let mut attempted: Vec<Attempted> = Vec::new();
        for (delivery, body) in std::mem::take(&mut lease.deliveries) {
            let now = self.0.now();
            let covered = now.plus_millis(self.0.limits.hook_timeout_ms) < lease.until;
            let in_time = attempted.first().is_none_or(|first| now < first.started_at.plus_millis(RUN_MS));
            if !covered || !in_time || canceled.is_canceled() || !go_on() {
                break;
            }
            let parcel = self.parcel(&lease.hook, &delivery, body, canceled)?;
            // Cut short, it is as if it had not been made: it is repeated, and the receiver knows it by its id.
            let Some(sent) = self.0.ports.sender.send(&parcel) else { break };
            let (delivered, ended_at) = (sent.delivered(), self.0.now());
            let WebhookRequest { attempt: id, url, at: started_at, .. } = parcel;
            let event_at = (delivery.attempt_count == 0).then(|| recorded_at(delivery.event_id)).flatten();
            attempted.push(Attempted { delivery: delivery.id, id, url, started_at, ended_at, sent, event_at });
            if !delivered {
                break;
            }
        }
        Some(Run { lease, attempted })
    }

    /// Cuts attempts short, and has none be made any more: for a server that is to end at once.
    pub fn abort(&self) {
        self.0.ports.sender.abort();
    }

    /// Gives what became of the delivery.
    fn record(
        &self,
        tx: &mut dyn Transaction,
        hook: &mut Hook,
        mut delivery: Delivery,
        attempted: &Attempted,
    ) -> Result<DeliveryStatus, Fault> {
        let Attempted { delivery: _, id, url, started_at, ended_at, sent, event_at: _ } = attempted;
        let micros = ended_at.as_micros().saturating_sub(started_at.as_micros());
        let attempt = sent.attempt(*id, *started_at, u64::try_from(micros / 1_000).unwrap_or(0));
        let request = Request { url: url.clone(), headers: sent.headers.clone() };
        delivery.attempt_count += 1;
        delivery.run_attempts += 1;
        // Given up while the attempt ran, it stays so, unless the receiver has it.
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

    /// What an attempt says about its hook.
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

    /// Ends the leases that a former process of this holder left behind.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn recover(&self, holder: &str) -> Result<u64, Fault> {
        let mut tx = self.0.ports.metadata.write()?;
        let freed = tx.deliveries().recover(holder)?;
        tx.commit(Durability::Synced)?;
        Ok(freed)
    }

    /// Removes deliveries that finished long ago, and events that nothing is left of.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn tidy(&self) -> Result<(), Fault> {
        let before = self.0.now().plus_seconds(-self.0.limits.hook_log_retention_seconds);
        loop {
            let mut tx = self.0.ports.metadata.write()?;
            let removed = tx.deliveries().purge(before, PURGED_AT_ONCE)?;
            if removed < u64::try_from(PURGED_AT_ONCE).unwrap_or(u64::MAX) {
                tx.events().purge()?;
                tx.commit(Durability::Synced)?;
                return Ok(());
            }
            tx.commit(Durability::Synced)?;
        }
    }

    /// What waits now.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn backlog(&self) -> Result<DeliveryBacklog, Fault> {
        Ok(self.0.ports.metadata.read()?.deliveries().backlog(self.0.now())?)
    }

    /// How often something was put in the outbox here so far. Taken before looking for work, it makes [`Dispatch::wait`] miss nothing.
    pub fn signals(&self) -> u64 {
        self.0.outbox.count()
    }

    /// Waits until something was put in the outbox since `seen`, at most so long.
    pub fn wait(&self, seen: u64, at_most: std::time::Duration) {
        self.0.outbox.wait(seen, at_most);
    }

    /// Wakes whoever waits: something ended, or is to end.
    pub fn wake(&self) {
        self.0.outbox.one();
    }
}

/// When an event was recorded, to a millisecond: its id says so.
fn recorded_at(event: EventId) -> Option<Timestamp> {
    let (seconds, nanos) = event.as_uuid().get_timestamp()?.to_unix();
    let seconds = Timestamp::from_seconds(i64::try_from(seconds).ok()?);
    Some(seconds.plus_millis(u64::from(nanos / 1_000_000)))
}

/// The events of a step, and how many deliveries they became.
struct FannedOut {
    events: Vec<EventName>,
    deliveries: usize,
}

/// See [`Dispatch::fan_out`].
fn fan_out(inner: &Inner, tx: &mut dyn Transaction) -> Result<FannedOut, Fault> {
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

/// Makes the deliveries of all that has happened so far: a hook that is about to listen gets nothing of it.
pub(super) fn settle_waiting(inner: &Inner, tx: &mut dyn Transaction) -> Result<(), Fault> {
    while !fan_out(inner, tx)?.events.is_empty() {}
    Ok(())
}
