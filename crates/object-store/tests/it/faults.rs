//! What a store makes of a server that fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{DatabaseStore, ObjectDigest, StoreError};
use branchyard_object_store::{StoreOptions, StoreUrl, open};

use crate::endpoint::{Endpoint, Fate};
use crate::key;

/// Returns this fate for the first requests, and then serves.
fn first(times: usize, fate: Fate) -> impl Fn(&crate::endpoint::Seen, usize) -> Fate {
    move |_, number| if number < times { fate.clone() } else { Fate::Served }
}

fn refused(status: u16, code: &str) -> Fate {
    Fate::Refused(status, format!("<Error><Code>{code}</Code><Message>planned</Message></Error>"))
}

/// The results of all kinds of calls, without their values.
fn all_calls(store: &dyn DatabaseStore) -> Vec<(&'static str, Result<(), StoreError>)> {
    let key = key("a/b");
    vec![
        ("put", store.put(&key, b"x").map(drop)),
        ("put_from", store.put_from(&key, 17_000_000, &mut std::io::repeat(1)).map(drop)),
        ("replace", store.replace(&key, b"x")),
        ("info", store.info(&key).map(drop)),
        ("read", store.read(&key, 0..1).map(drop)),
        ("read_into", store.read_into(&key, &mut Vec::new()).map(drop)),
        ("list", store.list(None, None, 1).map(drop)),
        ("remove", store.remove(std::slice::from_ref(&key))),
    ]
}

#[test]
fn failures_that_pass_are_not_seen() {
    for fate in
        [refused(500, "InternalError"), refused(503, "SlowDown"), refused(429, "x"), refused(408, "x"), Fate::Cut]
    {
        let endpoint = Endpoint::start(first(2, fate.clone()));
        let store = endpoint.open();
        assert_eq!(store.put(&key("a"), b"x").unwrap(), ObjectDigest::of(b"x"), "{fate:?}");
        assert_eq!(endpoint.seen().len(), 3, "{fate:?}");
    }
    for fate in [Fate::Truncated, Fate::Shortened, refused(500, "InternalError"), Fate::Cut] {
        let plan_fate = fate.clone();
        let endpoint = Endpoint::start(
            move |request, number| {
                if request.is_get() && number < 3 { plan_fate.clone() } else { Fate::Served }
            },
        );
        let store = endpoint.open();
        store.put(&key("a"), &[7; 1_000]).unwrap();
        assert_eq!(store.read(&key("a"), 10..900).unwrap(), [7; 890], "{fate:?}");
        assert_eq!(endpoint.seen().len(), 4, "{fate:?}");
    }
}

#[test]
fn failures_that_last_are_of_the_right_kind() {
    for (fate, is_temporary) in [
        (refused(500, "InternalError"), true),
        (refused(503, "SlowDown"), true),
        (Fate::Cut, true),
        (refused(400, "RequestTimeout"), true),
        (refused(409, "ConditionalRequestConflict"), true),
        (refused(400, "InvalidRequest"), false),
        (refused(400, "ExpiredToken"), false),
        (refused(401, "Unauthorized"), false),
        (refused(403, "SignatureDoesNotMatch"), false),
        (refused(403, "RequestTimeTooSkewed"), false),
        (refused(301, "PermanentRedirect"), false),
        (refused(404, "NoSuchBucket"), false),
        (refused(501, "NotImplemented"), false),
    ] {
        let plan_fate = fate.clone();
        let endpoint = Endpoint::start(move |_, _| plan_fate.clone());
        let store = endpoint.open_with(&StoreOptions { retries: 1, ..endpoint.options() });
        for (call, result) in all_calls(&*store) {
            let error = result.unwrap_err();
            assert_eq!(error.is_temporary(), is_temporary, "{call}, {fate:?}: {error:?}");
            if !is_temporary {
                assert!(matches!(error, StoreError::Rejected { .. }), "{call}, {fate:?}: {error:?}");
            }
            if let Fate::Refused(status, _) = fate {
                assert!(error.to_string().contains(&status.to_string()), "{call}, {fate:?}: {error}");
            }
        }
    }
}

#[test]
fn advice_fits_the_failure() {
    for (fate, advice) in [
        (refused(403, "SignatureDoesNotMatch"), "check the access key, its secret"),
        (refused(403, "RequestTimeTooSkewed"), "set the clock of this machine"),
        (refused(301, "PermanentRedirect"), "check the endpoint and the region"),
        (refused(404, "NoSuchBucket"), "create the bucket"),
        (refused(501, "NotImplemented"), "use a store that supports conditional writes"),
    ] {
        let endpoint = Endpoint::start(move |_, _| fate.clone());
        let error = endpoint.open().put(&key("a"), b"x").unwrap_err().to_string();
        assert!(error.starts_with("the object store refuses the request: ") && error.contains(advice), "{error}");
        assert_eq!(endpoint.seen().len(), 1, "it is not tried again");
    }
}

