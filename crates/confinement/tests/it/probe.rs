//! A confined process: this test program again, with one test that does what a variable of the environment says.

use std::env;
use std::io::Write as _;
use std::process::{Command, ExitStatus, Output, Stdio, exit};

use branchyard_confinement::{Refusal, SyscallList, restrict_system_calls};

use crate::{attempts, confined_files, ordinary_work};

/// Name of the variable, which only this program reads.
const TASK: &str = "BRANCHYARD_CONFINEMENT_TASK";
const PREFIX: &str = "probe: ";

/// The end of a confined process.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The lines of its report.
    pub(crate) lines: Vec<String>,
    /// Everything that it wrote, for messages of assertions.
    pub(crate) output: String,
}

/// Runs a process that does `task`.
pub(crate) fn run(task: &str) -> Ended {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "probe::confined_process", "--nocapture", "--test-threads=1"]).env(TASK, task);
    // glibc reads a file when it first shrinks a heap other than the first. The server's own allocator opens no files.
    command.env("MALLOC_ARENA_MAX", "1");
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let stdout = String::from_utf8_lossy(&stdout);
    // The test program writes something of its own before the first line.
    let lines = stdout.lines().filter_map(|line| line.split_once(PREFIX)).map(|(_, line)| line.to_owned()).collect();
    let output = format!("{stdout}{}", String::from_utf8_lossy(&stderr));
    Ended { status, lines, output }
}

/// Reports a line to the process that runs this one.
pub(crate) fn report(line: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{PREFIX}{line}").unwrap();
    stdout.flush().unwrap();
}

pub(crate) fn confine(list: &str, refusal: &str) {
    let list = match list {
        "SqlWorker" => SyscallList::SqlWorker,
        "Deployment" => SyscallList::Deployment,
        other => panic!("no list {other}"),
    };
    let refusal = match refusal {
        "Error" => Refusal::Error,
        "Kill" => Refusal::Kill,
        other => panic!("no refusal {other}"),
    };
    restrict_system_calls(list, refusal).unwrap();
}

/// In a run of the tests it does nothing.
#[test]
fn confined_process() {
    let Ok(task) = env::var(TASK) else { return };
    let words: Vec<&str> = task.split(' ').collect();
    match words[..] {
        ["attempt", list, refusal, ref names @ ..] => attempts::perform(list, refusal, names),
        ["work", list, refusal] => ordinary_work::perform(list, refusal),
        ["abort", list, refusal] => {
            confine(list, refusal);
            std::process::abort();
        }
        ["files", folder, port] => confined_files::perform(folder, port.parse().unwrap()),
        _ => panic!("no task {task}"),
    }
    exit(0);
}
