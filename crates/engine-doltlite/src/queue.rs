//! Write queues: one per database, first come first served.
//!
//! The engine's own lock spans the whole file and is unfair: with eight writers one of them starved (`engine-notes.md` §1.2).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use branchyard_domain::values::DatabaseId;

#[derive(Default)]
struct Tickets {
    next: u64,
    serving: u64,
    /// Of those who went away before their turn.
    left: BTreeSet<u64>,
}

impl Tickets {
    /// Calls whoever is next and still there.
    fn advance(&mut self) {
        self.serving += 1;
        while self.left.remove(&self.serving) {
            self.serving += 1;
        }
    }
}

#[derive(Default)]
struct Queue {
    tickets: Mutex<Tickets>,
    served: Condvar,
}

type Queues = Mutex<HashMap<DatabaseId, Arc<Queue>>>;

/// All queues in use.
#[derive(Default)]
pub(crate) struct WriteQueues {
    queues: Arc<Queues>,
}

impl WriteQueues {
    /// Waits for the turn at `database`.
    pub(crate) fn enter(&self, database: DatabaseId) -> Turn {
        let (queue, ticket) = self.draw(database);
        let tickets = queue.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = queue.served.wait_while(tickets, |tickets| tickets.serving != ticket);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.turn(queue, database)
    }

    /// Waits for the turn at `database` for a while; `None` when it did not come.
    pub(crate) fn enter_within(&self, database: DatabaseId, wait: Duration) -> Option<Turn> {
        let (queue, ticket) = self.draw(database);
        let tickets = queue.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = queue.served.wait_timeout_while(tickets, wait, |tickets| tickets.serving != ticket);
        let (mut tickets, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if tickets.serving != ticket {
            tickets.left.insert(ticket);
            return None;
        }
        drop(tickets);
        Some(self.turn(queue, database))
    }

    fn draw(&self, database: DatabaseId) -> (Arc<Queue>, u64) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = Arc::clone(queues.entry(database).or_default());
        // Drawn under the map's lock, so that a queue somebody stands in is never forgotten.
        let mut tickets = queue.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = tickets.next;
        tickets.next += 1;
        drop(tickets);
        (queue, ticket)
    }

    fn turn(&self, queue: Arc<Queue>, database: DatabaseId) -> Turn {
        Turn { queues: Arc::clone(&self.queues), queue, database }
    }

    /// Waits for the turns at two databases; always in the same order, so that nobody waits in a circle.
    pub(crate) fn enter_both(&self, a: DatabaseId, b: DatabaseId) -> (Turn, Option<Turn>) {
        let first = self.enter(a.min(b));
        let second = (a != b).then(|| self.enter(a.max(b)));
        (first, second)
    }
}

/// The right to write to a database, until dropped.
pub(crate) struct Turn {
    queues: Arc<Queues>,
    queue: Arc<Queue>,
    database: DatabaseId,
}

impl Turn {
    /// The database it is about.
    pub(crate) fn database(&self) -> DatabaseId {
        self.database
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tickets = self.queue.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.advance();
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
        assert!(queues.queues.lock().unwrap().is_empty());
    }

    #[test]
    fn who_leaves_holds_up_nobody() {
        let queues = WriteQueues::default();
        let database = DatabaseId::parse("0199c3a7-1111-7222-8333-444455556666").unwrap();
        let short = Duration::from_millis(10);
        let held = queues.enter(database);
        assert!(queues.enter_within(database, short).is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(queues.enter_within(database, Duration::from_secs(60)).unwrap()));
            while queues.queues.lock().unwrap()[&database].tickets.lock().unwrap().next < 3 {
                thread::sleep(short);
            }
            assert!(queues.enter_within(database, short).is_none());
            drop(held);
            waiting.join().unwrap();
        });
        assert!(queues.queues.lock().unwrap().is_empty());
        assert!(queues.enter_within(database, short).is_some());
    }
}
