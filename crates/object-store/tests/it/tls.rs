//! TLS: the certificate of a store is verified, against the root certificates of the system and of the operator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use branchyard_domain::ports::StoreError;
use branchyard_object_store::{StoreOptions, StoreUrl, open};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::key;

/// Starts a server that accepts every object, with a certificate for `localhost`. Returns its address and the file of the root
/// certificate.
fn server(dir: &Path) -> (SocketAddr, PathBuf) {
    let mut root = CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
    let own = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&own, &root).unwrap();
    let pem = dir.join("root.pem");
    std::fs::write(&pem, root.pem()).unwrap();

    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(own.serialize_der()).unwrap())
        .unwrap();
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(config));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let _ = stream.read(&mut [0; 4_096]).await;
                let answer = "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
    });
    (address.recv().unwrap(), pem)
}

#[test]
fn only_trusted_certificates_of_the_right_name_count() {
    let dir = tempfile::tempdir().unwrap();
    let (address, pem) = server(dir.path());
    let put = |host: &str, extra_ca_file: Option<PathBuf>| {
        let options = StoreOptions {
            endpoint: Some(format!("https://{host}:{}", address.port())),
            access_key_id: Some("key".to_owned()),
            secret_access_key: Some("secret".to_owned().into()),
            extra_ca_file,
            ..StoreOptions::default()
        };
        open(&StoreUrl::parse("s3://yard").unwrap(), &options).unwrap().put(&key("a"), b"x")
    };
    put("localhost", Some(pem.clone())).unwrap();
    for (host, roots) in [("localhost", None), ("127.0.0.1", Some(pem))] {
        let error = put(host, roots).unwrap_err();
        assert!(matches!(error, StoreError::Rejected { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("the certificate of {host} is not trusted")), "{error}");
    }
}
