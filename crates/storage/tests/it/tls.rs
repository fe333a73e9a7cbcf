//! Postgres over TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{Metadata as _, MetadataError, WriteKeys};
use branchyard_domain_testing::suites::metadata;
use branchyard_storage::{OpenError, Store, StoreOptions};

use crate::cluster::{Cluster, Stop};
use crate::home::now;

fn open(url: &str) -> Result<Store, OpenError> {
    Store::open(url, &StoreOptions { wait: Duration::from_secs(2), ..StoreOptions::default() })
}

/// Returns the error of a start, which must not contain the password.
fn refused(url: &str) -> String {
    let started = Store::open(url, &StoreOptions { wait: Duration::from_millis(600), ..StoreOptions::default() });
    let error = started.err().unwrap_or_else(|| panic!("{url} was accepted")).to_string();
    assert!(!error.contains("te\\st") && !error.contains("te%5Cst"), "{error}");
    error
}

#[test]
fn a_store_is_encrypted_and_verified_as_its_url_asks() {
    let Some(cluster) = Cluster::start() else { return };
    let (roots, others) = (cluster.roots(), cluster.other_roots());
    for (host, parameters) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={roots}")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={roots}")),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={roots}")),
        ("localhost", "sslmode=require".to_owned()),
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", String::new()),
        // Refused by the server at first.
        ("127.0.0.1", "sslmode=allow".to_owned()),
        ("localhost", format!("sslmode=verify-full&sslrootcert={roots}&hostaddr=127.0.0.1&channel_binding=prefer")),
        ("localhost", "sslmode=require&require_auth=scram-sha-256".to_owned()),
        // The first host is away.
        ("127.0.0.1:1,localhost", format!("sslmode=verify-full&sslrootcert={roots}")),
    ] {
        let url = cluster.url(host, "postgres", &parameters);
        let store = open(&url).unwrap_or_else(|error| panic!("{host} {parameters}: {error}"));
        let encrypted = "SELECT count(*) FILTER (WHERE ssl) || ' of ' || count(*) FROM pg_stat_ssl \
                         JOIN pg_stat_activity USING (pid) WHERE application_name = 'branchyard'";
        assert_eq!(cluster.ask("postgres", encrypted), "2 of 2", "{host} {parameters}");
        drop(store);
        let gone = || cluster.ask("postgres", encrypted) == "0 of 0";
        wait_for("the relays end with the store", gone);
    }
    for (host, parameters, parts) in [
        (
            "127.0.0.1",
            format!("sslmode=verify-full&sslrootcert={roots}"),
            &["127.0.0.1", "not valid for this name", "localhost"][..],
        ),
        ("localhost", format!("sslmode=verify-full&sslrootcert={others}"), &["not issued by", "set sslrootcert"]),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={others}"), &["not issued by", "set sslrootcert"]),
        ("localhost", "sslmode=verify-full".to_owned(), &["an authority of this system", "set sslrootcert"]),
        ("localhost", "sslrootcert=system".to_owned(), &["an authority of this system"]),
        ("localhost", "sslmode=disable".to_owned(), &["no encryption"]),
    ] {
        let error = refused(&cluster.url(host, "postgres", &parameters));
        assert!(parts.iter().all(|part| error.contains(part)), "{host} {parameters}: {error}");
    }
    let log = cluster.log();
    let plain = log.lines().filter(|line| line.contains("no encryption")).count();
    // Of `allow`, once per connection, and of `disable`, for as long as the pool tries.
    assert!(plain >= 3, "{log}");
}

#[test]
fn the_store_works_over_tls_and_recovers() {
    let Some(cluster) = Cluster::start() else { return };
    let parameters = format!("sslmode=verify-full&sslrootcert={}", cluster.roots());
    for (name, check) in metadata::ALL {
        if ["accounts", "transactions", "concurrency", "leases", "answers"].contains(name) {
            cluster.ask("postgres", &format!("CREATE DATABASE {name}"));
            let store = open(&cluster.url("localhost", name, &parameters)).unwrap();
            store.migrate(now()).unwrap();
            check(&store);
        }
    }
    cluster.ask("postgres", "CREATE DATABASE yard");
    let store = open(&cluster.url("localhost", "yard", &parameters)).unwrap();
    store.migrate(now()).unwrap();
    store.check_locks().unwrap();
    for how in [Stop::Fast, Stop::Immediate] {
        let mut reading = store.read().unwrap();
        reading.databases().ids(None, 1).unwrap();
        cluster.stop(how);
        let lost = reading.databases().ids(None, 1);
        assert!(matches!(lost, Err(MetadataError::Unavailable(_))), "{how:?}: {lost:?}");
        drop(reading);
        assert!(matches!(store.read().err(), Some(MetadataError::Unavailable(_))));
        assert!(matches!(store.write(&WriteKeys::any()).err(), Some(MetadataError::Unavailable(_))));
        cluster.begin();
        store.read().unwrap().databases().ids(None, 1).unwrap();
        drop(store.write(&WriteKeys::any()).unwrap());
    }
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a server that answers a request for TLS, and returns what its clients sent.
fn heard(answer: &'static [u8], parameters: &str) -> (String, Vec<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming().filter_map(Result::ok) {
            let (mut client, said) = (client, said.clone());
            std::thread::spawn(move || {
                client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                let mut bytes = vec![0; 8];
                if client.read_exact(&mut bytes).is_ok() {
                    let _ = client.write_all(answer);
                    let mut more = [0; 1024];
                    while let Ok(length @ 1..) = client.read(&mut more) {
                        bytes.extend_from_slice(&more[..length]);
                    }
                    let _ = said.send(bytes);
                }
            });
        }
    });
    let error = refused(&format!("postgres://ada:te%5Cst@127.0.0.1:{port}/x?{parameters}"));
    std::thread::sleep(Duration::from_millis(300));
    (error, heard.try_iter().collect())
}

#[test]
fn nothing_is_sent_in_plain_where_tls_is_required() {
    const REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
    for answer in [&b"N"[..], b"E\0\0\0\x05x", b"?"] {
        let (error, heard) = heard(answer, "sslmode=require");
        assert!(error.contains("does not offer TLS") && error.contains("ssl = on"), "{error}");
        assert!(!heard.is_empty() && heard.iter().all(|bytes| bytes == REQUEST), "{heard:?}");
    }
    // What follows the answer is not taken for an answer of TLS, nor for one of Postgres.
    let (error, heard_after) = heard(b"SR\0\0\0\x08\0\0\0\0", "sslmode=require");
    assert!(error.contains("handshake"), "{error}");
    for bytes in heard_after {
        assert!(bytes.strip_prefix(REQUEST).is_some_and(|hello| hello.first() == Some(&0x16)), "{bytes:?}");
    }
    // With `prefer`, a plain login follows.
    let (_, heard) = heard(b"N", "sslmode=prefer");
    assert!(heard.iter().any(|bytes| bytes.starts_with(&[0, 0, 0]) && bytes != REQUEST), "{heard:?}");
}
