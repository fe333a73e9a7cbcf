//! What is not as it was stored is noticed.

use branchyard_domain::ports::{DatabaseStore as _, StoreError};
use branchyard_domain::values::ObjectKey;

use crate::harness::{Yard, named, pattern};

const FRAME: u64 = 64 << 10;
const SEALED_FRAME: usize = (64 << 10) + 40;

/// Checks that an object can be read neither whole nor by the range.
fn assert_noticed(yard: &Yard, key: &ObjectKey, range: std::ops::Range<u64>, what: &str) {
    let store = yard.sealing();
    let whole = store.read_into(key, &mut Vec::new());
    assert!(matches!(&whole, Err(StoreError::Damaged { key: found, .. }) if found == key), "{what}: {whole:?}");
    if !range.is_empty() {
        let part = store.read(key, range);
        assert!(matches!(&part, Err(StoreError::Damaged { key: found, .. }) if found == key), "{what}: {part:?}");
    }
}

/// Stores an object and changes what the store has of it.
fn changed(length: u64, change: impl FnOnce(&mut Vec<u8>)) -> (Yard, ObjectKey) {
    let yard = Yard::default();
    let store = yard.sealing();
    let key = named(&store, "a", length);
    store.put(&key, &pattern(length)).unwrap();
    assert!(yard.inner.damage(&key, change));
    (yard, key)
}

#[test]
fn each_bit_counts() {
    let yard = Yard::default();
    let store = yard.sealing();
    let key = named(&store, "a", 30);
    store.put(&key, &pattern(30)).unwrap();
    for at in 0..70 {
        for bit in 0..8 {
            let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << bit;
            yard.inner.damage(&key, flip);
            assert!(matches!(store.read(&key, 0..30), Err(StoreError::Damaged { .. })), "byte {at}, bit {bit}");
            yard.inner.damage(&key, flip);
        }
    }
    assert_eq!(store.read(&key, 0..30).unwrap(), pattern(30));
    let (yard, key) = changed(3 * FRAME, |bytes| bytes[SEALED_FRAME + 5_000] ^= 1);
    assert_noticed(&yard, &key, FRAME..FRAME + 1, "the second frame");
    let store = yard.sealing();
    assert_eq!(store.read(&key, 0..FRAME).unwrap(), pattern(FRAME), "the others can be read");
    assert!(store.read(&key, 2 * FRAME..3 * FRAME).is_ok());
}

#[test]
fn frames_open_in_their_place_only() {
    let (yard, key) = changed(3 * FRAME, |bytes| {
        let (first, second) = bytes.split_at_mut(SEALED_FRAME);
        first.swap_with_slice(&mut second[..SEALED_FRAME]);
    });
    assert_noticed(&yard, &key, 0..1, "swapped");
    assert_noticed(&yard, &key, FRAME..FRAME + 1, "swapped");
    let (yard, key) = changed(3 * FRAME, |bytes| bytes.copy_within(..SEALED_FRAME, SEALED_FRAME));
    assert_noticed(&yard, &key, FRAME..FRAME + 1, "repeated");
}

#[test]
fn a_missing_or_further_frame_is_noticed() {
    let last = 3 * FRAME - 1..3 * FRAME;
    for (what, length) in [("cut at a frame", 2 * SEALED_FRAME), ("cut within one", 3 * SEALED_FRAME - 1), ("empty", 0)]
    {
        let (yard, key) = changed(3 * FRAME, |bytes| bytes.truncate(length));
        assert_noticed(&yard, &key, last.clone(), what);
    }
    let (yard, key) = changed(3 * FRAME, |bytes| drop(bytes.drain(..SEALED_FRAME)));
    assert_noticed(&yard, &key, last.clone(), "without its first frame");
    let (yard, key) = changed(3 * FRAME, |bytes| bytes.extend_from_within(..SEALED_FRAME));
    assert_noticed(&yard, &key, 0..0, "with a further frame");
    let (yard, key) = changed(30, |bytes| bytes.push(0));
    assert_noticed(&yard, &key, 0..0, "with a further byte");
    let (yard, key) = changed(0, |bytes| bytes.clear());
    assert_noticed(&yard, &key, 0..0, "without the frame of an empty object");
}

#[test]
fn an_object_under_the_key_of_another_one_is_noticed() {
    let yard = Yard::default();
    let store = yard.sealing();
    let key = named(&store, "a", FRAME);
    store.put(&key, &pattern(FRAME)).unwrap();
    let mut stored = Vec::new();
    yard.inner.read_into(&key, &mut stored).unwrap();
    for (name, length) in [("b", FRAME), ("a", FRAME - 1), ("a", FRAME + 1)] {
        let other = named(&store, name, length);
        yard.inner.put(&other, &stored).unwrap();
        assert_noticed(&yard, &other, 0..1, "renamed");
    }
    // Under the data key of backups.
    let backups = store.data_key(branchyard_domain::values::DataKeyScope::Backups).unwrap().unwrap();
    let seal = branchyard_domain::values::ObjectSeal { length: FRAME, key: backups };
    let other = ObjectKey::parse("uploads/a").unwrap().sealed(seal).unwrap();
    yard.inner.put(&other, &stored).unwrap();
    assert_noticed(&yard, &other, 0..1, "under another data key");
}
