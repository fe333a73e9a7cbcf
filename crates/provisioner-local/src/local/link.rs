//! The connection to a process: control channel, proof of identity and health check.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use branchyard_deployments::ports::Authorizer;
use branchyard_deployments::values::InstanceId;

use super::event_log::EventLog;
use crate::control::server::{Channel, Checks, ChildNotice};
use crate::folder::InstanceFolder;
use crate::spec::Secret;

const HEALTH: Duration = Duration::from_secs(2);

/// The parameters for reaching a process.
pub(super) struct ProcessLink {
    pub(super) instance: InstanceId,
    pub(super) folder: InstanceFolder,
    pub(super) secret: Secret,
    pub(super) authorizer: Arc<dyn Authorizer>,
    /// Host name that clients connect to.
    pub(super) host: String,
    pub(super) health: IpAddr,
    /// The log of the instance.
    pub(super) log: EventLog,
}

impl ProcessLink {
    /// Opens the control channel and verifies the identity of the process.
    pub(super) fn open(&self, on_notice: impl Fn(ChildNotice) + Send + 'static) -> std::io::Result<Arc<Channel>> {
        let checks = Checks { authorizer: Arc::clone(&self.authorizer), instance: self.instance };
        Channel::open(&self.folder, &self.secret, checks, on_notice)
    }

    /// Returns `true` if `GET /health` returns status 200.
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
