//! Batons, with which a client continues its stream. They are opaque to the client, and authenticated with a key of the
//! instance.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use branchyard_domain::values::{AccountId, DatabaseId, Timestamp};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use uuid::Uuid;

/// Time during which a clean baton opens a new stream after its own stream has ended. Counted from the issue of the
/// baton: the stream ends at most an idle timeout later, which is short compared with a day.
const CLEAN_FOR: Duration = Duration::from_secs(24 * 3600);
const BODY: usize = 1 + 16 + 8 + 16 + 16 + 8 + 1;
const MAC: usize = 32;

/// The content of a baton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Baton {
    pub(crate) stream: Uuid,
    /// Number of answers on the stream.
    pub(crate) sequence: u64,
    pub(crate) user: AccountId,
    pub(crate) database: DatabaseId,
    pub(crate) issued_at: Timestamp,
    /// Whether a new stream may replace this one.
    pub(crate) clean: bool,
}

impl Baton {
    /// Returns `true` if the baton opens a new stream when its own stream is gone.
    pub(crate) fn renews(&self, now: Timestamp) -> bool {
        let age = now.as_micros().saturating_sub(self.issued_at.as_micros());
        self.clean && u128::try_from(age).is_ok_and(|age| age <= CLEAN_FOR.as_micros())
    }
}

/// The key that authenticates the batons of an instance.
pub(crate) struct BatonKey([u8; 32]);

impl std::fmt::Debug for BatonKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BatonKey([redacted])")
    }
}

impl BatonKey {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    pub(crate) fn seal(&self, baton: &Baton) -> String {
        let mut bytes = Vec::with_capacity(BODY + MAC);
        bytes.push(1);
        bytes.extend_from_slice(baton.stream.as_bytes());
        bytes.extend_from_slice(&baton.sequence.to_be_bytes());
        bytes.extend_from_slice(baton.user.as_uuid().as_bytes());
        bytes.extend_from_slice(baton.database.as_uuid().as_bytes());
        bytes.extend_from_slice(&baton.issued_at.as_micros().to_be_bytes());
        bytes.push(u8::from(baton.clean));
        let mac = self.mac(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&mac);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the content of a baton. Returns `None` if the baton was not sealed with this key.
    pub(crate) fn open(&self, text: &str) -> Option<Baton> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (body, mac) = bytes.split_at_checked(BODY)?;
        self.mac(body).verify_slice(mac).ok()?;
        let [1, rest @ ..] = body else { return None };
        let (stream, rest) = rest.split_first_chunk::<16>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (user, rest) = rest.split_first_chunk::<16>()?;
        let (database, rest) = rest.split_first_chunk::<16>()?;
        let (issued_at, rest) = rest.split_first_chunk::<8>()?;
        Some(Baton {
            stream: Uuid::from_bytes(*stream),
            sequence: u64::from_be_bytes(*sequence),
            user: AccountId::from_uuid(Uuid::from_bytes(*user)),
            database: DatabaseId::from_uuid(Uuid::from_bytes(*database)),
            issued_at: Timestamp::from_micros(i64::from_be_bytes(*issued_at)),
            clean: rest == [1],
        })
    }

    #[expect(clippy::expect_used, reason = "HMAC accepts keys of any length (RFC 2104 §2)")]
    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        mac.update(bytes);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baton() -> Baton {
        Baton {
            stream: Uuid::from_u128(7),
            sequence: 3,
            user: AccountId::from_uuid(Uuid::from_u128(8)),
            database: DatabaseId::from_uuid(Uuid::from_u128(9)),
            issued_at: Timestamp::from_seconds(1_000_000),
            clean: true,
        }
    }

    #[test]
    fn only_its_own_key_opens_a_baton() {
        let key = BatonKey::new([1; 32]);
        let text = key.seal(&baton());
        assert_eq!(key.open(&text), Some(baton()));
        assert_eq!(BatonKey::new([2; 32]).open(&text), None);
        for at in 0..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(key.open(&String::from_utf8(forged).unwrap()), None, "{at}");
            assert_eq!(key.open(&text[..at]), None);
        }
        assert_eq!(key.open(""), None);
        assert_eq!(format!("{key:?}"), "BatonKey([redacted])");
    }

    #[test]
    fn a_clean_baton_renews_for_a_day() {
        let at = |seconds: i64| Timestamp::from_seconds(1_000_000 + seconds);
        assert!(baton().renews(at(0)) && baton().renews(at(86_400)));
        assert!(!baton().renews(at(86_401)));
        assert!(!Baton { clean: false, ..baton() }.renews(at(0)));
        // The clock was set back.
        assert!(!baton().renews(at(-10)));
    }
}
