//! Memory does not grow with the file. This test has its own binary, because the peak is that of the whole process.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

use std::io::{self, Read, Seek, SeekFrom};

use branchyard_imports::{FileLimits, Format, Input, RowErrors, TextOptions, rows, scan};

const RECORD: &[u8] =
    b"{\"id\": 12345, \"name\": \"Alice \\u00e9\", \"level\": 1.5, \"tags\": [\"a\", {\"b\": null}]},\n";
const FILE_BYTES: u64 = 200 << 20;
/// Far more than the buffers need, far less than the size of the file.
const GROWTH_KIB: u64 = 24 << 10;

/// A JSON array that is generated while it is read.
struct Generated {
    position: u64,
}

impl Read for Generated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let records = FILE_BYTES / RECORD.len() as u64;
        let end = 1 + records * RECORD.len() as u64;
        let mut written = 0;
        for slot in buffer {
            *slot = match self.position {
                0 => b'[',
                at if at < end - 2 => RECORD[usize::try_from((at - 1) % RECORD.len() as u64).unwrap()],
                // Replaces the last comma.
                at if at == end - 2 => b']',
                _ => break,
            };
            self.position += 1;
            written += 1;
        }
        Ok(written)
    }
}

impl Seek for Generated {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn two_hundred_megabytes_of_json_take_a_few() {
    let open = || Ok(Box::new(Generated { position: 0 }) as Box<_>);
    let input = Input {
        format: Format::Json,
        table: "t",
        limits: FileLimits::default(),
        text: TextOptions::default(),
        open: &open,
    };
    let before = peak_kib();
    let found = scan(&input).unwrap();
    assert_eq!(found.rows, FILE_BYTES / RECORD.len() as u64);
    let mut second = rows(&input, &found, |column| found.affinity(column)).unwrap();
    let mut errors = RowErrors::default();
    let mut read = 0;
    while second.next_row(&mut errors).unwrap().is_some() {
        read += 1;
    }
    assert_eq!((read, errors.total()), (found.rows, 0));
    let grown = peak_kib() - before;
    assert!(grown < GROWTH_KIB, "{grown} KiB");
}
