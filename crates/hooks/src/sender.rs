//! Delivery attempts over HTTP.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use branchyard_domain::entities::{AttemptError, EventName};
use branchyard_domain::ports::{AddressError, LookedUp, Reply, Sender, Sent, WebhookRequest};
use branchyard_domain::values::AccountId;
use branchyard_egress::{AddressPolicy, Cause, Egress, Names, RootsError, SystemNames, Verdict, literal, never_opened};
use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::capture;
use crate::lookups::Lookups;
use crate::signature::{hub_signature, webhook_signature};

/// Maximum length of a hook's URL, in bytes.
const URL_BYTES: usize = 2_048;
/// Maximum time of an attempt that connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum number of header lines of a response. What is beyond, or a head of more than 408 KiB (the buffer of the HTTP
/// library), fails the attempt. Bounds the memory for a response, of which [`capture`] keeps little.
const HEADER_LINES: usize = 16_384;
/// Interval at which an attempt checks whether it is canceled.
const LOOK: Duration = Duration::from_millis(50);
const USER_AGENT: &str = concat!("Branchyard-Hook/", env!("CARGO_PKG_VERSION"));

/// Settings of delivery attempts.
#[derive(Debug, Clone)]
pub struct SenderOptions {
    /// The addresses that may be reached.
    pub policy: AddressPolicy,
    /// Time limit of an attempt, from the resolution of the name to the end of the response head. Reading the body
    /// stops at the same deadline, but the delivery then counts.
    pub timeout: Duration,
    /// Maximum number of bytes of a response body that are kept.
    pub response_bytes: usize,
    /// PEM file with root certificates in addition to those of the system.
    pub extra_ca_file: Option<PathBuf>,
}

impl Default for SenderOptions {
    fn default() -> Self {
        Self {
            policy: AddressPolicy::default(),
            timeout: Duration::from_secs(15),
            response_bytes: 16 << 10,
            extra_ca_file: None,
        }
    }
}

/// Sends webhook requests over HTTP. [`Sender::send`] blocks until the attempt has ended.
pub struct HttpSender {
    egress: Egress,
    lookups: Lookups,
    timeout: Duration,
    response_bytes: usize,
    line: OnceLock<Option<HttpClients>>,
    /// Set to `true` to end all running attempts early.
    aborted: watch::Sender<bool>,
}

/// The runtime and the HTTP clients, created on first use: commands that send nothing need neither threads nor the root
/// certificates of the system.
struct HttpClients {
    runtime: Option<Runtime>,
    encrypted: Client,
    plain: Client,
}

impl Drop for HttpClients {
    fn drop(&mut self) {
        // Without waiting, because the drop may happen where blocking is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl HttpSender {
    /// Creates a sender that uses the resolver of the system.
    ///
    /// # Errors
    /// [`RootsError`].
    pub fn new(options: SenderOptions) -> Result<Self, RootsError> {
        Self::with_names(options, Arc::new(SystemNames))
    }

    /// Creates a sender with its own resolver.
    ///
    /// # Errors
    /// [`RootsError`].
    pub fn with_names(options: SenderOptions, names: Arc<dyn Names>) -> Result<Self, RootsError> {
        Ok(Self {
            egress: Egress::new(options.policy, names, options.extra_ca_file.as_deref())?,
            lookups: Lookups::default(),
            timeout: options.timeout,
            response_bytes: options.response_bytes,
            line: OnceLock::new(),
            aborted: watch::Sender::new(false),
        })
    }

    fn line(&self) -> Option<&HttpClients> {
        let make = || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("hooks-io")
                .enable_all()
                .build();
            let runtime =
                runtime.map_err(|error| tracing::error!(%error, "cannot start the runtime for webhooks")).ok()?;
            let client = |encrypted| {
                let made = self.client(encrypted);
                made.map_err(|error| tracing::error!(%error, "cannot build the TLS clients for webhooks")).ok()
            };
            Some(HttpClients { runtime: Some(runtime), encrypted: client(true)?, plain: client(false)? })
        };
        self.line.get_or_init(make).as_ref()
    }

