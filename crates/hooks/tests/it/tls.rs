//! TLS: certificates and names are verified, against the root certificates of the system and of the operator.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use branchyard_domain::entities::AttemptError;
use branchyard_domain::ports::Sender as _;
use branchyard_hooks::{HttpSender, Names, RootsError, SenderOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::receiver::{options, parcel};

/// Resolves every name to the loopback interface.
struct Loopback;

impl Names for Loopback {
    fn resolve(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

/// Starts a receiver with a certificate for `hook.test`. Returns its address and the file of the root certificate.
fn receiver(dir: &std::path::Path) -> (SocketAddr, std::path::PathBuf) {
    let mut root = CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["hook.test".to_owned()]).unwrap().signed_by(&key, &root).unwrap();
    let pem = dir.join("root.pem");
    std::fs::write(&pem, root.pem()).unwrap();

    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let (tell, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(config));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let _ = stream.read(&mut [0; 4_096]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
                let _ = stream.shutdown().await;
            }
        });
    });
    (address.recv().unwrap(), pem)
}

#[test]
fn only_trusted_certificates_of_the_right_name_count() {
    let dir = tempfile::tempdir().unwrap();
    let (address, pem) = receiver(dir.path());
    let send = |extra_ca_file: Option<std::path::PathBuf>, name: &str| {
        let options = SenderOptions { extra_ca_file, ..options() };
        let sender = HttpSender::with_names(options, Arc::new(Loopback)).unwrap();
        sender.send(&parcel(&format!("https://{name}:{}/", address.port()))).unwrap()
    };
    assert_eq!(send(None, "hook.test").error, Some(AttemptError::Tls), "an unknown root");
    assert_eq!(send(Some(pem.clone()), "other.test").error, Some(AttemptError::Tls), "another name");
    assert_eq!(send(Some(pem.clone()), "127.0.0.1").error, Some(AttemptError::Tls), "an address, not the name");
    let sent = send(Some(pem), "hook.test");
    assert!(sent.delivered(), "{sent:?}");
}

#[test]
fn plain_http_behind_an_encrypted_address_is_no_tls() {
    let receiver = crate::receiver::Receiver::start(|stream| {
        crate::receiver::answer(stream, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    // The receiver waits for the end of a request head, which a handshake does not contain. The attempt fails by
    // timeout or by an invalid answer, and is never delivered.
    let sender = HttpSender::with_names(options(), Arc::new(Loopback)).unwrap();
    let sent = sender.send(&parcel(&format!("https://hook.test:{}/", receiver.address.port()))).unwrap();
    assert!(matches!(sent.error, Some(AttemptError::Tls | AttemptError::Timeout)), "{sent:?}");
}

#[test]
fn a_file_of_roots_is_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let with = |text: &str| {
        let path = dir.path().join("roots.pem");
        std::fs::write(&path, text).unwrap();
        HttpSender::new(SenderOptions { extra_ca_file: Some(path), ..options() })
    };
    assert!(matches!(with("").err(), Some(RootsError { .. })));
    assert!(matches!(with("rubbish").err(), Some(RootsError { .. })));
    let missing = SenderOptions { extra_ca_file: Some(dir.path().join("none.pem")), ..options() };
    assert!(HttpSender::new(missing).is_err());
}
