//! A memory budget for all bodies in flight, shared fairly between callers.
//!
//! A body reserves its bytes as they arrive; a declared length reserves nothing. When the budget is exhausted, a body of the caller
//! that holds the most memory is evicted, unless the body has fully arrived. Callers that hold little are therefore never refused
//! because another caller sends a lot of data slowly.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::caller_key::CallerKey;
use crate::sync::{Mutex, MutexGuard, timeout};

/// Maximum time that a body waits for room over all its waits. Without this bound, bodies that wait for each other again and again
/// would hold their room for a long time.
const WAIT: Duration = Duration::from_secs(1);

/// The reason why a body got no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// The caller's share is exhausted.
    Share,
    /// The whole budget is exhausted.
    Budget,
}

/// A memory budget in bytes, for the bodies of all callers.
pub struct BodyBudget {
    total: usize,
    share: usize,
    ledger: Mutex<Ledger>,
    freed: Notify,
}

#[derive(Default)]
struct Ledger {
    used: usize,
    next: u64,
    callers: HashMap<CallerKey, usize>,
    bodies: HashMap<u64, HeldBody>,
}

struct HeldBody {
    caller: CallerKey,
    bytes: usize,
    is_arriving: bool,
    evicted: Arc<Notify>,
}

/// The reservation of one body. Dropping it frees the memory.
pub struct BodyRoom {
    budget: Arc<BodyBudget>,
    id: u64,
    evicted: Arc<Notify>,
    waited_micros: AtomicU64,
}

impl BodyBudget {
    /// Creates a budget of `total` bytes. The share of one caller is a quarter of the budget, or `largest`, the maximum length of a
    /// body, if that is more.
    pub fn new(total: usize, largest: usize) -> Arc<Self> {
        let share = (total / 4).max(largest).min(total);
        Arc::new(Self { total, share, ledger: Mutex::default(), freed: Notify::new() })
    }

    /// Returns the number of bytes reserved by all bodies.
    pub fn used(&self) -> usize {
        self.ledger().used
    }

    /// Returns the maximum number of bytes for one caller.
    pub fn share(&self) -> usize {
        self.share
    }

    /// Opens an empty reservation for a body.
    pub fn open(self: &Arc<Self>, caller: CallerKey) -> BodyRoom {
        let evicted = Arc::new(Notify::new());
        let mut ledger = self.ledger();
        let id = ledger.next;
        ledger.next += 1;
        ledger.bodies.insert(id, HeldBody { caller, bytes: 0, is_arriving: true, evicted: Arc::clone(&evicted) });
        BodyRoom { budget: Arc::clone(self), id, evicted, waited_micros: AtomicU64::new(0) }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    fn try_grow(&self, id: u64, bytes: usize) -> Result<(), NoRoom> {
        let mut ledger = self.ledger();
        let Some(body) = ledger.bodies.get(&id) else { return Err(NoRoom::Budget) };
        let caller = body.caller;
        let held = ledger.held(caller) + bytes;
        if held > self.share {
            return Err(NoRoom::Share);
        }
        while ledger.used + bytes > self.total {
            let victim = ledger.largest_arriving(held).ok_or(NoRoom::Budget)?;
            ledger.evict(victim);
            // Eviction may free more than this body needs.
            self.freed.notify_waiters();
        }
        ledger.used += bytes;
        *ledger.callers.entry(caller).or_default() += bytes;
        if let Some(body) = ledger.bodies.get_mut(&id) {
            body.bytes += bytes;
        }
        Ok(())
    }
}

impl Ledger {
    fn held(&self, caller: CallerKey) -> usize {
        self.callers.get(&caller).copied().unwrap_or_default()
    }

    /// Returns the largest body that has not fully arrived, of the caller that holds the most, if that is more than `least` bytes.
    fn largest_arriving(&self, least: usize) -> Option<u64> {
        let arriving = self.bodies.iter().filter(|(_, body)| body.is_arriving && body.bytes > 0);
        let ranked = arriving.map(|(id, body)| (self.held(body.caller), body.bytes, *id));
        ranked.max().filter(|(held, ..)| *held > least).map(|(.., id)| id)
    }

    fn evict(&mut self, id: u64) {
        if let Some(body) = self.close(id) {
            body.evicted.notify_one();
        }
    }

    fn close(&mut self, id: u64) -> Option<HeldBody> {
        let body = self.bodies.remove(&id)?;
        self.used -= body.bytes;
        if let Some(held) = self.callers.get_mut(&body.caller) {
            *held -= body.bytes;
            if *held == 0 {
                self.callers.remove(&body.caller);
            }
        }
        Some(body)
    }
}

impl BodyRoom {
    /// Reserves more bytes. Waits for free memory, but at most one second over all calls for this body.
    ///
    /// # Errors
    /// [`NoRoom::Share`] if the caller's other bodies are in the way, [`NoRoom::Budget`] if those of other callers are, or if this
    /// body was evicted.
    pub async fn grow(&self, bytes: usize) -> Result<(), NoRoom> {
        let begun = Instant::now();
        let grown = self.grow_until(begun + self.wait_left(), bytes).await;
        let waited = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.waited_micros.fetch_add(waited, Ordering::Relaxed);
        grown
    }

