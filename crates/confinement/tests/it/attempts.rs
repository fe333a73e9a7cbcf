//! What a compromised process tries.

use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

use crate::probe;
use crate::raw::call;

/// What the process has before it is confined.
struct Given {
    parent: usize,
    file: File,
    folder: File,
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixStream,
    /// The address of `tcp`, as the kernel reads it.
    address: [u8; 16],
}

type Attempt = (&'static str, fn(&Given) -> Result<usize, i32>);

const PATH: &[u8] = b"/etc/passwd\0";
const OTHER: &[u8] = b"/tmp/branchyard-confinement-must-not-exist\0";
const MEMORY: &[u8] = b"/proc/self/mem\0";
const PROGRAM: &[u8] = b"/bin/true\0";
const EMPTY: &[u8] = b"\0";
const HERE: usize = libc::AT_FDCWD as usize;
const PAGE: usize = 4096;
const ABSENT_SIGNAL: usize = 0;

fn at(bytes: &[u8]) -> usize {
    bytes.as_ptr() as usize
}

/// Attempts that no list allows.
const REFUSED_ALWAYS: &[Attempt] = &[
    // Other programs and processes.
    ("execve", |_| call(libc::SYS_execve, [at(PROGRAM), 0, 0])),
    ("execveat", |_| call(libc::SYS_execveat, [HERE, at(PROGRAM), 0, 0, 0])),
    ("fork", |_| call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0])),
    ("new-namespace", |_| call(libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::SIGCHLD) as usize, 0, 0, 0, 0])),
    ("thread-in-new-namespace", |_| {
        let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_NEWNS;
        call(libc::SYS_clone, [flags as usize, 0, 0, 0, 0])
    }),
    ("unshare", |_| call(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize])),
    ("setns", |given| call(libc::SYS_setns, [given.file.as_raw_fd() as usize, 0])),
    ("ptrace-attach", |given| call(libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, given.parent, 0, 0])),
    ("ptrace-traceme", |_| call(libc::SYS_ptrace, [libc::PTRACE_TRACEME as usize, 0, 0, 0])),
    ("process-vm-readv", |given| call(libc::SYS_process_vm_readv, [given.parent, 0, 0, 0, 0, 0])),
    ("process-vm-writev", |given| call(libc::SYS_process_vm_writev, [given.parent, 0, 0, 0, 0, 0])),
    ("kcmp", |given| call(libc::SYS_kcmp, [given.parent, given.parent, 0, 0, 0])),
    ("kill-parent", |given| call(libc::SYS_kill, [given.parent, ABSENT_SIGNAL])),
    ("kill-all", |_| call(libc::SYS_kill, [usize::MAX, ABSENT_SIGNAL])),
    ("kill-self", |_| call(libc::SYS_kill, [std::process::id() as usize, ABSENT_SIGNAL])),
    ("tkill-parent", |given| call(libc::SYS_tkill, [given.parent, ABSENT_SIGNAL])),
    ("tgkill-parent", |given| call(libc::SYS_tgkill, [given.parent, given.parent, libc::SIGABRT as usize + (1 << 32)])),
    ("tgkill-other-signal", |_| {
        let own = std::process::id() as usize;
        call(libc::SYS_tgkill, [own, own, ABSENT_SIGNAL])
    }),
    ("rt-sigqueueinfo", |given| call(libc::SYS_rt_sigqueueinfo, [given.parent, ABSENT_SIGNAL, 0])),
    ("pidfd-open", |given| call(libc::SYS_pidfd_open, [given.parent, 0])),
    ("pidfd-getfd", |_| call(libc::SYS_pidfd_getfd, [0, 0, 0])),
    ("pidfd-send-signal", |_| call(libc::SYS_pidfd_send_signal, [0, ABSENT_SIGNAL, 0, 0])),
    ("set-owner-of-signals", |given| {
        call(libc::SYS_fcntl, [given.unix.as_raw_fd() as usize, libc::F_SETOWN as usize, given.parent])
    }),
    ("sched-setscheduler", |given| call(libc::SYS_sched_setscheduler, [given.parent, 0, 0])),
    ("setpriority", |given| call(libc::SYS_setpriority, [0, given.parent, 0])),
    ("prlimit-of-parent", |given| call(libc::SYS_prlimit64, [given.parent, 7, 0, 0])),
    ("prlimit-set", |_| {
        let limit = [u64::MAX; 2];
        call(libc::SYS_prlimit64, [0, 7, limit.as_ptr() as usize, 0])
    }),
    // Network.
    ("connect", |given| call(libc::SYS_connect, [given.tcp.as_raw_fd() as usize, given.address.as_ptr() as usize, 16])),
    ("fast-open", |given| {
        let flags = libc::MSG_FASTOPEN as usize;
        call(libc::SYS_sendto, [given.tcp.as_raw_fd() as usize, at(PATH), 1, flags, 0, 0])
    }),
    ("fast-open-message", |given| {
        call(libc::SYS_sendmsg, [given.tcp.as_raw_fd() as usize, 0, libc::MSG_FASTOPEN as usize])
    }),
    ("send-to-address", |given| {
        let address = given.address.as_ptr() as usize;
        call(libc::SYS_sendto, [given.udp.as_raw_fd() as usize, at(PATH), 1, 0, address, 16])
    }),
    ("sendmmsg", |given| call(libc::SYS_sendmmsg, [given.udp.as_raw_fd() as usize, 0, 0, 0])),
    ("udp-socket", |_| call(libc::SYS_socket, [libc::AF_INET as usize, libc::SOCK_DGRAM as usize, 0])),
    ("raw-socket", |_| call(libc::SYS_socket, [libc::AF_INET as usize, libc::SOCK_RAW as usize, 1])),
    ("netlink-socket", |_| call(libc::SYS_socket, [libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, 0])),
    ("unix-datagram-socket", |_| call(libc::SYS_socket, [libc::AF_UNIX as usize, libc::SOCK_DGRAM as usize, 0])),
    ("socket-filter", |given| {
        let (level, option) = (libc::SOL_SOCKET as usize, libc::SO_ATTACH_FILTER as usize);
        call(libc::SYS_setsockopt, [given.tcp.as_raw_fd() as usize, level, option, 0, 0])
    }),
    ("datagram-pair", |_| {
        let ends = [0_i32; 2];
        let kind = libc::SOCK_DGRAM as usize;
        call(libc::SYS_socketpair, [libc::AF_UNIX as usize, kind, 0, ends.as_ptr() as usize])
    }),
    // Code.
    ("map-code", |_| {
        let (code, private) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        call(libc::SYS_mmap, [0, PAGE, code as usize, private as usize, usize::MAX, 0])
    }),
    ("make-code", |_| {
        let page = vec![0_u8; 2 * PAGE];
        call(libc::SYS_mprotect, [at(&page).next_multiple_of(PAGE), PAGE, libc::PROT_EXEC as usize])
    }),
    ("make-code-with-key", |_| call(libc::SYS_pkey_mprotect, [0, 0, libc::PROT_EXEC as usize, 0])),
    ("personality", |_| call(libc::SYS_personality, [libc::READ_IMPLIES_EXEC as usize])),
    ("memfd", |_| call(libc::SYS_memfd_create, [at(EMPTY), 0])),
    ("memfd-secret", |_| call(libc::SYS_memfd_secret, [0])),
    ("shared-memory", |_| call(libc::SYS_shmget, [0, PAGE, libc::IPC_CREAT as usize])),
    ("message-queue", |_| call(libc::SYS_msgget, [0, libc::IPC_CREAT as usize])),
    ("posix-message-queue", |_| call(libc::SYS_mq_open, [at(EMPTY), 0, 0, 0])),
    // Paths beyond those of a deployment.
    ("openat2", |_| call(libc::SYS_openat2, [HERE, at(PATH), 0, 24])),
    ("open-by-handle", |given| call(libc::SYS_open_by_handle_at, [given.file.as_raw_fd() as usize, 0, 0])),
    ("linkat", |_| call(libc::SYS_linkat, [HERE, at(PATH), HERE, at(OTHER), 0])),
    ("symlinkat", |_| call(libc::SYS_symlinkat, [at(PATH), HERE, at(OTHER)])),
    ("mknodat", |_| call(libc::SYS_mknodat, [HERE, at(OTHER), libc::S_IFIFO as usize, 0])),
    ("truncate", |_| call(libc::SYS_truncate, [at(OTHER), 0])),
    ("chroot", |_| call(libc::SYS_chroot, [at(EMPTY)])),
    ("fchmodat", |_| call(libc::SYS_fchmodat, [HERE, at(OTHER), 0])),
    ("fchownat", |_| call(libc::SYS_fchownat, [HERE, at(OTHER), 0, 0, 0])),
    ("setxattr", |_| call(libc::SYS_setxattr, [at(OTHER), 0, 0, 0, 0])),
    ("statfs", |_| call(libc::SYS_statfs, [at(PATH), 0])),
    ("inotify", |_| call(libc::SYS_inotify_init1, [0])),
    ("fanotify", |_| call(libc::SYS_fanotify_init, [0, 0])),
    ("name-to-handle", |_| call(libc::SYS_name_to_handle_at, [HERE, at(PATH), 0, 0, 0])),
    // The kernel.
    ("mount", |_| call(libc::SYS_mount, [0, at(EMPTY), 0, 0, 0])),
    ("umount", |_| call(libc::SYS_umount2, [at(EMPTY), 0])),
    ("pivot-root", |_| call(libc::SYS_pivot_root, [at(EMPTY), at(EMPTY)])),
    ("fsopen", |_| call(libc::SYS_fsopen, [at(EMPTY), 0])),
    ("open-tree", |_| call(libc::SYS_open_tree, [HERE, at(EMPTY), 0])),
    ("bpf", |_| call(libc::SYS_bpf, [0, 0, 0])),
    ("perf-event", |_| call(libc::SYS_perf_event_open, [0, 0, 0, 0, 0])),
    ("userfaultfd", |_| call(libc::SYS_userfaultfd, [0])),
    ("io-uring", |_| call(libc::SYS_io_uring_setup, [1, 0])),
    ("keyctl", |_| call(libc::SYS_keyctl, [0, 0, 0, 0, 0])),
    ("add-key", |_| call(libc::SYS_add_key, [at(EMPTY), at(EMPTY), 0, 0, 0])),
    ("load-module", |_| call(libc::SYS_init_module, [0, 0, at(EMPTY)])),
    ("kexec", |_| call(libc::SYS_kexec_load, [0, 0, 0, 0])),
    ("reboot", |_| call(libc::SYS_reboot, [0, 0, 0, 0])),
    ("set-clock", |_| call(libc::SYS_clock_settime, [0, 0])),
    ("host-name", |_| call(libc::SYS_sethostname, [at(EMPTY), 0])),
    ("syslog", |_| call(libc::SYS_syslog, [9, 0, 0])),
    ("splice", |_| call(libc::SYS_splice, [0, 0, 0, 0, 0, 0])),
    ("vmsplice", |_| call(libc::SYS_vmsplice, [0, 0, 0, 0])),
    ("terminal-input", |_| call(libc::SYS_ioctl, [0, libc::TIOCSTI as usize, at(EMPTY)])),
    ("terminal-settings", |_| call(libc::SYS_ioctl, [0, libc::TCGETS as usize, 0])),
    ("lease", |given| {
        call(libc::SYS_fcntl, [given.file.as_raw_fd() as usize, libc::F_SETLEASE as usize, libc::F_RDLCK as usize])
    }),
    ("notify", |given| call(libc::SYS_fcntl, [given.folder.as_raw_fd() as usize, libc::F_NOTIFY as usize, 1])),
    // The process's own confinement.
    ("dumpable", |_| call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0])),
    ("allow-tracer", |given| call(libc::SYS_prctl, [libc::PR_SET_PTRACER as usize, given.parent, 0, 0, 0])),
    ("seccomp", |_| call(libc::SYS_seccomp, [0, 0, 0])),
    ("landlock", |_| call(libc::SYS_landlock_create_ruleset, [0, 0, 1])),
    ("setuid", |_| call(libc::SYS_setuid, [0])),
    ("setgroups", |_| call(libc::SYS_setgroups, [0, 0])),
    ("capset", |_| call(libc::SYS_capset, [0, 0])),
];

