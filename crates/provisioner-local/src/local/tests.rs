//! Tests that a compromised process cannot make the server read, write or wait for anything outside the process's
//! folder.

#[cfg(target_os = "linux")]
mod escapes;

use std::fs::{self, File};
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use branchyard_auth::HashedToken;
use branchyard_deployments::ports::{Authorized, BackupFile, BackupFiles, OutputPosition, Towards};
use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{BranchHead, SessionEngine, SessionError, SessionRequest, SqlSession};
use branchyard_domain::values::{CommitHash, Timestamp};
use branchyard_domain_testing::fakes::{FixedClock, MemoryBlobs, SeededIds};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::*;
use crate::staging_engine::{InProcessStaging, ProcessStaging};

const SECRET: &str = "the key of the server";
const DATA: &str = "rows of the deployment";

type FolderAttack = Arc<Mutex<Box<dyn Fn() + Send>>>;

/// An engine on plain files. It runs the attack while it checks a file.
struct FileEngine {
    folder: PathBuf,
    attack: FolderAttack,
}

impl FileEngine {
    fn file(&self, database: DatabaseId) -> PathBuf {
        self.folder.join(TestFiles.place(database))
    }
}

fn done<T>(result: io::Result<T>) -> Result<T, EngineError> {
    result.map_err(|error| EngineError::Unavailable(error.to_string()))
}

impl SessionEngine for FileEngine {
    fn create_served(&self, database: DatabaseId, _: &Signature, _: &str) -> Result<(), EngineError> {
        done(fs::create_dir_all(self.folder.join("files")).and_then(|()| fs::write(self.file(database), DATA)))
    }

    fn seed(&self, database: DatabaseId, from: &Path, _: &str, _: &CommitHash) -> Result<(), EngineError> {
        self.put_back(database, from)
    }

    fn put_back(&self, database: DatabaseId, from: &Path) -> Result<(), EngineError> {
        done(fs::create_dir_all(self.folder.join("files")).and_then(|()| fs::copy(from, self.file(database)))).map(drop)
    }

    fn copy_out(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError> {
        done(fs::copy(self.file(database), to))
    }

    fn session(&self, _: &SessionRequest) -> Result<Box<dyn SqlSession>, SessionError> {
        Err(SessionError::NoStatement)
    }

    fn heads(&self, _: DatabaseId) -> Result<Vec<BranchHead>, EngineError> {
        Ok(Vec::new())
    }

    fn check(&self, _: DatabaseId) -> Result<Vec<String>, EngineError> {
        (self.attack.lock())();
        Ok(Vec::new())
    }

    fn served_size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError> {
        done(fs::metadata(self.file(database)).map(|found| found.len()))
    }

    fn drop_served(&self, database: DatabaseId) -> Result<(), EngineError> {
        done(fs::remove_file(self.file(database)))
    }

    fn collect_garbage(&self, _: DatabaseId) -> Result<(), EngineError> {
        Ok(())
    }

    fn version(&self) -> String {
        "0.0.0".into()
    }
}

struct TestFiles;

impl HubFiles for TestFiles {
    fn export(&self, _: DatabaseId, to: &Path) -> Result<u64, EngineError> {
        done(fs::write(to, "all branches of the hub").map(|()| 0))
    }

    fn place(&self, database: DatabaseId) -> PathBuf {
        PathBuf::from("files").join(database.to_string())
    }
}

struct NoCallers2;

impl Authorizer for NoCallers2 {
    fn authorize(&self, _: &HashedToken, _: InstanceId, _: Option<IpAddr>) -> Result<Authorized, ProvisionError> {
        Ok(Authorized::BadToken)
    }
}

struct ProcessHarness {
    dir: tempfile::TempDir,
    local: Arc<LocalProcess>,
    spec: InstanceSpec,
    blobs: Arc<MemoryBlobs>,
    attack: FolderAttack,
}

impl ProcessHarness {
    /// Creates one instance with one database, and a secret file outside all deployments.
    fn new() -> Self {
        Self::with_program(Path::new("/bin/true"))
    }

