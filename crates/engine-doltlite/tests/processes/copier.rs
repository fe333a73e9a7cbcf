//! The process that copies files: forks, backups, and new generations of the file.

use std::path::Path;
use std::sync::mpsc::Receiver;

use branchyard_domain::ports::Engine;
use branchyard_engine_doltlite::DoltliteEngine;

use crate::child::tell;
use crate::known::{Known, id};
use crate::reader::{check_row, check_sum};

pub(crate) fn run(engine: &DoltliteEngine, commands: &Receiver<String>, folder: &Path) {
    for command in commands {
        let (kind, known) = command.split_once(' ').unwrap_or((&command, ""));
        let done = match kind {
            "quit" => break,
            "fork" => fork(engine, &Known::parse(known)),
            "backup" => back_up(engine, &Known::parse(known), folder),
            "generation" => replace(engine, folder),
            other => panic!("no command {other}"),
        };
        if let Err(reason) = done {
            tell(&format!("wrong {kind}: {reason}"));
        }
        tell(&format!("done {kind}"));
    }
}

/// Forks the database. The fork must hold a commit that existed before.
fn fork(engine: &DoltliteEngine, known: &Known) -> Result<(), String> {
    engine.copy(id(1), id(2)).map_err(|error| format!("copy: {error:?}"))?;
    check(engine, 2, known)
}

fn back_up(engine: &DoltliteEngine, known: &Known, folder: &Path) -> Result<(), String> {
    let file = folder.join("backup");
    engine.back_up(id(1), &file).map_err(|error| format!("back up: {error:?}"))?;
    engine.restore(id(3), &file).map_err(|error| format!("restore: {error:?}"))?;
    std::fs::remove_file(file).map_err(|error| error.to_string())?;
    check(engine, 3, known)
}

fn check(engine: &DoltliteEngine, database: u8, known: &Known) -> Result<(), String> {
    check_row(engine, id(database), known)?;
    check_sum(engine, id(database), known)?;
    let problems = engine.verify(id(database), std::slice::from_ref(&known.hash));
    let problems = problems.map_err(|error| format!("verify: {error:?}"))?;
    engine.remove(id(database)).map_err(|error| format!("remove: {error:?}"))?;
    if problems.is_empty() { Ok(()) } else { Err(format!("{problems:?}")) }
}

/// Replaces the file of the database by a copy. Nothing may write to the database meanwhile.
fn replace(engine: &DoltliteEngine, folder: &Path) -> Result<(), String> {
    let file = folder.join("generation");
    engine.back_up(id(1), &file).map_err(|error| format!("back up: {error:?}"))?;
    engine.restore(id(1), &file).map_err(|error| format!("restore: {error:?}"))?;
    std::fs::remove_file(file).map_err(|error| error.to_string())
}
