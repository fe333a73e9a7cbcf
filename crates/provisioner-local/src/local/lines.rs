//! Reading the lines of a log from any position in either direction.

use std::io;

use branchyard_deployments::ports::{OutputLine, OutputPosition, OutputQuery, Towards};
use branchyard_domain::values::Timestamp;
use chrono::DateTime;

use crate::child::log::{FULL, KEPT, LONGEST, file_name};
use crate::confined_dir::ConfinedDir;

/// Maximum number of folder entries that are examined. A log has only a few files.
const MOST_ENTRIES: usize = 1_000;
/// Maximum number of files that are read, newest first: the files kept, and one that has just been created.
const MOST_FILES: usize = KEPT + 1;
/// Maximum number of bytes read from a file: a full file, and a last line with its time of both the process and the server.
const MOST_BYTES: u64 = FULL + 2 * (LONGEST as u64 + 64);

/// Returns the numbers of the log files, oldest first.
pub(super) fn segments(folder: &ConfinedDir) -> io::Result<Vec<u64>> {
    let number = |name: &str| {
        let number = name.strip_suffix(".log")?.parse().ok()?;
        (file_name(number) == name).then_some(number)
    };
    let names = folder.names(MOST_ENTRIES)?;
    let mut found: Vec<u64> = names.iter().filter_map(|name| number(name.to_str()?)).collect();
    found.sort_unstable();
    Ok(found.split_off(found.len().saturating_sub(MOST_FILES)))
}

/// Returns the lines that match a query, oldest first.
///
/// The process that writes the log may be compromised. Links and entries that are not regular files are ignored, and no
/// more is read than a log can contain.
pub(super) fn read(folder: &ConfinedDir, query: &OutputQuery) -> io::Result<Vec<OutputLine>> {
    let mut numbers = segments(folder)?;
    let mut found = Vec::new();
    match query.towards {
        Towards::Newer => {
            numbers.retain(|number| query.from.is_none_or(|from| *number >= from.segment));
            for number in numbers {
                for line in lines_of(folder, number)? {
                    if found.len() >= query.limit || query.until.is_some_and(|until| line.time > until) {
                        return Ok(found);
                    }
                    let is_behind = query.from.is_none_or(|from| line.begin >= from);
                    if is_behind && query.since.is_none_or(|since| line.time >= since) {
                        found.push(line);
                    }
                }
            }
        }
        Towards::Older => {
            numbers.retain(|number| query.from.is_none_or(|from| *number <= from.segment));
            'files: for number in numbers.into_iter().rev() {
                for line in lines_of(folder, number)?.into_iter().rev() {
                    if found.len() >= query.limit || query.since.is_some_and(|since| line.time < since) {
                        break 'files;
                    }
                    let is_before = query.from.is_none_or(|from| line.end <= from);
                    if is_before && query.until.is_none_or(|until| line.time <= until) {
                        found.push(line);
                    }
                }
            }
            found.reverse();
        }
    }
    Ok(found)
}

/// Returns the complete lines of a file. A line that is still being written is ignored.
fn lines_of(folder: &ConfinedDir, segment: u64) -> io::Result<Vec<OutputLine>> {
    let bytes = match folder.read_first(&file_name(segment), MOST_BYTES) {
        // The file was rotated away in the meantime, or is not a regular file.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
            return Ok(Vec::new());
        }
        read => read?,
    };
    let mut lines = Vec::new();
    let mut offset = 0_u64;
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = piece.strip_suffix(b"\n") else { break };
        let begin = OutputPosition { segment, offset };
        offset += u64::try_from(piece.len()).unwrap_or(0);
        let text = String::from_utf8_lossy(text);
        let Some((time, rest)) = text.split_once(' ') else { continue };
        let Ok(at) = DateTime::parse_from_rfc3339(time) else { continue };
        lines.push(OutputLine {
            time: Timestamp::from_micros(at.timestamp_micros()),
            text: cut(rest).to_owned(),
            begin,
            end: OutputPosition { segment, offset },
        });
    }
    Ok(lines)
}

