//! From a process that was started to one that is known to serve: channel, proof, health.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use branchyard_deployments::ports::Authorizer;
use branchyard_deployments::values::InstanceId;

use crate::control::server::{Channel, Checks, ChildNotice};
use crate::folder::InstanceFolder;
use crate::spec::Secret;

const HEALTH: Duration = Duration::from_secs(2);

/// What it takes to reach a process.
pub(super) struct ProcessLink {
    pub(super) instance: InstanceId,
    pub(super) folder: InstanceFolder,
    pub(super) secret: Secret,
    pub(super) authorizer: Arc<dyn Authorizer>,
    /// The host that clients are given.
    pub(super) host: String,
    pub(super) health: IpAddr,
}

impl ProcessLink {
    /// Connects and makes sure whom to.
    pub(super) fn open(&self, told: impl Fn(ChildNotice) + Send + 'static) -> std::io::Result<Arc<Channel>> {
        let checks = Checks { authorizer: Arc::clone(&self.authorizer), instance: self.instance };
        Channel::open(&self.folder, &self.secret, checks, told)
    }

    /// Whether `GET health` is answered with 200.
    pub(super) fn is_healthy(&self, port: u16) -> bool {
        let ask = || -> std::io::Result<bool> {
            let mut socket = TcpStream::connect_timeout(&SocketAddr::new(self.health, port), HEALTH)?;
            socket.set_read_timeout(Some(HEALTH))?;
            socket.set_write_timeout(Some(HEALTH))?;
            socket.write_all(b"GET /health HTTP/1.1\r\nHost: health\r\nConnection: close\r\n\r\n")?;
            let mut head = [0; 12];
            socket.read_exact(&mut head)?;
            Ok(&head == b"HTTP/1.1 200")
        };
        ask().unwrap_or(false)
    }
}
