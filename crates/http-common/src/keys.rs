//! Keys of the server: sealed page tokens, signed part URLs, form tokens, entity tags of SQL reads, successors of refresh tokens.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use branchyard_auth::RefreshToken;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use parking_lot::RwLock;
use sha2::Sha256;

const NONCE_BYTES: usize = 24;

/// Keys derived from the server's key ring. Tokens and signatures are made under the newest key and are valid under each.
/// Nodes that share a metadata store share the ring. Clones share their keys.
#[derive(Clone)]
pub struct ServerKeys(Arc<RwLock<Arc<[DerivedKeys]>>>);

/// Keys derived from one key of the ring.
struct DerivedKeys {
    pages: [u8; 32],
    parts: [u8; 32],
    tags: [u8; 32],
    forms: [u8; 32],
    refreshes: [u8; 32],
}

impl DerivedKeys {
    fn from_secret(secret: &[u8; 32]) -> Self {
        let derive = |label: &str| mac_of(secret, &[label.as_bytes()]);
        Self {
            pages: derive("branchyard page tokens v1"),
            parts: derive("branchyard part urls v1"),
            tags: derive("branchyard sql etags v1"),
            forms: derive("branchyard forms v1"),
            refreshes: derive("branchyard refresh tokens v1"),
        }
    }
}

fn derived(newest: &[u8; 32], older: &[[u8; 32]]) -> Arc<[DerivedKeys]> {
    std::iter::once(newest).chain(older).map(DerivedKeys::from_secret).collect()
}

impl std::fmt::Debug for ServerKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerKeys([redacted])")
    }
}

impl ServerKeys {
    /// Derives all keys from 32 random bytes, as from a ring of one.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        Self::from_secrets(&secret, &[])
    }

    /// Derives all keys from 32 random bytes for each key of the ring.
    pub fn from_secrets(newest: &[u8; 32], older: &[[u8; 32]]) -> Self {
        Self(Arc::new(RwLock::new(derived(newest, older))))
    }

    /// Replaces the keys of this value and of all its clones.
    pub fn replace(&self, newest: &[u8; 32], older: &[[u8; 32]]) {
        *self.0.write() = derived(newest, older);
    }

    fn all(&self) -> Arc<[DerivedKeys]> {
        Arc::clone(&self.0.read())
    }

    /// Runs `work` with the newest keys.
    fn newest<T>(&self, work: impl FnOnce(&DerivedKeys) -> T) -> T {
        // `derived` never returns an empty slice.
        work(&self.all()[0])
    }

    /// Encrypts and authenticates a text. The result opens only with the same `bound`.
    #[expect(clippy::expect_used, reason = "the cipher refuses only texts of more than 256 GiB")]
    pub(crate) fn seal(&self, nonce: [u8; NONCE_BYTES], bound: &str, text: &[u8]) -> String {
        let cipher = self.newest(|keys| XChaCha20Poly1305::new(Key::from_slice(&keys.pages)));
        let payload = Payload { msg: text, aad: bound.as_bytes() };
        let mut sealed = nonce.to_vec();
        sealed.extend(cipher.encrypt(XNonce::from_slice(&nonce), payload).expect("a text that fits into memory"));
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// Opens a text that [`ServerKeys::seal`] sealed with the same `bound`; returns `None` for any other token.
    pub(crate) fn open(&self, bound: &str, token: &str) -> Option<Vec<u8>> {
        let sealed = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES)?;
        self.all().iter().find_map(|keys| {
            let cipher = XChaCha20Poly1305::new(Key::from_slice(&keys.pages));
            cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: sealed, aad: bound.as_bytes() }).ok()
        })
    }

    /// Returns the signature of a part's address.
    pub(crate) fn sign_part(&self, text: &str) -> String {
        self.newest(|keys| URL_SAFE_NO_PAD.encode(mac_of(&keys.parts, &[text.as_bytes()])))
    }

    /// Returns `true` if the signature is that of the address. Compares in constant time.
    pub(crate) fn part_signed(&self, text: &str, signature: &str) -> bool {
        self.is_mac(|keys| &keys.parts, text, signature)
    }

    /// Returns the refresh token that replaces `token`: the same one each time, as long as the newest key of the ring is the same.
    pub fn refresh_successor(&self, token: &RefreshToken) -> RefreshToken {
        self.newest(|keys| token.successor(&keys.refreshes))
    }

    /// Returns the token for forms of the holder of `secret`, for example of a session (protection against CSRF).
    pub fn form_token(&self, secret: &str) -> String {
        self.newest(|keys| URL_SAFE_NO_PAD.encode(mac_of(&keys.forms, &[secret.as_bytes()])))
    }

    /// Returns `true` if the token is that of the holder of `secret`. Compares in constant time.
    pub fn is_form_token(&self, secret: &str, token: &str) -> bool {
        self.is_mac(|keys| &keys.forms, secret, token)
    }

    /// Returns `true` if `code` is the code of `text` under one of the keys that `select` selects.
    fn is_mac(&self, select: impl Fn(&DerivedKeys) -> &[u8; 32], text: &str, code: &str) -> bool {
        let Ok(code) = URL_SAFE_NO_PAD.decode(code) else { return false };
        self.all().iter().any(|keys| mac(select(keys), &[text.as_bytes()]).verify_slice(&code).is_ok())
    }

    /// Returns an entity tag over these texts that only this server can produce.
    pub fn entity_tag(&self, texts: &[&str]) -> String {
        let lengths: Vec<[u8; 8]> = texts.iter().map(|text| (text.len() as u64).to_be_bytes()).collect();
        let mut chunks: Vec<&[u8]> = Vec::with_capacity(texts.len() * 2);
        for (length, text) in lengths.iter().zip(texts) {
            chunks.push(length);
            chunks.push(text.as_bytes());
        }
        let digest = self.newest(|keys| mac_of(&keys.tags, &chunks));
        format!("\"{}\"", HEXLOWER.encode(&digest[..16]))
    }
}

