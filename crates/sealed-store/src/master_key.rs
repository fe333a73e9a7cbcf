//! The key that wraps data keys.

use std::fmt;

use branchyard_domain::ports::{Ids, StoreError, WrappedDataKey};
use branchyard_domain::values::DataKeyId;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac as _};
use secrecy::zeroize::Zeroizing;
use sha2::Sha256;

use crate::key_command::{Action, KeyCommand};

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;
const NONCE: usize = 24;
/// Bytes by which a data key is recognized once it was unwrapped.
const CHECK: usize = 16;
/// Id of the master key of a command, which only the command's service knows.
const OF_COMMAND: &str = "command";

/// A data key, which is overwritten when it is dropped.
pub(crate) type DataKey = Zeroizing<[u8; KEY_BYTES]>;

/// Why a data key cannot be wrapped or unwrapped.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The command failed. It may succeed later.
    #[error("the command of store.encryption_key_command failed: {0}")]
    Command(String),
    /// The data key is wrapped by a master key that is not configured.
    #[error(
        "data key {id} of the store is wrapped by master key {master_id}, and the configured ones are {configured}; set \
         store.encryption_key_file, store.encryption_key_command or the same with encryption_previous to that master key"
    )]
    OtherMaster {
        /// The data key.
        id: DataKeyId,
        /// Id of the master key that wrapped it.
        master_id: String,
        /// Ids of the configured master keys.
        configured: String,
    },
    /// What was unwrapped is not this data key.
    #[error(
        "data key {0} of the store does not unwrap: what the metadata or object keys/{0} has was changed, or the command uses another key"
    )]
    Damaged(DataKeyId),
    /// Neither the metadata nor the store has the data key.
    #[error(
        "the store has no data key {0}: its row in data_keys and its object keys/{0} are gone; restore one of them"
    )]
    Absent(DataKeyId),
}

impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Command(_) => Self::Unavailable { context: error.to_string(), source: None },
            error => Self::Rejected { advice: error.to_string(), source: None },
        }
    }
}

/// A master key: 32 bytes, or a command that has one.
pub struct MasterKey(Kind);

enum Kind {
    Secret { cipher: Box<XChaCha20Poly1305>, id: String },
    Command(KeyCommand),
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

impl From<KeyCommand> for MasterKey {
    fn from(command: KeyCommand) -> Self {
        Self(Kind::Command(command))
    }
}

impl MasterKey {
    /// Creates a master key of 32 random bytes.
    pub fn from_secret(secret: &[u8; KEY_BYTES]) -> Self {
        let key = keyed_hash(secret, &[b"branchyard store master key v1"]);
        let id = keyed_hash(secret, &[b"branchyard store master key v1 id"]);
        let id = HEXLOWER.encode(id.get(..8).unwrap_or_default());
        Self(Kind::Secret { cipher: Box::new(XChaCha20Poly1305::new(key.as_slice().into())), id })
    }

    /// Returns the id, which reveals nothing of the key: 16 hexadecimal digits, or `command`.
    pub fn id(&self) -> &str {
        match &self.0 {
            Kind::Secret { id, .. } => id,
            Kind::Command(_) => OF_COMMAND,
        }
    }

    /// Returns `true` if a command has the key.
    pub(crate) fn is_command(&self) -> bool {
        matches!(self.0, Kind::Command(_))
    }

    /// Wraps a data key, together with what it is recognized by. Only the same data key under the same id unwraps.
    pub(crate) fn wrap(&self, id: DataKeyId, key: &DataKey, ids: &dyn Ids) -> Result<Vec<u8>, KeyError> {
        let content = Zeroizing::new([key.as_slice(), &check(id, key)].concat());
        match &self.0 {
            Kind::Command(command) => {
                command.run(Action::Wrap, &content).map(|wrapped| wrapped.to_vec()).map_err(KeyError::Command)
            }
            Kind::Secret { cipher, .. } => {
                let mut nonce = [0; NONCE];
                ids.fill(&mut nonce);
                let payload = Payload { msg: &content, aad: &bound_to(id) };
                let text = cipher.encrypt(XNonce::from_slice(&nonce), payload).map_err(|_| KeyError::Damaged(id))?;
                Ok([nonce.as_slice(), &text].concat())
            }
        }
    }

