//! The worker process: answers the calls of the server about one database.

mod calls;
mod link;
mod server;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use branchyard_confinement::{
    ConfinementError, FileRestriction, Refusal, SyscallList, hide_memory, limit_resource, restrict_files,
    restrict_system_calls,
};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions, Long, ProvidedFile};

use self::link::{Link, RunningCall};
use self::server::{Gate, Lender, Refs, Turns};
use crate::call::CACHES;
use crate::messages::{Bind, FromWorker, Setup, Signal, ToWorker};
use crate::wire::{Input, Wire as _};

/// Stack of the thread that reads signals, in bytes.
const SIGNAL_STACK: usize = 128 << 10;
/// Open files of a worker: its sockets, a few for each connection, and temporary files.
const OPEN_FILES: u64 = 512;
/// Address space in addition to four times the memory of a statement, which is twice that of a write: code, stacks,
/// caches and unused mappings, in bytes.
const ADDRESS_ROOM: u64 = 3 << 30;

/// Serves calls until the server closes its end. `socket` carries messages, `control` signals.
pub(crate) fn run(socket: OwnedFd, control: OwnedFd) -> ExitCode {
    match serve(socket, control) {
        // The other side ended, so there is no one to report to.
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Why a worker cannot go on.
type Fatal = Box<dyn std::error::Error>;

fn serve(socket: OwnedFd, control: OwnedFd) -> Result<(), Fatal> {
    let link = Arc::new(Link::new(socket));
    let setup: Setup = link.expect(ToWorker::Setup)?;
    let engine = match start(&setup, &link, control) {
        Ok(engine) => {
            link.send(FromWorker::Ready, &Ok::<(), String>(()))?;
            engine
        }
        Err(error) => {
            link.send(FromWorker::Ready, &Err::<(), String>(error.to_string()))?;
            return Err(error);
        }
    };
    let bind: Bind = link.expect(ToWorker::Bind)?;
    engine.provide(bind.database, provided(link.take_descriptors())?)?;
    let engine = Arc::new(engine);
    if bind.limits_history {
        use branchyard_domain::ports::Engine as _;
        engine.limit_history(Arc::new(Refs { link: Arc::clone(&link), engine: Arc::downgrade(&engine) }));
    }
    link.send(FromWorker::Bound, &())?;
    answer_calls(&engine, &link, bind.database)
}

/// Answers calls until the server ends.
fn answer_calls(engine: &DoltliteEngine, link: &Link, database: DatabaseId) -> Result<(), Fatal> {
    loop {
        let (number, call) = link.receive(ToWorker::Call, |content| {
            let mut input = Input::new(content);
            let number = u32::get(&mut input)?;
            let call = crate::messages::Call::get(&mut input)?;
            input.end()?;
            Ok((number, call))
        })?;
        link.begin(number);
        calls::answer(engine, link, database, call)?;
        link.end();
    }
}

/// Makes the file of a database out of the descriptors of a message.
fn provided(descriptors: Vec<OwnedFd>) -> Result<ProvidedFile, Fatal> {
    let mut descriptors = descriptors.into_iter();
    let file = descriptors.next().ok_or("a descriptor is missing")?;
    Ok(ProvidedFile { file, lock: descriptors.next() })
}

/// Confines the process, and starts the engine and the thread that reads signals.
fn start(setup: &Setup, link: &Arc<Link>, control: OwnedFd) -> Result<DoltliteEngine, Fatal> {
    let refusal = if setup.kills { Refusal::Kill } else { Refusal::Error };
    limit(setup)?;
    hide_memory()?;
    let unconfined = |error: Fatal| if setup.requires_confinement { Err(error) } else { Ok(()) };
    // Before any other thread starts, because Landlock restricts the calling thread and those that it starts.
    let enforced = restrict_files(&[], &[]).map_err(Fatal::from).and_then(|restriction| match restriction {
        FileRestriction::Enforced { .. } => Ok(()),
        FileRestriction::NotEnforced => Err("the kernel has no Landlock".into()),
    });
    enforced.or_else(unconfined)?;
    let mut options = EngineOptions {
        idle_readers: 8,
        idle_writers: 1,
        idle_sessions: 0,
        statement_memory: setup.statement_memory,
        lender: Some(Arc::new(Lender::new(Arc::clone(link), setup.most_memory))),
        gate: Some(Arc::new(Gate(Arc::clone(link)))),
        pattern_bytes: setup.pattern_bytes,
        bounded_functions: setup.bounded_functions,
        trial_merge_timeout: setup.trial_merge_timeout,
        fetch_step: setup.fetch_step,
        diff_timeout: setup.diff_timeout,
        count_timeout: setup.count_timeout,
        verify_timeout: setup.verify_timeout,
        long: setup.long_every.map(|every| Long { every, turns: Arc::new(Turns(Arc::clone(link))) }),
        ..EngineOptions::default()
    };
    options.process_memory = Some(options.write_memory().saturating_add(CACHES) as u64);
    let temporary = Arc::clone(link);
    let engine = DoltliteEngine::on_provided_files(options, Box::new(move || temporary.temporary_file()))?;
    let running = link.running();
    thread::Builder::new()
        .name("signals".into())
        .stack_size(SIGNAL_STACK)
        .spawn(move || read_signals(File::from(control), &running))?;
    restrict_system_calls(SyscallList::SqlWorker, refusal).map_err(Fatal::from).or_else(unconfined)?;
    Ok(engine)
}

fn limit(setup: &Setup) -> Result<(), ConfinementError> {
    use branchyard_confinement::Resource;
    limit_resource(Resource::Core, 0)?;
    limit_resource(Resource::Nofile, OPEN_FILES)?;
    limit_resource(Resource::As, ADDRESS_ROOM + 4 * setup.statement_memory as u64)
}

/// Reads signals until the server ends, and then ends the process: a call that computes would not notice.
fn read_signals(mut control: File, running: &RunningCall) {
    let mut message = [0; 5];
    while control.read_exact(&mut message).is_ok() {
        match Signal::from_bytes(message) {
            Some((signal, call)) => running.signal(signal, call),
            None => break,
        }
    }
    std::process::exit(0);
}