    /// Creates the same with another program for instances. A relative path is relative to the folder of the harness.
    fn with_program(program: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("server.key"), SECRET).unwrap();
        let attack: FolderAttack = Arc::new(Mutex::new(Box::new(|| {})));
        let blobs = Arc::new(MemoryBlobs::default());
        let settings = LocalSettings {
            root: dir.path().join("deployments"),
            program: dir.path().join(program),
            bind: Ipv4Addr::LOCALHOST.into(),
            advertise_host: "127.0.0.1".into(),
            orphan_grace: Duration::from_secs(60),
            // `/bin/true` ends before it is confined.
            allow_unconfined: program == Path::new("/bin/true"),
        };
        let of_engine = Arc::clone(&attack);
        let open_engine = move |folder: PathBuf| {
            done(fs::create_dir_all(&folder))?;
            Ok(Arc::new(FileEngine { folder, attack: Arc::clone(&of_engine) }) as Arc<dyn SessionEngine>)
        };
        let local = LocalProcess::open(
            settings,
            Box::new(InProcessStaging::new(Box::new(open_engine))),
            Arc::new(TestFiles),
            Arc::clone(&blobs) as Arc<dyn BackupFiles>,
            Arc::new(FixedClock::default()),
            Arc::new(SeededIds::new(1)),
            "0.0.0".into(),
        )
        .unwrap();
        local.connect(Arc::new(NoCallers2));
        let spec = InstanceSpec {
            deployment: DeploymentId::from_uuid(Uuid::from_u128(1)),
            instance: InstanceId::from_uuid(Uuid::from_u128(2)),
            label: "ada/gauges".into(),
            zone: "local".into(),
            port: 1,
            cpus: 1,
            memory_gb: 1,
            volume_gb: 1,
            databases: vec![ServedName::parse("gauges").unwrap()],
            settings: Settings::default(),
            settings_revision: 1,
            expose_stats: false,
        };
        let author = Signature { name: "ada".into(), email: String::new(), at: Timestamp::from_seconds(0) };
        local.prepare(&spec, &[DatabaseSeed::Empty { author }]).unwrap();
        Self { dir, local: Arc::new(local), spec, blobs, attack }
    }

    fn secret(&self) -> PathBuf {
        self.dir.path().join("server.key")
    }

    fn home(&self) -> PathBuf {
        let root = self.dir.path().join("deployments");
        root.join(self.spec.deployment.to_string()).join(self.spec.instance.to_string())
    }

    /// Returns the path of the database file.
    fn file(&self) -> PathBuf {
        let entries: Vec<_> = fs::read_dir(self.home().join("db/files")).unwrap().collect();
        assert_eq!(entries.len(), 1);
        entries.into_iter().next().unwrap().unwrap().path()
    }

    fn backup(&self) -> BackupId {
        BackupId::at(Timestamp::from_seconds(3))
    }

    /// Makes a backup. Fails if that takes longer than a minute.
    fn snapshot(&self) -> Result<Vec<CopiedDatabase>, ProvisionError> {
        let (local, spec, backup) = (Arc::clone(&self.local), self.spec.clone(), self.backup());
        let (done, waiting) = mpsc::channel();
        std::thread::spawn(move || done.send(local.snapshot(&spec, backup)).unwrap());
        waiting.recv_timeout(Duration::from_secs(60)).expect("a backup blocks")
    }

    fn kept(&self) -> Option<String> {
        let database = ServedName::parse("gauges").unwrap();
        let file = BackupFile { deployment: self.spec.deployment, backup: self.backup(), database };
        let mut text = String::new();
        self.blobs.open_backup(&file).ok()?.read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[track_caller]
    fn is_unharmed(&self) {
        assert_eq!(fs::read_to_string(self.secret()).unwrap(), SECRET);
    }
}

fn swap(path: &Path, target: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|is| is.is_dir()) {
        fs::remove_dir_all(path).unwrap();
    } else if path.exists() {
        fs::remove_file(path).unwrap();
    }
    symlink(target, path).unwrap();
}

