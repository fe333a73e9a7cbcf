//! Maps errors of an attempt to reasons, by the types of the errors and never by their texts.

use std::error::Error;
use std::io;

use branchyard_domain::entities::AttemptError;

use crate::egress::{Blocked, Unresolved};

/// Returns the reason for an error that occurred before the response.
pub(crate) fn reason(error: &reqwest::Error) -> AttemptError {
    if has::<Blocked>(error) {
        return AttemptError::BlockedAddress;
    }
    if error.is_timeout() {
        return AttemptError::Timeout;
    }
    if has::<Unresolved>(error) {
        return AttemptError::Dns;
    }
    if has::<rustls::Error>(error) {
        return AttemptError::Tls;
    }
    let refused = find(error, &mut |found| {
        found.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    });
    if refused { AttemptError::Refused } else { AttemptError::Connection }
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
