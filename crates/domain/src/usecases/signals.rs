//! Signals between the processes that share a metadata store.
//!
//! A signal only ends a wait early. Each waiting thread also looks by itself, at the latest after a second, so nothing depends on a signal.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use crate::values::{Invalid, OperationId};

/// Something that another process may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// An operation was queued, or may run now.
    Operation,
    /// An event or a delivery is due.
    Event,
    /// A fetch for a pull request is due.
    Fetch,
    /// Users may have lost rights.
    Revocation,
    /// An operation has settled.
    Settled(OperationId),
    /// Signals may have been lost: any of them may be due.
    Any,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation => f.write_str("operation"),
            Self::Event => f.write_str("event"),
            Self::Fetch => f.write_str("fetch"),
            Self::Revocation => f.write_str("revocation"),
            Self::Settled(id) => write!(f, "{id}"),
            Self::Any => f.write_str("any"),
        }
    }
}

impl FromStr for Signal {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Ok(match text {
            "operation" => Self::Operation,
            "event" => Self::Event,
            "fetch" => Self::Fetch,
            "revocation" => Self::Revocation,
            "any" => Self::Any,
            id => Self::Settled(OperationId::parse(id)?),
        })
    }
}

type Send = dyn Fn(Signal) + std::marker::Send + Sync;

/// The way to the other processes, if there are any.
#[derive(Clone, Default)]
pub(crate) struct Peers(Arc<OnceLock<Arc<Send>>>);

impl Peers {
    /// Sets the way. Only the first call has an effect.
    pub(super) fn reach(&self, send: Arc<Send>) {
        let _ = self.0.set(send);
    }

    /// Sends a signal. To be called once the change is committed.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(send) = self.0.get() {
            send(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Signal;
    use crate::values::OperationId;

    #[test]
    fn a_signal_is_read_as_it_was_written() {
        let settled = Signal::Settled(OperationId::from_uuid(uuid::Uuid::from_u128(7)));
        for signal in [Signal::Operation, Signal::Event, Signal::Fetch, Signal::Revocation, settled, Signal::Any] {
            assert_eq!(signal.to_string().parse::<Signal>().unwrap(), signal);
        }
        assert!("nonsense".parse::<Signal>().is_err());
    }
}