fn pipe(path: &Path) {
    fs::remove_file(path).unwrap_or_default();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, ProvisionError>) {
    assert!(matches!(result, Err(ProvisionError::Refused(_) | ProvisionError::Unavailable { .. })), "{result:?}");
}

#[test]
fn a_backup_holds_what_was_checked_whatever_is_swapped_meanwhile() {
    let scene = ProcessHarness::new();
    let attacks = Arc::new(AtomicU32::new(0));
    let (home, secret, file, count) = (scene.home(), scene.secret(), scene.file(), Arc::clone(&attacks));
    *scene.attack.lock() = Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        // All paths that the process can write to.
        for copy in ["staging/copy", "copy"].map(|copy| home.join(copy)) {
            if copy.parent().is_some_and(Path::exists) {
                swap(&copy, &secret);
            }
        }
        swap(&file, &secret);
    });
    let copied = scene.snapshot().unwrap();
    assert_eq!(attacks.load(Ordering::Relaxed), 1);
    assert_eq!(scene.kept().as_deref(), Some(DATA));
    assert_eq!(
        (copied[0].size_bytes, copied[0].sha256.as_str()),
        (22, HEXLOWER.encode(&Sha256::digest(DATA)).as_str())
    );
    scene.is_unharmed();
}

#[test]
fn what_is_staged_lies_outside_of_the_folder_of_the_instance_and_is_removed() {
    let scene = ProcessHarness::new();
    let staging = scene.dir.path().join("deployments/.staging");
    let (inside, outside) = (scene.home(), staging.clone());
    *scene.attack.lock() = Box::new(move || {
        let mut names: Vec<_> = fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["db", "log", "run"]);
        assert!(outside.exists());
    });
    scene.snapshot().unwrap();
    let of_instance = staging.join(scene.spec.deployment.to_string()).join(scene.spec.instance.to_string());
    assert_eq!(fs::read_dir(&of_instance).unwrap().count(), 0);
    scene.local.remove(scene.spec.instance).unwrap();
    assert!(!of_instance.exists());
    scene.local.forget(scene.spec.deployment).unwrap();
    assert!(!of_instance.parent().unwrap().exists() && !scene.home().exists());
}

#[test]
fn nothing_is_left_of_a_process_that_stages_files_and_fails() {
    let mut scene = ProcessHarness::new();
    let staging = ProcessStaging::new("/bin/false".into(), true);
    Arc::get_mut(&mut scene.local).unwrap().staging_engine = Box::new(staging);
    let author = Signature { name: "ada".into(), email: String::new(), at: Timestamp::from_seconds(0) };
    let fresh = InstanceSpec { instance: InstanceId::from_uuid(Uuid::from_u128(3)), ..scene.spec.clone() };
    refused(scene.snapshot());
    refused(scene.local.prepare(&fresh, &[DatabaseSeed::Empty { author }]));
    assert_eq!(scene.kept(), None);
    let of_deployment = |root: &Path| root.join(fresh.deployment.to_string());
    let root = scene.dir.path().join("deployments");
    for instance in [scene.spec.instance, fresh.instance] {
        let staged = of_deployment(&root.join(".staging")).join(instance.to_string());
        assert_eq!(fs::read_dir(staged).unwrap().count(), 0);
    }
    assert!(!of_deployment(&root).join(fresh.instance.to_string()).join("db").exists());
}

