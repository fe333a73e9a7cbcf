//! Starts children and exchanges lines with them. A child is this test program with [`ROLE`] set. It reads lines from
//! its standard input. The lines it writes begin with `> `; all others are libtest's.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// The environment variable that names the role of a child.
pub(crate) const ROLE: &str = "PROCESSES_ROLE";
/// The environment variable that names the folder of the databases.
pub(crate) const FOLDER: &str = "PROCESSES_FOLDER";
/// The environment variable with options of a role.
pub(crate) const OPTIONS: &str = "PROCESSES_OPTIONS";

/// What a child did.
#[derive(Debug)]
pub(crate) enum Event {
    /// A child wrote a line.
    Line(u64, String),
    /// A child closed its output. No line of it follows.
    Ended(u64),
}

/// A running child. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) number: u64,
    child: Child,
    input: Option<ChildStdin>,
}

/// The children of a test, and what they write.
#[derive(Debug)]
pub(crate) struct Children {
    events: Receiver<Event>,
    sender: Sender<Event>,
    next: u64,
}

impl Default for Children {
    fn default() -> Self {
        let (sender, events) = channel();
        Self { events, sender, next: 0 }
    }
}

impl Children {
    pub(crate) fn start(&mut self, role: &str, folder: &Path, options: &str) -> Running {
        self.next += 1;
        let number = self.next;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FOLDER, folder)
            .env(OPTIONS, options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let sender = self.sender.clone();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            // A killed child may leave a line without its end.
            while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) && line.ends_with(b"\n") {
                let text = String::from_utf8_lossy(&line);
                // libtest begins the line of a test before the test runs.
                if let Some((_, text)) = text.trim_end().split_once("> ")
                    && sender.send(Event::Line(number, text.to_owned())).is_err()
                {
                    return;
                }
                line.clear();
            }
            sender.send(Event::Ended(number)).ok();
        });
        Running { number, child, input }
    }

    /// Returns the next event, or `None` if there is none for the duration.
    pub(crate) fn next(&self, most: Duration) -> Option<Event> {
        self.events.recv_timeout(most).ok()
    }
}

impl Running {
    /// Sends a line. A child that was killed does not receive it.
    pub(crate) fn send(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            input.write_all(format!("{line}\n").as_bytes()).ok();
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the child, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for a child that ends, and returns `true` if it succeeded.
    pub(crate) fn has_succeeded(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
