//! What happens if the process that stages a file fails, lies, or was taken over. Its program is a script; one script runs this
//! test program, which confines itself as the real one does.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, exit};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use branchyard_confinement::{KernelSupport, kernel_support};
use uuid::Uuid;

use super::stage_files::stage_files_on;
use super::*;

/// Name of the variable that makes a process of this test program one that stages files and was taken over.
const TASK: &str = "BRANCHYARD_STAGES_FILES";
const DATA: &str = "rows of the deployment";

/// A folder of a server: `staging` is for the process, with the file `seed` beside the folder that it fills, and `other`
/// belongs to another tenant.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (folder, file) in [("staging", "seed"), ("staging/engine", "own"), ("other", "data")] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
            fs::write(dir.path().join(folder).join(file), DATA).unwrap();
        }
        let scene = Self { dir };
        // Written by another process: a file that this one has open for writing cannot be executed by a process forked meanwhile.
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod +x \"$2\"";
        let program = scene.path("program");
        assert!(Command::new("sh").args(["-c", write, "sh", script]).arg(&program).status().unwrap().success());
        assert!(fs::metadata(program).unwrap().permissions().mode() & 0o100 != 0);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn staging(&self) -> ProcessStaging {
        ProcessStaging::new(self.path("program"), true)
    }

    fn create_with(&self, staging: &ProcessStaging) -> Result<Heads, ProvisionError> {
        let (folder, file) = (self.path("staging/engine"), self.path("staging/seed"));
        let database = DatabaseId::from_uuid(Uuid::from_u128(7));
        staging.create(&StagingTask { folder: &folder, database, content: StagedContent::Copy { file: &file } })
    }

    /// Creates a database, and returns the causes of the error.
    #[track_caller]
    fn fails(&self) -> String {
        match self.create_with(&self.staging()) {
            Err(ProvisionError::Unavailable { context, source }) => {
                format!("{context}: {}", crate::child::chain(&*source))
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_process_that_crashes_says_nothing_or_lies_is_an_error() {
    for (script, expected) in [
        ("kill -SEGV $$", "signal: 11"),
        ("exit 1", "exit status: 1"),
        ("exit 0", "EOF while parsing"),
        ("echo '{\"created\":{\"heads\":[]}}'; exit 3", "exit status: 3"),
        ("echo '{\"created\":{\"heads\":[]}} {}'", "trailing characters"),
        ("echo '{\"created\":{\"heads\":[],\"more\":1}}'", "unknown field"),
        ("echo '{\"created\":{\"heads\":[[\"../main\",\"no hash\"]]}}'", "read the heads"),
        ("cat /dev/zero", "has more than"),
        ("printf '%s' '{\"failed\":{\"context\":\"open\",\"why\":\"a\\nb\"}}'", "open: a b"),
    ] {
        let error = Scene::new(script).fails();
        assert!(error.contains(expected), "{script}: {error}");
    }
    let refused = Scene::new("echo '{\"refused\":{\"why\":\"it is damaged\"}}'");
    let refused = refused.create_with(&refused.staging());
    assert!(matches!(&refused, Err(ProvisionError::Refused(why)) if why == "it is damaged"), "{refused:?}");
    let created = Scene::new("cat > request; echo '{\"created\":{\"heads\":[]}}'");
    assert_eq!(created.create_with(&created.staging()).unwrap(), []);
    let request = fs::read_to_string(created.path("staging/engine/request")).unwrap();
    assert!(request.contains("\"copy\":{}"), "{request}");
}

#[test]
fn a_process_that_hangs_is_killed() {
    // It hangs with and without its output open.
    for script in ["echo $$ > pid; exec sleep 1000", "echo $$ > pid; exec sleep 1000 >&-"] {
        let scene = Scene::new(script);
        let began = Instant::now();
        let error = scene.create_with(&scene.staging().with_patience(Duration::from_secs(2))).unwrap_err();
        let ProvisionError::Unavailable { source, .. } = error else { panic!("{error:?}") };
        assert_eq!(source.to_string(), "the process did not end in time");
        assert!(began.elapsed() < Duration::from_secs(60));
        let pid = fs::read_to_string(scene.path("staging/engine/pid")).unwrap();
        let status = Command::new("kill").args(["-0", pid.trim()]).stderr(std::process::Stdio::null()).status();
        assert!(!status.unwrap().success());
    }
}

#[test]
fn no_file_is_staged_where_the_process_cannot_be_confined_unless_that_is_allowed() {
    let scene = Scene::new("touch started; echo '{\"created\":{\"heads\":[]}}'");
    for (seccomp, landlock_abi) in [(false, Some(7)), (true, None)] {
        let support = KernelSupport { seccomp, landlock_abi };
        let error = scene.create_with(&ProcessStaging::new(scene.path("program"), false).with_support(support));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("hosted.allow_unconfined"), "{error}");
        assert!(!scene.path("staging/engine/started").exists());
        scene.create_with(&scene.staging().with_support(support)).unwrap();
        fs::remove_file(scene.path("staging/engine/started")).unwrap();
    }
}

type Attempt = (&'static str, bool, fn(&Path) -> io::Result<()>);

/// What the process attempts after it was taken over, with the folder of the scene, and whether it may.
const ATTEMPTS: &[Attempt] = &[
    ("read its file", true, |dir| fs::read(dir.join("staging/seed")).map(drop)),
    ("write in its folder", true, |dir| fs::write(dir.join("staging/engine/new"), DATA)),
    ("rename in its folder", true, |dir| {
        fs::rename(dir.join("staging/engine/new"), dir.join("staging/engine/renamed"))
    }),
    ("write to its file", false, |dir| fs::write(dir.join("staging/seed"), "")),
    ("remove its file", false, |dir| fs::remove_file(dir.join("staging/seed"))),
    ("create a file beside its folder", false, |dir| fs::write(dir.join("staging/new"), "")),
    ("read a file of another tenant", false, |dir| fs::read(dir.join("other/data")).map(drop)),
    ("write to a file of another tenant", false, |dir| fs::write(dir.join("other/data"), "")),
    ("rename to another tenant", false, |dir| fs::rename(dir.join("staging/engine/own"), dir.join("other/data"))),
    ("list the folder of the server", false, |dir| fs::read_dir(dir).map(drop)),
    ("read a file of the machine", false, |_| fs::read("/etc/passwd").map(drop)),
    ("open its own memory", false, |_| File::open("/proc/self/mem").map(drop)),
    ("listen", false, |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("connect", false, |_| TcpStream::connect("127.0.0.1:9").map(drop)),
    ("run a program", false, |_| Command::new("/bin/true").status().map(drop)),
];

/// In a run of the tests it does nothing.
#[test]
fn taken_over_process() {
    let Ok(task) = env::var(TASK) else { return };
    let dir = PathBuf::from(task);
    // The tests print to the standard output.
    let answer = fs::OpenOptions::new().write(true).open("/proc/self/fd/3").unwrap();
    let attack = |_: PathBuf, _: u64| -> Result<Arc<dyn SessionEngine>, EngineError> {
        let mut wrong = Vec::new();
        for (name, may, attempt) in ATTEMPTS {
            let result = attempt(&dir);
            let denied = matches!(&result, Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::EXDEV)));
            if result.is_ok() != *may || denied == *may {
                wrong.push(format!("{name}: {result:?}"));
            }
        }
        Err(EngineError::Unavailable(format!("{} attempts, wrong: {wrong:?}", ATTEMPTS.len())))
    };
    let (folder, file) = (dir.join("staging/engine"), dir.join("staging/seed"));
    stage_files_on(&folder, Some(&file), &attack, io::stdin().lock(), answer).unwrap();
    exit(0);
}

#[test]
fn a_process_that_was_taken_over_reaches_only_its_folder_and_its_file() {
    let support = kernel_support();
    if !support.is_complete() || support.landlock_abi < Some(4) {
        println!("skipped: this kernel offers {support:?}");
        return;
    }
    let script = format!(
        "export {TASK}=\"${{3%/staging/engine}}\"\nexec '{}' --exact staging_engine::tests::taken_over_process --nocapture \
         --test-threads=1 3>&1 >/dev/null",
        env::current_exe().unwrap().display(),
    );
    let scene = Scene::new(&script);
    let staging = ProcessStaging::new(scene.path("program"), false);
    let (done, waiting) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| done.send(scene.create_with(&staging)).unwrap());
        let error = waiting.recv_timeout(Duration::from_secs(120)).unwrap().unwrap_err();
        let ProvisionError::Unavailable { context, source } = &error else { panic!("{error:?}") };
        assert_eq!(context, "open the engine", "{source}");
        let expected = format!("the engine is unavailable: {} attempts, wrong: []", ATTEMPTS.len());
        assert_eq!(source.to_string(), expected);
    });
    for place in ["staging/seed", "other/data", "staging/engine/renamed"] {
        let mut text = String::new();
        File::open(scene.path(place)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, DATA, "{place}");
    }
    assert_eq!(fs::read_dir(scene.path("other")).unwrap().count(), 1);
    assert!(!scene.path("staging/new").exists());
}
