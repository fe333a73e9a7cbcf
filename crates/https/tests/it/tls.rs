//! Handshakes and certificates.

use std::time::{Duration, Instant};

use branchyard_https::{CertificateFiles, Certificates, HANDSHAKE};
use rcgen::{CertificateParams, KeyPair};
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Http2, connect};
use crate::server::{AMPLE, Served, write_certificate};

const VERSIONS: [(&SupportedProtocolVersion, ProtocolVersion); 2] =
    [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)];

/// Returns the first message of a client that knows TLS up to a version of two bytes, and one cipher.
fn hello(version: [u8; 2], cipher: [u8; 2]) -> Vec<u8> {
    // The algorithms of signatures (RFC 8446, section 4.2.3) and of key exchange (section 4.2.7) that every client has to name.
    let signatures = [0, 13, 0, 6, 0, 4, 0x04, 0x03, 0x08, 0x04];
    let groups = [0, 10, 0, 4, 0, 2, 0, 23];
    let extensions = [&[0, 18][..], &signatures, &groups].concat();
    let body = [&version[..], &[7; 32], &[0, 0, 2], &cipher, &[1, 0], &extensions].concat();
    let length = u8::try_from(body.len()).unwrap();
    [&[22, 3, 1, 0, length + 4, 1, 0, 0, length], &body[..]].concat()
}

/// Sends bytes, and reads until the server closes the connection.
async fn talk(server: &Served, sent: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(AMPLE, stream.read_to_end(&mut answer));
    let _ = read.await.expect("the server closes the connection");
    answer
}

#[tokio::test]
async fn versions_and_ciphers_that_are_out_of_date_are_refused() {
    let server = Served::start();
    for (version, negotiated) in VERSIONS {
        let stream = connect(&server, &server.root, &[version], &["h2"]).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(negotiated));
    }
    const ALERT: u8 = 21;
    const PROTOCOL_VERSION: u8 = 70;
    const HANDSHAKE_FAILURE: u8 = 40;
    // A cipher of TLS 1.0 and later, so that the version decides.
    let ecdhe_with_cbc = [0xc0, 0x13];
    for old in [[3, 0], [3, 1], [3, 2]] {
        let answer = talk(&server, &hello(old, ecdhe_with_cbc)).await;
        assert_eq!((answer[0], answer[6]), (ALERT, PROTOCOL_VERSION), "{old:?}: {answer:?}");
    }
    for weak in [ecdhe_with_cbc, [0x00, 0x2f], [0x00, 0x05]] {
        let answer = talk(&server, &hello([3, 3], weak)).await;
        assert_eq!((answer[0], answer[6]), (ALERT, HANDSHAKE_FAILURE), "{weak:?}: {answer:?}");
    }
}

#[tokio::test]
async fn the_protocol_is_what_the_client_offers_and_http_2_first() {
    let server = Served::start();
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = connect(&server, &server.root, rustls::ALL_VERSIONS, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen, "{offered:?}");
    }
}

#[tokio::test]
async fn a_request_without_tls_is_answered_with_the_reason() {
    let server = Served::start();
    let answer = String::from_utf8(talk(&server, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.ends_with("begins with https://\n"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{answer}");
}

#[tokio::test]
async fn a_handshake_has_ten_seconds() {
    assert_eq!(HANDSHAKE, Duration::from_secs(10));
    let server = Served::start();
    let half = &hello([3, 3], [0xc0, 0x2f])[..20];
    let began = Instant::now();
    // The second client has begun, the third goes on sending.
    let drip = async {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        for byte in &hello([3, 3], [0xc0, 0x2f]) {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("the whole message was sent");
    };
    tokio::join!(talk(&server, b""), talk(&server, half), drip);
    assert!(began.elapsed() >= HANDSHAKE - Duration::from_millis(100), "{:?}", began.elapsed());
    assert!(began.elapsed() < HANDSHAKE + Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_changed_certificate_is_for_new_connections_and_open_ones_go_on() {
    let server = Served::start();
    let open = Http2::open(&server).await;
    assert_eq!(open.get("/ok").await.unwrap().body, "ok");
    let old = server.root.clone();
    let trusts = async |root: &_| connect(&server, root, rustls::ALL_VERSIONS, &["h2"]).await.is_ok();

    // One file is new, and the other one is not yet.
    let old_key = std::fs::read(server.dir.path().join("key.pem")).unwrap();
    let (files, new) = write_certificate(server.dir.path());
    let new_key = std::fs::read(&files.key).unwrap();
    std::fs::write(&files.key, old_key).unwrap();
    for _ in 0..3 {
        server.certificates.refresh();
        assert!(trusts(&old).await, "a pair that does not match changes nothing");
    }
    std::fs::remove_file(&files.key).unwrap();
    server.certificates.refresh();
    assert!(trusts(&old).await, "a missing file changes nothing");

    std::fs::write(&files.key, new_key).unwrap();
    server.certificates.refresh();
    assert!(trusts(&new).await && !trusts(&old).await);
    assert_eq!(open.get("/ok").await.unwrap().body, "ok", "an open connection goes on");
}

#[tokio::test]
async fn the_files_are_followed_within_ten_seconds() {
    let server = Served::start();
    let following = tokio::spawn(std::sync::Arc::clone(&server.certificates).follow());
    let (_, new) = write_certificate(server.dir.path());
    let until = Instant::now() + Duration::from_secs(10);
    while connect(&server, &new, rustls::ALL_VERSIONS, &["h2"]).await.is_err() {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    following.abort();
}

#[test]
fn what_is_wrong_with_the_files_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (good, _) = write_certificate(dir.path());
    let file = |name: &str, text: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let other = KeyPair::generate().unwrap().serialize_pem();
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let cases = [
        (Some(dir.path().join("absent.pem")), None, "tls.cert", "absent.pem: No such file"),
        (None, Some(dir.path().join("absent.key")), "tls.key", "absent.key: No such file"),
        (Some(dir.path().to_owned()), None, "tls.cert", "Is a directory"),
        (Some(file("empty.pem", b"")), None, "tls.cert", "empty.pem holds no certificate"),
        (Some(file("long.pem", &[b'a'; (1 << 20) + 1])), None, "tls.cert", "long.pem is longer than 1 MiB"),
        (Some(file("damaged.pem", b"-----BEGIN CERTIFICATE-----\nAA")), None, "tls.cert", "damaged.pem is damaged"),
        (Some(file("junk.pem", no_certificate.as_bytes())), None, "tls.cert", "junk.pem holds no certificate that can"),
        (None, Some(file("empty.key", b"text")), "tls.key", "empty.key holds no private key"),
        (None, Some(file("locked.key", encrypted.as_bytes())), "tls.key", "locked.key is encrypted"),
        (None, Some(file("other.key", other.as_bytes())), "tls.key", "other.key does not belong to the certificate in"),
    ];
    for (cert, key, setting, reason) in cases {
        let files = CertificateFiles {
            cert: cert.unwrap_or_else(|| good.cert.clone()),
            key: key.unwrap_or_else(|| good.key.clone()),
        };
        let error = Certificates::load(files).unwrap_err().to_string();
        assert!(error.starts_with(setting) && error.contains(reason), "{reason}: {error}");
    }
    assert!(Certificates::load(good).is_ok());
}

#[test]
fn a_certificate_that_has_expired_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let files = CertificateFiles { cert: dir.path().join("cert.pem"), key: dir.path().join("key.pem") };
    std::fs::write(&files.cert, params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    assert!(Certificates::load(files).is_ok());
}
