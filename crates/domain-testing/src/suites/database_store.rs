//! The contract suite of [`DatabaseStore`].
//!
//! Each check uses keys of its own, so checks may run in any order on one store, each once.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use branchyard_domain::ports::{DatabaseStore, ObjectDigest, ObjectInfo, StoreError};
use branchyard_domain::values::ObjectKey;

/// Size of an object that is stored and read in several pieces.
const LARGE: u64 = 21 * 1_024 * 1_024 + 7;

/// How many threads store one key at the same time.
const RIVALS: usize = 8;

/// A check of one part of the contract.
pub type StoreCheck = fn(&dyn DatabaseStore);

/// Every check with its name.
pub const ALL: &[(&str, StoreCheck)] = &[
    ("objects", objects),
    ("ranges", ranges),
    ("verified_ranges", verified_ranges),
    ("large_objects", large_objects),
    ("failing_readers_and_writers", failing_readers_and_writers),
    ("existing_keys", existing_keys),
    ("mutable_objects", mutable_objects),
    ("lists", lists),
    ("removal", removal),
    ("races", |store| races(store, 10)),
    ("replacements_are_whole", replacements_are_whole),
];

/// Runs every check in sequence.
pub fn run_all(store: &dyn DatabaseStore) {
    for (_, check) in ALL {
        check(store);
    }
}

fn key(text: &str) -> ObjectKey {
    ObjectKey::parse(text).unwrap()
}

/// Returns bytes that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    Pattern::new(u64::try_from(length).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads bytes that differ from place to place.
struct Pattern {
    at: u64,
    length: u64,
}

impl Pattern {
    fn new(length: u64) -> Self {
        Self { at: 0, length }
    }
}

impl Read for Pattern {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // An odd limit, so that the pieces of a store are filled by several reads.
        let length = usize::try_from(self.length - self.at).unwrap_or(usize::MAX).min(buffer.len()).min(99_991);
        for byte in &mut buffer[..length] {
            *byte = u8::try_from((self.at ^ (self.at >> 8) ^ (self.at >> 16)) & 0xff).unwrap();
            self.at += 1;
        }
        Ok(length)
    }
}

fn read_whole(store: &dyn DatabaseStore, key: &ObjectKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    let digest = store.read_into(key, &mut bytes).unwrap();
    assert_eq!(digest, ObjectDigest::of(&bytes));
    bytes
}

fn assert_absent<T: std::fmt::Debug>(result: Result<T, StoreError>, expected: &ObjectKey) {
    assert!(matches!(&result, Err(StoreError::NotFound(key)) if key == expected), "{result:?}");
}

fn assert_exists<T: std::fmt::Debug>(result: Result<T, StoreError>, expected: &ObjectKey) {
    assert!(matches!(&result, Err(StoreError::Exists(key)) if key == expected), "{result:?}");
}

fn assert_damaged<T: std::fmt::Debug>(result: Result<T, StoreError>, expected: &ObjectKey) {
    assert!(matches!(&result, Err(StoreError::Damaged { key, .. }) if key == expected), "{result:?}");
}

fn keys_of(page: &[ObjectInfo]) -> Vec<&str> {
    page.iter().map(|info| info.key.as_str()).collect()
}

/// Checks that objects are read as they were stored, and that absent ones are reported.
pub fn objects(store: &dyn DatabaseStore) {
    let absent = key("suite-objects/absent/deep");
    assert_absent(store.info(&absent), &absent);
    assert_absent(store.read(&absent, 0..1), &absent);
    assert_absent(store.read_into(&absent, &mut Vec::new()), &absent);
    assert_absent(store.read_small(&absent, 10), &absent);
    for length in [0, 1, 10_000, 300_000] {
        let bytes = pattern(length);
        for (way, key) in ["put", "from"].map(|way| (way, key(&format!("suite-objects/{length}/with.odd_name-{way}"))))
        {
            let stored = match way {
                "put" => store.put(&key, &bytes),
                // What follows the object is left to the caller.
                _ => store.put_from(&key, u64::try_from(length).unwrap(), &mut Pattern::new(LARGE)),
            };
            assert_eq!(stored.unwrap(), ObjectDigest::of(&bytes));
            let info = store.info(&key).unwrap();
            assert_eq!((&info.key, info.length), (&key, u64::try_from(length).unwrap()));
            assert_eq!(read_whole(store, &key), bytes);
            assert_eq!(store.read_small(&key, length).unwrap(), bytes);
            if length > 0 {
                assert_damaged(store.read_small(&key, length - 1), &key);
            }
        }
    }
}

