//! The filter of system calls (seccomp).

mod lists;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO,
    SECCOMP_RET_KILL_PROCESS,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter, apply_filter_all_threads, sock_filter,
};

use crate::{ConfinementError, Refusal, SyscallList};

/// Restricts all threads of this process, and all that they start, to the system calls of `list`. Also sets `no_new_privs`.
/// The restriction cannot be taken back.
///
/// With [`Refusal::Kill`] the process must not rely on errors, except that opening a path fails under
/// [`SyscallList::SqlWorker`].
///
/// # Errors
/// [`ConfinementError`] if the kernel does not accept the filter for every thread. Threads may be restricted in part then.
pub fn restrict_system_calls(list: SyscallList, refusal: Refusal) -> Result<(), ConfinementError> {
    let arch = architecture().ok_or(ConfinementError::Unsupported("system calls"))?;
    let refused = match refusal {
        Refusal::Error => SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        Refusal::Kill => SeccompAction::KillProcess,
    };
    let mut rules = match list {
        SyscallList::SqlWorker => lists::sql_worker(),
        SyscallList::Deployment => lists::deployment(),
    }?;
    let compile = |rules, otherwise, matched| -> Result<BpfProgram, seccompiler::Error> {
        Ok(SeccompFilter::new(rules, otherwise, matched, arch).and_then(BpfProgram::try_from)?)
    };
    let mut paths = None;
    if list == SyscallList::SqlWorker {
        let failed = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        paths = Some(compile(lists::paths(), SeccompAction::Allow, failed)?);
        // The stricter answer wins, so this list may not kill where the other fails.
        rules.extend(lists::paths());
    }
    let filter = compile(rules, refused, SeccompAction::Allow)?;
    // The kernel asks all filters, and the strictest answer wins. The first filter must allow the call that installs the second.
    apply_filter_all_threads(&front_filter())?;
    if let Some(paths) = paths {
        apply_filter_all_threads(&paths)?;
    }
    apply_filter_all_threads(&filter)?;
    Ok(())
}

/// Returns `true` if this thread could be restricted. The thread gets a filter that allows everything.
pub(crate) fn is_supported() -> bool {
    let allow = [statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)];
    architecture().is_some() && apply_filter(&allow).is_ok()
}

fn architecture() -> Option<TargetArch> {
    TargetArch::try_from(std::env::consts::ARCH)
        .ok()
        .filter(|_| cfg!(any(target_arch = "x86_64", target_arch = "aarch64")))
}

/// Offset of the number of the system call in the data that a filter sees.
const NUMBER: u32 = 0;
/// The bit that marks numbers of the x32 interface of x86_64. No other number is as high.
const X32: u32 = 0x4000_0000;

/// Returns the filter of what has one answer under every list. It kills at calls of x32, and answers `clone3` as a kernel
/// without it would: its flags are in memory, where a filter cannot see them, and the C library falls back to `clone`.
fn front_filter() -> [sock_filter; 6] {
    let clone3 = u32::try_from(libc::SYS_clone3).unwrap_or(u32::MAX);
    [
        statement(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        jump(BPF_JGE, X32, 3, 0),
        jump(BPF_JEQ, clone3, 1, 0),
        statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    ]
}

fn statement(code: u32, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

/// Returns an instruction that skips `then` instructions if `comparison` with `value` holds, otherwise `or_else`.
fn jump(comparison: u32, value: u32, then: u8, or_else: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt: then, jf: or_else, k: value }
}