    fn client(&self, encrypted: bool) -> reqwest::Result<Client> {
        self.egress
            .client(encrypted)
            .http1_max_headers(HEADER_LINES)
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT.min(self.timeout))
            .build()
    }

    /// Looks up whether a name resolves only into networks that the operator opened. The look-up counts against the
    /// limits until the resolver has answered, which may be after the deadline.
    fn look_up_name(&self, caller: AccountId, name: String, done: LookedUp) {
        let lookup = match self.lookups.begin(caller) {
            Ok(lookup) => lookup,
            Err(error) => return done(Err(error)),
        };
        let Some(runtime) = self.line().and_then(|line| line.runtime.as_ref()) else {
            return done(Err(AddressError::Busy));
        };
        let (names, policy, asked) = (Arc::clone(self.egress.names()), Arc::clone(self.egress.policy()), name.clone());
        let deadline = Instant::now() + CONNECT.min(self.timeout);
        runtime.spawn(async move {
            let resolving = tokio::task::spawn_blocking(move || {
                let found = names.resolve(&asked);
                drop(lookup);
                found
            });
            let addresses = match timeout_at(deadline, resolving).await {
                Ok(Ok(Ok(addresses))) => addresses,
                Ok(Ok(Err(_)) | Err(_)) | Err(_) => Vec::new(),
            };
            done(judge(&policy, &name, &addresses));
        });
    }

    async fn attempt(
        &self,
        line: &HttpClients,
        url: Url,
        parcel: &WebhookRequest,
        headers: HeaderMap,
    ) -> Result<Reply, AttemptError> {
        let encrypted = url.scheme() == "https";
        if !self.egress.admits(&url) {
            return Err(AttemptError::BlockedAddress);
        }
        // The URL parser accepts names with quotation marks, braces and backticks, which the HTTP library cannot express.
        // No name on the Internet has them.
        if url.as_str().parse::<http::Uri>().is_err() {
            return Err(AttemptError::Dns);
        }
        let client = if encrypted { &line.encrypted } else { &line.plain };
        let deadline = Instant::now() + self.timeout;
        let sending = client.post(url).headers(headers).body(parcel.body.clone()).send();
        let answer = timeout_at(deadline, sending).await.map_err(|_| AttemptError::Timeout)?;
        let answer = answer.map_err(|error| reason(Cause::of(&error)))?;
        let (status, retry_after) = (answer.status().as_u16(), capture::retry_after(answer.headers()));
        let headers = capture::headers(answer.headers());
        let body = capture::body(answer, self.response_bytes, deadline).await;
        Ok(Reply { status, headers, body, retry_after })
    }
}

/// Returns an error unless the addresses of a name permit a hook over `http`.
fn judge(policy: &AddressPolicy, name: &str, addresses: &[IpAddr]) -> Result<(), AddressError> {
    if addresses.is_empty() {
        return Err(AddressError::Invalid(format!(
            "must begin with https://, or name a host in a network that the operator of this server opened to hooks: {name} does not resolve"
        )));
    }
    if !addresses.iter().all(|address| policy.verdict(*address) == Verdict::Opened) {
        return Err(AddressError::Invalid(format!(
            "must begin with https://: {name} resolves to an address outside the networks that the operator of this server opened to hooks"
        )));
    }
    Ok(())
}

/// Returns why a URL with `http` is not accepted, whose host is a literal address if `address` is one.
fn why_not_plain(address: Option<IpAddr>) -> String {
    match address.and_then(never_opened) {
        Some(what) => format!("must begin with https://; {what} are never allowed"),
        None => {
            "must begin with https://, except in networks that the operator of this server opened to hooks".to_owned()
        }
    }
}

/// Returns why a literal address is refused.
fn why_refused(address: IpAddr) -> String {
    match never_opened(address) {
        Some(what) => format!("{what} are never allowed for hooks, and the operator of this server cannot open them"),
        None => {
            "the address is in a network that hooks may not reach; the operator of this server can open it".to_owned()
        }
    }
}

const fn reason(cause: Cause) -> AttemptError {
    match cause {
        Cause::Blocked => AttemptError::BlockedAddress,
        Cause::Timeout => AttemptError::Timeout,
        Cause::Dns => AttemptError::Dns,
        Cause::Tls => AttemptError::Tls,
        Cause::Refused => AttemptError::Refused,
        Cause::Connection => AttemptError::Connection,
    }
}

