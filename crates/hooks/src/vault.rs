//! Encryption of the secrets of hooks and the keys of mirrors with a key of the server.

use branchyard_domain::entities::{HookSecret, Sealed};
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::Vault;
use branchyard_domain::values::{DatabaseId, HookId};
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use sha2::Sha256;

const NONCE_BYTES: usize = 24;
/// Length of the seed of an Ed25519 key (RFC 8032 §5.1.5).
const SEED_BYTES: usize = 32;

/// Seals secrets with XChaCha20-Poly1305 under a key derived from the newest of the server's keys, and opens what was sealed
/// under any of them. A secret sealed for one hook or mirror cannot be opened for another.
pub struct ServerVault {
    newest: HookKey,
    older: Vec<HookKey>,
}

/// A key for sealed secrets. Its id is derived too, so that a sealed secret names its key without revealing it.
struct HookKey {
    key: [u8; 32],
    id: String,
}

impl HookKey {
    fn from_secret(secret: &[u8; 32]) -> Self {
        let key = derive(secret, "branchyard hook secrets v1");
        let id = derive(secret, "branchyard hook secrets v1 id");
        Self { key, id: HEXLOWER.encode(&id[..8]) }
    }
}

impl std::fmt::Debug for ServerVault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerVault({})", self.newest.id)
    }
}

impl ServerVault {
    /// Derives the keys from 32 random bytes each. Servers that share a store must use the same ones.
    pub fn from_secrets(newest: &[u8; 32], older: &[[u8; 32]]) -> Self {
        Self { newest: HookKey::from_secret(newest), older: older.iter().map(HookKey::from_secret).collect() }
    }

    /// Returns the id by which secrets sealed under the key of these 32 bytes name it: 16 hexadecimal digits.
    pub fn id_of(secret: &[u8; 32]) -> String {
        HookKey::from_secret(secret).id
    }
}

fn derive(secret: &[u8; 32], label: &str) -> [u8; 32] {
    // HMAC uses a key of one whole block as it is, and pads shorter keys with zeros. The result is therefore the same.
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..secret.len()].copy_from_slice(secret);
    let mut mac = <Hmac<Sha256> as hmac::digest::KeyInit>::new(&block);
    mac.update(label.as_bytes());
    mac.finalize().into_bytes().into()
}

impl ServerVault {
    #[expect(clippy::expect_used, reason = "the cipher refuses only texts of more than 256 GiB")]
    fn encrypt(&self, holder: &[u8], text: &[u8], nonce: [u8; NONCE_BYTES]) -> Sealed {
        let cipher = XChaCha20Poly1305::new(Key::from_slice(&self.newest.key));
        let payload = Payload { msg: text, aad: holder };
        let mut bytes = nonce.to_vec();
        bytes.extend(cipher.encrypt(XNonce::from_slice(&nonce), payload).expect("a secret that fits into memory"));
        Sealed { key_id: self.newest.id.clone(), bytes }
    }

    fn decrypt(&self, holder: &[u8], sealed: &Sealed) -> Option<Vec<u8>> {
        let key = std::iter::once(&self.newest).chain(&self.older).find(|key| key.id == sealed.key_id)?;
        let (nonce, text) = sealed.bytes.split_at_checked(NONCE_BYTES)?;
        let cipher = XChaCha20Poly1305::new(Key::from_slice(&key.key));
        cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: text, aad: holder }).ok()
    }
}

/// Names the key ring to the cipher. Hooks have 16 bytes, and mirrors 23.
const KEY_RING: &[u8] = b"key ring";

impl ServerVault {
    /// Encrypts a key ring under the newest key. `nonce` has to be fresh randomness.
    pub fn seal_key_ring(&self, ring: &[u8], nonce: [u8; NONCE_BYTES]) -> Sealed {
        self.encrypt(KEY_RING, ring, nonce)
    }

    /// Decrypts a key ring. Returns `None` if its key is absent or the bytes were changed.
    pub fn open_key_ring(&self, sealed: &Sealed) -> Option<Vec<u8>> {
        self.decrypt(KEY_RING, sealed)
    }
}

/// Names a mirror to the cipher, so that what was sealed for a hook does not open as the seed of a mirror.
fn mirror_holder(mirror: DatabaseId) -> Vec<u8> {
    [b"mirror ".as_slice(), mirror.as_uuid().as_bytes()].concat()
}

impl Vault for ServerVault {
    fn seal(&self, hook: HookId, secret: &HookSecret, nonce: [u8; NONCE_BYTES]) -> Result<Sealed, PortError> {
        Ok(self.encrypt(hook.as_uuid().as_bytes(), secret.expose().as_bytes(), nonce))
    }

    fn open(&self, hook: HookId, sealed: &Sealed) -> Option<HookSecret> {
        let opened = self.decrypt(hook.as_uuid().as_bytes(), sealed)?;
        String::from_utf8(opened).ok().map(HookSecret::from_text)
    }

