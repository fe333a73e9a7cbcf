//! What a worker that was taken over reaches: nothing but its database.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};

use branchyard_domain::ports::{EngineError, ReadReport};

use super::{AMPLE, Db, Harness};
use crate::inherited::close_at_exec;
use crate::launcher::{Launched, start_worker};
use crate::messages::{Bind, Call, FromWorker, Setup, ToWorker};
use crate::pool;
use crate::process::{Access, WorkerProcess};
use crate::wire::Wire as _;
use crate::worker::tests::{ATTEMPTS, DEED, Refused, Targets, command};

/// A secret in the memory of the server.
static SECRET: [u8; 16] = *b"a secret of ours";

/// A worker whose end this test sees.
struct Taken {
    process: Child,
    worker: WorkerProcess,
    db: Db,
}

impl Taken {
    fn start(harness: &Harness, db: &Db, access: Access, kills: bool, user: u32) -> Self {
        // As the launcher does.
        close_at_exec().unwrap();
        let arguments = command(&harness.folder.path().join("count"), "").arguments;
        let user = rustix::process::geteuid().is_root().then_some(user);
        let (process, [socket, control, reference]) = start_worker(&arguments, user).unwrap();
        let launched = Launched { socket, control, process: reference, pid: process.id() };
        let options = &harness.engine.options.engine;
        let setup = Setup {
            statement_memory: options.statement_memory,
            most_memory: i64::MAX,
            pattern_bytes: 1000,
            bounded_functions: options.bounded_functions,
            trial_merge_timeout: AMPLE,
            fetch_step: AMPLE,
            diff_timeout: AMPLE,
            count_timeout: AMPLE,
            verify_timeout: AMPLE,
            long_every: None,
            kills,
            requires_confinement: true,
        };
        let mut worker = WorkerProcess::set_up(launched, &setup).unwrap();
        let files = pool::open(&path(harness, db), access).unwrap();
        let descriptors: Vec<_> = files.iter().map(File::as_fd).collect();
        worker.bind(&Bind { database: db.id, limits_history: false }, access, 0, &descriptors).unwrap();
        Self { process, worker, db: db.clone() }
    }

    /// Lets the worker do something. Returns its report, or `None` if it ended.
    fn does(&mut self, deed: &str) -> Option<String> {
        let call = Call::Read { at: self.db.head.clone(), sql: format!("{DEED}{deed}\n"), timeout: AMPLE };
        let put = |out: &mut Vec<u8>| {
            1_u32.put(out);
            call.put(out);
        };
        let channel = &mut self.worker.channel;
        channel.queue(ToWorker::Call.number(), put).unwrap();
        channel.flush(&[], &mut || true).unwrap();
        let message = channel.receive(&mut || true, &mut |_| true).ok()?;
        assert_eq!(FromWorker::of(message.kind), Some(FromWorker::Done));
        match <(u32, Result<ReadReport, EngineError>)>::decode(message.content).unwrap().1 {
            Err(EngineError::Unavailable(text)) => Some(text),
            other => panic!("{other:?}"),
        }
    }

    fn end(self) -> ExitStatus {
        let Self { mut process, worker, .. } = self;
        drop(worker);
        process.wait().unwrap()
    }
}

fn path(harness: &Harness, db: &Db) -> PathBuf {
    harness.engine.files.path(db.id)
}

/// A server with two databases and a worker of the second.
struct Scene {
    harness: Harness,
    own: Db,
    other: Db,
    victim: Taken,
    targets: Targets,
    _sockets: (TcpListener, UnixListener),
}

impl Scene {
    fn new(name: &str) -> Self {
        let harness = Harness::new();
        let (own, other) = (harness.database(1), harness.database(2));
        let victim = Taken::start(&harness, &other, Access::Read, true, 61_185);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let abstract_name = format!("branchyard-{name}-{}", std::process::id());
        let unix = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
        let targets = Targets {
            other_path: path(&harness, &other).display().to_string(),
            own_path: path(&harness, &own).display().to_string(),
            server: std::process::id() as usize,
            worker: victim.process.id() as usize,
            secret: SECRET.as_ptr() as usize,
            port: tcp.local_addr().unwrap().port(),
            abstract_name,
            database: 0,
        };
        Self { harness, own, other, victim, targets, _sockets: (tcp, unix) }
    }

    fn worker(&self, access: Access, kills: bool) -> Taken {
        Taken::start(&self.harness, &self.own, access, kills, 61_184)
    }

    /// Checks that the attempts had no effect.
    fn check_unharmed(mut self) {
        assert!(self.victim.does("identity").is_some());
        assert!(!std::path::Path::new("/tmp/branchyard-must-not-exist").exists());
        self.harness.works(&[&self.own, &self.other]);
    }
}

#[test]
fn every_attempt_is_refused_with_an_error() {
    let scene = Scene::new("error");
    let mut worker = scene.worker(Access::Read, false);
    let text = worker.does(&format!("attempt all {}", scene.targets.to_text())).unwrap();
    let expected: Vec<_> = ATTEMPTS
        .iter()
        .map(|(name, refused, _)| match refused {
            Refused::ByList | Refused::Path => format!("{name} {}", libc::EPERM),
            Refused::Otherwise(error) => format!("{name} {error}"),
        })
        .collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    assert!(worker.does("identity").is_some());
    println!("{} attempts", ATTEMPTS.len());
    scene.check_unharmed();
}

#[test]
fn every_attempt_ends_the_worker_or_fails() {
    let scene = Scene::new("kill");
    let mut worker = scene.worker(Access::Read, true);
    for (name, refused, _) in ATTEMPTS {
        let report = worker.does(&format!("attempt {name} {}", scene.targets.to_text()));
        let error = match refused {
            Refused::ByList => {
                assert_eq!(report, None, "{name}");
                let status = worker.end();
                assert_eq!(status.signal(), Some(libc::SIGSYS), "{name}: {status:?}");
                worker = scene.worker(Access::Read, true);
                continue;
            }
            Refused::Path => libc::EPERM,
            Refused::Otherwise(error) => *error,
        };
        assert_eq!(report, Some(format!("{name} {error}")));
    }
    scene.check_unharmed();
}

#[test]
fn a_worker_has_its_database_its_sockets_and_a_user_of_its_own() {
    let scene = Scene::new("have");
    for access in [Access::Read, Access::Write] {
        let mut worker = scene.worker(access, true);
        let identity = worker.does("identity").unwrap();
        let user = identity.split(' ').nth(1).unwrap();
        if rustix::process::geteuid().is_root() {
            assert_eq!(user, "61184");
        }
        let inode = |path: PathBuf| std::fs::metadata(path).unwrap().ino();
        // The played workers count in a file.
        let mut files = vec![inode(path(&scene.harness, &scene.own)), inode(scene.harness.folder.path().join("count"))];
        if access == Access::Write {
            files.push(inode(branchyard_engine_doltlite::lock_path(&path(&scene.harness, &scene.own))));
        }
        let text = worker.does("descriptors").unwrap();
        println!("{access:?}: {text}");
        for descriptor in text.split(' ') {
            let (number, kind) = descriptor.split_once(':').unwrap();
            match kind.split_once('-') {
                Some(("file", inode)) => assert!(files.contains(&inode.parse().unwrap()), "{text}"),
                // Standard error is the null device.
                _ => assert!(kind == "socket" || (number, kind) == ("2", "device"), "{text}"),
            }
        }
    }
    scene.check_unharmed();
}
