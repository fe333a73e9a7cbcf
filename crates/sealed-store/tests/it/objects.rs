//! What is read is what was stored.

use branchyard_domain::ports::{DatabaseStore as _, ObjectDigest, StoreError};
use branchyard_domain::values::ObjectKey;
use proptest::prelude::*;

use crate::harness::{Yard, named, pattern};

const FRAME: u64 = 64 << 10;

#[test]
fn objects_are_read_as_they_were_stored_and_are_not_in_the_store_in_clear() {
    let yard = Yard::default();
    let store = yard.sealing();
    for length in [0, 1, 100, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME, 3 * FRAME + 17] {
        let bytes = pattern(length);
        let (whole, streamed) =
            (named(&store, &format!("a{length}"), length), named(&store, &format!("b{length}"), length));
        let digest = ObjectDigest::of(&bytes);
        assert_eq!(store.put(&whole, &bytes).unwrap(), digest);
        assert_eq!(store.put_from(&streamed, length, &mut bytes.as_slice()).unwrap(), digest);
        for key in [&whole, &streamed] {
            let mut read = Vec::new();
            assert_eq!(store.read_into(key, &mut read).unwrap(), digest);
            assert!(read == bytes, "{key}");
            assert!(store.read(key, 0..length).unwrap() == bytes, "{key}");
            assert_eq!(store.info(key).unwrap().length, length);
            let mut stored = Vec::new();
            yard.inner.read_into(key, &mut stored).unwrap();
            assert!(stored.len() as u64 > length);
            let probe = bytes.get(..20.min(bytes.len())).unwrap();
            assert!(length < 20 || !stored.windows(20).any(|part| part == probe), "{key} is in clear");
        }
    }
    assert!(store.list(None, None, 100).unwrap().iter().all(|info| match info.key.seal() {
        Some(seal) => seal.length == info.length,
        None => info.key.as_str().starts_with("keys/"),
    }));
}

#[test]
fn other_objects_are_passed_on_as_they_are() {
    let yard = Yard::default();
    let store = yard.sealing();
    let key = ObjectKey::parse("marks/a").unwrap();
    store.replace(&key, b"17").unwrap();
    assert_eq!(yard.inner.read_small(&key, 10).unwrap(), b"17");
    assert_eq!(store.read_small(&key, 10).unwrap(), b"17");
    store.remove(std::slice::from_ref(&key)).unwrap();
    assert!(matches!(store.info(&key), Err(StoreError::NotFound(_))));
}

#[test]
fn bytes_of_another_length_than_the_key_names_are_refused() {
    let store = Yard::default().sealing();
    let key = named(&store, "a", 10);
    assert!(matches!(store.put(&key, b"short"), Err(StoreError::Rejected { .. })));
    assert!(matches!(store.put_from(&key, 5, &mut &b"short"[..]), Err(StoreError::Rejected { .. })));
    assert!(matches!(store.put_from(&key, 10, &mut &b"short"[..]), Err(StoreError::Io(_))));
    assert!(matches!(store.info(&key), Err(StoreError::NotFound(_))));
}

#[test]
fn an_object_that_is_stored_again_has_other_nonces() {
    let yard = Yard::default();
    let store = yard.sealing();
    let key = named(&store, "a", 1_000);
    let stored = || {
        store.put(&key, &pattern(1_000)).unwrap();
        let bytes = yard.inner.read_small(&key, 2_000).unwrap();
        store.remove(std::slice::from_ref(&key)).unwrap();
        bytes
    };
    assert_ne!(stored(), stored());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_range_has_the_bytes_that_were_stored(
        length in prop_oneof![0_u64..300, (FRAME - 2)..(FRAME + 3), 0..(4 * FRAME + 9), Just(2 * FRAME)],
        ends in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..6),
    ) {
        let yard = Yard::default();
        let store = yard.sealing();
        let (key, bytes) = (named(&store, "a", length), pattern(length));
        store.put(&key, &bytes).unwrap();
        for (a, b) in ends {
            let (a, b) = (a % (length + 1), b % (length + 1));
            let (start, end) = (a.min(b), a.max(b));
            let read = store.read(&key, start..end).unwrap();
            prop_assert!(read == bytes[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()], "{start}..{end} of {length}");
        }
        let beyond = store.read(&key, 0..length + 1);
        prop_assert!(matches!(beyond, Err(StoreError::Damaged { .. })), "{beyond:?}");
    }
}