impl Sender for HttpSender {
    fn check(&self, text: &str) -> Result<String, AddressError> {
        let invalid = |why: &str| Err(AddressError::Invalid(why.to_owned()));
        // Long texts are rejected before parsing, because this check runs outside the bounded pools.
        if text.len() > URL_BYTES {
            return invalid("must not be longer than 2,048 bytes");
        }
        let Ok(url) = Url::parse(text) else {
            return invalid("must be an absolute URL, such as https://ci.example.com/hook");
        };
        if url.as_str().len() > URL_BYTES {
            return invalid("must not be longer than 2,048 bytes");
        }
        if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
            return invalid("must begin with https:// and name a host");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return invalid("must not hold a user name or password; verify the signature instead");
        }
        if url.fragment().is_some() {
            return invalid("must not have a fragment (#…)");
        }
        if url.scheme() == "http" && !self.egress.may_be_plain(&url) {
            return invalid(&why_not_plain(literal(&url)));
        }
        if let Some(address) = literal(&url)
            && self.egress.policy().verdict(address) == Verdict::Refused
        {
            return Err(AddressError::Refused(why_refused(address)));
        }
        Ok(url.into())
    }

    fn look_up(&self, caller: AccountId, url: &str, done: LookedUp) {
        let name = Url::parse(url).ok().filter(|url| url.scheme() == "http");
        match name.as_ref().and_then(Url::domain) {
            Some(name) => self.look_up_name(caller, name.to_owned(), done),
            None => done(Ok(())),
        }
    }

    fn send(&self, parcel: &WebhookRequest) -> Option<Sent> {
        let headers = headers(parcel);
        let host = Url::parse(&parcel.url).ok();
        let result = match (self.line(), host.clone()) {
            (Some(line), Some(url)) => match (&line.runtime, header_map(&headers)) {
                (Some(runtime), Some(map)) => {
                    let mut aborted = self.aborted.subscribe();
                    runtime.block_on(async {
                        tokio::select! {
                            // `wait_for` fails only if the sender is dropped, and `self` holds it.
                            _ = aborted.wait_for(|aborted| *aborted) => None,
                            () = canceled(parcel) => None,
                            result = self.attempt(line, url, parcel, map) => Some(result),
                        }
                    })?
                }
                _ => Err(AttemptError::Connection),
            },
            (None, _) => Err(AttemptError::Tls),
            (_, None) => Err(AttemptError::Connection),
        };
        let (reply, error) = match result {
            Ok(reply) => {
                let error = (300..400).contains(&reply.status).then_some(AttemptError::Redirect);
                (Some(reply), error)
            }
            Err(error) => (None, Some(error)),
        };
        let sent = Sent { headers, reply, error };
        log(parcel, host.as_ref().and_then(Url::host_str), &sent);
        Some(sent)
    }

    fn abort(&self) {
        self.aborted.send_replace(true);
    }
}

/// Waits until an attempt is canceled.
async fn canceled(parcel: &WebhookRequest) {
    while !parcel.canceled.is_canceled() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the headers of an attempt, in order.
fn headers(parcel: &WebhookRequest) -> Vec<(String, String)> {
    let id = parcel.delivery.to_string();
    let (at, body) = (parcel.at.as_seconds(), parcel.body.as_bytes());
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("content-length", body.len().to_string()),
        ("user-agent", USER_AGENT.to_owned()),
        ("accept", "*/*".to_owned()),
        ("accept-encoding", "identity".to_owned()),
        ("webhook-signature", webhook_signature(&parcel.secrets, &id, at, body)),
        ("webhook-id", id),
        ("webhook-timestamp", at.to_string()),
        ("x-branchyard-event", event_word(parcel.event).to_owned()),
        ("x-branchyard-delivery", parcel.attempt.to_string()),
    ];
    if let Some(trace) = parcel.trace {
        headers.push(("traceparent", trace.to_string()));
    }
    if let Some(current) = parcel.secrets.first() {
        headers.push(("x-hub-signature-256", hub_signature(current, body)));
    }
    headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn header_map(headers: &[(String, String)]) -> Option<HeaderMap> {
    let pair = |(name, value): &(String, String)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    };
    headers.iter().map(pair).collect()
}

const fn event_word(event: EventName) -> &'static str {
    match event {
        EventName::Push => "push",
        EventName::PullRequest => "pull_request",
        EventName::Branch => "branch",
        EventName::Ping => "ping",
    }
}

/// Logs an attempt that failed. Of the URL, the line contains only the host.
fn log(parcel: &WebhookRequest, host: Option<&str>, sent: &Sent) {
    if sent.delivered() {
        return;
    }
    let status = sent.reply.as_ref().map(|reply| reply.status);
    let why = match sent.error {
        Some(AttemptError::Timeout) => "the receiver did not answer in time",
        Some(AttemptError::Refused) => "the receiver refused the connection",
        Some(AttemptError::Dns) => "the receiver's name does not resolve",
        Some(AttemptError::Tls) => "no trusted TLS connection to the receiver",
        Some(AttemptError::BlockedAddress) => "the receiver is in a network that hooks may not reach",
        Some(AttemptError::Redirect) => "the receiver redirects, which is not followed",
        Some(AttemptError::Connection) => "the connection to the receiver broke",
        None => "the receiver did not accept it",
    };
    let (delivery_id, attempt_id) = (parcel.delivery.to_string(), parcel.attempt.to_string());
    tracing::info!(delivery_id, attempt_id, host, status, "a webhook attempt failed: {why}");
}
