//! Fakes of the webhook ports, without network and without encryption.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use branchyard_auth::SEED_BYTES;
use parking_lot::Mutex;

use branchyard_domain::entities::{DatabaseLocator, EventKind, HookSecret, Sealed};
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{AddressError, LookedUp, Payloads, Reply, Sender, Sent, Vault, WebhookRequest};
use branchyard_domain::values::{AccountId, DatabaseId, HookId};

/// Payloads that contain the debug form of the event.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainPayloads;

impl Payloads for PlainPayloads {
    fn render(&self, database: &DatabaseLocator, kind: &EventKind) -> String {
        format!("{database}: {kind:?}")
    }
}

/// A vault that inverts bits instead of encrypting.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenVault;

impl Vault for OpenVault {
    fn seal(&self, hook: HookId, secret: &HookSecret, _nonce: [u8; 24]) -> Result<Sealed, PortError> {
        let bytes = secret.expose().bytes().chain(hook.to_string().bytes()).map(|byte| !byte).collect();
        Ok(Sealed { key_id: "fake".to_owned(), bytes })
    }

    fn open(&self, hook: HookId, sealed: &Sealed) -> Option<HookSecret> {
        let text = String::from_utf8(sealed.bytes.iter().map(|byte| !byte).collect()).ok()?;
        Some(HookSecret::from_text(text.strip_suffix(&hook.to_string())?.to_owned()))
    }

    fn seal_seed(&self, mirror: DatabaseId, seed: &[u8; SEED_BYTES], _nonce: [u8; 24]) -> Result<Sealed, PortError> {
        let bytes = seed.iter().copied().chain(*mirror.as_uuid().as_bytes()).map(|byte| !byte).collect();
        Ok(Sealed { key_id: "fake".to_owned(), bytes })
    }

    fn open_seed(&self, mirror: DatabaseId, sealed: &Sealed) -> Option<[u8; SEED_BYTES]> {
        let bytes: Vec<u8> = sealed.bytes.iter().map(|byte| !byte).collect();
        bytes.strip_suffix(mirror.as_uuid().as_bytes())?.try_into().ok()
    }

    fn key_id(&self) -> String {
        "fake".to_owned()
    }
}

/// A vault with several keys that inverts bits instead of encrypting. A secret opens only while its key is in the vault.
#[derive(Debug, Default)]
pub struct KeyedVault(Mutex<Vec<String>>);

impl KeyedVault {
    /// Replaces the ids of the keys; the first one seals.
    pub fn set(&self, keys: &[&str]) {
        *self.0.lock() = keys.iter().map(|key| (*key).to_owned()).collect();
    }
}

impl Vault for KeyedVault {
    fn seal(&self, hook: HookId, secret: &HookSecret, nonce: [u8; 24]) -> Result<Sealed, PortError> {
        Ok(Sealed { key_id: self.key_id(), ..OpenVault.seal(hook, secret, nonce)? })
    }

    fn open(&self, hook: HookId, sealed: &Sealed) -> Option<HookSecret> {
        self.0.lock().contains(&sealed.key_id).then(|| OpenVault.open(hook, sealed)).flatten()
    }

    fn seal_seed(&self, mirror: DatabaseId, seed: &[u8; SEED_BYTES], nonce: [u8; 24]) -> Result<Sealed, PortError> {
        Ok(Sealed { key_id: self.key_id(), ..OpenVault.seal_seed(mirror, seed, nonce)? })
    }

    fn open_seed(&self, mirror: DatabaseId, sealed: &Sealed) -> Option<[u8; SEED_BYTES]> {
        self.0.lock().contains(&sealed.key_id).then(|| OpenVault.open_seed(mirror, sealed)).flatten()
    }

    fn key_id(&self) -> String {
        self.0.lock().first().cloned().unwrap_or_default()
    }
}

/// A sender that records requests and returns planned responses, by default with status 200.
#[derive(Debug, Default)]
pub struct ScriptedSender {
    sent: Mutex<Vec<WebhookRequest>>,
    answers: Mutex<BTreeMap<String, VecDeque<Sent>>>,
    aborted: AtomicBool,
}

impl ScriptedSender {
    /// Returns the requests sent so far, in order.
    pub fn sent(&self) -> Vec<WebhookRequest> {
        self.sent.lock().clone()
    }

    /// Plans the outcome of the next attempt to a URL. Attempts without a planned outcome succeed.
    pub fn plan(&self, url: &str, sent: Sent) {
        self.answers.lock().entry(url.to_owned()).or_default().push_back(sent);
    }

    /// Creates an outcome with this status and an empty response.
    pub fn answer(status: u16) -> Sent {
        let reply = Reply { status, headers: Vec::new(), body: String::new(), retry_after: None };
        Sent { headers: vec![("webhook-id".to_owned(), "fake".to_owned())], reply: Some(reply), error: None }
    }
}

impl Sender for ScriptedSender {
    /// Rejects URLs that begin with `https://127.` or not with `https://`. Accepts all others unchanged.
    fn check(&self, url: &str) -> Result<String, AddressError> {
        match url {
            _ if url.starts_with("https://127.") => Err(AddressError::Refused("a private address".to_owned())),
            _ if url.starts_with("https://") => Ok(url.to_owned()),
            _ => Err(AddressError::Invalid("must begin with https://".to_owned())),
        }
    }

    fn look_up(&self, _caller: AccountId, _url: &str, done: LookedUp) {
        done(Ok(()));
    }

    fn send(&self, parcel: &WebhookRequest) -> Option<Sent> {
        if self.aborted.load(Ordering::Relaxed) || parcel.canceled.is_canceled() {
            return None;
        }
        self.sent.lock().push(parcel.clone());
        let planned = self.answers.lock().get_mut(&parcel.url).and_then(VecDeque::pop_front);
        Some(planned.unwrap_or_else(|| Self::answer(200)))
    }

    fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
    }
}
