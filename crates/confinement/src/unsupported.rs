//! Systems other than Linux.

use crate::{AllowedPath, ConfinementError, FileRestriction, KernelSupport, Refusal, SyscallList};

/// Returns that the system offers nothing.
#[must_use]
pub fn kernel_support() -> KernelSupport {
    KernelSupport { seccomp: false, landlock_abi: None }
}

/// Fails.
///
/// # Errors
/// Always [`ConfinementError::Unsupported`].
pub fn restrict_system_calls(_list: SyscallList, _refusal: Refusal) -> Result<(), ConfinementError> {
    Err(ConfinementError::Unsupported("system calls"))
}

/// Fails.
///
/// # Errors
/// Always [`ConfinementError::Unsupported`].
pub fn restrict_files(
    _allowed: &[AllowedPath<'_>],
    _listen_ports: &[u16],
) -> Result<FileRestriction, ConfinementError> {
    Err(ConfinementError::Unsupported("files"))
}

/// Fails.
///
/// # Errors
/// Always [`ConfinementError::Unsupported`].
pub fn hide_memory() -> Result<(), ConfinementError> {
    Err(ConfinementError::Unsupported("access to its memory"))
}
