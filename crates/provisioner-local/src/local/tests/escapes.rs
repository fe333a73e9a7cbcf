//! What the process of an instance reaches after it was taken over. The program of the instance is this test program: it
//! confines itself as the real one does, and then tries to get out.

mod raw;

use std::env;
use std::io::{self, ErrorKind, Write as _};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::parent_id;
use std::process::{Command, exit};

use branchyard_confinement::{Refusal, kernel_support};

use super::*;
use crate::child::confinement::{REFUSAL, confine_with};
use crate::child::resources;
use raw::call;

/// Name of the variable that makes a process of this test program a compromised one.
const TASK: &str = "BRANCHYARD_COMPROMISED";
/// Name of the program of the instance, in the folder of the harness.
const PROGRAM: &str = "program";
/// Name of the file with the results, in the folder of the instance.
const RESULTS: &str = "log/results";

/// What stops an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// The list of system calls: an error, or death.
    SystemCalls,
    /// Landlock: an error in either case.
    Files,
}

/// The surroundings of the compromised process.
struct Scene {
    home: PathBuf,
    /// The folder of the server, with its key.
    server: PathBuf,
    /// The folder of another instance.
    other: PathBuf,
    /// The port of a listener of the server.
    port: u16,
    /// The process of the server.
    parent: u32,
}

impl Scene {
    fn of_parent(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.parent)
    }
}

type Attempt = (&'static str, Guard, fn(&Scene) -> io::Result<()>);

const ATTEMPTS: &[Attempt] = &[
    ("read a database of another instance", Guard::Files, |scene| fs::read(scene.other.join("db/data")).map(drop)),
    ("write to a database of another instance", Guard::Files, |scene| fs::write(scene.other.join("db/data"), "")),
    ("create a file in another instance", Guard::Files, |scene| fs::write(scene.other.join("db/new"), "")),
    ("remove a file of another instance", Guard::Files, |scene| fs::remove_file(scene.other.join("db/data"))),
    ("rename into another instance", Guard::Files, |scene| {
        fs::rename(scene.home.join("db/own"), scene.other.join("db/data"))
    }),
    ("list the deployments", Guard::Files, |scene| fs::read_dir(scene.home.join("../..")).map(drop)),
    ("read the key of the server", Guard::Files, |scene| fs::read(scene.server.join("server.key")).map(drop)),
    ("read through a link that was there", Guard::Files, |scene| fs::read(scene.home.join("db/out")).map(drop)),
    ("read a file of the machine", Guard::Files, |_| fs::read("/etc/passwd").map(drop)),
    ("list processes", Guard::Files, |_| fs::read_dir("/proc").map(drop)),
    ("read the environment of the server", Guard::Files, |scene| fs::read(scene.of_parent("environ")).map(drop)),
    ("read the command of the server", Guard::Files, |scene| fs::read(scene.of_parent("cmdline")).map(drop)),
    ("open the memory of the server", Guard::Files, |scene| File::open(scene.of_parent("mem")).map(drop)),
    ("list the descriptors of the server", Guard::Files, |scene| fs::read_dir(scene.of_parent("fd")).map(drop)),
    ("open its own memory", Guard::Files, |_| File::open("/proc/self/mem").map(drop)),
    ("listen on another port", Guard::Files, |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("hard link to a database of another instance", Guard::SystemCalls, |scene| {
        fs::hard_link(scene.other.join("db/data"), scene.home.join("db/hard"))
    }),
    ("symbolic link", Guard::SystemCalls, |scene| {
        symlink(scene.server.join("server.key"), scene.home.join("db/symbolic"))
    }),
    ("connect to the server", Guard::SystemCalls, |scene| TcpStream::connect(("127.0.0.1", scene.port)).map(drop)),
    ("connect to the socket of another instance", Guard::SystemCalls, |scene| {
        UnixStream::connect(scene.other.join("control")).map(drop)
    }),
    ("look up a name", Guard::SystemCalls, |_| std::net::UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("run a program", Guard::SystemCalls, |_| Command::new("/bin/true").status().map(drop)),
    ("become a program", Guard::SystemCalls, |_| {
        let path = c"/bin/true";
        call(libc::SYS_execve, [path.as_ptr() as usize, 0, 0])
    }),
    ("fork", Guard::SystemCalls, |_| call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0])),
    ("signal the server", Guard::SystemCalls, |scene| call(libc::SYS_kill, [scene.parent as usize, 0])),
    ("trace the server", Guard::SystemCalls, |scene| {
        call(libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, scene.parent as usize, 0, 0])
    }),
    ("read the memory of the server", Guard::SystemCalls, |scene| {
        call(libc::SYS_process_vm_readv, [scene.parent as usize, 0, 0, 0, 0, 0])
    }),
    ("take a descriptor of the server", Guard::SystemCalls, |scene| {
        call(libc::SYS_pidfd_open, [scene.parent as usize, 0])
    }),
    ("map code", Guard::SystemCalls, |_| {
        let (code, private) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        call(libc::SYS_mmap, [0, 4096, code as usize, private as usize, usize::MAX, 0])
    }),
    ("become dumpable", Guard::SystemCalls, |_| call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0])),
];

