//! Where data keys come from, and where they go.

use branchyard_domain::ports::{DataKeys as _, DatabaseStore as _, StoreError};
use branchyard_domain::values::{DataKeyScope, DatabaseId, ObjectKey};
use branchyard_domain_testing::fakes::{StoreCall, StoreFault};
use branchyard_sealed_store::{MasterKeys, Rewrapped};

use crate::harness::{Yard, command, current, named, pattern, secret};

fn refused<T>(result: Result<T, StoreError>, text: &str) {
    let error = result.err().unwrap().to_string();
    assert!(error.contains(text), "{error}");
}

/// Stores an object, and returns its key.
fn stored(yard: &Yard, masters: MasterKeys) -> ObjectKey {
    let store = yard.open(masters).0;
    let key = named(&store, "a", 100);
    store.put(&key, &pattern(100)).unwrap();
    key
}

fn is_readable(yard: &Yard, masters: MasterKeys, key: &ObjectKey) -> bool {
    yard.open(masters).0.read(key, 0..100).is_ok_and(|bytes| bytes == pattern(100))
}

#[test]
fn each_scope_has_a_key_of_its_own_which_stays() {
    let yard = Yard::default();
    let store = yard.sealing();
    let database = |n: u8| {
        DataKeyScope::Database(DatabaseId::parse(&format!("00000000-0000-7000-8000-0000000000{n:02}")).unwrap())
    };
    let scopes = [database(1), database(2), DataKeyScope::Uploads, DataKeyScope::Backups];
    let keys = scopes.map(|scope| store.data_key(scope).unwrap().unwrap());
    assert_eq!(keys, scopes.map(|scope| yard.sealing().data_key(scope).unwrap().unwrap()), "on another server");
    assert_eq!(yard.rows.all().unwrap().len(), 4);
    let names: Vec<String> = yard.inner.keys().iter().map(ToString::to_string).collect();
    assert!(keys.iter().all(|key| names.contains(&format!("keys/{key}"))) && names.len() == 4, "{names:?}");
    // Several servers that need the first key at once agree.
    let yard = Yard::default();
    let found: Vec<_> = std::thread::scope(|scope| {
        let rivals: Vec<_> =
            (0..8).map(|_| scope.spawn(|| yard.sealing().data_key(DataKeyScope::Uploads).unwrap())).collect();
        rivals.into_iter().map(|rival| rival.join().unwrap()).collect()
    });
    assert!(found.iter().all(|key| *key == found[0]), "{found:?}");
    assert_eq!(yard.inner.keys().len(), 1, "of keys that are of no use");
}

#[test]
fn a_key_is_in_the_store_before_anything_is_sealed_under_it() {
    let yard = Yard::default();
    yard.inner.plan(StoreCall::Replace, StoreFault::Unavailable, 1);
    let store = yard.sealing();
    assert!(store.data_key(DataKeyScope::Uploads).unwrap_err().is_temporary());
    assert!(yard.rows.all().unwrap().is_empty());
    let key = stored(&yard, current(secret(1)));
    // Metadata that were restored to an earlier time do not have the key.
    yard.rows.forget();
    assert!(is_readable(&yard, current(secret(1)), &key));
    refused(yard.open(current(secret(2))).0.read(&key, 0..1), "is wrapped by master key");
    for object in yard.inner.keys().iter().filter(|key| key.as_str().starts_with("keys/")) {
        yard.inner.damage(object, |bytes| bytes.truncate(9));
        refused(yard.sealing().read(&key, 0..1), "it is not a data key");
        yard.inner.remove(std::slice::from_ref(object)).unwrap();
    }
    refused(yard.sealing().read(&key, 0..1), "its row in data_keys and its object");
}

#[test]
fn another_master_key_is_refused_by_its_id() {
    let yard = Yard::default();
    yard.open(current(secret(1))).1.check().unwrap();
    assert!(yard.inner.keys().is_empty(), "a check stores nothing");
    stored(&yard, current(secret(1)));
    yard.open(current(secret(1))).1.check().unwrap();
    let error = yard.open(current(secret(2))).1.check().unwrap_err().to_string();
    for named in [secret(1).id(), secret(2).id(), "store.encryption_key_file"] {
        assert!(error.contains(named), "{error}");
    }
    yard.open(MasterKeys { current: Some(secret(2)), previous: Some(secret(1)) }).1.check().unwrap();
    yard.open(MasterKeys { current: None, previous: Some(secret(1)) }).1.check().unwrap();
}