/// Cuts a text to the maximum length of a line.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn query(from: Option<OutputPosition>, towards: Towards, limit: usize) -> OutputQuery {
        OutputQuery { from, towards, limit, since: None, until: None }
    }

    fn texts(lines: &[OutputLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_are_walked_both_ways_across_files_and_none_twice() {
        let folder = tempfile::tempdir().unwrap();
        let say = |segment, from: u32, to: u32| {
            let text: String = (from..to).map(|n| format!("2026-11-20T12:00:{n:02}.000Z INFO {n}\n")).collect();
            fs::write(folder.path().join(file_name(segment)), text).unwrap();
        };
        say(3, 0, 4);
        say(4, 4, 6);
        let opened = ConfinedDir::open(folder.path()).unwrap();
        let get = |query: &OutputQuery| read(&opened, query).unwrap();
        let newest = get(&query(None, Towards::Older, 3));
        assert_eq!(texts(&newest), ["INFO 3", "INFO 4", "INFO 5"]);
        let older = get(&query(Some(newest[0].begin), Towards::Older, 2));
        assert_eq!(texts(&older), ["INFO 1", "INFO 2"]);
        let end = newest[2].end;
        assert!(get(&query(Some(end), Towards::Newer, 9)).is_empty());
        say(4, 4, 8);
        fs::write(
            folder.path().join(file_name(5)),
            "2026-11-20T12:00:09.000Z INFO whole\n2026-11-20T12:00:09.000Z INFO ha",
        )
        .unwrap();
        let newer = get(&query(Some(end), Towards::Newer, 9));
        assert_eq!(texts(&newer), ["INFO 6", "INFO 7", "INFO whole"]);
        let at = |seconds: i64| Some(Timestamp::from_seconds(1_795_176_000 + seconds));
        let window = OutputQuery { since: at(2), until: at(4), ..query(None, Towards::Older, 9) };
        assert_eq!(texts(&get(&window)), ["INFO 2", "INFO 3", "INFO 4"]);
        assert_eq!(texts(&get(&OutputQuery { towards: Towards::Newer, ..window })), ["INFO 2", "INFO 3", "INFO 4"]);
        fs::remove_file(folder.path().join(file_name(3))).unwrap();
        assert_eq!(texts(&get(&query(Some(older[0].begin), Towards::Newer, 1))), ["INFO 4"]);
    }

    const LINE: &str = "2026-11-20T12:00:00.000Z INFO line\n";

    /// Reads the whole log in both directions. Fails if that takes longer than a minute.
    fn all(folder: &std::path::Path) -> Vec<String> {
        let opened = ConfinedDir::open(folder).unwrap();
        let (done, waiting) = mpsc::channel();
        std::thread::spawn(move || {
            let [older, newer] = [Towards::Older, Towards::Newer].map(|towards| {
                let lines = read(&opened, &query(None, towards, 1_000_000)).unwrap();
                lines.into_iter().map(|line| line.text).collect::<Vec<_>>()
            });
            assert_eq!(older, newer);
            done.send(newer).unwrap();
        });
        waiting.recv_timeout(Duration::from_secs(60)).expect("reading a log blocks")
    }

    #[test]
    fn what_is_no_file_of_a_log_is_neither_followed_nor_waited_for() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("log");
        fs::create_dir(&folder).unwrap();
        fs::write(outer.path().join("secret"), LINE.replace("line", "secret")).unwrap();
        symlink(outer.path().join("secret"), folder.join(file_name(1))).unwrap();
        let pipe = folder.join(file_name(2));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fs::create_dir(folder.join(file_name(3))).unwrap();
        fs::write(folder.join(file_name(4)), LINE).unwrap();
        fs::write(folder.join("5.log"), LINE).unwrap();
        assert_eq!(all(&folder), ["INFO line"]);
    }

    #[test]
    fn a_log_without_end_is_read_no_further_than_a_log_goes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(file_name(1));
        fs::write(&file, format!("{LINE}2026-11-20T12:00:00.000Z {}\n", "é".repeat(LONGEST))).unwrap();
        File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
        let lines = all(folder.path());
        assert_eq!(lines.len(), 2);
        assert!(lines[1].len() <= LONGEST && lines[1].starts_with('é'));
    }

    #[test]
    fn of_many_files_the_newest_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for number in 1..=50 {
            let line = format!("2026-11-20T12:00:{number:02}.000Z INFO {number}\n");
            fs::write(folder.path().join(file_name(number)), line).unwrap();
        }
        assert_eq!(all(folder.path()), ["INFO 45", "INFO 46", "INFO 47", "INFO 48", "INFO 49", "INFO 50"]);
    }
}
