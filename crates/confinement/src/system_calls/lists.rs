//! The lists of system calls.
//!
//! Where an argument decides, only the low 32 bits are compared if the kernel reads no more of it.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{Error, SeccompCondition, SeccompRule};

/// The allowed system calls, each with the rules of which one must match. Without rules, all arguments are allowed.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Calls of both lists with any argument: they work on descriptors, on the process's own memory and threads, or on the clock.
const COMMON: &[c_long] = &[
    // Open files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_close,
    // Connected sockets.
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
    libc::SYS_ppoll,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals that arrive.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time and randomness.
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // The process itself.
    libc::SYS_getpid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    // The C library asks how much memory the machine has before it sorts.
    libc::SYS_sysinfo,
];

/// Calls of both lists that only some architectures have.
#[cfg(target_arch = "x86_64")]
const COMMON_OF_ARCHITECTURE: &[c_long] = &[libc::SYS_poll, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const COMMON_OF_ARCHITECTURE: &[c_long] = &[];

/// Calls that only a deployment makes: paths, sockets that listen, event queues.
const DEPLOYMENT: &[c_long] = &[
    // Paths, which Landlock restricts.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_getdents64,
    libc::SYS_fchmod,
    libc::SYS_flock,
    libc::SYS_copy_file_range,
    // Sockets that listen and accept. There is no call that connects.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    // Event queues.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
];

/// Calls of a deployment that only some architectures have.
#[cfg(target_arch = "x86_64")]
const DEPLOYMENT_OF_ARCHITECTURE: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_epoll_wait,
];
#[cfg(not(target_arch = "x86_64"))]
const DEPLOYMENT_OF_ARCHITECTURE: &[c_long] = &[];

/// Calls that name a file by its path. Libraries make them by themselves, for example to look for a time zone, and go on
/// when they fail. They fail in a process that may use no path, even if everything else that is refused kills it.
#[cfg(target_arch = "x86_64")]
const PATHS: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_open,
    libc::SYS_faccessat,
    libc::SYS_access,
    libc::SYS_readlinkat,
    libc::SYS_readlink,
];
#[cfg(not(target_arch = "x86_64"))]
const PATHS: &[c_long] = &[libc::SYS_openat, libc::SYS_faccessat, libc::SYS_readlinkat];

/// Returns rules that match the calls of [`PATHS`].
pub(super) fn paths() -> Rules {
    PATHS.iter().map(|call| (*call, Vec::new())).collect()
}

/// Returns the rules of [`SyscallList::SqlWorker`](crate::SyscallList::SqlWorker).
pub(super) fn sql_worker() -> Result<Rules, Error> {
    let mut rules = common()?;
    // `fstat` of glibc before 2.39, and of Rust's standard library.
    insert(&mut rules, libc::SYS_newfstatat, [vec![is(3, libc::AT_EMPTY_PATH)?]])?;
    insert(&mut rules, libc::SYS_statx, [vec![is(2, libc::AT_EMPTY_PATH)?]])?;
    insert(&mut rules, libc::SYS_fcntl, fcntl(&[])?)?;
    Ok(rules)
}

/// Returns the rules of [`SyscallList::Deployment`](crate::SyscallList::Deployment).
pub(super) fn deployment() -> Result<Rules, Error> {
    let mut rules = common()?;
    rules.extend(any(DEPLOYMENT).chain(any(DEPLOYMENT_OF_ARCHITECTURE)));
    insert(&mut rules, libc::SYS_fcntl, fcntl(&[libc::F_SETFL])?)?;
    // Threads, and neither processes nor namespaces. The answer to `clone3` comes from the other filter, unless this one refuses it.
    rules.extend(any(&[libc::SYS_clone3]));
    insert(&mut rules, libc::SYS_clone, [vec![flags(0, THREAD | PROCESS | NAMESPACES, THREAD)?]])?;
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
    let mut sockets = Vec::new();
    for family in families {
        sockets.push(vec![is(0, family)?, flags(1, SOCKET_TYPES, libc::SOCK_STREAM)?]);
    }
    insert(&mut rules, libc::SYS_socket, sockets)?;
    let pair = vec![is(0, libc::AF_UNIX)?, flags(1, SOCKET_TYPES, libc::SOCK_STREAM)?];
    insert(&mut rules, libc::SYS_socketpair, [pair])?;
    let option = |level, name| Ok::<_, Error>(vec![is(1, level)?, is(2, name)?]);
    let set = [option(libc::SOL_SOCKET, libc::SO_REUSEADDR)?, option(libc::IPPROTO_TCP, libc::TCP_NODELAY)?];
    insert(&mut rules, libc::SYS_setsockopt, set)?;
    insert(&mut rules, libc::SYS_getsockopt, [option(libc::SOL_SOCKET, libc::SO_ERROR)?])?;
    // Reads limits of this process.
    insert(&mut rules, libc::SYS_prlimit64, [vec![is(0, 0)?, is_null(2)?]])?;
    Ok(rules)
}