#[test]
fn a_database_that_is_a_link_a_pipe_or_too_large_is_not_backed_up() {
    let scene = ProcessHarness::new();
    let file = scene.file();
    swap(&file, &scene.secret());
    refused(scene.snapshot());
    refused(scene.local.sizes(&scene.spec));
    pipe(&file);
    refused(scene.snapshot());
    fs::remove_file(&file).unwrap();
    File::create(&file).unwrap().set_len(1 << 40).unwrap();
    refused(scene.snapshot());
    assert_eq!(scene.kept(), None);

    let scene = ProcessHarness::new();
    let elsewhere = scene.dir.path().join("elsewhere");
    fs::rename(scene.home().join("db/files"), &elsewhere).unwrap();
    swap(&scene.home().join("db/files"), &elsewhere);
    refused(scene.snapshot());
    refused(scene.local.sizes(&scene.spec));

    let scene = ProcessHarness::new();
    let elsewhere = scene.dir.path().join("elsewhere");
    fs::rename(scene.home().join("db"), &elsewhere).unwrap();
    swap(&scene.home().join("db"), &elsewhere);
    refused(scene.snapshot());
    refused(scene.local.start(&scene.spec));

    let scene = ProcessHarness::new();
    let list = scene.home().join("db/databases.json");
    fs::rename(&list, scene.dir.path().join("list")).unwrap();
    swap(&list, &scene.dir.path().join("list"));
    refused(scene.snapshot());
    pipe(&list);
    refused(scene.snapshot());
    fs::remove_file(&list).unwrap();
    File::create(&list).unwrap().set_len(1 << 40).unwrap();
    refused(scene.snapshot());
    assert_eq!(scene.kept(), None);
}

#[test]
fn nothing_is_written_through_links_when_an_instance_starts() {
    let scene = ProcessHarness::new();
    let home = scene.home();
    for place in ["run/spec.json", "run/spec.new", "log/stderr", "run/control"] {
        swap(&home.join(place), &scene.secret());
    }
    let handle = scene.local.start(&scene.spec).unwrap();
    scene.is_unharmed();
    assert!(fs::symlink_metadata(home.join("run/spec.json")).unwrap().is_file());
    assert!(fs::symlink_metadata(home.join("log/stderr")).unwrap().is_file());
    scene.local.stop(&handle, Duration::from_secs(60)).unwrap();

    for part in ["run", "log"] {
        let scene = ProcessHarness::new();
        let elsewhere = scene.dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        swap(&scene.home().join(part), &elsewhere);
        refused(scene.local.start(&scene.spec));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{part}");
    }
}

#[test]
fn a_log_is_not_read_through_links() {
    let scene = ProcessHarness::new();
    let query =
        OutputQuery { from: None::<OutputPosition>, towards: Towards::Older, limit: 10, since: None, until: None };
    let lines = |scene: &ProcessHarness| scene.local.logs(scene.spec.instance, &query);
    let elsewhere = scene.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let line = "2026-11-20T12:00:00.000Z INFO line\n";
    fs::write(elsewhere.join("0000000001.log"), line).unwrap();
    symlink(elsewhere.join("0000000001.log"), scene.home().join("log/0000000001.log")).unwrap();
    assert_eq!(lines(&scene).unwrap().len(), 0);
    fs::write(scene.home().join("log/0000000002.log"), line).unwrap();
    assert_eq!(lines(&scene).unwrap().len(), 1);
    swap(&scene.home().join("log"), &elsewhere);
    refused(lines(&scene));
}

#[test]
fn removing_an_instance_leaves_what_its_links_lead_to() {
    for whole in [false, true] {
        let scene = ProcessHarness::new();
        let elsewhere = scene.dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "").unwrap();
        for place in ["db/out", "db/files/out", "run/out", "incoming", "staging", "db.new"] {
            symlink(&elsewhere, scene.home().join(place)).unwrap();
        }
        if whole {
            scene.local.forget(scene.spec.deployment).unwrap();
            assert!(!scene.home().exists());
        } else {
            scene.local.remove(scene.spec.instance).unwrap();
            assert!(scene.home().join("log").exists() && !scene.home().join("db").exists());
        }
        assert!(elsewhere.join("file").exists());
    }
}