    /// Unwraps a data key.
    pub(crate) fn unwrap(&self, wrapped: &WrappedDataKey) -> Result<DataKey, KeyError> {
        let content = match &self.0 {
            Kind::Command(command) => command.run(Action::Unwrap, &wrapped.wrapped).map_err(KeyError::Command)?,
            Kind::Secret { cipher, .. } => {
                let opened = wrapped.wrapped.split_at_checked(NONCE).and_then(|(nonce, text)| {
                    let payload = Payload { msg: text, aad: &bound_to(wrapped.id) };
                    cipher.decrypt(XNonce::from_slice(nonce), payload).ok()
                });
                Zeroizing::new(opened.ok_or(KeyError::Damaged(wrapped.id))?)
            }
        };
        let (key, found) = content.split_at_checked(KEY_BYTES).ok_or(KeyError::Damaged(wrapped.id))?;
        let key = <[u8; KEY_BYTES]>::try_from(key).map_err(|_| KeyError::Damaged(wrapped.id))?;
        let key = Zeroizing::new(key);
        match found == check(wrapped.id, &key) {
            true => Ok(key),
            false => Err(KeyError::Damaged(wrapped.id)),
        }
    }
}

fn bound_to(id: DataKeyId) -> Vec<u8> {
    [b"branchyard data key v1".as_slice(), id.as_bytes()].concat()
}

/// Returns what a data key is recognized by. It reveals nothing of the key.
fn check(id: DataKeyId, key: &DataKey) -> [u8; CHECK] {
    let hash = keyed_hash(key, &[b"branchyard data key v1 check", id.as_bytes()]);
    let mut check = [0; CHECK];
    check.copy_from_slice(hash.get(..CHECK).unwrap_or_default());
    check
}

fn keyed_hash(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    // HMAC uses a key of one whole block as it is, and pads shorter keys with zeros. The result is therefore the same.
    let mut block = Zeroizing::new([0; 64]);
    block[..KEY_BYTES].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as hmac::digest::KeyInit>::new(block.as_slice().into());
    for part in parts {
        mac.update(part);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use branchyard_domain::values::DataKeyScope;
    use branchyard_domain_testing::fakes::SeededIds;

    use super::*;

    const ID: DataKeyId = DataKeyId::from_bytes([3; 16]);

    fn wrapped(master: &MasterKey, key: &DataKey) -> WrappedDataKey {
        let wrapped = master.wrap(ID, key, &SeededIds::new(1)).unwrap();
        WrappedDataKey { id: ID, scope: DataKeyScope::Uploads, master_id: master.id().to_owned(), wrapped }
    }

    #[test]
    fn a_data_key_unwraps_under_its_master_key_and_id_only() {
        let (master, other) = (MasterKey::from_secret(&[7; 32]), MasterKey::from_secret(&[8; 32]));
        let key = Zeroizing::new([9; 32]);
        let sealed = wrapped(&master, &key);
        assert!(!sealed.wrapped.windows(4).any(|part| part == [9; 4]), "not in clear");
        assert_eq!(master.unwrap(&sealed).unwrap(), key);
        assert_eq!(MasterKey::from_secret(&[7; 32]).unwrap(&sealed).unwrap(), key);
        assert!(other.unwrap(&sealed).is_err());
        assert!(master.unwrap(&WrappedDataKey { id: DataKeyId::from_bytes([4; 16]), ..sealed.clone() }).is_err());
        for at in 0..sealed.wrapped.len() {
            let mut changed = sealed.clone();
            changed.wrapped[at] ^= 1;
            assert!(matches!(master.unwrap(&changed), Err(KeyError::Damaged(ID))), "{at}");
        }
        assert_eq!((master.id(), format!("{master:?}")), ("065bd01707408703", format!("MasterKey({})", master.id())));
    }

    #[test]
    fn a_command_that_returns_another_key_is_noticed() {
        let command = |script: &str| {
            MasterKey::from(KeyCommand::new(&["sh".to_owned(), "-c".to_owned(), script.to_owned()]).unwrap())
        };
        let key = Zeroizing::new([9; 32]);
        let plain = command("cat");
        let sealed = wrapped(&plain, &key);
        assert_eq!((plain.id(), plain.unwrap(&sealed).unwrap()), ("command", key));
        assert!(matches!(command("head -c 48 /dev/zero").unwrap(&sealed), Err(KeyError::Damaged(_))));
        assert!(matches!(command("printf short").unwrap(&sealed), Err(KeyError::Damaged(_))));
        let error = StoreError::from(command("exit 1").unwrap(&sealed).unwrap_err());
        assert!(error.is_temporary(), "{error}");
    }
}
