//! From the outbox to the receivers, step by step. All of it is in the store: a dispatcher that dies leaves leases that run out.

use super::super::Inner;
use super::schedule::next_attempt;
use super::{delivery_id, queued};
use crate::entities::{DeliveryStatus, DisabledReason, EventName, Hook, HookEvent, Request};
use crate::errors::Fault;
use crate::ports::{Lease, Parcel, Sent, Unit};
use crate::values::{AttemptId, HookId, Timestamp};

/// Attempts that the log keeps of a delivery.
const ATTEMPTS_KEPT: usize = 50;
/// Seconds that a lease outlives the longest attempt.
const LEASE_MARGIN_SECONDS: i64 = 15;
/// Events whose deliveries are made in one transaction, and deliveries after which no further event is begun in it.
const EVENTS_AT_ONCE: usize = 50;
const DELIVERIES_AT_ONCE: usize = 1_000;
/// Deliveries that are removed in one transaction.
const PURGED_AT_ONCE: usize = 1_000;
/// Never again.
const GONE: u16 = 410;

/// An attempt that was made.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// For what.
    pub lease: Lease,
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
}

/// What a turn of the dispatcher brought.
#[derive(Debug)]
pub struct Turn {
    /// What may be attempted now.
    pub leases: Vec<Lease>,
    /// Hooks that were switched off by what was recorded.
    pub disabled: Vec<(HookId, DisabledReason)>,
}

/// The steps of a dispatcher.
pub struct Dispatch<'a>(&'a Inner);

