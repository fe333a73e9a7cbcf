//! The program with TLS of its own.

use std::path::Path;
use std::process::{Command, Output};

use branchyard_testkit::{Program, ServerProcess};
use rcgen::{CertificateParams, KeyPair};

/// Writes a certificate for a name that is not this machine's, and its key.
fn write_certificate(dir: &Path) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["yard.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(dir.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
}

fn serve(program: &Program, dir: &Path, cert: &str, key: &str) -> Command {
    let mut command = program.serve(&dir.join("data"));
    command.env("BRANCHYARD_TLS__CERT", dir.join(cert)).env("BRANCHYARD_TLS__KEY", dir.join(key));
    command
}

#[test]
fn a_server_with_a_certificate_listens_on_https_and_is_healthy() {
    let dir = tempfile::tempdir().unwrap();
    write_certificate(dir.path());
    let program = Program::at(env!("CARGO_BIN_EXE_branchyard"));
    let server = ServerProcess::start(&mut serve(&program, dir.path(), "cert.pem", "key.pem"));
    assert!(server.origin.starts_with("https://127.0.0.1:"), "{}", server.origin);
    let healthcheck = |url: &str| program.command().args(["healthcheck", "--url", url]).output().unwrap();
    let healthy = healthcheck(&server.origin);
    assert!(healthy.status.success(), "{}", String::from_utf8_lossy(&healthy.stderr));
    assert!(!healthcheck(&server.origin.replace("https", "http")).status.success());
    server.terminate();
}

#[test]
fn files_that_cannot_be_used_are_named_before_anything_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    write_certificate(dir.path());
    std::fs::write(dir.path().join("other.pem"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    std::fs::write(dir.path().join("text.pem"), "text").unwrap();
    let program = Program::at(env!("CARGO_BIN_EXE_branchyard"));
    let refused = |output: Output, setting: &str, file: &str, reason: &str| {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{reason}");
        assert!(text.contains(setting) && text.contains(file) && text.contains(reason), "{reason}: {text}");
        assert!(!dir.path().join("data").exists(), "{reason}");
    };
    for (cert, key, setting, reason) in [
        ("absent.pem", "key.pem", "tls.cert", "No such file"),
        ("cert.pem", "absent.pem", "tls.key", "No such file"),
        ("text.pem", "key.pem", "tls.cert", "holds no certificate"),
        ("cert.pem", "text.pem", "tls.key", "holds no private key"),
        ("cert.pem", "other.pem", "tls.key", "does not belong to the certificate"),
    ] {
        let output = serve(&program, dir.path(), cert, key).output().unwrap();
        let file = if setting == "tls.cert" { cert } else { key };
        refused(output, setting, file, reason);
    }
    let mut one = program.serve(&dir.path().join("data"));
    let output = one.env("BRANCHYARD_TLS__CERT", dir.path().join("cert.pem")).output().unwrap();
    refused(output, "tls.cert", "tls.key", "TLS needs both");
}

#[test]
fn a_demo_over_tls_makes_certificates_that_clients_can_trust() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let program = Program::at(env!("CARGO_BIN_EXE_branchyard"));
    let data = dir.path().join("demo");
    let server = ServerProcess::start(&mut program.on(&data, &["demo", "--tls", "--listen", "127.0.0.1:0"]));
    assert!(server.origin.starts_with("https://127.0.0.1:"), "{}", server.origin);
    let authority = data.join("tls/ca.pem");
    let export = format!("export DOLTLITE_CA_FILE='{}'", authority.display());
    assert!(server.greeting.contains(&export), "{}", server.greeting);
    assert!(server.greeting.contains(&format!("curl --cacert '{}'", authority.display())), "{}", server.greeting);
    let root = reqwest::Certificate::from_pem(&std::fs::read(&authority).unwrap()).unwrap();
    let client = |builder: reqwest::blocking::ClientBuilder| builder.no_proxy().build().unwrap();
    let url = format!("{}/demo/atlas/refs", server.origin);
    let trusting = client(reqwest::blocking::Client::builder().add_root_certificate(root));
    assert_eq!(trusting.get(&url).send().unwrap().status(), 200);
    assert!(client(reqwest::blocking::Client::builder()).get(&url).send().is_err());
    let mode = std::fs::metadata(data.join("tls/key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.terminate();
}
