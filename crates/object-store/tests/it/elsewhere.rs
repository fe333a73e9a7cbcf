//! The contract suite on a store that the environment names, such as a bucket of a cloud. The credentials are those of its own
//! environment variables.

use std::time::UNIX_EPOCH;

use branchyard_domain_testing::suites;
use branchyard_object_store::{StoreOptions, StoreUrl, open};

/// The URL of the store. The suite uses a fresh prefix below it, and removes what it stored.
const URL: &str = "BRANCHYARD_TEST_STORE_URL";

/// The endpoint, if it is not the cloud's own.
const ENDPOINT: &str = "BRANCHYARD_TEST_STORE_ENDPOINT";

#[test]
fn a_store_of_the_environment_keeps_every_promise() {
    let Ok(url) = std::env::var(URL) else {
        eprintln!("skipped: {URL} is not set");
        return;
    };
    let options = StoreOptions { endpoint: std::env::var(ENDPOINT).ok(), allow_http: true, ..StoreOptions::default() };
    // The time of a new file is later than that of any earlier run.
    let now = tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap();
    let fresh = format!("{}/test-{}", url.trim_end_matches('/'), now.duration_since(UNIX_EPOCH).unwrap().as_micros());
    let store = open(&StoreUrl::parse(&fresh).unwrap(), &options).unwrap();
    suites::database_store::run_all(&*store);
    loop {
        let left = store.list(None, None, 1_000).unwrap();
        if left.is_empty() {
            break;
        }
        store.remove(&left.into_iter().map(|info| info.key).collect::<Vec<_>>()).unwrap();
    }
}