/// Checks reads of ranges, also beyond the end.
pub fn ranges(store: &dyn DatabaseStore) {
    let key = key("suite-ranges/object");
    let bytes = pattern(1_000);
    store.put(&key, &bytes).unwrap();
    for range in [0..1_u64, 0..1_000, 999..1_000, 17..300] {
        let wanted = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert_eq!(store.read(&key, range).unwrap(), bytes[wanted]);
    }
    assert_eq!(store.read(&key, 5..5).unwrap(), b"");
    for range in [0..1_001, 999..1_001, 1_000..1_001, 5_000..6_000] {
        assert_damaged(store.read(&key, range), &key);
    }
}

/// Checks that ranges with another hash are refused.
pub fn verified_ranges(store: &dyn DatabaseStore) {
    let key = key("suite-verified/object");
    let bytes = pattern(1_000);
    store.put(&key, &bytes).unwrap();
    let sha256 = ObjectDigest::of(&bytes[100..200]).sha256;
    assert_eq!(store.read_verified(&key, 100..200, &sha256).unwrap(), bytes[100..200]);
    assert_damaged(store.read_verified(&key, 101..201, &sha256), &key);
}

/// Checks an object that is stored and read in several pieces.
pub fn large_objects(store: &dyn DatabaseStore) {
    let key = key("suite-large/object");
    let stored = store.put_from(&key, LARGE, &mut Pattern::new(LARGE)).unwrap();
    assert_eq!(store.info(&key).unwrap().length, LARGE);
    let bytes = read_whole(store, &key);
    assert!(stored == ObjectDigest::of(&bytes) && bytes == pattern(bytes.len()));
    let range = 5_000_000..20_000_000;
    assert!(store.read(&key, range).unwrap() == bytes[5_000_000..20_000_000]);
    assert_exists(store.put_from(&key, LARGE, &mut Pattern::new(LARGE)), &key);
}

/// Fails after some bytes.
struct Failing(u64);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.0).unwrap());
        if length == 0 {
            return Err(io::Error::other("planned"));
        }
        self.0 -= u64::try_from(length).unwrap();
        buffer[..length].fill(7);
        Ok(length)
    }
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(usize::try_from(self.0).unwrap());
        if length == 0 {
            return Err(io::Error::other("planned"));
        }
        self.0 -= u64::try_from(length).unwrap();
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks that nothing is stored if the caller's reader fails or ends early, and that a failing writer is reported.
pub fn failing_readers_and_writers(store: &dyn DatabaseStore) {
    for (name, length) in [("small", 1_000), ("large", LARGE)] {
        let key = key(&format!("suite-failing/{name}"));
        let results = [
            store.put_from(&key, length, &mut Failing(length - 1)),
            store.put_from(&key, length, &mut Pattern::new(length - 1)),
        ];
        for result in results {
            assert!(matches!(result, Err(StoreError::Io(_))), "{result:?}");
            assert_absent(store.info(&key), &key);
        }
        store.put_from(&key, length, &mut Pattern::new(length)).unwrap();
        let result = store.read_into(&key, &mut Failing(length - 1));
        assert!(matches!(result, Err(StoreError::Io(_))), "{result:?}");
    }
}

/// Checks that an object is not stored under a key that exists.
pub fn existing_keys(store: &dyn DatabaseStore) {
    let key = key("suite-existing/object");
    store.put(&key, b"first").unwrap();
    for bytes in ["second", "first", ""] {
        assert_exists(store.put(&key, bytes.as_bytes()), &key);
        assert_exists(store.put_from(&key, u64::try_from(bytes.len()).unwrap(), &mut bytes.as_bytes()), &key);
        assert!(!store.put_if_absent(&key, bytes.as_bytes()).unwrap());
    }
    assert_eq!(read_whole(store, &key), b"first");
    store.remove(std::slice::from_ref(&key)).unwrap();
    assert!(store.put_if_absent(&key, b"third").unwrap());
    assert_eq!(read_whole(store, &key), b"third");
}

/// Checks objects that are replaced.
pub fn mutable_objects(store: &dyn DatabaseStore) {
    let key = key("suite-mutable/mark");
    for text in ["1", "22", "", "333"] {
        store.replace(&key, text.as_bytes()).unwrap();
        assert_eq!(store.read_small(&key, 100).unwrap(), text.as_bytes());
        assert_eq!(store.info(&key).unwrap().length, u64::try_from(text.len()).unwrap());
    }
    assert_eq!(keys_of(&store.list(Some(&self::key("suite-mutable")), None, 10).unwrap()), [key.as_str()]);
}

