//! Signatures: Standard Webhooks v1, and the older form, a digest of the body alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::entities::HookSecret;
use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Prefix of secrets.
const PREFIX: &str = "whsec_";

/// Returns the value of `webhook-signature`: one signature for each secret, in their order. A malformed secret adds no
/// signature.
pub fn webhook_signature(secrets: &[HookSecret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let timestamp = timestamp.to_string();
    let sign = |secret: &HookSecret| {
        let key = STANDARD.decode(secret.expose().strip_prefix(PREFIX)?).ok()?;
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        Some(format!("v1,{}", STANDARD.encode(mac(&key, &parts))))
    };
    secrets.iter().filter_map(sign).collect::<Vec<_>>().join(" ")
}

/// Returns the value of `X-Hub-Signature-256`, which is keyed with the text of the secret. The signature covers neither
/// the id nor the timestamp.
pub fn hub_signature(secret: &HookSecret, body: &[u8]) -> String {
    let digest = mac(secret.expose().as_bytes(), &[body]);
    format!("sha256={}", HEXLOWER.encode(&digest))
}

/// Returns the HMAC-SHA256 of the parts.
#[expect(clippy::expect_used, reason = "HMAC accepts keys of any length (RFC 2104 §2)")]
fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use branchyard_domain::entities::HookSecret;
    use data_encoding::HEXLOWER;
    use sha2::{Digest as _, Sha256};

    use super::{hub_signature, webhook_signature};

    const BODY: &str = r#"{"event_name":"push","ref":"refs/heads/main","head":"3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1","prev":"a91e07c4d2b85f3360e7f1c9d4a8b25e7703fc16","repository":{"name":"trees","owner":"ana"}}"#;
    const ID: &str = "019b7ca9-8c88-7e21-9f04-3b2a1c0d9e8f";
    const AT: i64 = 1_767_323_045;

    fn secrets() -> [HookSecret; 2] {
        ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="]
            .map(|text| HookSecret::from_text(text.to_owned()))
    }

    #[test]
    fn the_vector_of_the_contract() {
        let digest = HEXLOWER.encode(&Sha256::digest(BODY));
        assert_eq!(digest, "e17842cb9b7867c47093c48d2f5ee36c7e4b509001d53ece5025ae22e7ba080b");
        let [current, previous] = secrets();
        assert_eq!(
            webhook_signature(std::slice::from_ref(&current), ID, AT, BODY.as_bytes()),
            "v1,lmw5r8BXitG8EHo1znWcr4ix5eirKBa+44eqy2elaWo="
        );
        assert_eq!(
            webhook_signature(&[current.clone(), previous], ID, AT, BODY.as_bytes()),
            "v1,lmw5r8BXitG8EHo1znWcr4ix5eirKBa+44eqy2elaWo= v1,S3GTJIkN4HguOhY0EhMBfRTRF5EOWK7rZb18UOi2nvk="
        );
        assert_eq!(
            hub_signature(&current, BODY.as_bytes()),
            "sha256=16bdc1d1de2b1ae78a0c8337842eb20c58d8ded95db808c90aae88c685385f26"
        );
    }

    #[test]
    fn what_is_no_secret_signs_nothing() {
        let [good, _] = secrets();
        let bad = |text: &str| HookSecret::from_text(text.to_owned());
        let both = webhook_signature(&[bad("whsec_*"), bad("AAEC"), good.clone()], ID, AT, b"x");
        assert_eq!(both, webhook_signature(&[good], ID, AT, b"x"));
    }
}
