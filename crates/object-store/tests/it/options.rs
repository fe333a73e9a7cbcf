//! Options that do not fit.

use branchyard_domain::ports::StoreError;
use branchyard_object_store::{StoreOptions, StoreUrl, open};

fn advice(url: &str, options: &StoreOptions) -> String {
    match open(&StoreUrl::parse(url).unwrap(), options).err() {
        Some(error @ StoreError::Rejected { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn keys() -> StoreOptions {
    StoreOptions {
        access_key_id: Some("key".to_owned()),
        // The text of a key of Azure is base64.
        secret_access_key: Some("c2VjcmV0".to_owned().into()),
        ..StoreOptions::default()
    }
}

#[test]
fn options_that_do_not_fit_are_refused_with_what_to_do() {
    let only_id = StoreOptions { secret_access_key: None, ..keys() };
    let only_secret = StoreOptions { access_key_id: None, ..keys() };
    let endpoint = |text: &str| StoreOptions { endpoint: Some(text.to_owned()), ..keys() };
    for (url, options, expected) in [
        ("s3://yard", only_id, "configure the secret that belongs to the access key"),
        ("s3://yard", only_secret, "configure the access key to which the secret belongs"),
        ("gs://yard", keys(), "GOOGLE_APPLICATION_CREDENTIALS"),
        ("s3://yard", endpoint("http://localhost:9000"), "use https in the endpoint"),
        ("s3://yard", endpoint("localhost:9000"), "which is no URL of HTTP"),
        ("s3://yard", endpoint("nowhere"), "which is no URL"),
        ("s3://yard", endpoint("https://key:secret@localhost"), "not in the URL of the endpoint"),
    ] {
        let advice = advice(url, &options);
        assert!(advice.contains(expected), "{advice}");
    }
    for url in ["s3://yard/a/b", "az://yard"] {
        open(&StoreUrl::parse(url).unwrap(), &keys()).unwrap();
    }
}

#[test]
fn a_file_without_certificates_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("roots.pem");
    for content in [None, Some("no certificate")] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let advice = advice("s3://yard", &StoreOptions { extra_ca_file: Some(path.clone()), ..keys() });
        assert!(advice.contains("name a PEM file with certificates instead of "), "{advice}");
    }
}

#[test]
fn secrets_are_not_printed() {
    assert!(!format!("{:?}", keys()).contains("c2VjcmV0"));
}
