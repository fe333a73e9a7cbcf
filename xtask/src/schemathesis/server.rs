//! The server under test.

use crate::process;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running server, killed when dropped.
pub(super) struct ServerProcess {
    child: Child,
    binary: PathBuf,
    data: PathBuf,
    pub(super) origin: String,
    pub(super) log: PathBuf,
}

impl ServerProcess {
    /// Starts the server on an empty data folder below `folder`.
    pub(super) fn start(binary: &Path, folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(folder)?;
        let (data, log) = (folder.join("data"), folder.join("server.log"));
        let mut child = Command::new(binary)
            .arg("serve")
            .arg("--data-dir")
            .arg(&data)
            .args(["--listen", "127.0.0.1:0"])
            .env("BRANCHYARD_RATE_LIMIT__ENABLED", "false")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let origin = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        let server = Self { child, binary: binary.to_owned(), data, origin, log };
        if server.origin.is_empty() {
            bail!("the server did not start; its log is {}", server.log.display());
        }
        Ok(server)
    }

    /// Returns what a command of the binary prints when it runs on the same data folder.
    pub(super) fn command(&self, args: &[&str]) -> Result<String> {
        let printed = process::read(Command::new(&self.binary).args(args).arg("--data-dir").arg(&self.data))?;
        Ok(printed.trim().to_owned())
    }

    /// Sends a request and returns `data` of the response. Returns an error if the response is no success.
    pub(super) fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body", "--max-time", "60", "--request", method])
            .args(["--header", &format!("Authorization: Bearer {token}")])
            .arg(format!("{}/api/v2{path}", self.origin));
        if let Some(body) = body {
            curl.args(["--header", "Content-Type: application/json", "--data", &body.to_string()]);
        }
        let answer = curl.output().context("cannot run curl")?;
        let text = String::from_utf8_lossy(&answer.stdout);
        if !answer.status.success() {
            bail!("{method} {path}: {text}{}", String::from_utf8_lossy(&answer.stderr));
        }
        let mut answer: Value = serde_json::from_str(&text).with_context(|| format!("{method} {path}: no JSON"))?;
        Ok(answer["data"].take())
    }

    /// Stops the server. Returns an error if it had already exited.
    pub(super) fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the server ended by itself ({status}); its log is {}", self.log.display());
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // A failed kill does not change the result.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
