//! What a compromised worker tries, to leave its database.

use super::raw::call;

/// What a worker knows of the processes and files around it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Targets {
    /// Another database, and the worker's own.
    pub(crate) other_path: String,
    pub(crate) own_path: String,
    pub(crate) server: usize,
    pub(crate) worker: usize,
    /// Where the server has a secret in its memory.
    pub(crate) secret: usize,
    /// A port of the server.
    pub(crate) port: u16,
    /// Name of an abstract socket of the server.
    pub(crate) abstract_name: String,
    /// The worker's own database.
    pub(crate) database: usize,
}

impl Targets {
    pub(crate) fn to_text(&self) -> String {
        let Self { other_path, own_path, server, worker, secret, port, abstract_name, .. } = self;
        format!("{other_path} {own_path} {server} {worker} {secret} {port} {abstract_name}")
    }

    pub(super) fn parse(text: &str, database: usize) -> Self {
        let [other_path, own_path, server, worker, secret, port, abstract_name] =
            text.split(' ').collect::<Vec<_>>().try_into().unwrap();
        Self {
            other_path: format!("{other_path}\0"),
            own_path: format!("{own_path}\0"),
            server: server.parse().unwrap(),
            worker: worker.parse().unwrap(),
            secret: secret.parse().unwrap(),
            port: port.parse().unwrap(),
            abstract_name: abstract_name.to_owned(),
            database,
        }
    }
}

/// How the kernel refuses an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The system call is not in the list.
    ByList,
    /// A call with a path, which fails in every mode.
    Path,
    /// By other means, with an error of this number.
    Otherwise(i32),
}

