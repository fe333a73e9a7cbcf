//! Unmodified libSQL clients in two languages (`tests/clients`), installed from their registries into the build folder.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use branchyard_deployments::ports::{InstanceEvent, Provisioner};
use branchyard_deployments::values::Setting;
use branchyard_domain::ports::SqlPower;

use super::harness::InstanceHarness;

pub(crate) const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clients");

pub(crate) fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} is needed: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
}

/// Returns a folder that outlives the test, so that packages are installed only once.
fn installed(what: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(what);
    let done = folder.join("installed");
    if !done.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        install(&folder);
        std::fs::write(done, "").unwrap();
    }
    folder
}

pub(crate) fn javascript() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        installed("libsql-javascript", |folder| {
            for file in ["package.json", "package-lock.json"] {
                std::fs::copy(Path::new(CLIENTS).join("deployments").join(file), folder.join(file)).unwrap();
            }
            succeed(Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(folder));
        })
    })
}

pub(crate) fn python() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        installed("libsql-python", |folder| {
            let requirements = Path::new(CLIENTS).join("deployments/requirements.txt");
            let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"];
            succeed(Command::new("python3").args(install).arg(folder).arg("-r").arg(requirements));
        })
    })
}

/// Runs a program against a deployment whose streams expire after one idle second. Restarts the instance whenever it ends.
fn with_yard(command: &mut Command) {
    let mut harness = InstanceHarness::start_with(&[(Setting::StreamIdleTimeoutMillis, "1000")]);
    let reader = harness.person("rea", SqlPower::Read);
    harness.sql(&["create table seen(x)", "select dolt_commit('-A', '-m', 'seen')", "select dolt_branch('work')"]);
    let mut program = command
        .env("DEPLOYMENT_URL", harness.origin())
        .env("DEPLOYMENT_TOKEN", &harness.writer)
        .env("DEPLOYMENT_READER", reader)
        .env("DEPLOYMENT_PROCESS", harness.handle.process.to_string())
        .env("NO_PROXY", "*")
        .env("no_proxy", "*")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} is needed: {error}"));
    let status = loop {
        if let Some(status) = program.try_wait().unwrap() {
            break status;
        }
        let event = harness.local.watch(&harness.handle, Duration::from_millis(50)).unwrap();
        if matches!(event, Some(InstanceEvent::Ended { .. })) {
            harness.start_again();
        }
    };
    let mut said = String::new();
    program.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(status.success(), "{said}");
}

#[test]
pub(crate) fn javascript_clients_use_a_deployment() {
    // Node resolves modules relative to the script.
    let script = javascript().join("deployment.mjs");
    std::fs::copy(Path::new(CLIENTS).join("deployments/deployment.mjs"), &script).unwrap();
    with_yard(Command::new("node").arg(script));
}

#[test]
pub(crate) fn python_clients_use_a_deployment() {
    let script = Path::new(CLIENTS).join("deployments/deployment.py");
    with_yard(Command::new("python3").arg(script).env("PYTHONPATH", python()));
}
