//! Why a request had no response, by the types of the errors and never by their texts.

use std::error::Error;
use std::io;

use crate::checked::{Blocked, Unresolved};

/// Why a request had no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The policy admits no address of the host.
    Blocked,
    /// A time limit passed.
    Timeout,
    /// The name does not resolve.
    Dns,
    /// There was no trusted TLS connection.
    Tls,
    /// The connection was refused.
    Refused,
    /// The connection broke.
    Connection,
}

impl Cause {
    /// Returns the cause of an error that occurred before the end of a response.
    #[must_use]
    pub fn of(error: &reqwest::Error) -> Self {
        if has::<Blocked>(error) {
            return Self::Blocked;
        }
        if error.is_timeout() {
            return Self::Timeout;
        }
        if has::<Unresolved>(error) {
            return Self::Dns;
        }
        if has::<rustls::Error>(error) {
            return Self::Tls;
        }
        let is_refused = find(error, &mut |found| {
            found.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        });
        if is_refused { Self::Refused } else { Self::Connection }
    }
}

fn has<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    find(error, &mut |found| found.is::<E>())
}

/// Returns `true` if `is` accepts the error, one of its sources, or an error that an I/O error wraps. The wrapped error
/// is not among the sources of an I/O error.
fn find(error: &(dyn Error + 'static), is: &mut dyn FnMut(&(dyn Error + 'static)) -> bool) -> bool {
    if is(error) {
        return true;
    }
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    if let Some(wrapped) = wrapped {
        let wrapped: &(dyn Error + 'static) = wrapped;
        if find(wrapped, is) {
            return true;
        }
    }
    error.source().is_some_and(|source| find(source, is))
}