impl<'a> Dispatch<'a> {
    pub(in super::super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Whether there is anything to do; changes nothing.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn is_due(&self) -> Result<bool, Fault> {
        let mut unit = self.0.ports.metadata.read()?;
        Ok(!unit.event_waiting(1)?.is_empty() || unit.delivery_is_due(self.0.now())?)
    }

    /// Makes the deliveries of the next events, in the order in which they were recorded; gives how many events there were. What an
    /// event becomes is decided as a whole: no other unit sees some of its deliveries only.
    ///
    /// # Errors
    /// [`Fault`]; then nothing was made.
    pub fn fan_out(&self) -> Result<usize, Fault> {
        if self.0.ports.metadata.read()?.event_waiting(1)?.is_empty() {
            return Ok(0);
        }
        let mut unit = self.0.ports.metadata.write()?;
        let (mut events, mut deliveries) = (0, 0);
        for event in unit.event_waiting(EVENTS_AT_ONCE)? {
            let now = self.0.now();
            let name = event.kind.name();
            let wanted = match HookEvent::of(name) {
                Some(wanted) => unit.hook_subscribed(event.database_id, wanted)?,
                None => Vec::new(),
            };
            deliveries += wanted.len();
            for (hook, last) in wanted {
                let id = delivery_id(self.0, now, last);
                unit.delivery_add(&queued(hook, event.id, name, id, now))?;
            }
            unit.event_dispatched(event.id, now)?;
            events += 1;
            if deliveries >= DELIVERIES_AT_ONCE {
                break;
            }
        }
        unit.save()?;
        Ok(events)
    }

    /// Records attempts, then leases due deliveries: `places` in all, of which `failing_places` for hooks whose last attempt failed, so
    /// that these cannot take all places from those that work.
    ///
    /// # Errors
    /// [`Fault`]; then neither was done, and both can be asked for again.
    pub fn turn(&self, holder: &str, done: &[Attempted], places: usize, failing_places: usize) -> Result<Turn, Fault> {
        let mut unit = self.0.ports.metadata.write()?;
        let mut disabled = Vec::new();
        for attempted in done {
            let reason = self.record(unit.as_mut(), holder, attempted)?;
            disabled.extend(reason.map(|reason| (attempted.lease.hook.id, reason)));
        }
        let now = self.0.now();
        let until = now.plus_millis(self.0.limits.hook_timeout_ms).plus_seconds(LEASE_MARGIN_SECONDS);
        let leases = unit.delivery_lease(holder, now, until, places, failing_places)?;
        unit.save()?;
        Ok(Turn { leases, disabled })
    }

    /// What to send for a lease, and the id of the attempt. `None` when the hook's secret cannot be read.
    pub fn parcel(&self, lease: &Lease) -> Option<Parcel> {
        let now = self.0.now();
        let Lease { hook, delivery, body } = lease;
        let previous = hook.previous_secret.as_ref().filter(|previous| previous.until > now);
        let sealed = std::iter::once(&hook.secret).chain(previous.map(|previous| &previous.secret));
        Some(Parcel {
            url: hook.url.clone(),
            delivery: delivery.id,
            attempt: AttemptId::from_uuid(self.0.ports.ids.uuid(now)),
            at: now,
            event: delivery.event,
            body: body.clone(),
            secrets: sealed.map(|sealed| self.0.ports.vault.open(hook.id, sealed)).collect::<Option<_>>()?,
        })
    }

    /// Makes the attempt of a lease and waits for its end. `None` when the hook's secret cannot be read; the lease then runs out, and
    /// the attempt is made again.
    pub fn attempt(&self, lease: Lease) -> Option<Attempted> {
        let parcel = self.parcel(&lease)?;
        let sent = self.0.ports.sender.send(&parcel);
        let ended_at = self.0.now();
        Some(Attempted { lease, id: parcel.attempt, url: parcel.url, started_at: parcel.at, ended_at, sent })
    }

    /// Gives why the hook was switched off, if it was.
    fn record(
        &self,
        unit: &mut dyn Unit,
        holder: &str,
        attempted: &Attempted,
    ) -> Result<Option<DisabledReason>, Fault> {
        let Attempted { lease, id, url, started_at, ended_at, sent } = attempted;
        let (hook_id, delivery_id) = (lease.hook.id, lease.delivery.id);
        // Who lost the lease has nothing to say: the attempt is made again by somebody else. So it is when hook or delivery are gone.
        if !unit.delivery_release(hook_id, delivery_id, holder)? {
            return Ok(None);
        }
        let Some(mut delivery) = unit.delivery_get(hook_id, delivery_id)? else { return Ok(None) };
        let Some(mut hook) = unit.hook_get(lease.hook.database_id, hook_id)? else { return Ok(None) };
        let micros = ended_at.as_micros().saturating_sub(started_at.as_micros());
        let attempt = sent.attempt(*id, *started_at, u64::try_from(micros / 1_000).unwrap_or(0));
        let request = Request { url: url.clone(), headers: sent.headers.clone() };
        unit.attempt_add(delivery_id, &attempt, &request, ATTEMPTS_KEPT)?;
        delivery.attempt_count += 1;
        delivery.run_attempts += 1;
        let before = hook.clone();
        // Given up while the attempt ran, it stays so, unless the receiver has it.
        if sent.delivered() {
            delivery.status = DeliveryStatus::Delivered { finished_at: *ended_at };
        } else if delivery.is_pending() {
            delivery.status = self.after_failure(&delivery.event, delivery.run_attempts, *ended_at, sent);
        }
        unit.delivery_update(&delivery)?;
        if delivery.event != EventName::Ping {
            self.judge(&mut hook, !delivery.is_pending(), *ended_at, sent);
        }
        if hook != before {
            unit.hook_update(&hook)?;
        }
        if before.active && !hook.active {
            unit.delivery_give_up(hook_id, *ended_at)?;
            return Ok(hook.disabled_reason);
        }
        Ok(None)
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
        let mut unit = self.0.ports.metadata.write()?;
        let freed = unit.delivery_recover(holder)?;
        unit.save()?;
        Ok(freed)
    }

    /// Removes deliveries that finished long ago, and events that nothing is left of.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn tidy(&self) -> Result<(), Fault> {
        let before = self.0.now().plus_seconds(-self.0.limits.hook_log_retention_seconds);
        loop {
            let mut unit = self.0.ports.metadata.write()?;
            let removed = unit.delivery_purge(before, PURGED_AT_ONCE)?;
            if removed < u64::try_from(PURGED_AT_ONCE).unwrap_or(u64::MAX) {
                unit.event_purge()?;
                unit.save()?;
                return Ok(());
            }
            unit.save()?;
        }
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
