//! A node of the demo's cluster, as a process.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::config_file;
use crate::config::Config;

/// How long a node may take to listen.
const START_WITHIN: Duration = Duration::from_secs(120);
/// Interval at which a start is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Removes the settings of the environment: the demo does not heed them.
pub(super) fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BRANCHYARD_")) {
        command.env_remove(name);
    }
    command
}

/// Asks a process to end.
pub(super) fn signal(process: &Child, signal: Signal) {
    // A process that has ended and was not waited for keeps its id, so no other one gets the signal.
    if let Some(id) = i32::try_from(process.id()).ok().and_then(Pid::from_raw)
        && let Err(error) = kill_process(id, signal)
    {
        tracing::debug!(%error, "a process cannot be signaled");
    }
}

/// The process of a node.
pub(super) struct NodeProcess {
    /// The node's id.
    pub(super) id: String,
    /// The origin that it listens on, once it does.
    pub(super) origin: String,
    config_file: PathBuf,
    log: PathBuf,
    child: Child,
    lines: Receiver<String>,
    ended: Option<ExitStatus>,
}

impl NodeProcess {
    /// Starts the process, with its log and its configuration in `dir`.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub(super) fn start(config: &Config, dir: &Path) -> anyhow::Result<Self> {
        let id = config.node_id.clone().unwrap_or_default();
        let (config_file, log) = (dir.join(format!("{id}.toml")), dir.join(format!("{id}.log")));
        config_file::write(config, &config_file)?;
        let errors = File::options().create(true).append(true).open(&log);
        let errors = errors.with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(std::env::current_exe().context("the path of this program is unknown")?);
        without_settings(&mut command).args(["serve", "--config"]).arg(&config_file);
        // A group of its own: Ctrl-C would end Postgres before the nodes.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().with_context(|| format!("cannot start {id}"))?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            // Reads to the end, so that the node never waits for a reader.
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Ok(Self { id, origin: String::new(), config_file, log, child, lines, ended: None })
    }

    /// Waits until the node listens, or until `is_stopped` returns `true`.
    ///
    /// # Errors
    /// Fails if the node ends instead, or takes too long.
    pub(super) fn wait_until_ready(&mut self, is_stopped: &dyn Fn() -> bool) -> anyhow::Result<()> {
        let until = Instant::now() + START_WITHIN;
        while !is_stopped() {
            match self.lines.recv_timeout(LOOK_EVERY) {
                Ok(line) => {
                    if let Some(origin) = line.strip_prefix("listening on ") {
                        origin.clone_into(&mut self.origin);
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(_) => bail!("{} does not start; the reason is in {}", self.id, self.log.display()),
            }
        }
        Ok(())
    }

    /// Returns the id of the process.
    pub(super) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the command that starts the node again.
    pub(super) fn command(&self) -> String {
        format!("branchyard serve --config '{}'", self.config_file.display())
    }

    /// Returns how the process ended, the first time after it did.
    ///
    /// # Errors
    /// Fails if the operating system does not tell.
    pub(super) fn newly_ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.ended.is_some() {
            return Ok(None);
        }
        self.ended = self.child.try_wait().with_context(|| format!("cannot look after {}", self.id))?;
        Ok(self.ended)
    }

    /// Returns `true` if the process was seen to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns `true` once the process has ended.
    pub(super) fn look_for_end(&mut self) -> bool {
        // One that cannot be waited for is not waited for.
        self.newly_ended().is_err() || self.has_ended()
    }

    /// Asks the node to stop.
    pub(super) fn terminate(&self) {
        if !self.has_ended() {
            signal(&self.child, Signal::TERM);
        }
    }

    /// Kills the process.
    pub(super) fn kill(&mut self) {
        if !self.has_ended()
            && let Err(error) = self.child.kill()
        {
            tracing::debug!(%error, "a node cannot be killed");
        }
    }
}