/// The flags of `clone` for a thread.
const THREAD: i32 = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
/// The flags of `clone` that change who its parent is, or escape its tracer.
const PROCESS: i32 = libc::CLONE_VFORK | libc::CLONE_PARENT | libc::CLONE_PTRACE | libc::CLONE_UNTRACED;
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;
/// The bits of a socket's type that are not flags.
const SOCKET_TYPES: i32 = 0xf;

/// From `linux/prctl.h`; `libc` does not have it.
const PR_GET_AUXV: i32 = 0x4155_5856;

fn common() -> Result<Rules, Error> {
    let mut rules: Rules = any(COMMON).chain(any(COMMON_OF_ARCHITECTURE)).collect();
    // Memory holds code or is written, and no memory becomes code.
    let no_code = [vec![flags(2, libc::PROT_EXEC, 0)?]];
    insert(&mut rules, libc::SYS_mmap, no_code.clone())?;
    insert(&mut rules, libc::SYS_mprotect, no_code)?;
    // Data goes to where a socket is connected. TCP's fast open would connect it.
    insert(&mut rules, libc::SYS_sendto, [vec![is_null(4)?, flags(3, libc::MSG_FASTOPEN, 0)?]])?;
    insert(&mut rules, libc::SYS_sendmsg, [vec![flags(2, libc::MSG_FASTOPEN, 0)?]])?;
    // `abort` sends a signal to its own thread.
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    insert(&mut rules, libc::SYS_tgkill, [vec![is(0, own)?, is(2, libc::SIGABRT)?]])?;
    // Names of threads, and of memory by the allocators; constants of the process, such as the size of a page.
    let options = [PR_GET_AUXV, libc::PR_SET_NAME, libc::PR_SET_VMA];
    let options: Result<Vec<_>, Error> = options.into_iter().map(|option| Ok(vec![is(0, option)?])).collect();
    insert(&mut rules, libc::SYS_prctl, options?)?;
    // The standard library makes descriptors non-blocking and private to the process with these.
    insert(&mut rules, libc::SYS_ioctl, [vec![ioctl(libc::FIONBIO)?], vec![ioctl(libc::FIOCLEX)?]])?;
    Ok(rules)
}

/// Returns the rules of `fcntl`: locks, copies, and flags of a descriptor.
fn fcntl(more: &[i32]) -> Result<Vec<Vec<SeccompCondition>>, Error> {
    let commands = [
        libc::F_GETLK,
        libc::F_SETLK,
        libc::F_SETLKW,
        libc::F_OFD_GETLK,
        libc::F_OFD_SETLK,
        libc::F_OFD_SETLKW,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
    ];
    commands.iter().chain(more).map(|command| Ok(vec![is(1, *command)?])).collect()
}

fn any(calls: &[c_long]) -> impl Iterator<Item = (c_long, Vec<SeccompRule>)> {
    calls.iter().map(|call| (*call, Vec::new()))
}

/// Allows `call` if all conditions of one of `alternatives` hold.
fn insert(
    rules: &mut Rules,
    call: c_long,
    alternatives: impl IntoIterator<Item = Vec<SeccompCondition>>,
) -> Result<(), Error> {
    let alternatives: Result<_, _> = alternatives.into_iter().map(SeccompRule::new).collect();
    rules.insert(call, alternatives?);
    Ok(())
}

/// Returns the condition that an argument is `value`.
fn is(argument: u8, value: i32) -> Result<SeccompCondition, Error> {
    Ok(SeccompCondition::new(argument, Dword, Eq, u64::from(value.cast_unsigned()))?)
}

/// Returns the condition that an argument is a null pointer.
fn is_null(argument: u8) -> Result<SeccompCondition, Error> {
    Ok(SeccompCondition::new(argument, seccompiler::SeccompCmpArgLen::Qword, Eq, 0)?)
}

/// Returns the condition that of the bits of `mask` those of `set` are set in an argument, and the others are not.
fn flags(argument: u8, mask: i32, set: i32) -> Result<SeccompCondition, Error> {
    let (mask, set) = (u64::from(mask.cast_unsigned()), u64::from(set.cast_unsigned()));
    Ok(SeccompCondition::new(argument, Dword, MaskedEq(mask), set)?)
}

/// Returns the condition that the second argument is `request`.
fn ioctl(request: libc::Ioctl) -> Result<SeccompCondition, Error> {
    Ok(SeccompCondition::new(1, Dword, Eq, u64::from(request as u32))?)
}
