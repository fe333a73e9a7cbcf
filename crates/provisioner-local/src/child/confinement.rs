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
    // For root, and only below the folder: the files of an instance may be another user's, after the server changed its user.
    restrict(CapabilitySet::DAC_OVERRIDE, &[folder], &[port], refusal)
}

/// Confines this process, which stages files, to the folder that it fills and the file that it reads. Must be called before a
/// second thread starts.
///
/// # Errors
/// Returns an error if the process is not confined, or only in part.
#[cfg(target_os = "linux")]
pub(crate) fn confine_to_files(folder: &Path, source: Option<&Path>) -> Result<(), ConfinementError> {
    let mut allowed = vec![AllowedPath { path: folder, access: PathAccess::ReadWrite }];
    allowed.extend(source.map(|path| AllowedPath { path, access: PathAccess::Read }));
    restrict(CapabilitySet::empty(), &allowed, &[], REFUSAL)
}

#[cfg(target_os = "linux")]
fn restrict(
    capabilities: CapabilitySet,
    allowed: &[AllowedPath<'_>],
    listen_ports: &[u16],
    refusal: Refusal,
) -> Result<(), ConfinementError> {
    // What one of them cannot restrict, the others may.
    let restrictions = [
        drop_capabilities(capabilities),
        hide_memory(),
        restrict_files(allowed, listen_ports).and_then(|files| match files {
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

/// Fails.
///
/// # Errors
/// Always, because this system offers no confinement.
#[cfg(not(target_os = "linux"))]
pub(crate) fn confine_to_files(_folder: &Path, _source: Option<&Path>) -> Result<(), ConfinementError> {
    Err(ConfinementError::Unsupported("files and system calls"))
}