#[test]
fn the_number_of_attempts_is_limited() {
    let endpoint = Endpoint::start(|_, _| refused(503, "SlowDown"));
    let store = endpoint.open();
    let error = store.put(&key("a"), b"x").unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("answered 503: SlowDown: planned"), "{error}");
    assert_eq!(endpoint.seen().len(), 4);
}

#[test]
fn time_is_limited_whatever_the_server_does() {
    let endpoint = Endpoint::start(|_, _| Fate::Hung);
    let options = StoreOptions {
        attempt_timeout: Duration::from_millis(400),
        request_timeout: Duration::from_millis(1_500),
        retries: 100,
        ..endpoint.options()
    };
    let store = endpoint.open_with(&options);
    for call in ["put", "read", "list"] {
        let began = Instant::now();
        let error = match call {
            "put" => store.put(&key("a"), b"x").unwrap_err(),
            "read" => store.read_into(&key("a"), &mut Vec::new()).unwrap_err(),
            _ => store.list(None, None, 5).unwrap_err(),
        };
        assert!(error.is_temporary(), "{call}: {error:?}");
        // Generous, because the machine may be busy; without a limit it would be a minute.
        assert!(began.elapsed() < Duration::from_secs(20), "{call} took {:?}", began.elapsed());
    }
    // Callers who wait for the requests of others are limited, too.
    let options = StoreOptions { requests_max: 1, attempt_timeout: Duration::from_secs(50), ..options };
    let store = endpoint.open_with(&options);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(store.info(&key("a")).unwrap_err().is_temporary()));
        }
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_server_that_is_not_there_is_unavailable() {
    let options = StoreOptions {
        // Nothing listens there: ports below 1,024 are not used by tests.
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        retries: 1,
        ..Endpoint::start(|_, _| Fate::Served).options()
    };
    let store = open(&StoreUrl::parse("s3://yard/prefix").unwrap(), &options).unwrap();
    for (call, result) in all_calls(&*store) {
        assert!(result.unwrap_err().is_temporary(), "{call}");
    }
}

#[test]
fn a_put_whose_answer_was_lost_succeeds() {
    for fate in [Fate::AnswerLost, Fate::AnswerLate(Duration::from_secs(3))] {
        let endpoint = Endpoint::start(first(1, fate.clone()));
        let options = StoreOptions { attempt_timeout: Duration::from_secs(1), ..endpoint.options() };
        let store = endpoint.open_with(&options);
        assert_eq!(store.put(&key("a/fresh"), b"bytes").unwrap(), ObjectDigest::of(b"bytes"), "{fate:?}");
        assert_eq!(endpoint.object("a/fresh").unwrap(), b"bytes");
        // The second time it is known to exist.
        let error = store.put(&key("a/fresh"), b"bytes").unwrap_err();
        assert!(matches!(error, StoreError::Exists(_)), "{error:?}");
    }
}

#[test]
fn a_put_whose_answer_was_lost_does_not_take_the_object_of_another_for_its_own() {
    for other in ["other", "longer than it was"] {
        let endpoint = Endpoint::start(|request, number| match (request.is_put(), number) {
            (true, 1) => refused(500, "InternalError"),
            _ => Fate::Served,
        });
        let store = endpoint.open();
        store.put(&key("a"), other.as_bytes()).unwrap();
        let error = store.put(&key("a"), b"bytes").unwrap_err();
        assert!(matches!(error, StoreError::Exists(_)), "{error:?}");
        assert_eq!(endpoint.object("a").unwrap(), other.as_bytes());
    }
}

#[test]
fn an_object_in_parts_survives_lost_answers() {
    let length = 20_000_000;
    let faults = Arc::new(AtomicUsize::new(0));
    for lost in ["create", "part", "complete", "everything once"] {
        let (counted, begun) = (Arc::clone(&faults), Mutex::new(std::collections::BTreeSet::new()));
        let endpoint = Endpoint::start(move |request, _| {
            let kind = match request.method.as_str() {
                "POST" if request.target.contains("uploads") => "create",
                "POST" => "complete",
                "PUT" => "part",
                _ => "other",
            };
            let is_first = begun.lock().unwrap().insert(request.target.clone());
            if is_first && (lost == kind || lost == "everything once") {
                counted.fetch_add(1, Ordering::Relaxed);
                return Fate::AnswerLost;
            }
            Fate::Served
        });
        let stored = endpoint.open().put_from(&key("a/large"), length, &mut std::io::repeat(5)).unwrap();
        let object = endpoint.object("a/large").unwrap();
        assert!(object.len() == 20_000_000 && object.iter().all(|byte| *byte == 5), "{lost}");
        assert_eq!(stored, ObjectDigest::of(&object));
    }
    assert!(faults.load(Ordering::Relaxed) >= 3 + 1 + 1 + 5);
}

