//! The store in a bucket, on a server with the protocol of S3.

use branchyard_domain::ports::{DatabaseStore, ObjectDigest, StoreError};
use branchyard_domain_testing::suites;
use branchyard_object_store::{StoreOptions, StoreUrl, open};

use crate::key;
use crate::versitygw::Versitygw;

#[test]
fn a_bucket_keeps_every_promise() {
    let Some(server) = Versitygw::start() else { return };
    // Without a prefix, and with one.
    for prefix in ["", "some/prefix"] {
        suites::database_store::run_all(&*server.open(prefix));
    }
}

#[test]
fn of_threads_that_put_one_key_exactly_one_wins() {
    let Some(server) = Versitygw::start() else { return };
    suites::database_store::races(&*server.open(""), 100);
}

#[test]
fn stores_with_prefixes_do_not_see_each_other() {
    let Some(server) = Versitygw::start() else { return };
    let (one, other, all) = (server.open("one"), server.open("other"), server.open(""));
    one.put(&key("a"), b"1").unwrap();
    other.put(&key("a"), b"2").unwrap();
    assert_eq!(one.read_small(&key("a"), 10).unwrap(), b"1");
    let names = |store: &dyn DatabaseStore| -> Vec<String> {
        store.list(None, None, 10).unwrap().into_iter().map(|info| info.key.to_string()).collect()
    };
    assert_eq!((names(&*one), names(&*all)), (vec!["a".to_owned()], vec!["one/a".to_owned(), "other/a".to_owned()]));
}

#[test]
fn more_objects_than_a_page_are_listed_and_removed() {
    let Some(server) = Versitygw::start() else { return };
    let store = server.open("");
    let keys: Vec<_> = (0..1_203).map(|n| key(&format!("many/{n:05}"))).collect();
    std::thread::scope(|scope| {
        for part in keys.chunks(151) {
            let store = &store;
            scope.spawn(move || {
                for key in part {
                    store.put(key, b"x").unwrap();
                }
            });
        }
    });
    let found = store.list(Some(&key("many")), None, 5_000).unwrap();
    assert_eq!(found.into_iter().map(|info| info.key).collect::<Vec<_>>(), keys);
    assert_eq!(store.list(Some(&key("many")), Some(&keys[1_100]), 5_000).unwrap().len(), 102);
    store.remove(&keys).unwrap();
    assert_eq!(store.list(None, None, 5_000).unwrap(), []);
}

#[test]
fn wrong_credentials_and_buckets_are_reported_with_what_to_do() {
    let Some(server) = Versitygw::start() else { return };
    let advice_of = |url: &str, options: &StoreOptions| {
        let store = open(&StoreUrl::parse(url).unwrap(), options).unwrap();
        let key = key("a/b");
        let errors = [
            store.put(&key, b"x").map(drop),
            store.put_from(&key, 20_000_000, &mut std::io::repeat(1)).map(drop),
            store.replace(&key, b"x"),
            store.info(&key).map(drop),
            store.read(&key, 0..5).map(drop),
            store.read_into(&key, &mut Vec::new()).map(drop),
            store.list(None, None, 5).map(drop),
            store.remove(std::slice::from_ref(&key)),
        ];
        errors.map(|result| match result {
            Err(error @ StoreError::Rejected { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        })
    };
    let wrong_secret = StoreOptions { secret_access_key: Some("hush-hush".to_owned().into()), ..server.options() };
    for advice in advice_of("s3://yard", &wrong_secret) {
        assert!(advice.contains("check the access key, its secret"), "{advice}");
        assert!(!advice.contains("hush-hush"), "{advice}");
    }
    let advice = advice_of("s3://absent-bucket", &server.options());
    for text in &advice {
        assert!(text.contains("create the bucket"), "{advice:#?}");
    }
}

#[test]
fn an_upload_that_fails_leaves_no_object() {
    let Some(server) = Versitygw::start() else { return };
    let store = server.open("");
    let result = store.put_from(&key("large"), 40_000_000, &mut std::io::Read::take(std::io::repeat(1), 39_999_999));
    assert!(matches!(result, Err(StoreError::Io(_))), "{result:?}");
    assert_eq!(store.list(None, None, 10).unwrap(), []);
}

#[test]
fn a_few_requests_at_a_time_serve_many_callers() {
    let Some(server) = Versitygw::start() else { return };
    let store = server.open_with("", &StoreOptions { requests_max: 2, ..server.options() });
    std::thread::scope(|scope| {
        for n in 0..40 {
            let store = &store;
            scope.spawn(move || {
                let (key, bytes) = (key(&format!("crowd/{n}")), vec![n; 10_000]);
                assert_eq!(store.put(&key, &bytes).unwrap(), ObjectDigest::of(&bytes));
                assert_eq!(store.read(&key, 0..10_000).unwrap(), bytes);
            });
        }
    });
}

#[test]
fn a_store_is_used_and_dropped_on_threads_of_another_runtime() {
    let Some(server) = Versitygw::start() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = server.open("");
        store.put(&key("a"), b"1").unwrap();
        assert_eq!(store.read_small(&key("a"), 10).unwrap(), b"1");
    });
}
