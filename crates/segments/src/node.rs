//! The lease of a node, on which the leases of its databases rest.

use crate::ports::{Nodes, RecordsError};
use crate::record::Holder;
use std::time::Duration;

/// The row of a node. Its methods are the reference for [`Nodes`].
///
/// Times are those of the records' clock, as the time since any fixed moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The run that has the node's id.
    pub incarnation: u128,
    /// The time at which the lease of this run ends.
    pub alive_until: Duration,
}

/// The outcome of a start or of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease holds from now on for as long as was asked.
    Held,
    /// The node's id belongs to another run, or the lease has ended. An ended lease cannot be renewed: another node may have led the
    /// databases meanwhile, and have released them again.
    Ended,
}

impl NodeRecord {
    /// Begins a run of a node. `row` is the node's row, if there is one.
    ///
    /// The outcome is [`Renewal::Ended`] while the lease of another run with this id holds, and if this run has begun and its lease
    /// has ended since.
    pub fn start(row: &mut Option<Self>, incarnation: u128, lease: Duration, now: Duration) -> Renewal {
        match row {
            Some(row) if row.incarnation == incarnation => row.renew(incarnation, lease, now),
            Some(row) if row.alive_until > now => Renewal::Ended,
            _ => {
                *row = Some(Self { incarnation, alive_until: now + lease });
                Renewal::Held
            }
        }
    }

    /// Renews the lease of a run.
    pub fn renew(&mut self, incarnation: u128, lease: Duration, now: Duration) -> Renewal {
        if self.incarnation != incarnation || self.alive_until <= now {
            return Renewal::Ended;
        }
        self.alive_until = self.alive_until.max(now + lease);
        Renewal::Held
    }

    /// Ends the lease of a run that led no database any more.
    pub fn stop(&mut self, incarnation: u128, now: Duration) {
        if self.incarnation == incarnation {
            self.alive_until = self.alive_until.min(now);
        }
    }

    /// Returns how long the lease of a run still holds, or `None` if it has ended.
    #[must_use]
    pub fn remaining(&self, incarnation: u128, now: Duration) -> Option<Duration> {
        let left = self.alive_until.checked_sub(now).filter(|left| !left.is_zero());
        left.filter(|_| self.incarnation == incarnation)
    }
}

/// The part of a lease, at its end, in which the holder no longer relies on it. It covers the difference between the rates of two
/// clocks.
const MARGIN: u32 = 5;

/// The lease of a node, as the node itself knows it.
///
/// Times are those of a clock of this machine that never goes back and counts the time in which the machine is suspended, such as
/// `CLOCK_BOOTTIME`. It is never compared with the clock of the records.
#[derive(Debug, Clone)]
pub struct NodeLease {
    holder: Holder,
    length: Duration,
    until: Option<Duration>,
}

impl NodeLease {
    /// Creates a lease that does not hold yet. `length` is how long it holds after each renewal.
    #[must_use]
    pub fn new(holder: Holder, length: Duration) -> Self {
        Self { holder, length, until: None }
    }

    /// Creates a lease of the same length for another run, which does not hold yet.
    #[must_use]
    pub fn of_run(&self, holder: Holder) -> Self {
        Self::new(holder, self.length)
    }