/// Attempts that a deployment may make, where Landlock and the kernel's own checks decide.
const REFUSED_TO_WORKERS: &[Attempt] = &[
    ("openat", |_| call(libc::SYS_openat, [HERE, at(PATH), 0, 0])),
    ("openat-below-folder", |given| {
        call(libc::SYS_openat, [given.folder.as_raw_fd() as usize, at(EMPTY) + 1, libc::O_PATH as usize])
    }),
    ("open-own-memory", |_| call(libc::SYS_openat, [HERE, at(MEMORY), libc::O_RDWR as usize, 0])),
    ("stat", |_| call(libc::SYS_newfstatat, [HERE, at(PATH), 0, 0])),
    ("statx", |_| call(libc::SYS_statx, [HERE, at(PATH), 0, 0, 0])),
    ("faccessat", |_| call(libc::SYS_faccessat, [HERE, at(PATH), 0])),
    ("faccessat2", |_| call(libc::SYS_faccessat2, [HERE, at(PATH), 0, 0])),
    ("readlinkat", |_| call(libc::SYS_readlinkat, [HERE, at(PATH), 0, 0])),
    ("getdents", |given| call(libc::SYS_getdents64, [given.folder.as_raw_fd() as usize, 0, 0])),
    ("mkdirat", |_| call(libc::SYS_mkdirat, [HERE, at(OTHER), 0])),
    ("unlinkat", |_| call(libc::SYS_unlinkat, [HERE, at(OTHER), 0])),
    ("renameat2", |_| call(libc::SYS_renameat2, [HERE, at(OTHER), HERE, at(OTHER), 0])),
    ("fchmod", |given| call(libc::SYS_fchmod, [given.file.as_raw_fd() as usize, 0o4777])),
    ("tcp-socket", |_| call(libc::SYS_socket, [libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0])),
    ("unix-socket", |_| call(libc::SYS_socket, [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0])),
    ("bind", |given| call(libc::SYS_bind, [given.udp.as_raw_fd() as usize, given.address.as_ptr() as usize, 16])),
    ("listen", |given| call(libc::SYS_listen, [given.tcp.as_raw_fd() as usize, 1])),
    ("accept", |given| call(libc::SYS_accept4, [given.tcp.as_raw_fd() as usize, 0, 0, libc::SOCK_NONBLOCK as usize])),
    ("setsockopt", |given| call(libc::SYS_setsockopt, [given.tcp.as_raw_fd() as usize, 1, 2, 0, 0])),
    ("new-thread", |_| {
        let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        call(libc::SYS_clone, [flags as usize, 0, 0, 0, 0])
    }),
];