/// The instance of a harness, whose program confines itself with `refusal` and makes the attempts with these indices.
struct Escape {
    harness: ProcessHarness,
    other: PathBuf,
    tcp: TcpListener,
    _socket: UnixListener,
}

impl Escape {
    fn new() -> Self {
        let harness = ProcessHarness::with_program(Path::new(PROGRAM));
        let other = harness.dir.path().join("deployments/other/instance");
        fs::create_dir_all(other.join("db")).unwrap();
        fs::write(other.join("db/data"), DATA).unwrap();
        fs::write(harness.home().join("db/own"), "rows of an attacker").unwrap();
        symlink(harness.secret(), harness.home().join("db/out")).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = UnixListener::bind(other.join("control")).unwrap();
        Self { harness, other, tcp, _socket: socket }
    }

    /// Runs the instance to its end. Returns the cause of its end, and the results.
    fn run(&self, refusal: Refusal, attempts: &[usize]) -> (String, String) {
        let results = self.harness.home().join(RESULTS);
        fs::remove_file(&results).unwrap_or_default();
        let port = self.tcp.local_addr().unwrap().port();
        let indices = attempts.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        let script = format!(
            "#!/bin/sh\nexport {TASK}=\"$3 {refusal:?} {port} {indices}\"\nexec '{}' --exact {} --nocapture --test-threads=1\n",
            env::current_exe().unwrap().display(),
            "local::tests::escapes::compromised_process",
        );
        // Written by another process: a file that this one has open for writing cannot be executed by a process forked meanwhile.
        let program = self.harness.dir.path().join(PROGRAM);
        let write = "rm -f \"$2\" && printf %s \"$1\" > \"$2\" && chmod +x \"$2\"";
        assert!(Command::new("sh").args(["-c", write, "sh", &script]).arg(&program).status().unwrap().success());
        let handle = self.harness.local.start(&self.harness.spec).unwrap();
        let event = self.harness.local.watch(&handle, Duration::from_secs(60)).unwrap();
        let Some(InstanceEvent::Ended { cause, stderr }) = event else { panic!("{event:?}") };
        let read = fs::read_to_string(&results).unwrap_or_default();
        (cause, format!("{read}{stderr}"))
    }