    /// Returns the run of the node that the lease belongs to.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the time between two renewals.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.length / MARGIN
    }

    /// Begins the run, or continues it if an earlier answer was lost. `now` is the time before the call.
    ///
    /// After [`Renewal::Ended`] this lease never holds. The caller tries again with a new incarnation: the id may be taken, or this
    /// run may have begun by a call whose answer was lost, and its lease have ended.
    ///
    /// # Errors
    ///
    /// The records cannot be reached, or their answer was lost. The lease does not hold; the caller may try again.
    pub async fn start(&mut self, nodes: &impl Nodes, now: Duration) -> Result<Renewal, RecordsError> {
        let renewal = nodes.start(&self.holder, self.length).await?;
        Ok(self.note(renewal, now))
    }

    /// Renews the lease. `now` is the time before the call.
    ///
    /// After [`Renewal::Ended`] this lease never holds again. The node goes on with a new incarnation and acquires its databases
    /// anew.
    ///
    /// # Errors
    ///
    /// The records cannot be reached, or their answer was lost. The lease holds for as long as it did; the caller tries again.
    pub async fn renew(&mut self, nodes: &impl Nodes, now: Duration) -> Result<Renewal, RecordsError> {
        let renewal = nodes.renew(&self.holder, self.length).await?;
        Ok(self.note(renewal, now))
    }

    /// Ends the lease, so that the next run of the node need not wait. All databases must have been released.
    ///
    /// # Errors
    ///
    /// The records cannot be reached, or their answer was lost. The lease ends by itself.
    pub async fn stop(&mut self, nodes: &impl Nodes) -> Result<(), RecordsError> {
        self.until = None;
        nodes.stop(&self.holder).await
    }

    /// Returns `true` if the lease holds by the records' clock too, whatever the difference between the clocks.
    #[must_use]
    pub fn holds(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// The request may have been carried out as soon as it was sent, so the lease counts from then.
    fn note(&mut self, renewal: Renewal, sent: Duration) -> Renewal {
        self.until = match renewal {
            Renewal::Held => Some(sent + self.length - self.length / MARGIN),
            Renewal::Ended => None,
        };
        renewal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_id_of_a_live_node_is_taken() {
        let mut row = None;
        assert_eq!(NodeRecord::start(&mut row, 1, LEASE, at(0)), Renewal::Held);
        assert_eq!(NodeRecord::start(&mut row, 2, LEASE, at(9)), Renewal::Ended);
        assert_eq!(NodeRecord::start(&mut row, 1, LEASE, at(9)), Renewal::Held);
        assert_eq!(NodeRecord::start(&mut row, 2, LEASE, at(19)), Renewal::Held);
        assert_eq!(NodeRecord::start(&mut row, 2, LEASE, at(29)), Renewal::Ended, "it has begun, and ended");
        assert_eq!(row.unwrap().renew(1, LEASE, at(19)), Renewal::Ended);
    }

    #[test]
    fn an_ended_lease_cannot_be_renewed() {
        let mut row = NodeRecord { incarnation: 1, alive_until: at(10) };
        assert_eq!(row.renew(1, LEASE, at(9)), Renewal::Held);
        assert_eq!(row.remaining(1, at(18)), Some(at(1)));
        assert_eq!(row.remaining(2, at(18)), None);
        assert_eq!(row.remaining(1, at(19)), None);
        assert_eq!(row.renew(1, LEASE, at(19)), Renewal::Ended);
    }

    #[test]
    fn a_stop_ends_the_lease_of_its_own_run() {
        let mut row = NodeRecord { incarnation: 1, alive_until: at(10) };
        row.stop(2, at(5));
        assert_eq!(row.remaining(1, at(5)), Some(at(5)));
        row.stop(1, at(5));
        assert_eq!(row.remaining(1, at(5)), None);
    }

    struct Row(std::cell::RefCell<Option<NodeRecord>>, Duration);

    impl Nodes for Row {
        async fn start(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError> {
            Ok(NodeRecord::start(&mut self.0.borrow_mut(), holder.incarnation, lease, self.1))
        }

        async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError> {
            let mut row = self.0.borrow_mut();
            Ok(row.as_mut().map_or(Renewal::Ended, |row| row.renew(holder.incarnation, lease, self.1)))
        }

        async fn stop(&self, holder: &Holder) -> Result<(), RecordsError> {
            if let Some(row) = self.0.borrow_mut().as_mut() {
                row.stop(holder.incarnation, self.1);
            }
            Ok(())
        }
    }

    #[test]
    fn a_node_relies_on_its_lease_from_the_request_on_and_with_a_margin() {
        crate::run(async {
            let mut nodes = Row(Default::default(), at(1_000));
            let mut lease = NodeLease::new(Holder { node: "a".to_owned(), incarnation: 1 }, LEASE);
            assert!(!lease.holds(at(50)));
            assert_eq!(lease.start(&nodes, at(50)).await, Ok(Renewal::Held));
            assert!(lease.holds(at(57)));
            assert!(!lease.holds(at(58)));
            nodes.1 = at(1_004);
            assert_eq!(lease.renew(&nodes, at(54)).await, Ok(Renewal::Held));
            assert!(lease.holds(at(61)));
            nodes.1 = at(1_014);
            assert_eq!(lease.renew(&nodes, at(64)).await, Ok(Renewal::Ended));
            assert!(!lease.holds(at(64)));
        });
    }
}