/// A way out, and how it is closed.
pub(crate) type Attempt = (&'static str, Refused, fn(&Targets) -> Result<usize, i32>);

const HERE: usize = libc::AT_FDCWD as usize;
const PAGE: usize = 4096;
const NO_SIGNAL: usize = 0;
use Refused::{ByList, Otherwise, Path};

fn at(text: &str) -> usize {
    text.as_ptr() as usize
}

fn open(path: &str, flags: i32) -> Result<usize, i32> {
    let path = format!("{path}\0");
    call(libc::SYS_openat, [HERE, at(&path), flags as usize, 0])
}

/// Reads from another process, and returns what was read.
fn read_memory(process: usize, address: usize) -> Result<usize, i32> {
    let mut bytes = [0_u8; 16];
    let near = [bytes.as_mut_ptr() as usize, bytes.len()];
    let far = [address, bytes.len()];
    call(libc::SYS_process_vm_readv, [process, near.as_ptr() as usize, 1, far.as_ptr() as usize, 1, 0])
}

pub(crate) const ATTEMPTS: &[Attempt] = &[
    // Files.
    ("open-other-database", Path, |to| call(libc::SYS_openat, [HERE, at(&to.other_path), 0, 0])),
    ("open-other-database-to-write", Path, |to| {
        call(libc::SYS_openat, [HERE, at(&to.other_path), libc::O_RDWR as usize, 0])
    }),
    ("open-own-database-again", Path, |to| call(libc::SYS_openat, [HERE, at(&to.own_path), libc::O_RDWR as usize, 0])),
    ("reopen-own-descriptor", Path, |to| open(&format!("/proc/self/fd/{}", to.database), libc::O_RDWR)),
    ("reopen-own-descriptor-to-read", Path, |to| open(&format!("/proc/self/fd/{}", to.database), 0)),
    ("descriptor-of-server", Path, |to| open(&format!("/proc/{}/fd/3", to.server), 0)),
    ("descriptors-of-server", Path, |to| open(&format!("/proc/{}/fd", to.server), libc::O_DIRECTORY)),
    ("descriptor-of-worker", Path, |to| open(&format!("/proc/{}/fd/5", to.worker), 0)),
    ("memory-of-server", Path, |to| open(&format!("/proc/{}/mem", to.server), libc::O_RDWR)),
    ("memory-of-worker", Path, |to| open(&format!("/proc/{}/mem", to.worker), libc::O_RDWR)),
    ("own-memory", Path, |_| open("/proc/self/mem", libc::O_RDWR)),
    ("environment-of-server", Path, |to| open(&format!("/proc/{}/environ", to.server), 0)),
    ("environment-of-worker", Path, |to| open(&format!("/proc/{}/environ", to.worker), 0)),
    ("maps-of-server", Path, |to| open(&format!("/proc/{}/maps", to.server), 0)),
    ("passwords", Path, |_| open("/etc/passwd", 0)),
    ("new-file", Path, |_| open("/tmp/branchyard-must-not-exist", libc::O_CREAT | libc::O_RDWR)),
    ("unnamed-file", Path, |_| open("/tmp", libc::O_TMPFILE | libc::O_RDWR)),
    ("null-device", Path, |_| open("/dev/null", 0)),
    ("memory-device", Path, |_| open("/dev/mem", 0)),
    ("disk-device", Path, |_| open("/dev/vda", 0)),
    ("terminal", Path, |_| open("/dev/tty", libc::O_RDWR)),
    ("folder", Path, |_| open("/", libc::O_DIRECTORY)),
    ("path-only", Path, |_| open("/", libc::O_PATH)),
    ("access", Path, |to| call(libc::SYS_faccessat, [HERE, at(&to.other_path), 0])),
    ("readlink", Path, |to| call(libc::SYS_readlinkat, [HERE, at(&to.other_path), 0, 0])),
    ("open-with-rules", ByList, |to| call(libc::SYS_openat2, [HERE, at(&to.other_path), 0, 24])),
    ("stat", ByList, |to| call(libc::SYS_newfstatat, [HERE, at(&to.other_path), 0, 0])),
    ("link", ByList, |to| call(libc::SYS_linkat, [HERE, at(&to.other_path), HERE, at(&to.own_path), 0])),
    ("link-descriptor", ByList, |to| {
        call(libc::SYS_linkat, [to.database, at("\0"), HERE, at(&to.own_path), libc::AT_EMPTY_PATH as usize])
    }),
    ("symlink", ByList, |to| call(libc::SYS_symlinkat, [at(&to.other_path), HERE, at(&to.own_path)])),
    ("rename", ByList, |to| call(libc::SYS_renameat2, [HERE, at(&to.other_path), HERE, at(&to.own_path), 0])),
    ("unlink", ByList, |to| call(libc::SYS_unlinkat, [HERE, at(&to.other_path), 0])),
    ("truncate-by-path", ByList, |to| call(libc::SYS_truncate, [at(&to.other_path), 0])),
    ("make-folder", ByList, |_| call(libc::SYS_mkdirat, [HERE, at("/tmp/branchyard-must-not-exist\0"), 0])),
    ("make-device", ByList, |_| {
        let kind = (libc::S_IFBLK | 0o666) as usize;
        call(libc::SYS_mknodat, [HERE, at("/tmp/branchyard-must-not-exist\0"), kind, 0xfe00])
    }),
    ("change-mode", ByList, |to| call(libc::SYS_fchmod, [to.database, 0o666])),
    ("change-owner", ByList, |to| call(libc::SYS_fchown, [to.database, 0, 0])),
    ("mount", ByList, |_| call(libc::SYS_mount, [at("/\0"), at("/tmp\0"), 0, libc::MS_BIND as usize, 0])),
    ("change-root", ByList, |_| call(libc::SYS_chroot, [at("/\0")])),
    ("open-by-handle", ByList, |to| call(libc::SYS_open_by_handle_at, [to.database, 0, 0])),
    ("copy-file", ByList, |to| call(libc::SYS_copy_file_range, [to.database, 0, to.database, 0, 1, 0])),
    ("allocate", ByList, |to| call(libc::SYS_fallocate, [to.database, 0, 0, PAGE])),
    ("append-mode", ByList, |to| call(libc::SYS_fcntl, [to.database, libc::F_SETFL as usize, libc::O_APPEND as usize])),
    // Network.
    ("tcp", ByList, |_| call(libc::SYS_socket, [libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0])),
    ("tcp-6", ByList, |_| call(libc::SYS_socket, [libc::AF_INET6 as usize, libc::SOCK_STREAM as usize, 0])),
    ("udp", ByList, |_| call(libc::SYS_socket, [libc::AF_INET as usize, libc::SOCK_DGRAM as usize, 0])),
    ("netlink", ByList, |_| call(libc::SYS_socket, [libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, 0])),
    ("virtual-machine-socket", ByList, |_| {
        call(libc::SYS_socket, [libc::AF_VSOCK as usize, libc::SOCK_STREAM as usize, 0])
    }),
    ("unix", ByList, |_| call(libc::SYS_socket, [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0])),
    ("socket-pair", ByList, |_| {
        let mut pair = [0_i32; 2];
        let kind = libc::SOCK_STREAM as usize;
        call(libc::SYS_socketpair, [libc::AF_UNIX as usize, kind, 0, pair.as_mut_ptr() as usize])
    }),
    ("connect-tcp", ByList, |to| {
        let mut address = [0_u8; 16];
        address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        address[2..4].copy_from_slice(&to.port.to_be_bytes());
        address[4..8].copy_from_slice(&[127, 0, 0, 1]);
        call(libc::SYS_connect, [0, address.as_ptr() as usize, address.len()])
    }),
    ("connect-abstract", ByList, |to| {
        let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
        address.push(0);
        address.extend_from_slice(to.abstract_name.as_bytes());
        call(libc::SYS_connect, [0, address.as_ptr() as usize, address.len()])
    }),
    ("bind", ByList, |_| call(libc::SYS_bind, [0, 0, 0])),
    ("listen", ByList, |_| call(libc::SYS_listen, [0, 1])),
    ("accept", ByList, |_| call(libc::SYS_accept4, [0, 0, 0, 0])),
    ("socket-option", ByList, |_| call(libc::SYS_setsockopt, [0, libc::SOL_SOCKET as usize, 16, 0, 0])),
    // Other processes.
    ("trace-server", ByList, |to| call(libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, to.server, 0, 0])),
    ("trace-worker", ByList, |to| call(libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, to.worker, 0, 0])),
    ("read-server", ByList, |to| read_memory(to.server, to.secret)),
    ("read-worker", ByList, |to| read_memory(to.worker, to.secret)),
    ("write-server", ByList, |to| call(libc::SYS_process_vm_writev, [to.server, 0, 0, 0, 0, 0])),
    ("advise-worker", ByList, |_| call(libc::SYS_process_madvise, [0, 0, 0, libc::MADV_PAGEOUT as usize, 0])),
    ("kill-server", ByList, |to| call(libc::SYS_kill, [to.server, NO_SIGNAL])),
    ("kill-worker", ByList, |to| call(libc::SYS_kill, [to.worker, libc::SIGKILL as usize])),
    ("kill-all", ByList, |_| call(libc::SYS_kill, [usize::MAX, NO_SIGNAL])),
    ("tkill-worker", ByList, |to| call(libc::SYS_tkill, [to.worker, libc::SIGKILL as usize])),
    ("abort-server", ByList, |to| call(libc::SYS_tgkill, [to.server, to.server, libc::SIGABRT as usize])),
    ("abort-worker", ByList, |to| call(libc::SYS_tgkill, [to.worker, to.worker, libc::SIGABRT as usize])),
    ("queue-signal", ByList, |to| call(libc::SYS_rt_sigqueueinfo, [to.worker, libc::SIGKILL as usize, 0])),
    ("signal-by-owner", ByList, |to| call(libc::SYS_fcntl, [0, libc::F_SETOWN as usize, to.server])),
    ("refer-to-server", ByList, |to| call(libc::SYS_pidfd_open, [to.server, 0])),
    ("take-descriptor", ByList, |_| call(libc::SYS_pidfd_getfd, [0, 3, 0])),
    ("signal-by-reference", ByList, |_| call(libc::SYS_pidfd_send_signal, [0, NO_SIGNAL, 0, 0])),
    ("limit-server", ByList, |to| call(libc::SYS_prlimit64, [to.server, libc::RLIMIT_AS as usize, 0, 0])),
    ("slow-server", ByList, |to| call(libc::SYS_setpriority, [0, to.server, 19])),
    ("schedule", ByList, |to| call(libc::SYS_sched_setaffinity, [to.server, 0, 0])),
    ("compare", ByList, |to| call(libc::SYS_kcmp, [to.server, to.worker, 0, 0, 0])),
    // Other programs.
    ("execute", ByList, |_| call(libc::SYS_execve, [at("/bin/true\0"), 0, 0])),
    ("execute-descriptor", ByList, |to| {
        call(libc::SYS_execveat, [to.database, at("\0"), 0, 0, libc::AT_EMPTY_PATH as usize])
    }),
    ("fork", ByList, |_| call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0])),
    ("thread", ByList, |_| {
        let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        // With a new namespace, which the kernel refuses to threads, should the filter let it through.
        call(libc::SYS_clone, [(flags | libc::CLONE_NEWNS) as usize, 0, 0, 0, 0])
    }),
    ("clone3", ByList, |_| call(libc::SYS_clone3, [0, 0])),
    ("namespace", ByList, |_| call(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize])),
    ("enter-namespace", ByList, |to| call(libc::SYS_setns, [to.database, 0])),
    // Code.
    ("map-code", ByList, |_| {
        let (code, kind) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        call(libc::SYS_mmap, [0, PAGE, code as usize, kind as usize, usize::MAX, 0])
    }),
    ("map-code-of-database", ByList, |to| {
        let code = (libc::PROT_READ | libc::PROT_EXEC) as usize;
        call(libc::SYS_mmap, [0, PAGE, code, libc::MAP_PRIVATE as usize, to.database, 0])
    }),
    ("make-code", ByList, |_| {
        let pages = vec![0_u8; 2 * PAGE];
        let page = (pages.as_ptr() as usize).next_multiple_of(PAGE);
        call(libc::SYS_mprotect, [page, PAGE, (libc::PROT_READ | libc::PROT_EXEC) as usize])
    }),
    ("make-code-with-key", ByList, |_| call(libc::SYS_pkey_mprotect, [0, 0, libc::PROT_EXEC as usize, 0])),
    ("read-as-code", ByList, |_| call(libc::SYS_personality, [libc::READ_IMPLIES_EXEC as usize])),
    ("memory-file", ByList, |_| call(libc::SYS_memfd_create, [at("x\0"), 0])),
    ("shared-memory", ByList, |_| call(libc::SYS_shmget, [0, PAGE, libc::IPC_CREAT as usize])),
    // The kernel.
    ("io-uring", ByList, |_| call(libc::SYS_io_uring_setup, [1, 0])),
    ("bpf", ByList, |_| call(libc::SYS_bpf, [0, 0, 0])),
    ("userfaultfd", ByList, |_| call(libc::SYS_userfaultfd, [0])),
    ("perf", ByList, |_| call(libc::SYS_perf_event_open, [0, 0, usize::MAX, usize::MAX, 0])),
    ("keys", ByList, |_| call(libc::SYS_keyctl, [0, 0, 0, 0, 0])),
    ("module", ByList, |_| call(libc::SYS_init_module, [0, 0, at("\0")])),
    ("kernel-log", ByList, |_| call(libc::SYS_syslog, [9, 0, 0])),
    // Its own confinement.
    ("raise-limit-of-files", ByList, |_| {
        let limit = [u64::MAX; 2];
        call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as usize, limit.as_ptr() as usize, 0])
    }),
    ("raise-limit-of-memory", ByList, |_| {
        let limit = [u64::MAX; 2];
        call(libc::SYS_setrlimit, [libc::RLIMIT_AS as usize, limit.as_ptr() as usize])
    }),
    ("dumpable", ByList, |_| call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0])),
    ("filter", ByList, |_| call(libc::SYS_seccomp, [0, 0, 0])),
    ("rules", ByList, |_| call(libc::SYS_landlock_create_ruleset, [0, 0, 1])),
    ("become-root", ByList, |_| call(libc::SYS_setuid, [0])),
    ("capabilities", ByList, |_| call(libc::SYS_capset, [0, 0])),
    // Descriptors that it has, of a worker that reads.
    ("write-database", Otherwise(libc::EBADF), |to| call(libc::SYS_pwrite64, [to.database, at("x\0"), 1, 0])),
    ("cut-database", Otherwise(libc::EINVAL), |to| call(libc::SYS_ftruncate, [to.database, 0])),
    ("write-through-map", Otherwise(libc::EACCES), |to| {
        let write = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        call(libc::SYS_mmap, [0, PAGE, write, libc::MAP_SHARED as usize, to.database, 0])
    }),
];
