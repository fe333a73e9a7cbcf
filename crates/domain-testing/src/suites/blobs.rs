//! The contract suites of [`Blobs`] and [`BackupFiles`].
//!
//! Each check uses ids of its own, so checks may run in any order on one store, each once. A store that does not list recent uploads
//! has to be opened with a clock that is far ahead.

use std::io::{self, Read, Seek as _, SeekFrom};
use std::thread;

use branchyard_deployments::ports::{BackupFile, BackupFiles};
use branchyard_deployments::values::{BackupId, DeploymentId, ServedName};
use branchyard_domain::ports::{Blobs, ReadSeek};
use branchyard_domain::values::{Timestamp, UploadId};
use uuid::Uuid;

/// Length of a part that no implementation holds in memory, and that is not read at once.
const LARGE: usize = 9_000_001;

/// A check of one part of the contract of [`Blobs`].
pub type BlobsCheck = fn(&dyn Blobs);

/// Every check of [`Blobs`] with its name.
pub const ALL: &[(&str, BlobsCheck)] = &[
    ("parts", parts),
    ("places", places),
    ("large_parts", large_parts),
    ("failing_readers", failing_readers),
    ("replaced_parts", replaced_parts),
    ("removed_uploads", removed_uploads),
];

/// Runs every check of both ports in sequence.
pub fn run_all<B: Blobs + BackupFiles>(blobs: &B) {
    for (_, check) in ALL {
        check(blobs);
    }
    backups(blobs);
}

fn upload(number: u128) -> UploadId {
    UploadId::from_uuid(Uuid::from_u128(0xb10b << 64 | number))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at ^ (at >> 8) ^ (at >> 16)) & 0xff).unwrap()).collect()
}

fn whole(mut file: Box<dyn ReadSeek>) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads a few bytes and then fails.
struct Cut<'a>(&'a [u8]);

impl Read for Cut<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::ConnectionReset, "the client is gone")),
            false => self.0.read(buffer),
        }
    }
}

/// Checks that parts make one file in the order of their numbers, whatever the order in which they were stored.
pub fn parts(blobs: &dyn Blobs) {
    let (id, other) = (upload(1), upload(2));
    assert_eq!(blobs.put_part(id, 2, &mut &b"world"[..]).unwrap(), 5);
    assert_eq!(blobs.put_part(id, 10, &mut &b"!"[..]).unwrap(), 1);
    assert_eq!(blobs.put_part(id, 1, &mut &b"hello "[..]).unwrap(), 6);
    assert_eq!(blobs.put_part(other, 1, &mut &b"other"[..]).unwrap(), 5);
    assert_eq!(whole(blobs.open(id, 2).unwrap()), b"hello world");
    assert_eq!(whole(blobs.open(id, 1).unwrap()), b"hello ");
    assert_eq!(whole(blobs.open(other, 1).unwrap()), b"other");
    assert!(blobs.open(id, 3).is_err(), "a part is missing");
    assert!(blobs.open(upload(3), 1).is_err(), "there is no such upload");
    let listed = blobs.list().unwrap();
    assert!(listed.contains(&id) && listed.contains(&other) && listed.is_sorted(), "{listed:?}");
}

/// Checks that a file is read from anywhere.
pub fn places(blobs: &dyn Blobs) {
    let id = upload(4);
    let bytes = b"abcdefghij";
    for (number, part) in [(1, 0..3), (2, 3..3), (3, 3..4), (4, 4..10)] {
        blobs.put_part(id, number, &mut &bytes[part]).unwrap();
    }
    let mut file = blobs.open(id, 4).unwrap();
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 10);
    assert_eq!(file.read(&mut [0; 4]).unwrap(), 0);
    for start in (0..=10).chain([5, 2, 9, 0]) {
        assert_eq!(file.seek(SeekFrom::Start(start)).unwrap(), start);
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, bytes[usize::try_from(start).unwrap()..]);
        assert_eq!(file.seek(SeekFrom::Current(-1)).unwrap(), 9);
    }
    assert_eq!(file.read(&mut []).unwrap(), 0);
    assert!(file.seek(SeekFrom::End(-11)).is_err());
    assert_eq!(file.seek(SeekFrom::Start(99)).unwrap(), 99);
    assert_eq!(file.read(&mut [0; 4]).unwrap(), 0);
}

