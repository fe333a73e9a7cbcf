//! Clients of the clouds' object stores, from options.

use std::path::Path;
use std::sync::Arc;

use branchyard_domain::ports::StoreError;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, Certificate, ClientOptions, ObjectStore, RetryConfig};
use secrecy::ExposeSecret as _;
use url::Url;

use super::watch::WatchedConnector;
use crate::options::StoreOptions;
use crate::url::Service;

/// What is used of an object store.
pub(super) trait Api: ObjectStore + MultipartStore + PaginatedListStore {}

impl Api for AmazonS3 {}
impl Api for GoogleCloudStorage {}
impl Api for MicrosoftAzure {}

/// Builds the client of a bucket. It does not try requests again: whether an earlier attempt may have had its effect has to be
/// known.
pub(super) fn client(service: Service, bucket: &str, options: &StoreOptions) -> Result<Arc<dyn Api>, StoreError> {
    if let Some(endpoint) = &options.endpoint {
        check_endpoint(endpoint, options)?;
    }
    let http = http_options(options)?;
    let once =
        RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: options.attempt_timeout };
    let connector = WatchedConnector { bucket: bucket.to_owned() };
    let keys = keys(options)?;
    let built: object_store::Result<Arc<dyn Api>> = match service {
        Service::S3 => {
            let mut builder = match keys {
                // Without the environment, which may have a token that belongs to another key.
                Some((id, secret)) => AmazonS3Builder::new().with_access_key_id(id).with_secret_access_key(secret),
                None => AmazonS3Builder::from_env(),
            };
            if let Some(region) = &options.region {
                builder = builder.with_region(region);
            }
            match &options.endpoint {
                Some(endpoint) => {
                    builder = builder.with_endpoint(endpoint).with_virtual_hosted_style_request(false);
                }
                None => {
                    // The endpoint that the environment names.
                    if let Some(endpoint) = builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
                        check_endpoint(&endpoint, options)?;
                    }
                }
            }
            let builder = builder.with_bucket_name(bucket).with_checksum_algorithm(Checksum::SHA256);
            let builder = builder.with_client_options(http).with_retry(once).with_http_connector(connector);
            builder.build().map(|store| Arc::new(store) as _)
        }
        Service::Google => {
            if keys.is_some() {
                return Err(rejected(
                    "a store at gs:// has no access key: set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account, or \
                     let this machine have one",
                ));
            }
            let mut builder = GoogleCloudStorageBuilder::from_env();
            if let Some(endpoint) = &options.endpoint {
                builder = builder.with_base_url(endpoint);
            }
            let builder = builder.with_bucket_name(bucket).with_client_options(http).with_retry(once);
            builder.with_http_connector(connector).build().map(|store| Arc::new(store) as _)
        }
        Service::Azure => {
            let mut builder = match keys {
                Some((account, key)) => MicrosoftAzureBuilder::new().with_account(account).with_access_key(key),
                None => MicrosoftAzureBuilder::from_env(),
            };
            if let Some(endpoint) = &options.endpoint {
                builder = builder.with_endpoint(endpoint.clone());
            }
            let builder = builder.with_container_name(bucket).with_client_options(http).with_retry(once);
            builder.with_http_connector(connector).build().map(|store| Arc::new(store) as _)
        }
    };
    built.map_err(|error| StoreError::rejected("check the configuration and the credentials of the store", error))
}

fn rejected(advice: impl Into<String>) -> StoreError {
    StoreError::Rejected { advice: advice.into(), source: None }
}

fn keys(options: &StoreOptions) -> Result<Option<(&str, &str)>, StoreError> {
    match (&options.access_key_id, &options.secret_access_key) {
        (Some(id), Some(secret)) => Ok(Some((id, secret.expose_secret()))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(rejected("configure the secret that belongs to the access key")),
        (None, Some(_)) => Err(rejected("configure the access key to which the secret belongs")),
    }
}

fn check_endpoint(text: &str, options: &StoreOptions) -> Result<(), StoreError> {
    let endpoint = Url::parse(text)
        .map_err(|error| StoreError::rejected(format!("correct the endpoint `{text}`, which is no URL"), error))?;
    if !endpoint.username().is_empty() || endpoint.password().is_some() {
        return Err(rejected("configure the access key and its secret, and not in the URL of the endpoint"));
    }
    match endpoint.scheme() {
        "https" => Ok(()),
        "http" if options.allow_http => Ok(()),
        "http" => Err(rejected(format!("use https in the endpoint `{text}`, or allow plain HTTP"))),
        _ => Err(rejected(format!("correct the endpoint `{text}`, which is no URL of HTTP"))),
    }
}

fn http_options(options: &StoreOptions) -> Result<ClientOptions, StoreError> {
    let http = ClientOptions::new()
        .with_allow_http(options.allow_http)
        .with_connect_timeout(options.connect_timeout)
        .with_timeout(options.attempt_timeout)
        .with_user_agent(http::HeaderValue::from_static("branchyard"));
    match &options.extra_ca_file {
        Some(path) => Ok(roots(path)?.into_iter().fold(http, ClientOptions::with_root_certificate)),
        None => Ok(http),
    }
}

fn roots(path: &Path) -> Result<Vec<Certificate>, StoreError> {
    let advice = || format!("name a PEM file with certificates instead of {}", path.display());
    let pem = std::fs::read(path).map_err(|error| StoreError::rejected(advice(), error))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| StoreError::rejected(advice(), error))?;
    if found.is_empty() { Err(rejected(advice())) } else { Ok(found) }
}
