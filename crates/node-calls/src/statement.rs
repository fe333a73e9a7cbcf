//! What a call says of itself, in the header [`HEADER`], and what its signature covers.

use std::net::IpAddr;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::key::CallKey;
use crate::nonces::Nonce;

/// The header with the statement and its signature: words that are separated by spaces.
pub(crate) const HEADER: &str = "branchyard-call";
/// The first word of the header.
const VERSION: &str = "v1";
/// Number of seconds by which the clocks of two nodes may differ.
pub(crate) const LEEWAY_SECONDS: i64 = 60;
/// Stands for an address that is not known.
const UNKNOWN: &str = "-";

/// The SHA-256 of a body.
pub(crate) type BodyHash = [u8; 32];

/// What a call says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// The node that makes the call.
    pub(crate) node: String,
    /// When it was made, in seconds since 1970.
    pub(crate) at: i64,
    pub(crate) nonce: Nonce,
    pub(crate) body: BodyHash,
    /// The address of the client on whose behalf it is made.
    pub(crate) caller: Option<IpAddr>,
}

/// The parts of a request that a signature covers besides the statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoveredRequest<'a> {
    pub(crate) method: &'a str,
    /// Path and query as they are sent.
    pub(crate) target: &'a str,
    pub(crate) request_id: &'a str,
    /// The value of `Authorization`.
    pub(crate) credential: Option<&'a [u8]>,
}

impl Statement {
    fn words(&self) -> String {
        let caller = self.caller.map_or_else(|| UNKNOWN.to_owned(), |caller| caller.to_string());
        let (nonce, body) = (HEXLOWER.encode(&self.nonce), HEXLOWER.encode(&self.body));
        format!("{VERSION} {} {} {nonce} {body} {caller}", self.node, self.at)
    }

    /// No part contains a line feed, so no two calls have the same text.
    fn signed_text(words: &str, request: CoveredRequest<'_>) -> String {
        let CoveredRequest { method, target, request_id, credential } = request;
        // An absent credential differs from an empty one.
        let credential = credential.map_or_else(String::new, |value| HEXLOWER.encode(&Sha256::digest(value)));
        format!("{words}\n{method}\n{target}\n{request_id}\n{credential}")
    }

    /// Returns the value of the header.
    pub(crate) fn sign(&self, key: &CallKey, request: CoveredRequest<'_>) -> String {
        let words = self.words();
        let code = HEXLOWER.encode(&key.sign(&Self::signed_text(&words, request)));
        format!("{words} {code}")
    }

    /// Returns the statement of a header if the key has signed it for this request.
    pub(crate) fn verify(header: &str, key: &CallKey, request: CoveredRequest<'_>) -> Option<Self> {
        let (words, code) = header.rsplit_once(' ')?;
        let code = HEXLOWER.decode(code.as_bytes()).ok()?;
        if !key.has_signed(&Self::signed_text(words, request), &code) {
            return None;
        }
        let [VERSION, node, at, nonce, body, caller] = *words.split(' ').collect::<Vec<_>>() else { return None };
        Some(Self {
            node: node.to_owned(),
            at: at.parse().ok()?,
            nonce: HEXLOWER.decode(nonce.as_bytes()).ok()?.try_into().ok()?,
            body: HEXLOWER.decode(body.as_bytes()).ok()?.try_into().ok()?,
            caller: match caller {
                UNKNOWN => None,
                address => Some(address.parse().ok()?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: CoveredRequest<'_> = CoveredRequest {
        method: "POST",
        target: "/_cluster/ada/d/chunks?x=1",
        request_id: "req_1",
        credential: Some(b"Bearer x"),
    };

    fn statement() -> Statement {
        let caller = Some("203.0.113.9".parse().unwrap());
        Statement { node: "first".to_owned(), at: 1_764_000_000, nonce: [1; 16], body: [2; 32], caller }
    }

    #[test]
    fn what_was_signed_is_what_is_read() {
        let key = CallKey::derive(&[7; 32]);
        for said in [statement(), Statement { caller: None, ..statement() }] {
            let header = said.sign(&key, REQUEST);
            assert_eq!(Statement::verify(&header, &key, REQUEST), Some(said));
        }
    }

    #[test]
    fn a_change_of_any_part_is_found() {
        let key = CallKey::derive(&[7; 32]);
        let header = statement().sign(&key, REQUEST);
        assert_eq!(Statement::verify(&header, &CallKey::derive(&[8; 32]), REQUEST), None);
        for changed in [
            CoveredRequest { method: "PUT", ..REQUEST },
            CoveredRequest { target: "/_cluster/ada/d/chunks?x=2", ..REQUEST },
            CoveredRequest { request_id: "req_2", ..REQUEST },
            CoveredRequest { credential: Some(b"Bearer y"), ..REQUEST },
            CoveredRequest { credential: Some(b""), ..REQUEST },
            CoveredRequest { credential: None, ..REQUEST },
        ] {
            assert_eq!(Statement::verify(&header, &key, changed), None, "{changed:?}");
        }
        for position in 0..header.len() {
            let mut bytes = header.clone().into_bytes();
            bytes[position] = if bytes[position] == b'1' { b'2' } else { b'1' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(Statement::verify(&changed, &key, REQUEST), None, "{changed}");
        }
        assert_eq!(Statement::verify("", &key, REQUEST), None);
    }
}
