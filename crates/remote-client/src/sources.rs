//! The databases that mirrors follow.

use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use branchyard_auth::RemoteKeyPair;
use branchyard_domain::ports::{
    AddressError, Clock, HeldChunks, RemoteSources, SourceConnection, SourceError, SourceRefs, SourceTag, TakeChunks,
};
use branchyard_domain::values::{ChunkHash, CommitHash};
use branchyard_egress::{Egress, Verdict, literal, never_opened};
use branchyard_remote_protocol::Hash;

use crate::client::{Presence, Remote, RemoteLimits};
use crate::error::RemoteError;
use crate::io::Io;
use crate::url::RemoteUrl;

/// Maximum time for opening a connection.
const CONNECT: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("Branchyard-Mirror/", env!("CARGO_PKG_VERSION"));

/// Settings of the requests to sources.
#[derive(Clone)]
pub struct SourceOptions {
    /// The way out.
    pub egress: Egress,
    /// The time for credentials.
    pub clock: Arc<dyn Clock>,
    /// Limits of what a source may send.
    pub limits: RemoteLimits,
}

/// Reads sources over HTTP.
pub struct HttpRemoteSources {
    options: SourceOptions,
    /// Created on first use: servers without mirrors need neither the thread nor the root certificates of the system.
    io: OnceLock<Option<Io>>,
}

impl HttpRemoteSources {
    /// Returns the way to sources under these settings.
    pub fn new(options: SourceOptions) -> Self {
        Self { options, io: OnceLock::new() }
    }

    fn io(&self) -> Option<&Io> {
        let make = || {
            let client = |encrypted| {
                self.options.egress.client(encrypted).user_agent(USER_AGENT).connect_timeout(CONNECT).build()
            };
            let io = client(true).and_then(|encrypted| Ok((encrypted, client(false)?)));
            let io = io.map_err(|error| tracing::error!(%error, "cannot build the TLS clients for mirrors")).ok()?;
            let io = Io::start(io.0, io.1);
            io.map_err(|error| tracing::error!(%error, "cannot start the thread for mirrors")).ok()
        };
        self.io.get_or_init(make).as_ref()
    }

    fn checked(&self, text: &str) -> Result<RemoteUrl, AddressError> {
        let url = RemoteUrl::parse(text).map_err(|error| AddressError::Invalid(error.to_string()))?;
        let egress = &self.options.egress;
        let address = literal(url.url());
        if !url.is_secure() && !egress.may_be_plain(url.url()) {
            return Err(AddressError::Invalid(match address.and_then(never_opened) {
                Some(what) => format!("must begin with https://; {what} are never allowed"),
                None => {
                    "must begin with https://, except in networks that the operator of this server opened to mirrors"
                        .to_owned()
                }
            }));
        }
        match address {
            Some(address) if egress.policy().verdict(address) == Verdict::Refused => {
                Err(AddressError::Refused(match never_opened(address) {
                    Some(what) => {
                        format!("{what} are never allowed for mirrors, and the operator of this server cannot open them")
                    }
                    None => "the address is in a network that mirrors may not reach; the operator of this server can open it"
                        .to_owned(),
                }))
            }
            _ => Ok(url),
        }
    }
}

impl RemoteSources for HttpRemoteSources {
    fn check(&self, url: &str) -> Result<String, AddressError> {
        self.checked(url).map(|url| url.as_str().to_owned())
    }

    fn connect(&self, url: &str, key: Arc<RemoteKeyPair>) -> Result<Box<dyn SourceConnection + '_>, SourceError> {
        let url =
            self.checked(url).map_err(|error| SourceError::Source(format!("the address is not accepted: {error}")))?;
        let io = self.io().ok_or_else(|| SourceError::Source("this server cannot make requests".to_owned()))?;
        Ok(Box::new(HttpConnection(Remote::new(
            io,
            url,
            Some(key),
            Arc::clone(&self.options.clock),
            self.options.limits,
        ))))
    }

    fn abort(&self) {
        if let Some(io) = self.io.get_or_init(|| None) {
            io.abort();
        }
    }
}

struct HttpConnection<'a>(Remote<'a>);

impl SourceConnection for HttpConnection<'_> {
    fn refs(&mut self) -> Result<SourceRefs, SourceError> {
        let refs = self.0.refs().map_err(source_error)?;
        let commit = |hash: Hash| ChunkHash::from_bytes(hash).as_commit();
        let tag = |tag: branchyard_remote_protocol::TagEntry| SourceTag {
            name: tag.name,
            commit: commit(tag.commit),
            tagger: tag.tagger,
            email: tag.email,
            seconds: tag.seconds,
            message: tag.message,
        };
        Ok(SourceRefs {
            default_branch: refs.default_branch,
            branches: refs.branches.into_iter().map(|branch| (branch.name, commit(branch.head))).collect(),
            tags: refs.tags.into_iter().map(tag).collect(),
        })
    }

    fn fetch(
        &mut self,
        tips: &[CommitHash],
        held: &mut HeldChunks<'_>,
        take: &mut TakeChunks<'_>,
    ) -> Result<(), SourceError> {
        let tips: Vec<Hash> = tips.iter().map(|tip| *ChunkHash::from(tip).as_bytes()).collect();
        let caller = |error: SourceError| RemoteError::Caller(Box::new(error));
        let mut held = |hashes: &[Hash]| {
            let hashes: Vec<ChunkHash> = hashes.iter().copied().map(ChunkHash::from_bytes).collect();
            let presence = |is_held| if is_held { Presence::Whole } else { Presence::Absent };
            Ok(held(&hashes).map_err(caller)?.into_iter().map(presence).collect())
        };
        let fetched = self.0.fetch(&tips, &mut held, &mut |next, _| {
            let mut failed = None;
            let taken = take(&mut || match next() {
                Ok(found) => Ok(found.map(|(hash, chunk)| (ChunkHash::from_bytes(hash), chunk))),
                Err(error) => {
                    failed = Some(error);
                    Err(io::Error::from(ErrorKind::InvalidData))
                }
            });
            match failed {
                Some(error) => Err(error),
                None => taken.map_err(caller),
            }
        });
        fetched.map(drop).map_err(source_error)
    }
}

fn source_error(error: RemoteError) -> SourceError {
    match error {
        RemoteError::Aborted => SourceError::Aborted,
        RemoteError::Caller(error) => match error.downcast::<SourceError>() {
            Ok(error) => *error,
            Err(error) => SourceError::Source(error.to_string()),
        },
        other => SourceError::Source(other.to_string()),
    }
}