    fn wait_left(&self) -> Duration {
        WAIT.saturating_sub(Duration::from_micros(self.waited_micros.load(Ordering::Relaxed)))
    }

    async fn grow_until(&self, until: Instant, bytes: usize) -> Result<(), NoRoom> {
        loop {
            let freed = self.budget.freed.notified();
            let mut freed = std::pin::pin!(freed);
            freed.as_mut().enable();
            let Err(full) = self.budget.try_grow(self.id, bytes) else { return Ok(()) };
            tokio::select! {
                biased;
                () = self.evicted.notified() => return Err(NoRoom::Budget),
                waited = timeout(until.duration_since(Instant::now()), freed) => waited.map_err(|_| full)?,
            }
        }
    }

    /// Completes when the body is evicted to make room for other callers.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Protects the reservation from eviction, because the body has fully arrived.
    ///
    /// # Errors
    /// [`NoRoom::Budget`] if the body was evicted before.
    pub fn arrived(&self) -> Result<(), NoRoom> {
        let mut ledger = self.budget.ledger();
        ledger.bodies.get_mut(&self.id).ok_or(NoRoom::Budget)?.is_arriving = false;
        Ok(())
    }
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        self.budget.ledger().close(self.id);
        self.budget.freed.notify_waiters();
    }
}

#[cfg(test)]
mod models;
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{BodyBudget, NoRoom};
    use crate::caller_key::CallerKey;

    fn caller(number: u128) -> CallerKey {
        CallerKey::Address(number)
    }

    #[tokio::test]
    async fn all_waits_of_a_body_together_have_a_limit() {
        tokio::time::pause();
        let budget = BodyBudget::new(400, 10);
        let (one, two) = (budget.open(caller(1)), budget.open(caller(1)));
        assert_eq!(one.grow(100).await, Ok(()));
        let began = tokio::time::Instant::now();
        let free = async {
            tokio::time::sleep(super::WAIT / 4 * 3).await;
            drop(one);
        };
        let (grown, ()) = tokio::join!(two.grow(60), free);
        assert_eq!(grown, Ok(()));
        assert_eq!(two.grow(60).await, Err(NoRoom::Share));
        assert!(began.elapsed() < super::WAIT / 8 * 9, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_caller_has_a_quarter_and_gets_it_back() {
        let budget = BodyBudget::new(400, 10);
        let (one, two) = (budget.open(caller(1)), budget.open(caller(1)));
        assert_eq!(one.grow(60).await, Ok(()));
        assert_eq!(two.grow(40).await, Ok(()), "at the share");
        assert_eq!(two.grow(1).await, Err(NoRoom::Share), "past it");
        assert_eq!(budget.open(caller(2)).grow(100).await, Ok(()), "others have theirs");
        drop(one);
        assert_eq!(two.grow(60).await, Ok(()));
        drop(two);
        assert_eq!(budget.used(), 0);
        assert!(budget.ledger().callers.is_empty() && budget.ledger().bodies.is_empty());
    }

    #[tokio::test]
    async fn the_caller_that_holds_most_and_still_sends_makes_room() {
        let budget = BodyBudget::new(400, 10);
        let large: Vec<_> = (1..=4).map(|number| budget.open(caller(number))).collect();
        for room in &large {
            assert_eq!(room.grow(100).await, Ok(()));
        }
        let small = budget.open(caller(9));
        assert_eq!(small.grow(50).await, Ok(()), "one of the large ones makes room");
        assert_eq!((budget.used(), budget.ledger().bodies.len()), (350, 4));
        let gone = large.iter().filter(|room| room.arrived() == Err(NoRoom::Budget)).count();
        assert_eq!(gone, 1);
        // The other bodies have arrived and cannot be evicted.
        assert_eq!(small.grow(50).await, Ok(()));
        assert_eq!(small.grow(1).await, Err(NoRoom::Share));
        assert_eq!(small.arrived(), Ok(()));
        assert_eq!(budget.open(caller(10)).grow(1).await, Err(NoRoom::Budget));
    }

    #[tokio::test]
    async fn a_body_that_makes_room_learns_of_it_while_it_waits() {
        let budget = BodyBudget::new(100, 100);
        let large = budget.open(caller(1));
        assert_eq!(large.grow(100).await, Ok(()));
        assert_eq!(budget.open(caller(2)).grow(10).await, Ok(()));
        large.evicted().await;
        assert_eq!(large.grow(1).await, Err(NoRoom::Budget));
    }

    #[tokio::test]
    async fn room_that_is_freed_is_given_to_those_who_wait() {
        let budget = BodyBudget::new(100, 100);
        let first = budget.open(caller(1));
        assert_eq!(first.grow(60).await, Ok(()));
        assert_eq!(first.arrived(), Ok(()));
        let second = budget.open(caller(1));
        let budget = Arc::clone(&budget);
        let (waited, ()) = tokio::join!(second.grow(60), async move {
            assert_eq!(budget.used(), 60);
            drop(first);
        });
        assert_eq!(waited, Ok(()));
    }
}