/// Checks that large parts are stored and read as they are, from the start and from anywhere.
pub fn large_parts(blobs: &dyn Blobs) {
    let id = upload(5);
    let bytes = pattern(LARGE);
    let (first, second) = bytes.split_at(LARGE / 3);
    for (number, part) in [(1, first), (2, second)] {
        assert_eq!(blobs.put_part(id, number, &mut &part[..]).unwrap(), u64::try_from(part.len()).unwrap());
    }
    assert!(whole(blobs.open(id, 2).unwrap()) == bytes);
    let mut file = blobs.open(id, 2).unwrap();
    for start in [LARGE - 3, LARGE / 3 - 10, 0, 5_000_000, LARGE / 2] {
        file.seek(SeekFrom::Start(u64::try_from(start).unwrap())).unwrap();
        let mut piece = vec![0; 200_000.min(LARGE - start)];
        file.read_exact(&mut piece).unwrap();
        assert!(piece == bytes[start..start + piece.len()], "{start}");
    }
}

/// Checks that a part whose bytes cannot be read changes nothing.
pub fn failing_readers(blobs: &dyn Blobs) {
    let (id, fresh) = (upload(6), upload(7));
    blobs.put_part(id, 1, &mut &b"whole"[..]).unwrap();
    for length in [1, 300_000] {
        let bytes = pattern(length);
        for upload in [id, fresh] {
            let error = blobs.put_part(upload, 1, &mut Cut(&bytes)).unwrap_err();
            assert_eq!(error.source.kind(), io::ErrorKind::ConnectionReset, "{error:?}");
        }
    }
    assert_eq!(whole(blobs.open(id, 1).unwrap()), b"whole");
    assert!(blobs.open(fresh, 1).is_err());
}

/// Checks that a part that is stored again replaces the earlier one, and that rivals leave one of theirs.
pub fn replaced_parts(blobs: &dyn Blobs) {
    let id = upload(8);
    for round in 0..25 {
        let text = format!("round {round}");
        blobs.put_part(id, 1, &mut text.as_bytes()).unwrap();
        assert_eq!(whole(blobs.open(id, 1).unwrap()), text.as_bytes());
    }
    thread::scope(|scope| {
        for rival in 0..8 {
            scope.spawn(move || blobs.put_part(id, 1, &mut format!("rival {rival}").as_bytes()).unwrap());
        }
    });
    let (one, other) = (whole(blobs.open(id, 1).unwrap()), whole(blobs.open(id, 1).unwrap()));
    assert!(one.starts_with(b"rival ") && one == other);
    blobs.put_part(id, 1, &mut &b"last"[..]).unwrap();
    assert_eq!(whole(blobs.open(id, 1).unwrap()), b"last");
}

/// Checks that an upload is removed with all its parts, and that it may be absent.
pub fn removed_uploads(blobs: &dyn Blobs) {
    let (id, other) = (upload(9), upload(10));
    for number in 1..=30 {
        blobs.put_part(id, number, &mut &b"part"[..]).unwrap();
    }
    blobs.put_part(other, 1, &mut &b"other"[..]).unwrap();
    assert!(blobs.list().unwrap().contains(&id));
    for _ in 0..2 {
        blobs.remove(id).unwrap();
        assert!(blobs.open(id, 1).is_err());
        let listed = blobs.list().unwrap();
        assert!(!listed.contains(&id) && listed.contains(&other), "{listed:?}");
    }
    assert_eq!(whole(blobs.open(other, 1).unwrap()), b"other");
}

/// Checks that files of backups are replaced as a whole, and come and go together.
pub fn backups(files: &dyn BackupFiles) {
    let file = |name: &str, at| BackupFile {
        deployment: DeploymentId::from_uuid(Uuid::from_u128(0xb10b)),
        backup: BackupId::at(Timestamp::from_seconds(at)),
        database: ServedName::parse(name).unwrap(),
    };
    // One name begins with the other one.
    let (rivers, longer, other) = (file("rivers", 1), file("rivers-2", 1), file("rivers", 2));
    assert!(files.open_backup(&rivers).is_err());
    let large = pattern(LARGE);
    for (file, bytes) in [(&rivers, &b"first"[..]), (&longer, b"longer"), (&other, b"other"), (&rivers, &large)] {
        assert_eq!(files.put_backup(file, &mut &bytes[..]).unwrap(), u64::try_from(bytes.len()).unwrap());
    }
    files.put_backup(&rivers, &mut Cut(b"half")).unwrap_err();
    assert!(whole(files.open_backup(&file("RIVERS", 1)).unwrap()) == large);
    assert_eq!(whole(files.open_backup(&longer).unwrap()), b"longer");
    let mut listed = files.list_backups().unwrap();
    listed.retain(|file| file.deployment == rivers.deployment);
    assert_eq!(listed, [rivers.clone(), longer.clone(), other.clone()]);
    for _ in 0..2 {
        files.remove_backup(rivers.deployment, rivers.backup).unwrap();
        assert!(files.open_backup(&rivers).is_err() && files.open_backup(&longer).is_err());
    }
    assert_eq!(whole(files.open_backup(&other).unwrap()), b"other");
    files.remove_backup(other.deployment, other.backup).unwrap();
    assert_eq!(files.list_backups().unwrap(), []);
}
