//! Limits of resources.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ConfinementError;

/// Limits a resource of this process and of the processes it starts, and reads the limit back. An existing limit that is lower
/// stays in force.
///
/// # Errors
/// [`ConfinementError::Limit`] if the limit is not in force afterwards.
pub fn limit_resource(resource: Resource, value: u64) -> Result<(), ConfinementError> {
    let error = |source| ConfinementError::Limit { resource, value, source };
    let most = getrlimit(resource).maximum.map_or(value, |most| most.min(value));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).map_err(|errno| error(errno.into()))?;
    let set = getrlimit(resource);
    if set.current == Some(most) && set.maximum == Some(most) {
        Ok(())
    } else {
        Err(error(io::Error::other(format!("the limit is {set:?} instead"))))
    }
}
