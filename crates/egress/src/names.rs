//! Name resolution.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};

/// A resolver of host names. Tests replace it by one whose answers change.
pub trait Names: Send + Sync + 'static {
    /// Returns all addresses of a name. May block.
    ///
    /// # Errors
    /// An I/O error if the name does not resolve.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}
