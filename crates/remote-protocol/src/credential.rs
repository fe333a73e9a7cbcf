//! Credentials: tokens that a client signs with its key, a new one for each request (RFC 7519, RFC 8037).

use branchyard_auth::{PublicKey, RemoteKeyId, RemoteKeyPair, SIGNATURE_BYTES};
use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

/// Maximum length of a credential, in bytes.
pub const LONGEST_CREDENTIAL: usize = 4_096;
/// Time that a credential is good for, in seconds.
const LIFETIME: i64 = 30;
/// Difference between the clocks of a client and a server that is accepted, in seconds.
const CLOCK_DIFFERENCE: i64 = 60;
/// Version of the tokens.
const VERSION: &str = "2023.01";
const ISSUER: &str = "dolt-client.dolthub.com";
/// What a subject begins with, before the id of the key.
const SUBJECT: &str = "doltClientCredentials/";

/// Why a credential is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
pub enum CredentialError {
    /// It is no token of a client.
    Malformed,
    /// It was made for another server.
    Audience,
    /// It is too old, or from the future.
    Time,
    /// It was signed with another key, or changed.
    Signature,
}

impl CredentialError {
    /// Returns the reason, worded for the client.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "the credential is not a token that a DoltLite client signed",
            Self::Audience => {
                "the credential was made for another server; use the address that this server's pages have (public_url)"
            }
            Self::Time => "the credential is not valid at this time; check the clock of your machine",
            Self::Signature => "the signature of the credential does not fit its key",
        }
    }
}

/// A credential that was parsed. Nothing of it is true before [`Credential::verify`] has said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    key: RemoteKeyId,
    signed: String,
    signature: Vec<u8>,
    audiences: Vec<String>,
    issued: i64,
    expires: i64,
}

impl Credential {
    /// Returns `true` if a text looks like a credential, and not like another kind of token.
    #[must_use]
    pub fn looks_like(text: &str) -> bool {
        // A JSON object in base64url begins so.
        text.starts_with("eyJ")
    }

