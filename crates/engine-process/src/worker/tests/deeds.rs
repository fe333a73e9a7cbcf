//! What a worker that was taken over does instead of its call.

use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use branchyard_domain::ports::{Column, EngineError, MergeOutcome, ReadReport, Written};

use super::attempts::{ATTEMPTS, Targets};
use super::raw::{call, crash};
use super::{Player, hang};
use crate::messages::FromWorker;
use crate::wire::{Wire, domain::put_value};

/// Stands for the result of the call.
pub(crate) const DONE: &str = "done";

/// Does what the first line of a statement says. Returns `false` if the worker shall run the statement then.
pub(super) fn perform(player: &mut Player, deed: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let deed = deed.lines().next().unwrap_or_default();
    let (word, rest) = deed.split_once(' ').unwrap_or((deed, ""));
    match word {
        "attempt" => {
            let (name, targets) = rest.split_once(' ').ok_or("an attempt needs its targets")?;
            let targets = Targets::parse(targets, player.database_number());
            let chosen = ATTEMPTS.iter().filter(|(known, ..)| name == "all" || name == *known);
            let lines: Vec<_> = chosen
                .map(|(name, _, attempt)| match attempt(&targets) {
                    Ok(value) => format!("{name} succeeded with {value}"),
                    Err(error) => format!("{name} {error}"),
                })
                .collect();
            report(player, &lines.join("\n"))?;
        }
        "descriptors" => {
            let open = (0..4096).filter(|number| call(libc::SYS_fcntl, [*number, libc::F_GETFD as usize]).is_ok());
            let kinds: Vec<_> = open.map(kind_of).collect();
            report(player, &kinds.join(" "))?;
        }
        "identity" => {
            let user = rustix::process::getuid().as_raw();
            report(player, &format!("{} {user}", std::process::id()))?;
        }
        // Crashes so many times, over all workers.
        "crash" => {
            if player.next_count() < rest.parse().unwrap_or(u64::MAX) {
                crash();
            }
            return Ok(false);
        }
        "hang" => hang(),
        "memory" => {
            let mut all = Vec::new();
            loop {
                all.push(std::hint::black_box(vec![0_u8; 64 << 20]));
            }
        }
        "wild" => {
            let length = player.database.metadata()?.len();
            let start = if rest == "from the middle" { length / 2 } else { 0 };
            let garbage = vec![0xa5; usize::try_from(length - start)?];
            player.database.write_all_at(&garbage, start)?;
            if rest == "and commit" {
                return Ok(false);
            }
            report(player, "written")?;
        }
        // Asks for rows without taking them.
        "greedy" => loop {
            player.send_raw(&message(FromWorker::NextRows, &[]))?;
        },
        "rows" => {
            player.send_raw(&message(FromWorker::Columns, &columns(1).encode()))?;
            let row = message(FromWorker::Rows, &row());
            let mut left = rest.parse().unwrap_or(u64::MAX);
            while left > 0 {
                player.send_raw(&row)?;
                left -= 1;
            }
            std::process::exit(0);
        }
        // One byte after the other of a long message.
        "drip" => {
            player.send_raw(&[0, 0, 0x10, 0, FromWorker::Done.number()])?;
            loop {
                player.send_raw(&[0])?;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        "long-value" => {
            let mut content = vec![4];
            let length = 1 + usize::try_from(branchyard_engine_doltlite::MAX_LENGTH)?;
            crate::wire::put_bytes(&vec![0; length], &mut content);
            player.send_raw(&message(FromWorker::Columns, &columns(1).encode()))?;
            player.send_raw(&message(FromWorker::Rows, &content))?;
            player.drain();
        }
        "descriptor" => {
            player.send_descriptor()?;
            player.drain();
        }
        "raw" => {
            let bytes = parts(player, rest);
            player.send_raw(&bytes)?;
            player.drain();
        }
        // Answers, and sends the answer again later.
        "late" => {
            let report: Result<_, EngineError> = Ok(ReadReport { deterministic: false });
            player.link.finish(&report)?;
            player.link.end();
            player.send_raw(&message(FromWorker::Done, &(player.number, report).encode()))?;
        }
        // Says that it wrote a commit.
        "acknowledge" => {
            let head = branchyard_domain::values::CommitHash::parse(rest)?;
            let written = Written { outcome: MergeOutcome::Head(head), rows_affected: 1 };
            player.link.finish(&Ok::<_, EngineError>(written))?;
        }
        // Says that it wrote several.
        "acknowledge-batch" => {
            let written = |head: &str| -> Result<_, Box<dyn std::error::Error>> {
                let head = branchyard_domain::values::CommitHash::parse(head)?;
                Ok(Ok::<_, EngineError>(Written { outcome: MergeOutcome::Head(head), rows_affected: 1 }))
            };
            let results = rest.split(' ').map(written).collect::<Result<Vec<_>, _>>()?;
            player.link.finish(&Ok::<_, EngineError>(results))?;
        }
        // Announces bytes that do not come.
        "short" => {
            player.send_raw(&from_hex(rest))?;
            std::process::exit(0);
        }
        _ => return Err("an unknown deed".into()),
    }
    Ok(true)
}

/// Ends the call with a text.
fn report(player: &Player, text: &str) -> Result<(), Box<dyn std::error::Error>> {
    let result: Result<ReadReport, _> = Err(EngineError::Unavailable(text.to_owned()));
    Ok(player.link.finish(&result)?)
}

fn kind_of(descriptor: usize) -> String {
    let mut status = [0_u64; 32];
    let path = "\0";
    let flags = libc::AT_EMPTY_PATH as usize;
    let arguments = [descriptor, path.as_ptr() as usize, status.as_mut_ptr() as usize, flags];
    if let Err(error) = call(libc::SYS_newfstatat, arguments) {
        return format!("{descriptor}:error-{error}");
    }
    // The mode follows device, file number and, on x86_64, the number of links.
    let mode = if cfg!(target_arch = "x86_64") { status[3] as u32 } else { status[2] as u32 };
    let kind = match mode & libc::S_IFMT {
        libc::S_IFSOCK => "socket",
        libc::S_IFREG => "file",
        libc::S_IFCHR => "device",
        libc::S_IFIFO => "pipe",
        _ => "other",
    };
    let inode = if kind == "file" { format!("-{}", status[1]) } else { String::new() };
    format!("{descriptor}:{kind}{inode}")
}

pub(crate) fn message(kind: FromWorker, content: &[u8]) -> Vec<u8> {
    raw_message(kind.number(), content)
}

pub(crate) fn raw_message(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len() + 1).unwrap();
    [&length.to_le_bytes()[..], &[kind], content].concat()
}

pub(crate) fn columns(count: usize) -> Vec<Column> {
    let column = |number| Column {
        name: format!("c{number}"),
        declared_type: None,
        is_primary_key: false,
        source_table: String::new(),
    };
    (0..count).map(column).collect()
}

/// A row of one column.
pub(crate) fn row() -> Vec<u8> {
    let mut content = Vec::new();
    put_value(&branchyard_domain::ports::ValueRef::Text(&[b'x'; 100]), &mut content);
    content
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns what a deed sends: hexadecimal numbers, and the result of this call where it says so.
fn parts(player: &Player, text: &str) -> Vec<u8> {
    let done = (player.number, Ok::<_, EngineError>(ReadReport { deterministic: true }));
    let part = |text: &str| if text == DONE { message(FromWorker::Done, &done.encode()) } else { from_hex(text) };
    text.split(' ').flat_map(part).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}
