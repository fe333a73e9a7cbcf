//! Running other programs.

use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs the command with inherited output. Returns an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Returns the standard output of the command. If the command fails, the error contains its standard error.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed no UTF-8"))
}

/// Runs the command silently. Returns `true` if it succeeds within the limit, and kills it at the limit.
pub(crate) fn succeeds(command: &mut Command, limit: Duration) -> bool {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else {
        return false;
    };
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if started.elapsed() < limit => thread::sleep(Duration::from_millis(50)),
            Ok(None) | Err(_) => {
                // A failed kill does not change the result.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

pub(crate) fn show(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_too_long_is_stopped() {
        let started = Instant::now();
        let limit = Duration::from_millis(100);
        assert!(!succeeds(Command::new("sleep").arg("30"), limit));
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(succeeds(&mut Command::new("true"), Duration::from_secs(10)));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program-of-ours")).unwrap_err();
        assert!(error.to_string().contains("no-such-program-of-ours"));
    }
}