/// Checks that lists are ordered by the bytes of keys, and come in pages.
pub fn lists(store: &dyn DatabaseStore) {
    let folder = key("suite-lists");
    assert_eq!(store.list(Some(&folder), None, 10).unwrap(), []);
    // `-` and `.` are before `/`, digits and letters are after it.
    let mut names = vec!["a-b", "a.b", "a/b", "a/b-c/d", "a/b0", "a0", "B", "b/1", "c"];
    for name in names.iter().rev() {
        store.put(&folder.join(name).unwrap(), name.as_bytes()).unwrap();
    }
    // Their keys begin with the text of the folder, but they are not in it.
    for beside in ["suite-lists-2/x", "suite-lists.x", "suite-listsx"] {
        store.put(&key(beside), b"").unwrap();
    }
    names.sort_unstable();
    let expected: Vec<String> = names.iter().map(|name| format!("{folder}/{name}")).collect();
    let all = store.list(Some(&folder), None, 100).unwrap();
    assert_eq!(keys_of(&all), expected);
    for (info, name) in all.iter().zip(&names) {
        assert_eq!(info.length, u64::try_from(name.len()).unwrap());
        assert_eq!(*info, store.info(&info.key).unwrap());
    }
    for limit in 1..=expected.len() + 1 {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = store.list(Some(&folder), after.as_ref(), limit).unwrap();
            assert!(page.len() <= limit);
            found.extend(page.iter().map(|info| info.key.to_string()));
            after = page.last().map(|info| info.key.clone());
            if page.len() < limit {
                break;
            }
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
    // `after` need not exist, and may be outside the folder.
    let after = |text: &str| store.list(Some(&folder), Some(&key(text)), 100).unwrap().len();
    assert_eq!((after("suite-lists/a/b-c"), after("suite-a"), after("suite-z")), (5, 9, 0));
    assert_eq!(keys_of(&store.list(Some(&folder.join("a").unwrap()), None, 100).unwrap()), expected[3..6]);
    assert_eq!(store.list(Some(&folder), None, 0).unwrap(), []);
    let everything = store.list(None, None, 1_000).unwrap();
    assert!(everything.iter().is_sorted_by_key(|info| &info.key));
    assert!(expected.iter().all(|key| everything.iter().any(|info| info.key.as_str() == key)));
}

/// Checks that many objects are removed, and that absent ones are no error.
pub fn removal(store: &dyn DatabaseStore) {
    let folder = key("suite-removal");
    let keys: Vec<ObjectKey> = (0..30).map(|n| folder.join(&format!("{}/{n}", n % 3)).unwrap()).collect();
    for key in &keys {
        store.put(key, b"x").unwrap();
    }
    store.remove(&[]).unwrap();
    let mut doomed = keys[..20].to_vec();
    doomed.extend((0..1_100).map(|n| folder.join(&format!("absent/{n}")).unwrap()));
    for _ in 0..2 {
        store.remove(&doomed).unwrap();
    }
    let left: BTreeSet<ObjectKey> =
        store.list(Some(&folder), None, 100).unwrap().into_iter().map(|info| info.key).collect();
    assert_eq!(left, keys[20..].iter().cloned().collect());
    assert_absent(store.info(&keys[0]), &keys[0]);
    store.put(&keys[0], b"again").unwrap();
}

/// Checks that of several threads that store one key at the same time, exactly one does, `rounds` times.
pub fn races(store: &dyn DatabaseStore, rounds: usize) {
    for round in 0..rounds {
        let key = key(&format!("suite-races/{round}"));
        let (winners, winner) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let start = std::sync::Barrier::new(RIVALS);
        thread::scope(|scope| {
            for rival in 0..RIVALS {
                let (key, winners, winner, start) = (&key, &winners, &winner, &start);
                scope.spawn(move || {
                    // Unequal lengths, so that bytes of two rivals in one object would be noticed.
                    let bytes = vec![u8::try_from(rival).unwrap(); 2_000 + rival];
                    start.wait();
                    if store.put_if_absent(key, &bytes).unwrap() {
                        winners.fetch_add(1, Ordering::SeqCst);
                        winner.store(rival, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(winners.into_inner(), 1, "round {round}");
        let winner = winner.into_inner();
        assert_eq!(read_whole(store, &key), vec![u8::try_from(winner).unwrap(); 2_000 + winner]);
    }
}

/// Checks that readers of an object that is being replaced see one version whole.
pub fn replacements_are_whole(store: &dyn DatabaseStore) {
    let key = key("suite-replacements/mark");
    let version = |n: u8| vec![n; 100 + usize::from(n)];
    store.replace(&key, &version(0)).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| (0..100).for_each(|n| store.replace(&key, &version(n)).unwrap()));
        while !writer.is_finished() {
            let seen = store.read_small(&key, 1_000).unwrap();
            assert_eq!(seen, version(seen[0]));
        }
    });
}
