//! `versitygw`, a server with the protocol of S3 over a folder, on a port of the loopback interface.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::ports::DatabaseStore;
use branchyard_object_store::{StoreOptions, StoreUrl, open};
use tempfile::TempDir;

/// Names the program.
const PROGRAM: &str = "BRANCHYARD_TEST_VERSITYGW";

/// Name of the bucket of each server.
pub(crate) const BUCKET: &str = "yard";

/// A server with one bucket. It ends with the test.
pub(crate) struct Versitygw {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Versitygw {
    /// Starts a server. Returns `None`, and says so, if the program is not there.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = std::env::var_os(PROGRAM).filter(|program| !program.is_empty()) else {
            let is_required = std::env::var("BRANCHYARD_TEST_REQUIRE_VERSITYGW").is_ok_and(|value| value == "1");
            assert!(!is_required, "{PROGRAM} is not set, and BRANCHYARD_TEST_REQUIRE_VERSITYGW=1");
            eprintln!("skipped: {PROGRAM} is not set");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        for folder in ["root", "meta"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        std::fs::create_dir(dir.path().join("root").join(BUCKET)).unwrap();
        // Another process may take the port between the look for a free one and the start.
        for _ in 0..5 {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            let mut process = Command::new(&program)
                .args(["--access", "yardkey", "--secret", "yardsecret", "--quiet", "--keep-alive", "--port"])
                .arg(format!("127.0.0.1:{port}"))
                // In files of its own instead of extended attributes, which some file systems lack.
                .args(["posix", "--sidecar"])
                .args([dir.path().join("meta"), dir.path().join("root")])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            if answers(&mut process, port) {
                return Some(Self { process, port, _dir: dir });
            }
            let _ = process.kill();
            process.wait().unwrap();
        }
        panic!("{} does not start", program.display());
    }

    /// Returns options with the right key.
    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions {
            endpoint: Some(format!("http://127.0.0.1:{}", self.port)),
            access_key_id: Some("yardkey".to_owned()),
            secret_access_key: Some("yardsecret".to_owned().into()),
            allow_http: true,
            ..StoreOptions::default()
        }
    }

    /// Opens a store in the bucket.
    pub(crate) fn open(&self, prefix: &str) -> Arc<dyn DatabaseStore> {
        self.open_with(prefix, &self.options())
    }

    pub(crate) fn open_with(&self, prefix: &str, options: &StoreOptions) -> Arc<dyn DatabaseStore> {
        open(&StoreUrl::parse(&format!("s3://{BUCKET}/{prefix}")).unwrap(), options).unwrap()
    }
}

/// Waits until the server accepts connections. Returns `false` if it ended.
fn answers(process: &mut Child, port: u16) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        if process.try_wait().unwrap().is_some() {
            return false;
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

impl Drop for Versitygw {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
