//! What the process of an instance denies itself before it reads anything that a user wrote.

use std::path::Path;

use branchyard_confinement::ConfinementError;
#[cfg(target_os = "linux")]
use branchyard_confinement::{
    AllowedPath, CapabilitySet, FileRestriction, PathAccess, Refusal, SyscallList, drop_capabilities, hide_memory,
    restrict_files, restrict_system_calls,
};

/// What happens when the process makes a system call that it does not need. An error denies it as well as death would, and a
/// library that tries a call which a later kernel offers goes on without it, instead of ending a user's instance.
#[cfg(target_os = "linux")]
pub(crate) const REFUSAL: Refusal = Refusal::Error;

/// Confines this process to its folder and the port that it serves. Must be called before a second thread starts.
///
/// # Errors
/// Returns an error if the process is not confined, or only in part.
#[cfg(target_os = "linux")]
pub(crate) fn confine(folder: &Path, port: u16) -> Result<(), ConfinementError> {
    confine_with(folder, port, REFUSAL)
}

/// Does the same with another way of refusal, for tests.
#[cfg(target_os = "linux")]
pub(crate) fn confine_with(folder: &Path, port: u16, refusal: Refusal) -> Result<(), ConfinementError> {
    let folder = AllowedPath { path: folder, access: PathAccess::ReadWrite };
    // What one of them cannot restrict, the others may.
    let restrictions = [
        // For root, and only below the folder: the files of an instance may be another user's, after the server changed its user.
        drop_capabilities(CapabilitySet::DAC_OVERRIDE),
        hide_memory(),
        restrict_files(&[folder], &[port]).and_then(|files| match files {
            FileRestriction::Enforced { .. } => Ok(()),
            FileRestriction::NotEnforced => Err(ConfinementError::Unsupported("files")),
        }),
        restrict_system_calls(SyscallList::Deployment, refusal),
    ];
    restrictions.into_iter().collect()
}

/// Fails.
///
/// # Errors
/// Always, because this system offers no confinement.
#[cfg(not(target_os = "linux"))]
pub(crate) fn confine(_folder: &Path, _port: u16) -> Result<(), ConfinementError> {
    Err(ConfinementError::Unsupported("files and system calls"))
}