    fn is_unharmed(&self) {
        self.harness.is_unharmed();
        assert_eq!(fs::read_to_string(self.other.join("db/data")).unwrap(), DATA);
        assert_eq!(fs::read_dir(self.other.join("db")).unwrap().count(), 1);
        self.tcp.set_nonblocking(true).unwrap();
        assert_eq!(self.tcp.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let names = ["hard", "symbolic"].map(|name| self.harness.home().join("db").join(name));
        assert!(names.iter().all(|path| fs::symlink_metadata(path).is_err()));
    }
}

/// Returns `false`, and says so, if this kernel cannot confine a process.
fn can_confine() -> bool {
    let support = kernel_support();
    let is_enough = support.is_complete() && support.landlock_abi >= Some(4);
    if !is_enough {
        println!("skipped: this kernel offers {support:?}");
    }
    is_enough
}

/// In a run of the tests it does nothing.
#[test]
fn compromised_process() {
    let Ok(task) = env::var(TASK) else { return };
    let mut words = task.split(' ');
    let run = PathBuf::from(words.next().unwrap());
    let refusal = if words.next() == Some("Kill") { Refusal::Kill } else { Refusal::Error };
    let port = words.next().unwrap().parse().unwrap();
    let home = run.parent().unwrap().to_owned();
    let server = home.ancestors().nth(3).unwrap().to_owned();
    let scene = Scene { other: server.join("deployments/other/instance"), home, server, port, parent: parent_id() };
    let spec: Spec = serde_json::from_slice(&fs::read(run.join(folder::SPEC)).unwrap()).unwrap();
    resources::limit(spec.memory_gb, spec.volume_gb).unwrap();
    confine_with(&scene.home, spec.port, refusal).unwrap();
    let mut results = File::create(scene.home.join(RESULTS)).unwrap();
    for index in words {
        let (name, _, attempt) = ATTEMPTS[index.parse::<usize>().unwrap()];
        let result = attempt(&scene).map_err(|error| error.raw_os_error());
        writeln!(results, "{name}: {result:?}").unwrap();
    }
    exit(0);
}

#[test]
fn a_compromised_process_gets_errors_where_it_has_no_business() {
    if !can_confine() {
        return;
    }
    let escape = Escape::new();
    let all: Vec<usize> = (0..ATTEMPTS.len()).collect();
    let (cause, results) = escape.run(REFUSAL, &all);
    assert_eq!(cause, "exit status 0", "{results}");
    let lines: Vec<&str> = results.lines().collect();
    assert_eq!(lines.len(), ATTEMPTS.len(), "{results}");
    for ((name, guard, _), line) in ATTEMPTS.iter().zip(lines) {
        let errors = match guard {
            Guard::SystemCalls => &[libc::EPERM][..],
            Guard::Files => &[libc::EACCES, libc::EXDEV],
        };
        let expected: Vec<String> = errors.iter().map(|error| format!("{name}: Err(Some({error}))")).collect();
        assert!(expected.iter().any(|expected| expected == line), "{line}");
    }
    escape.is_unharmed();
}

#[test]
fn a_compromised_process_dies_of_each_refused_call_in_kill_mode() {
    if !can_confine() {
        return;
    }
    let escape = Escape::new();
    let (files, calls): (Vec<usize>, Vec<usize>) =
        (0..ATTEMPTS.len()).partition(|index| ATTEMPTS[*index].1 == Guard::Files);
    let (cause, results) = escape.run(Refusal::Kill, &files);
    assert_eq!(cause, "exit status 0", "{results}");
    assert_eq!(results.lines().filter(|line| line.contains("Err(Some(")).count(), files.len(), "{results}");
    for index in calls {
        let (cause, results) = escape.run(Refusal::Kill, &[index]);
        assert_eq!((cause.as_str(), results.as_str()), ("signal 31", ""), "{}", ATTEMPTS[index].0);
    }
    escape.is_unharmed();
}

#[test]
fn an_instance_does_not_start_where_its_process_cannot_be_confined_unless_that_is_allowed() {
    for (seccomp, landlock_abi) in [(false, Some(7)), (true, None), (false, None)] {
        let mut harness = ProcessHarness::new();
        let local = Arc::get_mut(&mut harness.local).unwrap();
        local.support = KernelSupport { seccomp, landlock_abi };
        local.settings.allow_unconfined = false;
        let error = harness.local.start(&harness.spec).unwrap_err();
        assert!(matches!(error, ProvisionError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("hosted.allow_unconfined"), "{error}");
        Arc::get_mut(&mut harness.local).unwrap().settings.allow_unconfined = true;
        let handle = harness.local.start(&harness.spec).unwrap();
        harness.local.stop(&handle, Duration::from_secs(60)).unwrap();
    }
}