#[test]
fn an_upload_that_fails_is_ended() {
    let endpoint = Endpoint::start(|request, _| match request.method.as_str() {
        "PUT" => refused(400, "EntityTooLarge"),
        _ => Fate::Served,
    });
    let error = endpoint.open().put_from(&key("a"), 20_000_000, &mut std::io::repeat(5)).unwrap_err();
    assert!(matches!(error, StoreError::Rejected { .. }), "{error:?}");
    let methods: Vec<String> = endpoint.seen().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["GET", "POST", "PUT", "PUT", "PUT", "DELETE"]);
}

#[test]
fn damaged_answers_are_found() {
    // A body that is always shorter than it should be.
    let endpoint = Endpoint::start(|request, _| if request.is_get() { Fate::Shortened } else { Fate::Served });
    let store = endpoint.open_with(&StoreOptions { retries: 1, ..endpoint.options() });
    store.put(&key("a"), &[7; 1_000]).unwrap();
    for result in [store.read(&key("a"), 0..1_000).map(drop), store.read_into(&key("a"), &mut Vec::new()).map(drop)] {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains("the store sent 500 bytes instead of 1000"), "{error}");
    }

    // One that breaks off: worth trying again.
    let endpoint = Endpoint::start(|request, _| if request.is_get() { Fate::Truncated } else { Fate::Served });
    let store = endpoint.open_with(&StoreOptions { retries: 1, ..endpoint.options() });
    store.put(&key("a"), &[7; 1_000]).unwrap();
    assert!(store.read(&key("a"), 0..1_000).unwrap_err().is_temporary());

    // Wrong bytes, once and always.
    let sha256 = ObjectDigest::of(&[7; 100]).sha256;
    for (times, is_read) in [(1, true), (100, false)] {
        let endpoint = Endpoint::start(
            move |request, number| {
                if request.is_get() && number <= times { Fate::Garbled } else { Fate::Served }
            },
        );
        let store = endpoint.open();
        store.put(&key("a"), &[7; 1_000]).unwrap();
        let result = store.read_verified(&key("a"), 0..100, &sha256);
        assert!(if is_read { result.is_ok() } else { matches!(result, Err(StoreError::Damaged { .. })) }, "{result:?}");
    }
    let endpoint = Endpoint::start(|request, _| if request.is_get() { Fate::Garbled } else { Fate::Served });
    let store = endpoint.open();
    let stored = store.put(&key("a"), &[7; 1_000]).unwrap();
    let read = store.read_into(&key("a"), &mut Vec::new()).unwrap();
    assert!(matches!(read.verify(&key("a"), &stored), Err(StoreError::Damaged { .. })));
}

#[test]
fn bytes_that_are_damaged_on_their_way_to_the_store_are_sent_again() {
    let endpoint = Endpoint::start(first(1, refused(400, "BadDigest")));
    endpoint.open().put(&key("a"), b"x").unwrap();
    assert_eq!(endpoint.seen().len(), 2);

    let endpoint = Endpoint::start(|_, _| refused(400, "XAmzContentSHA256Mismatch"));
    let error =
        endpoint.open_with(&StoreOptions { retries: 1, ..endpoint.options() }).put(&key("a"), b"x").unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}

#[test]
fn requests_carry_the_checksum_and_the_condition() {
    let endpoint = Endpoint::start(|_, _| Fate::Served);
    let store = endpoint.open();
    store.put(&key("a"), b"bytes").unwrap();
    store.replace(&key("a"), b"others").unwrap();
    let seen = endpoint.seen();
    // The digest of `bytes` as RFC 4648 writes it.
    assert_eq!(seen[0].headers["x-amz-checksum-sha256"], "J3CJ2RwL308uaGK6fkoHYFEZQx9dE/cm3TUrBvGyBqk=");
    assert_eq!(seen[0].headers["if-none-match"], "*");
    assert!(seen[1].headers.contains_key("x-amz-checksum-sha256") && !seen[1].headers.contains_key("if-none-match"));
    assert!(seen.iter().all(|request| request.headers["authorization"].starts_with("AWS4-HMAC-SHA256 ")));
    assert!(seen.iter().all(|request| request.target == "/yard/a"), "{:?}", seen[0].target);
}

#[test]
fn an_object_that_is_exchanged_while_it_is_read_is_reported() {
    let endpoint = Endpoint::start(|_, _| Fate::Served);
    let store = endpoint.open();
    store.put_from(&key("a"), 20_000_000, &mut std::io::repeat(5)).unwrap();

    struct Exchanging<'a>(&'a dyn DatabaseStore);
    impl std::io::Write for Exchanging<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.replace(&key("a"), &[1; 19_000_000]).unwrap();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = store.read_into(&key("a"), &mut Exchanging(&*store)).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}