#[test]
fn after_a_rotation_only_the_new_master_key_opens() {
    let yard = Yard::default();
    let key = stored(&yard, current(secret(1)));
    let both = || MasterKeys { current: Some(secret(2)), previous: Some(secret(1)) };
    assert!(is_readable(&yard, both(), &key));
    refused(yard.open(MasterKeys { current: None, previous: Some(secret(1)) }).1.rewrap(), "store.encryption_key_file");
    refused(yard.open(current(secret(2))).1.rewrap(), "is wrapped by master key");
    assert_eq!(yard.open(both()).1.rewrap().unwrap(), Rewrapped { wrapped: 1, already: 0 });
    assert_eq!(yard.open(current(secret(2))).1.rewrap().unwrap(), Rewrapped { wrapped: 0, already: 1 });
    assert!(is_readable(&yard, current(secret(2)), &key));
    assert!(!is_readable(&yard, current(secret(1)), &key));
    let rows = yard.rows.forget();
    assert!(is_readable(&yard, current(secret(2)), &key) && !is_readable(&yard, current(secret(1)), &key));
    // Metadata that were restored to before the rotation.
    let mut before = rows[0].clone();
    before.master_id = secret(1).id().to_owned();
    yard.rows.add(&before).unwrap();
    let (store, ring) = yard.open(current(secret(2)));
    ring.check().unwrap();
    assert!(store.read(&key, 0..1).is_ok());
}

#[test]
fn without_a_current_master_key_new_objects_are_stored_as_they_are() {
    let yard = Yard::default();
    let key = stored(&yard, current(secret(1)));
    let reading = || MasterKeys { current: None, previous: Some(secret(1)) };
    let (store, ring) = yard.open(reading());
    assert_eq!(store.data_key(DataKeyScope::Uploads).unwrap(), None);
    assert!(is_readable(&yard, reading(), &key));
    assert_eq!(ring.remove_unused().unwrap(), 0, "an upload is sealed under it");
    store.remove(&[key]).unwrap();
    assert_eq!(yard.open(current(secret(1))).1.remove_unused().unwrap(), 0, "new uploads are sealed");
    assert_eq!(ring.remove_unused().unwrap(), 1);
    assert!(yard.rows.all().unwrap().is_empty() && yard.inner.keys().is_empty());
}

#[test]
fn a_key_that_nothing_names_goes_with_its_object() {
    let yard = Yard::default();
    let (store, ring) = yard.open(current(secret(1)));
    let scope = DataKeyScope::Database(DatabaseId::parse("00000000-0000-7000-8000-000000000001").unwrap());
    let first = store.data_key(scope).unwrap().unwrap();
    yard.rows.unused.lock().unwrap().push(first);
    assert_eq!(ring.remove_unused().unwrap(), 1);
    assert!(yard.inner.keys().is_empty());
    assert_ne!(store.data_key(scope).unwrap().unwrap(), first, "the next one is another key");
}

#[test]
fn a_command_can_have_the_master_key() {
    // Stands for a service: the text of each key is turned around.
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let script = format!("echo \"$1\" >> {}; tr '\\000-\\377' '\\200-\\377\\000-\\177'", calls.display());
    let yard = Yard::default();
    let (store, ring) = yard.open(current(command(&script)));
    ring.check().unwrap();
    let key = named(&store, "a", 100);
    store.put(&key, &pattern(100)).unwrap();
    let (other, _) = yard.open(current(command(&script)));
    for _ in 0..3 {
        assert_eq!(other.read(&key, 0..100).unwrap(), pattern(100));
    }
    let calls = std::fs::read_to_string(calls).unwrap();
    assert_eq!(calls, "wrap\nunwrap\nwrap\nunwrap\n", "an unwrapped key is remembered");

    let (failing, ring) = yard.open(current(command("echo 'no access' >&2; exit 1")));
    let error = failing.read(&key, 0..100).unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("no access"), "{error}");
    assert!(ring.check().unwrap_err().to_string().contains("no access"));
    refused(yard.open(current(command("head -c 48 /dev/zero"))).1.check(), "does not unwrap");
    // From a command to a file.
    let both = MasterKeys { current: Some(secret(2)), previous: Some(command(&script)) };
    assert_eq!(yard.open(both).1.rewrap().unwrap().wrapped, 1);
    assert!(is_readable(&yard, current(secret(2)), &key));
}
