//! Options of a store.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// How an object store is reached. A folder has no options.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// URL of the service, if it is not the cloud's own. A bucket is the first segment of a path below it, not a part of the
    /// host's name.
    pub endpoint: Option<String>,
    /// Region of the bucket, for S3. If there is none here nor in the environment, `us-east-1`.
    pub region: Option<String>,
    /// Access key of S3, or account of Azure. If it is missing, the credentials are taken from where the cloud's own tools take
    /// them: its environment variables, or the role of the machine.
    pub access_key_id: Option<String>,
    /// The secret that belongs to the access key, or the key of the account of Azure.
    pub secret_access_key: Option<SecretString>,
    /// Whether the endpoint may be reached without TLS.
    pub allow_http: bool,
    /// PEM file with root certificates besides those of the system.
    pub extra_ca_file: Option<PathBuf>,
    /// How long establishing a connection may take.
    pub connect_timeout: Duration,
    /// How long an attempt of a request may take, from the connection to the last byte of the answer. A request carries at most
    /// 16 MiB.
    pub attempt_timeout: Duration,
    /// How long a request may take with all its attempts, pauses, and its wait for others. Large objects are several requests.
    pub request_timeout: Duration,
    /// How often a request is tried again, if it failed in a way that may pass.
    pub retries: u32,
    /// How many requests are under way at a time.
    pub requests_max: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            access_key_id: None,
            secret_access_key: None,
            allow_http: false,
            extra_ca_file: None,
            connect_timeout: Duration::from_secs(5),
            attempt_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(60),
            retries: 5,
            requests_max: 32,
        }
    }
}
