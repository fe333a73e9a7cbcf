//! Lines that the server adds to the log of an instance: what the process itself cannot record, such as its end.
//!
//! The process may write to the same file at the same time. Both append a line with one call, so that lines do not mix.

use std::io::{self, Write as _};
use std::sync::Arc;

use branchyard_domain::ports::Clock;

use super::lines::segments;
use crate::child::log::{FULL, KEPT, file_name, line_of};
use crate::folder::{InstanceFolder, LOG};

/// The log of an instance, for the server.
#[derive(Clone)]
pub(super) struct EventLog {
    folder: InstanceFolder,
    clock: Arc<dyn Clock>,
}

impl EventLog {
    pub(super) fn new(folder: InstanceFolder, clock: Arc<dyn Clock>) -> Self {
        Self { folder, clock }
    }

    /// Appends a line. A failure goes to the log of the server.
    pub(super) fn write(&self, text: &str) {
        if let Err(error) = self.append(text) {
            tracing::warn!(%error, folder = %self.folder.path().display(), text, "cannot write to the log of an instance");
        }
    }

    /// Appends a line. Does nothing if the instance has no folder.
    pub(super) fn append(&self, text: &str) -> io::Result<()> {
        let log = match self.folder.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            home => home?.make(LOG)?,
        };
        let mut numbers = segments(&log)?;
        let mut newest = numbers.last().copied().unwrap_or(1);
        let mut file = log.append(&file_name(newest))?;
        if file.metadata()?.len() >= FULL {
            newest += 1;
            file = log.append(&file_name(newest))?;
            numbers.push(newest);
            let surplus = numbers.len().saturating_sub(KEPT);
            for number in numbers.drain(..surplus) {
                log.remove(file_name(number))?;
            }
        }
        file.write_all(line_of(self.clock.now(), text).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use branchyard_deployments::values::{DeploymentId, InstanceId};
    use branchyard_domain_testing::fakes::FixedClock;
    use uuid::Uuid;

    use super::*;
    use crate::child::log::ChildLog;

    fn log(root: &std::path::Path) -> (EventLog, InstanceFolder) {
        let (deployment, instance) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let folder = InstanceFolder::of(root, DeploymentId::from_uuid(deployment), InstanceId::from_uuid(instance));
        (EventLog::new(folder.clone(), Arc::new(FixedClock::default())), folder)
    }

    #[test]
    fn lines_of_the_server_and_of_the_process_share_files_and_rotate() {
        let root = tempfile::tempdir().unwrap();
        let (events, folder) = log(root.path());
        events.append("INFO without a folder").unwrap();
        assert!(!folder.path().exists());
        fs::create_dir_all(folder.log()).unwrap();
        let child = ChildLog::open(folder.log(), Arc::new(FixedClock::default())).unwrap();
        child.line("INFO one");
        events.append("WARN two\nlines").unwrap();
        child.line("INFO three");
        let text = fs::read_to_string(folder.log().join(file_name(1))).unwrap();
        let texts: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(texts, ["INFO one", "WARN two lines", "INFO three"]);
        // A full file is followed by another one, for both.
        fs::File::options().append(true).open(folder.log().join(file_name(1))).unwrap().set_len(FULL).unwrap();
        events.append("INFO four").unwrap();
        child.line("INFO the last one in the full file");
        child.line("INFO five");
        let text = fs::read_to_string(folder.log().join(file_name(2))).unwrap();
        assert!(text.contains("INFO four\n") && text.ends_with("INFO five\n"), "{text}");
        for number in 2..9 {
            let file = fs::File::options().append(true).open(folder.log().join(file_name(number))).unwrap();
            file.set_len(FULL).unwrap();
            events.append("INFO more").unwrap();
        }
        assert_eq!(fs::read_dir(folder.log()).unwrap().count(), KEPT);
    }

    #[test]
    fn nothing_is_written_through_a_link_or_a_pipe() {
        let root = tempfile::tempdir().unwrap();
        let (events, folder) = log(root.path());
        fs::create_dir_all(folder.log()).unwrap();
        let file = folder.log().join(file_name(1));
        fs::write(root.path().join("secret"), "secret").unwrap();
        symlink(root.path().join("secret"), &file).unwrap();
        assert!(events.append("INFO one").is_err());
        assert_eq!(fs::read_to_string(root.path().join("secret")).unwrap(), "secret");
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert!(events.append("INFO one").is_err());
    }
}