#[expect(clippy::expect_used, reason = "HMAC accepts keys of any length (RFC 2104 §2)")]
fn mac(key: &[u8; 32], chunks: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("a key of any length");
    for chunk in chunks {
        mac.update(chunk);
    }
    mac
}

fn mac_of(key: &[u8; 32], chunks: &[&[u8]]) -> [u8; 32] {
    mac(key, chunks).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::ServerKeys;

    #[test]
    fn sealed_texts_open_only_as_they_were_sealed() {
        let keys = ServerKeys::from_secret([7; 32]);
        let token = keys.seal([1; 24], "branches|1", b"main");
        assert_eq!(keys.open("branches|1", &token).as_deref(), Some(&b"main"[..]));
        assert_eq!(keys.open("branches|2", &token), None);
        assert_eq!(ServerKeys::from_secret([8; 32]).open("branches|1", &token), None);
        assert_eq!(keys.open("branches|1", &token[1..]), None);
        assert_eq!(keys.open("branches|1", ""), None);
        assert_ne!(token, keys.seal([2; 24], "branches|1", b"main"));
    }

    #[test]
    fn signatures_are_checked() {
        let keys = ServerKeys::from_secret([7; 32]);
        let signature = keys.sign_part("a|1|2");
        assert!(keys.part_signed("a|1|2", &signature));
        assert!(!keys.part_signed("a|1|3", &signature));
        assert!(!keys.part_signed("a|1|2", ""));
        assert!(!keys.part_signed("a|1|2", "!"));
    }

    #[test]
    fn forms_are_for_one_session() {
        let keys = ServerKeys::from_secret([7; 32]);
        let token = keys.form_token("ann's session");
        assert!(keys.is_form_token("ann's session", &token));
        assert!(!keys.is_form_token("bob's session", &token));
        assert!(!ServerKeys::from_secret([8; 32]).is_form_token("ann's session", &token));
        assert!(!keys.is_form_token("ann's session", "") && !keys.is_form_token("ann's session", "!"));
    }

    #[test]
    fn tags_do_not_run_together() {
        let keys = ServerKeys::from_secret([7; 32]);
        assert_ne!(keys.entity_tag(&["a", "bc"]), keys.entity_tag(&["ab", "c"]));
    }

    #[test]
    fn nothing_prints_the_keys() {
        assert_eq!(format!("{:?}", ServerKeys::from_secret([7; 32])), "ServerKeys([redacted])");
    }

    #[test]
    fn what_an_older_key_of_the_ring_made_stays_valid() {
        let old = ServerKeys::from_secret([7; 32]);
        let (page, part, form) = (old.seal([1; 24], "b", b"main"), old.sign_part("a|1"), old.form_token("ann"));
        let keys = old.clone();
        let is_valid =
            || (keys.open("b", &page).is_some(), keys.part_signed("a|1", &part), keys.is_form_token("ann", &form));
        old.replace(&[9; 32], &[[8; 32], [7; 32]]);
        assert_eq!(is_valid(), (true, true, true), "clones share their keys");
        let newest = ServerKeys::from_secret([9; 32]);
        assert_eq!(newest.form_token("ann"), keys.form_token("ann"));
        assert_eq!(newest.sign_part("a|1"), keys.sign_part("a|1"));
        assert_eq!(newest.entity_tag(&["a"]), keys.entity_tag(&["a"]));
        assert_eq!(newest.open("b", &keys.seal([2; 24], "b", b"x")).as_deref(), Some(&b"x"[..]));
        old.replace(&[9; 32], &[[8; 32]]);
        assert_eq!(is_valid(), (false, false, false), "the key was removed");
    }
}
