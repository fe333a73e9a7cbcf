//! Write queues: one per database, first come, first served.
//!
//! The engine's own lock covers the whole file and is unfair: in a measurement with eight writers, one of them starved.

use branchyard_domain::values::DatabaseId;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Number of write turns so far.
static TURNS: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Tickets {
    next: u64,
    serving: u64,
    /// Tickets whose callers have left.
    left: BTreeSet<u64>,
}

#[derive(Default)]
struct Queue {
    tickets: Mutex<Tickets>,
    served: Condvar,
}

type Queues = Mutex<HashMap<DatabaseId, Arc<Queue>>>;

/// A gate that a write passes when its turn has come, and through which it leaves again.
pub trait TurnGate: std::fmt::Debug + Send + Sync {
    /// Waits until the write may begin.
    fn enter(&self);

    /// Ends the write.
    fn leave(&self);
}

/// All queues in use.
#[derive(Default)]
pub struct WriteQueues {
    queues: Arc<Queues>,
    gate: Option<Arc<dyn TurnGate>>,
}

impl std::fmt::Debug for WriteQueues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteQueues").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl WriteQueues {
    /// Creates queues whose turns begin behind `gate`.
    pub(crate) fn behind(gate: Option<Arc<dyn TurnGate>>) -> Self {
        Self { queues: Arc::default(), gate }
    }

    /// Waits for the write turn of `database`.
    pub fn enter(&self, database: DatabaseId) -> WriteTurn {
        let (queue, ticket) = self.draw(database);
        queue.served.wait_while(&mut queue.tickets.lock(), |tickets| tickets.serving != ticket);
        self.begin(queue, database)
    }

    /// Waits for the write turn of `database` for at most `at_most`. Returns `None` if it has not come by then.
    pub fn enter_within(&self, database: DatabaseId, at_most: Duration) -> Option<WriteTurn> {
        let (queue, ticket) = self.draw(database);
        let mut tickets = queue.tickets.lock();
        queue.served.wait_while_for(&mut tickets, |tickets| tickets.serving != ticket, at_most);
        let has_come = tickets.serving == ticket;
        if !has_come {
            // The turn before this one passes it over.
            tickets.left.insert(ticket);
        }
        drop(tickets);
        has_come.then(|| self.begin(queue, database))
    }

    fn begin(&self, queue: Arc<Queue>, database: DatabaseId) -> WriteTurn {
        if let Some(gate) = &self.gate {
            gate.enter();
        }
        let number = TURNS.fetch_add(1, Ordering::Relaxed);
        WriteTurn { queues: Arc::clone(&self.queues), gate: self.gate.clone(), queue, database, number }
    }

    fn draw(&self, database: DatabaseId) -> (Arc<Queue>, u64) {
        let mut queues = self.queues.lock();
        let queue = Arc::clone(queues.entry(database).or_default());
        // The ticket is drawn under the lock of the map, so that a queue with waiting callers is never removed.
        let mut tickets = queue.tickets.lock();
        let ticket = tickets.next;
        tickets.next += 1;
        drop(tickets);
        (queue, ticket)
    }
}

/// The exclusive right to write to a database, held until dropped.
pub struct WriteTurn {
    queues: Arc<Queues>,
    gate: Option<Arc<dyn TurnGate>>,
    queue: Arc<Queue>,
    database: DatabaseId,
    number: u64,
}

impl std::fmt::Debug for WriteTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteTurn").field("database", &self.database).finish_non_exhaustive()
    }
}

impl WriteTurn {
    /// Returns a number that no other turn of the process has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the database of this turn.
    pub fn database(&self) -> DatabaseId {
        self.database
    }
}

impl Drop for WriteTurn {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.leave();
        }
        let mut queues = self.queues.lock();
        let mut tickets = self.queue.tickets.lock();
        tickets.serving += 1;
        while let serving = tickets.serving
            && tickets.left.remove(&serving)
        {
            tickets.serving += 1;
        }
        if tickets.serving == tickets.next {
            queues.remove(&self.database);
        }
        drop(tickets);
        self.queue.served.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn turns_come_in_order_and_nothing_is_left() {
        let queues = WriteQueues::default();
        let database = DatabaseId::parse("0199c3a7-1111-7222-8333-444455556666").unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            let held = queues.enter(database);
            for n in 0..5 {
                let (sender, queues) = (sender.clone(), &queues);
                scope.spawn(move || {
                    let turn = queues.enter(database);
                    sender.send(n).unwrap();
                    drop(turn);
                });
                thread::sleep(Duration::from_millis(20));
            }
            drop(held);
        });
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(queues.queues.lock().is_empty());
    }

    #[test]
    fn a_caller_that_leaves_holds_up_none_behind_it() {
        let queues = WriteQueues::default();
        let database = DatabaseId::parse("0199c3a7-1111-7222-8333-444455556666").unwrap();
        let held = queues.enter(database);
        assert!(queues.enter_within(database, Duration::from_millis(1)).is_none());
        thread::scope(|scope| {
            let behind = scope.spawn(|| drop(queues.enter(database)));
            thread::sleep(Duration::from_millis(20));
            drop(held);
            behind.join().unwrap();
        });
        assert!(queues.enter_within(database, Duration::ZERO).is_some(), "the turn is free");
        assert!(queues.queues.lock().is_empty());
    }
}