    /// Parses a credential.
    ///
    /// # Errors
    /// [`CredentialError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, CredentialError> {
        if text.len() > LONGEST_CREDENTIAL {
            return Err(CredentialError::Malformed);
        }
        Self::parsed(text).ok_or(CredentialError::Malformed)
    }

    fn parsed(text: &str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).ok();
        let object = |part: &str| serde_json::from_slice::<Value>(&decode(part)?).ok().filter(Value::is_object);
        let (header, claims) = (object(header)?, object(claims)?);
        let signature = decode(signature).filter(|signature| signature.len() == SIGNATURE_BYTES)?;
        let text_of = |object: &Value, name: &str| object.get(name)?.as_str().map(str::to_owned);
        let is = |object: &Value, name: &str, expected: &str| text_of(object, name).as_deref() == Some(expected);
        let key = RemoteKeyId::parse(&text_of(&header, "kid")?).ok()?;
        let is_right = is(&header, "alg", "EdDSA")
            && is(&header, "dolt_token_version", VERSION)
            && is(&claims, "iss", ISSUER)
            && is(&claims, "sub", &format!("{SUBJECT}{key}"));
        let audiences = claims.get("aud")?.as_array()?.iter().map(|one| one.as_str().map(str::to_owned));
        let audiences = audiences.collect::<Option<Vec<_>>>()?;
        let time = |name: &str| claims.get(name).and_then(Value::as_i64);
        let (issued, expires) = (time("iat")?, time("exp")?);
        is_right.then(|| Self { key, signed: signed.to_owned(), signature, audiences, issued, expires })
    }

    /// Returns the id of the key that the credential claims to be signed with.
    #[must_use]
    pub fn key(&self) -> &RemoteKeyId {
        &self.key
    }

    /// Checks the credential for a server that is reached as one of `hosts`, at a time in seconds since the start of 1970.
    ///
    /// # Errors
    /// [`CredentialError::Audience`]; [`CredentialError::Time`]; [`CredentialError::Signature`].
    pub fn verify<'h>(
        &self,
        key: &PublicKey,
        hosts: impl IntoIterator<Item = &'h str>,
        now: i64,
    ) -> Result<(), CredentialError> {
        let is_for = |host: &str| self.audiences.iter().any(|audience| audience.eq_ignore_ascii_case(host));
        if !hosts.into_iter().any(is_for) {
            return Err(CredentialError::Audience);
        }
        let is_timely = self.issued <= now.saturating_add(CLOCK_DIFFERENCE)
            && self.expires >= now.saturating_sub(CLOCK_DIFFERENCE)
            && self.expires.checked_sub(self.issued).is_some_and(|life| (0..=LIFETIME).contains(&life));
        if !is_timely {
            return Err(CredentialError::Time);
        }
        if key.id() == self.key && key.verify(self.signed.as_bytes(), &self.signature) {
            Ok(())
        } else {
            Err(CredentialError::Signature)
        }
    }

    /// Signs a credential for a request to `host`, without its port, at a time in seconds since the start of 1970.
    #[must_use]
    pub fn sign(pair: &RemoteKeyPair, host: &str, now: i64) -> String {
        let key = pair.public().id();
        let header = format!(r#"{{"alg":"EdDSA","kid":"{key}","dolt_token_version":"{VERSION}"}}"#);
        let (host, expires) = (Value::from(host), now.saturating_add(LIFETIME));
        let claims =
            format!(r#"{{"iss":"{ISSUER}","sub":"{SUBJECT}{key}","aud":[{host}],"iat":{now},"exp":{expires}}}"#);
        let encode = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
        let signature = encode(&pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

#[cfg(test)]
mod tests {
    use branchyard_auth::SEED_BYTES;

    use super::*;

    const NOW: i64 = 1_767_323_045;
    /// The published example.
    const EXAMPLE: &str = "eyJhbGciOiJFZERTQSIsImtpZCI6IjdrdTFjZ2Q3dWprY3JpNXU0c21tcnNycGNwM2Vqc21nYzl0N28zZGtkYmFycyIsImRvbHRfdG9rZW5fdmVyc2lvbiI6IjIwMjMuMDEifQ.eyJpc3MiOiJkb2x0LWNsaWVudC5kb2x0aHViLmNvbSIsInN1YiI6ImRvbHRDbGllbnRDcmVkZW50aWFscy83a3UxY2dkN3Vqa2NyaTV1NHNtbXJzcnBjcDNlanNtZ2M5dDdvM2RrZGJhcnMiLCJhdWQiOlsieWFyZC5leGFtcGxlIl0sImlhdCI6MTc2NzMyMzA0NSwiZXhwIjoxNzY3MzIzMDc1fQ.dyBfDQX-dZuAR91jaNXZZEHZA-NnlOEICQIF8gUNoglXEy1WkEU2hNcDNIYG7Zt37d10AblosvOAeBfFnQunDg";

    fn pair() -> RemoteKeyPair {
        let mut seed = [0; SEED_BYTES];
        (0..).zip(&mut seed).for_each(|(number, byte)| *byte = number);
        RemoteKeyPair::from_seed(&seed).unwrap()
    }

    fn verify(text: &str, now: i64) -> Result<(), CredentialError> {
        Credential::parse(text)?.verify(&pair().public(), ["other.example", "Yard.Example"], now)
    }

    /// Signs a header and claims as they are.
    fn signed(header: &str, claims: &str) -> String {
        let encode = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let signed = format!("{}.{}", encode(header), encode(claims));
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&pair().sign(signed.as_bytes())))
    }

    fn parts() -> (String, String) {
        let decoded = |part: &str| String::from_utf8(BASE64URL_NOPAD.decode(part.as_bytes()).unwrap()).unwrap();
        let mut parts = EXAMPLE.split('.');
        (decoded(parts.next().unwrap()), decoded(parts.next().unwrap()))
    }

    #[test]
    fn the_published_example_is_signed_and_verified() {
        assert_eq!(Credential::sign(&pair(), "yard.example", NOW), EXAMPLE);
        assert!(Credential::looks_like(EXAMPLE) && !Credential::looks_like("hsat.v1.x"));
        assert_eq!(verify(EXAMPLE, NOW), Ok(()));
        let (header, claims) = parts();
        assert_eq!(signed(&header, &claims), EXAMPLE);
    }

    #[test]
    fn times_are_kept_with_a_minute_of_difference() {
        for (now, expected) in [
            (NOW - 61, Err(CredentialError::Time)),
            (NOW - 60, Ok(())),
            (NOW + 90, Ok(())),
            (NOW + 91, Err(CredentialError::Time)),
        ] {
            assert_eq!(verify(EXAMPLE, now), expected, "{now}");
        }
        let (header, claims) = parts();
        for (expires, expected) in
            [(NOW + 31, Err(CredentialError::Time)), (NOW, Ok(())), (NOW - 1, Err(CredentialError::Time))]
        {
            let claims = claims.replace("1767323075", &expires.to_string());
            assert_eq!(verify(&signed(&header, &claims), NOW), expected, "{expires}");
        }
    }

    #[test]
    fn other_servers_keys_and_contents_are_refused() {
        let other = RemoteKeyPair::from_seed(&[7; SEED_BYTES]).unwrap();
        let parsed = Credential::parse(EXAMPLE).unwrap();
        assert_eq!(parsed.verify(&pair().public(), ["yard.example.org"], NOW), Err(CredentialError::Audience));
        assert_eq!(parsed.verify(&other.public(), ["yard.example"], NOW), Err(CredentialError::Signature));
        let foreign = Credential::sign(&other, "yard.example", NOW);
        assert_eq!(verify(&foreign, NOW), Err(CredentialError::Signature));
        let (header, claims) = parts();
        let changed = signed(&header, &claims.replace("1767323045", "1767323046"));
        let (start, _) = changed.rsplit_once('.').unwrap();
        let (_, signature) = EXAMPLE.rsplit_once('.').unwrap();
        assert_eq!(verify(&format!("{start}.{signature}"), NOW), Err(CredentialError::Signature));
    }

    #[test]
    fn only_the_exact_form_is_a_credential() {
        let (header, claims) = parts();
        let more = claims.replacen('{', r#"{"jti":"1","#, 1);
        assert_eq!(verify(&signed(&header.replacen('{', r#"{"typ":"JWT","#, 1), &more), NOW), Ok(()));
        for (header, claims) in [
            (header.replace("EdDSA", "none"), claims.clone()),
            (header.replace("2023.01", "2024.01"), claims.clone()),
            (header.replace("kid", "key"), claims.clone()),
            (header.clone(), claims.replace("dolt-client", "client")),
            (header.clone(), claims.replace("doltClientCredentials/", "")),
            (header.clone(), claims.replace(r#"["yard.example"]"#, r#""yard.example""#)),
            (header.clone(), claims.replace("1767323045", "1767323045.5")),
            (header.clone(), claims.replace("1767323045", r#""1767323045""#)),
            (header.clone(), format!("[{claims}]")),
        ] {
            assert_eq!(verify(&signed(&header, &claims), NOW), Err(CredentialError::Malformed), "{header} {claims}");
        }
        let long = signed(&header, &more.replace("\"1\"", &format!("\"{}\"", "1".repeat(LONGEST_CREDENTIAL))));
        for text in ["", "a.b", "a.b.c", &format!("{EXAMPLE}=="), &format!("{EXAMPLE}."), &EXAMPLE[1..], &long] {
            assert_eq!(Credential::parse(text), Err(CredentialError::Malformed), "{text}");
        }
    }
}
