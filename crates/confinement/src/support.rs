//! What the kernel offers, and attributes of a process.

use std::thread;

use landlock::{AccessFs, LandlockStatus, Ruleset, RulesetAttr as _, RulesetError};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

use crate::{ConfinementError, KernelSupport, system_calls};

/// Asks the kernel what it offers, by applying harmless restrictions to a thread that ends before the function returns.
///
/// This is for the process that starts confined ones. A process that [`restrict_system_calls`](crate::restrict_system_calls)
/// restricts must not call it shortly before: the thread might still be ending, with a filter of its own.
#[must_use]
pub fn kernel_support() -> KernelSupport {
    let probe = thread::Builder::new()
        .name("kernel-support".into())
        .spawn(|| KernelSupport { landlock_abi: landlock_abi(), seccomp: system_calls::is_supported() });
    let support = probe.ok().and_then(|thread| thread.join().ok());
    support.unwrap_or(KernelSupport { seccomp: false, landlock_abi: None })
}

/// Returns the version of Landlock's interface, and restricts this thread.
fn landlock_abi() -> Option<u32> {
    let status = || -> Result<LandlockStatus, RulesetError> {
        let ruleset = Ruleset::default().handle_access(AccessFs::MakeBlock)?.create()?;
        Ok(ruleset.restrict_self()?.landlock)
    };
    abi_number(status().ok()?)
}

/// Returns the number of the version that `status` reports.
pub(crate) fn abi_number(status: LandlockStatus) -> Option<u32> {
    match status {
        LandlockStatus::Available { effective_abi, .. } => u32::try_from(effective_abi as i32).ok(),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => None,
    }
}

/// Keeps processes of the same user from reading this process's memory and descriptors through `/proc` or `ptrace`, and the
/// kernel from writing core dumps of it.
///
/// Afterwards the process cannot open some files of its own `/proc/self` either, unless it runs as root.
///
/// # Errors
/// [`ConfinementError::Memory`] if the kernel refuses.
pub fn hide_memory() -> Result<(), ConfinementError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|errno| ConfinementError::Memory(errno.into()))
}

/// Drops the capabilities of the calling thread, and of the threads and processes that it starts, except for those of `kept`
/// that it has. No program that they execute gets any back.
///
/// A process of root without capabilities is a user like any other, which owns the files of root. The function must be called
/// before the process starts a second thread.
///
/// # Errors
/// [`ConfinementError::Capabilities`] if the kernel refuses.
pub fn drop_capabilities(kept: CapabilitySet) -> Result<(), ConfinementError> {
    let limit = || {
        set_no_new_privs(true)?;
        let kept = capabilities(None)?.permitted & kept;
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })
    };
    limit().map_err(|errno| ConfinementError::Capabilities(errno.into()))
}