/// Attempts with an end of their own.
const SPECIAL: &[Attempt] = &[
    ("clone3", |_| call(libc::SYS_clone3, [0, 0])),
    // `getpid`, which is allowed under its own number.
    ("x32", |_| call(0x4000_0000 | libc::SYS_getpid, [])),
];

/// Returns the names of what must be refused under a list.
pub(crate) fn names(list: &str) -> Vec<&'static str> {
    let mut names: Vec<_> = REFUSED_ALWAYS.iter().map(|(name, _)| *name).collect();
    if list == "SqlWorker" {
        names.extend(REFUSED_TO_WORKERS.iter().map(|(name, _)| *name));
    }
    names
}

/// Confines this process, tries `names`, and reports each result: 0, or the number of the error.
pub(crate) fn perform(list: &str, refusal: &str, names: &[&str]) {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut address = [0; 16];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&tcp.local_addr().unwrap().port().to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    let given = Given {
        parent: std::os::unix::process::parent_id() as usize,
        file: File::open(std::env::current_exe().unwrap()).unwrap(),
        folder: File::open("/").unwrap(),
        tcp,
        udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
        unix: UnixStream::pair().unwrap().0,
        address,
    };
    probe::confine(list, refusal);
    for name in names {
        let mut attempts = REFUSED_ALWAYS.iter().chain(REFUSED_TO_WORKERS).chain(SPECIAL);
        let (_, attempt) = attempts.find(|(known, _)| known == name).unwrap();
        probe::report(&format!("{name} {}", attempt(&given).err().unwrap_or(0)));
    }
}
