//! Connections go to checked addresses only.
//!
//! [`CheckedNames`] resolves a name for a connection and returns only addresses that the policy admits. The connection
//! uses these addresses without a second resolution, so it goes to what was checked. [`CheckedPeer`] checks the open
//! socket again, before a byte of the request is sent.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connection, HttpInfo};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tower_layer::Layer;
use tower_service::Service;

use crate::address::AddressPolicy;
use crate::names::Names;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error if the policy admits no address of a name.
#[derive(Debug, thiserror::Error)]
#[error("every address is in a network that this server may not reach")]
pub(crate) struct Blocked;

/// The error if a name has no address.
#[derive(Debug, thiserror::Error)]
#[error("the name does not resolve")]
pub(crate) struct Unresolved(#[source] pub(crate) Option<std::io::Error>);

/// The addresses that a connection may reach.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) policy: Arc<AddressPolicy>,
    pub(crate) encrypted: bool,
}

impl Reach {
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        self.policy.admits(address, self.encrypted)
    }
}

/// A resolver that returns admitted addresses only.
pub(crate) struct CheckedNames {
    pub(crate) names: Arc<dyn Names>,
    pub(crate) reach: Reach,
}

impl Resolve for CheckedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, reach) = (Arc::clone(&self.names), self.reach.clone());
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let found = tokio::task::spawn_blocking(move || names.resolve(&name)).await?;
            let found = found.map_err(|error| Unresolved(Some(error)))?;
            if found.is_empty() {
                return Err(Unresolved(None).into());
            }
            let admitted: Vec<SocketAddr> =
                found.into_iter().filter(|ip| reach.admits(*ip)).map(|ip| SocketAddr::new(ip, 0)).collect();
            match admitted.is_empty() {
                true => Err(Blocked.into()),
                false => Ok(Box::new(admitted.into_iter()) as Addrs),
            }
        })
    }
}

/// A connector layer that closes connections to peers that are not admitted.
#[derive(Clone)]
pub(crate) struct CheckedPeer(pub(crate) Reach);

impl<S> Layer<S> for CheckedPeer {
    type Service = CheckedConnector<S>;

    fn layer(&self, inner: S) -> CheckedConnector<S> {
        CheckedConnector { inner, reach: self.0.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct CheckedConnector<S> {
    inner: S,
    reach: Reach,
}

impl<S, R> Service<R> for CheckedConnector<S>
where
    S: Service<R, Error = BoxError>,
    S::Response: Connection,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (connecting, reach) = (self.inner.call(request), self.reach.clone());
        Box::pin(async move {
            let connection = connecting.await?;
            let mut known = http::Extensions::new();
            connection.connected().get_extras(&mut known);
            match known.get::<HttpInfo>() {
                Some(info) if reach.admits(info.remote_addr().ip()) => Ok(connection),
                // A connection without a known peer address is not trusted.
                _ => Err(Blocked.into()),
            }
        })
    }
}
