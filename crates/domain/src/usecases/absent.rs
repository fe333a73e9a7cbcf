//! The ports of a hub that was built without uploads or without webhooks.

use std::io::{self, Read};

use branchyard_auth::SEED_BYTES;

use crate::entities::{DatabaseLocator, EventKind, FileType, HookSecret, Sealed};
use crate::errors::PortError;
use crate::ports::{
    AddressError, Blobs, BlobsError, FormatError, FormatInput, Formats, ImportFile, LookedUp, Payloads, ReadSeek,
    Sender, Sent, Vault, WebhookRequest,
};
use crate::values::{AccountId, DatabaseId, HookId, UploadId};

/// Uploads that are always refused.
pub(super) struct NoUploads;

fn no_uploads<T>() -> Result<T, BlobsError> {
    let source = io::Error::new(io::ErrorKind::Unsupported, "the hub was built without uploads");
    Err(BlobsError { context: "uploads are not available".to_owned(), full: false, temporary: false, source })
}

impl Blobs for NoUploads {
    fn put_part(&self, _upload: UploadId, _number: u32, _bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        no_uploads()
    }

    fn open(&self, _upload: UploadId, _parts: u32) -> Result<Box<dyn ReadSeek>, BlobsError> {
        no_uploads()
    }

    fn remove(&self, _upload: UploadId) -> Result<(), BlobsError> {
        Ok(())
    }

    fn list(&self) -> Result<Vec<UploadId>, BlobsError> {
        Ok(Vec::new())
    }
}

impl Formats for NoUploads {
    fn supports(&self, _file_type: FileType) -> bool {
        false
    }

    fn scan<'a>(&self, _input: FormatInput<'a>) -> Result<Box<dyn ImportFile + 'a>, FormatError> {
        Err(FormatError::File("this service cannot read files".to_owned()))
    }
}

/// Webhooks that cannot be registered. No other call follows, because every hook has a checked address.
pub(super) struct NoWebhooks;

const NO_WEBHOOKS: &str = "this service does not send webhooks";

impl Sender for NoWebhooks {
    fn check(&self, _url: &str) -> Result<String, AddressError> {
        Err(AddressError::Refused(NO_WEBHOOKS.to_owned()))
    }

    fn look_up(&self, _caller: AccountId, _url: &str, done: LookedUp) {
        done(Err(AddressError::Refused(NO_WEBHOOKS.to_owned())));
    }

    fn send(&self, _request: &WebhookRequest) -> Option<Sent> {
        None
    }

    fn abort(&self) {}
}

impl Payloads for NoWebhooks {
    fn render(&self, _database: &DatabaseLocator, _kind: &EventKind) -> String {
        String::new()
    }
}

impl Vault for NoWebhooks {
    fn seal(&self, _hook: HookId, _secret: &HookSecret, _nonce: [u8; 24]) -> Result<Sealed, PortError> {
        Ok(Sealed { key_id: self.key_id(), bytes: Vec::new() })
    }

    fn open(&self, _hook: HookId, _sealed: &Sealed) -> Option<HookSecret> {
        None
    }

    fn seal_seed(&self, _mirror: DatabaseId, _seed: &[u8; SEED_BYTES], _nonce: [u8; 24]) -> Result<Sealed, PortError> {
        Ok(Sealed { key_id: self.key_id(), bytes: Vec::new() })
    }

    fn open_seed(&self, _mirror: DatabaseId, _sealed: &Sealed) -> Option<[u8; SEED_BYTES]> {
        None
    }

    fn key_id(&self) -> String {
        "none".to_owned()
    }
}
