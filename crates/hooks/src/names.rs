//! Names to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};

/// Resolves names. Tests put one in place that changes its mind.
pub trait Names: Send + Sync + 'static {
    /// All addresses of a name; may block.
    ///
    /// # Errors
    /// When the name does not resolve, for whatever reason.
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
