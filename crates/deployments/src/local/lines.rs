//! Lines of a log, from any place in either direction.

use std::fs;
use std::io;
use std::path::Path;

use branchyard_domain::ports::{OutputLine, OutputPosition, OutputQuery, Towards};
use branchyard_domain::values::Timestamp;
use chrono::DateTime;

use crate::child::log::{file_name, segments};

/// The lines a query asks for, oldest first.
pub(super) fn read(folder: &Path, query: &OutputQuery) -> io::Result<Vec<OutputLine>> {
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

/// Whole lines of a file; what is still being written is none yet.
fn lines_of(folder: &Path, segment: u64) -> io::Result<Vec<OutputLine>> {
    let bytes = match fs::read(folder.join(file_name(segment))) {
        // Rotated away meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
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
            text: rest.to_owned(),
            begin,
            end: OutputPosition { segment, offset },
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
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
        let get = |query: &OutputQuery| read(folder.path(), query).unwrap();
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
        assert!(read(&folder.path().join("absent"), &query(None, Towards::Older, 1)).unwrap().is_empty());
    }
}
