//! The side of the children: reads commands, runs a role, and writes lines.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use parking_lot::RwLock;

use crate::children::{FOLDER, OPTIONS, ROLE};
use crate::known::Known;
use crate::{copier, latency, reader, stopped, writer};

/// What a child shares with the thread that reads its commands.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// All commits that the child was sent, in the order in which they were acknowledged.
    pub(crate) commits: RwLock<Vec<Known>>,
    /// Set when the child has to end.
    pub(crate) stop: AtomicBool,
}

impl Shared {
    pub(crate) fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the newest commit of the main line.
    pub(crate) fn head(&self) -> Known {
        self.commits.read().iter().rev().find(|known| known.main).cloned().unwrap()
    }
}

/// Runs the role that the environment names, if it names one.
pub(crate) fn run() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let options = std::env::var(OPTIONS).unwrap();
    let shared = Arc::new(Shared::default());
    let commands = listen(Arc::clone(&shared));
    // The first command is `go`: all earlier lines are commits.
    assert_eq!(commands.recv().unwrap(), "go");
    let engine = || DoltliteEngine::open(folder.join("databases"), EngineOptions::default()).unwrap();
    match role.as_str() {
        "reader" => reader::run(engine(), &shared, &options),
        "writer" => writer::run(&engine(), &shared, &options),
        "copier" => copier::run(&engine(), &commands, &folder),
        "measure" => latency::child(&engine(), &shared, &options),
        "opener" => stopped::open_again_and_again(&folder, &shared),
        other => panic!("no role {other}"),
    }
}

/// Reads commands in a thread. `commit` and `stop` are carried out at once.
fn listen(shared: Arc<Shared>) -> Receiver<String> {
    let (sender, commands) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.split_once(' ') {
                Some(("commit", known)) => shared.commits.write().push(Known::parse(known)),
                _ if line == "stop" => shared.stop.store(true, Ordering::Relaxed),
                _ => sender.send(line).unwrap_or_default(),
            }
        }
        // The parent has ended.
        shared.stop.store(true, Ordering::Relaxed);
    });
    commands
}

/// Writes a line to the parent. Written with one call, so that a killed child writes all of it or nothing.
pub(crate) fn tell(line: &str) {
    let line = format!("> {line}\n");
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).ok();
}
