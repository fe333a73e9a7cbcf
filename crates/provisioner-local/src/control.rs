//! The control channel between the server and a process of an instance: lines of JSON on a Unix socket in the folder
//! `run`.
//!
//! The process listens and the server connects. Each side first proves that it knows the secret of the instance. Then
//! both sides send requests and replies, which are matched by number.

pub(crate) mod server;

use std::collections::BTreeMap;

use branchyard_deployments::ports::{Authorized, SqlCaller};
use branchyard_domain::ports::SqlPower;
use branchyard_domain::values::{AccountId, Timestamp};
use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// Maximum length of a line in bytes.
pub(crate) const LONGEST_LINE: usize = 1 << 20;

/// The first line of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) nonce: String,
}

/// The first line of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) nonce: String,
    pub(crate) proof: String,
    pub(crate) instance: String,
    pub(crate) process: u32,
    pub(crate) port: u16,
    pub(crate) version: String,
}

/// The second line of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Proof {
    pub(crate) proof: String,
}

/// A side of the channel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ControlSide {
    Server,
    Process,
}

/// Returns the proof that a side sends for the nonce of the other side.
pub(crate) fn proof(secret: &[u8; 32], side: ControlSide, nonce: &str) -> String {
    let word: &[u8] = match side {
        ControlSide::Server => b"server ",
        ControlSide::Process => b"process ",
    };
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(word);
    mac.update(nonce.as_bytes());
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

/// Returns `true` if the proof of a side is correct. Compares in constant time.
pub(crate) fn proves(secret: &[u8; 32], side: ControlSide, nonce: &str, shown: &str) -> bool {
    let expected = proof(secret, side, nonce);
    !expected.is_empty() && bool::from(expected.as_bytes().ct_eq(shown.as_bytes()))
}

/// A message from the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromServer {
    /// A request that needs a reply.
    ControlRequest { id: u64, ask: ControlRequest },
    /// The result of a caller check.
    Verified { id: u64, outcome: CallerOutcome },
}

/// A request from the server to the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlRequest {
    Ping,
    Apply {
        settings: BTreeMap<String, String>,
        /// Settings with a lower revision than those in force are ignored. A server of an earlier version sends none.
        #[serde(default)]
        revision: Option<i64>,
    },
    ForgetCallers,
    Sample,
    /// Refuse new requests, finish running ones, and end.
    Drain,
    /// Adopt a finished file of the folder `incoming` as a database.
    CreateDatabase {
        operation: String,
        name: String,
        database: String,
        file: String,
    },
    DropDatabase {
        operation: String,
        name: String,
    },
}

/// A message from the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromProcess {
    Done {
        id: u64,
        answer: ControlReply,
    },
    /// Check a caller.
    Verify {
        id: u64,
        token: String,
        address: Option<String>,
    },
    /// The process serves requests.
    Ready,
    /// The volume became full, or has room again.
    VolumeFull {
        full: bool,
    },
}

/// The reply of the process to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlReply {
    Fine,
    Refused { why: String },
    Sample { sample: BTreeMap<String, f64> },
}

/// The result of a caller check.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerOutcome {
    Caller {
        user: String,
        name: String,
        email: String,
        power: Power,
        expires_at: Option<i64>,
    },
    BadToken,
    NoRole,
    /// The database that the deployment was cloned from is quarantined.
    Withheld,
    /// The check could not be made now.
    Unknown,
}

/// [`SqlPower`] on the channel.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Power {
    Read,
    Write,
    Admin,
}

impl From<Authorized> for CallerOutcome {
    fn from(authorized: Authorized) -> Self {
        match authorized {
            Authorized::Caller(caller) => Self::Caller {
                user: caller.user.to_string(),
                name: caller.name,
                email: caller.email,
                power: match caller.power {
                    SqlPower::Read => Power::Read,
                    SqlPower::Write => Power::Write,
                    SqlPower::Admin => Power::Admin,
                },
                expires_at: caller.expires_at.map(Timestamp::as_micros),
            },
            Authorized::BadToken => Self::BadToken,
            Authorized::NoRole => Self::NoRole,
            Authorized::Withheld => Self::Withheld,
        }
    }
}

impl CallerOutcome {
    /// Returns `None` if the check could not be made.
    pub(crate) fn authorized(self) -> Option<Authorized> {
        Some(match self {
            Self::Caller { user, name, email, power, expires_at } => Authorized::Caller(SqlCaller {
                user: AccountId::from_uuid(Uuid::try_parse(&user).ok()?),
                name,
                email,
                power: match power {
                    Power::Read => SqlPower::Read,
                    Power::Write => SqlPower::Write,
                    Power::Admin => SqlPower::Admin,
                },
                expires_at: expires_at.map(Timestamp::from_micros),
            }),
            Self::BadToken => Authorized::BadToken,
            Self::NoRole => Authorized::NoRole,
            Self::Withheld => Authorized::Withheld,
            Self::Unknown => return None,
        })
    }
}

/// Serializes a message as a line.
pub(crate) fn to_line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut line = Vec::new();
    crate::hrana::values::append(&mut line, message);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_proves_itself_and_not_the_other() {
        let secret = [3; 32];
        let shown = proof(&secret, ControlSide::Server, "n");
        assert!(proves(&secret, ControlSide::Server, "n", &shown));
        assert!(!proves(&secret, ControlSide::Process, "n", &shown));
        assert!(!proves(&secret, ControlSide::Server, "m", &shown));
        assert!(!proves(&[4; 32], ControlSide::Server, "n", &shown));
        assert!(!proves(&secret, ControlSide::Server, "n", ""));
    }

    #[test]
    fn callers_go_through_the_channel() {
        let caller = Authorized::Caller(SqlCaller {
            user: AccountId::from_uuid(Uuid::from_u128(5)),
            name: "ada".into(),
            email: String::new(),
            power: SqlPower::Admin,
            expires_at: Some(Timestamp::from_seconds(9)),
        });
        for authorized in [caller, Authorized::BadToken, Authorized::NoRole, Authorized::Withheld] {
            let line = to_line(&CallerOutcome::from(authorized.clone()));
            let back: CallerOutcome = serde_json::from_slice(&line).unwrap();
            assert_eq!(back.authorized(), Some(authorized));
        }
        assert_eq!(CallerOutcome::Unknown.authorized(), None);
    }
}
