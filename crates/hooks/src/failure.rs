//! Why an attempt failed, told from the types of errors, never from their texts.

use std::error::Error;
use std::io;

use branchyard_domain::entities::AttemptError;

use crate::egress::{Blocked, Unresolved};

/// The reason of an error on the way to an answer.
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

/// Looks at an error, its sources, and what I/O errors wrap: they hide it from their sources.
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