    fn seal_seed(
        &self,
        mirror: DatabaseId,
        seed: &[u8; SEED_BYTES],
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Sealed, PortError> {
        Ok(self.encrypt(&mirror_holder(mirror), seed, nonce))
    }

    fn open_seed(&self, mirror: DatabaseId, sealed: &Sealed) -> Option<[u8; SEED_BYTES]> {
        self.decrypt(&mirror_holder(mirror), sealed)?.try_into().ok()
    }

    fn key_id(&self) -> String {
        self.newest.id.clone()
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::entities::{HookSecret, Sealed};
    use branchyard_domain::ports::Vault as _;
    use branchyard_domain::values::{DatabaseId, HookId};
    use uuid::Uuid;

    use super::ServerVault;

    #[test]
    fn what_is_sealed_opens_for_its_hook_under_its_key_only() {
        let vault = ServerVault::from_secrets(&[7; 32], &[]);
        let (hook, other) = (HookId::from_uuid(Uuid::from_u128(1)), HookId::from_uuid(Uuid::from_u128(2)));
        let secret = HookSecret::from_text("whsec_AAEC".to_owned());
        let sealed = vault.seal(hook, &secret, [3; 24]).unwrap();
        assert_eq!(vault.open(hook, &sealed), Some(secret.clone()));
        assert_eq!(vault.open(other, &sealed), None);
        assert!(!sealed.bytes.windows(4).any(|part| part == b"AAEC"), "not in clear");
        assert_ne!(vault.seal(hook, &secret, [4; 24]).unwrap().bytes, sealed.bytes);
        let restarted = ServerVault::from_secrets(&[7; 32], &[]);
        assert_eq!(restarted.open(hook, &sealed), Some(secret));
        let foreign = ServerVault::from_secrets(&[8; 32], &[]);
        assert_eq!(foreign.open(hook, &sealed), None);
        assert_eq!(foreign.open(hook, &Sealed { key_id: foreign.key_id(), ..sealed.clone() }), None);
        let mut changed = sealed.clone();
        changed.bytes[30] ^= 1;
        assert_eq!(vault.open(hook, &changed), None);
        assert_eq!(vault.open(hook, &Sealed { bytes: vec![1], ..sealed }), None);
    }

    #[test]
    fn the_seed_of_a_mirror_opens_for_its_database_only() {
        let vault = ServerVault::from_secrets(&[7; 32], &[]);
        let (id, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let sealed = vault.seal_seed(DatabaseId::from_uuid(id), &[5; 32], [3; 24]).unwrap();
        assert_eq!(vault.open_seed(DatabaseId::from_uuid(id), &sealed), Some([5; 32]));
        assert_eq!(vault.open_seed(DatabaseId::from_uuid(other), &sealed), None);
        assert_eq!(vault.open(HookId::from_uuid(id), &sealed), None);
        assert!(!sealed.bytes.windows(4).any(|part| part == [5; 4]), "not in clear");
        let secret = vault.seal(HookId::from_uuid(id), &HookSecret::from_text("5".repeat(32)), [3; 24]).unwrap();
        assert_eq!(vault.open_seed(DatabaseId::from_uuid(id), &secret), None);
    }

    #[test]
    fn a_key_ring_opens_under_its_key_and_as_nothing_else() {
        let (vault, other) = (ServerVault::from_secrets(&[7; 32], &[]), ServerVault::from_secrets(&[8; 32], &[]));
        let sealed = vault.seal_key_ring(b"a ring", [3; 24]);
        assert_eq!(sealed.key_id, ServerVault::id_of(&[7; 32]));
        assert_eq!(vault.open_key_ring(&sealed).as_deref(), Some(&b"a ring"[..]));
        assert_eq!(other.open_key_ring(&sealed), None);
        assert_eq!(vault.open(HookId::from_uuid(Uuid::from_u128(1)), &sealed), None);
        let secret = HookSecret::from_text("whsec_AAEC".to_owned());
        let of_hook = vault.seal(HookId::from_uuid(Uuid::from_u128(1)), &secret, [3; 24]).unwrap();
        assert_eq!(vault.open_key_ring(&of_hook), None);
    }

    #[test]
    fn the_newest_key_seals_and_each_key_opens_what_names_it() {
        let hook = HookId::from_uuid(Uuid::from_u128(1));
        let secret = HookSecret::from_text("whsec_AAEC".to_owned());
        let sealed = ServerVault::from_secrets(&[7; 32], &[]).seal(hook, &secret, [3; 24]).unwrap();
        assert_eq!(sealed.key_id, "4858424c002c3163", "ids are in stores");
        let ring = ServerVault::from_secrets(&[9; 32], &[[8; 32], [7; 32]]);
        assert_eq!(ring.open(hook, &sealed), Some(secret.clone()));
        let anew = ring.seal(hook, &secret, [3; 24]).unwrap();
        assert_eq!((&anew.key_id, &anew.key_id), (&ring.key_id(), &ServerVault::id_of(&[9; 32])));
        assert_eq!(ServerVault::from_secrets(&[9; 32], &[]).open(hook, &anew), Some(secret));
        assert_eq!(ServerVault::from_secrets(&[9; 32], &[[8; 32]]).open(hook, &sealed), None);
        assert_eq!(ring.open(hook, &Sealed { key_id: anew.key_id, ..sealed }), None, "another key than it names");
    }
}
