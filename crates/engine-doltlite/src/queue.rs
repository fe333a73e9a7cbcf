//! Write queues: one per database, first come, first served.
//!
//! The engine's own lock covers the whole file and is unfair: in a measurement with eight writers, one of them starved.

use branchyard_domain::values::DatabaseId;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
struct Tickets {
    next: u64,
    serving: u64,
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
    /// Waits for the write turn of `database`.
    pub(crate) fn enter(&self, database: DatabaseId) -> WriteTurn {
        let (queue, ticket) = self.draw(database);
        queue.served.wait_while(&mut queue.tickets.lock(), |tickets| tickets.serving != ticket);
        WriteTurn { queues: Arc::clone(&self.queues), queue, database }
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
pub(crate) struct WriteTurn {
    queues: Arc<Queues>,
    queue: Arc<Queue>,
    database: DatabaseId,
}

impl WriteTurn {
    /// Returns the database of this turn.
    pub(crate) fn database(&self) -> DatabaseId {
        self.database
    }
}

impl Drop for WriteTurn {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let mut tickets = self.queue.tickets.lock();
        tickets.serving += 1;
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
}
