//! Connections to Postgres, by libpq, and over TLS where the metadata URL asks for it.
//!
//! libpq is compiled without TLS. A connection over TLS is therefore opened here, and libpq gets a Unix socket that leads to it (`relay`).
//! What the URL asks for is read here too (`conninfo`), with the defaults that libpq has.

mod conninfo;
mod login;
mod relay;
mod tls;

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use diesel::prelude::*;
use socket2::{SockRef, TcpKeepalive};

use self::conninfo::{Conninfo, Host};
use self::relay::Relay;
use self::tls::{Encryption, TlsClient};
use crate::error::OpenError;

/// Time to reach a server and to log in, if the URL has no `connect_timeout`.
const CONNECT: Duration = Duration::from_secs(10);

/// When a server counts as gone that does not acknowledge anything. Without this, a connection to a machine that has lost its power
/// would block its user for a quarter of an hour. In seconds, except for the last one, which is in milliseconds.
const LIVENESS: [(&str, u32); 4] =
    [("keepalives_idle", 10), ("keepalives_interval", 5), ("keepalives_count", 3), ("tcp_user_timeout", 25_000)];

/// An error of an attempt to connect. No text contains a password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostgresError {
    #[error(transparent)]
    Refused(#[from] ConnectionError),
    #[error("cannot reach {host}: {source}")]
    Unreachable { host: String, source: io::Error },
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error(
        "cannot create a socket for the connection over TLS in '{folder}' ({source}); set TMPDIR to a folder with a short path that the server may write to"
    )]
    Relay { folder: String, source: io::Error },
    /// All hosts of a URL that names several.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Each(Vec<PostgresError>),
}

/// Opens connections to the server of a URL.
pub(crate) struct PostgresConnector {
    /// All parameters but those of TLS, which is none for libpq.
    parameters: Conninfo,
    hosts: Vec<Host>,
    encryption: Encryption,
    sockets: SocketOptions,
}

impl PostgresConnector {
    /// Reads a URL, and the certificates that it names.
    ///
    /// # Errors
    /// [`OpenError::Url`].
    pub(crate) fn new(url: &str) -> Result<Self, OpenError> {
        Self::read(url, |name| std::env::var(name).ok()).map_err(|reason| OpenError::Url { reason })
    }

    fn read(url: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut parameters = Conninfo::parse(url)?;
        let encryption = Encryption::read(&mut parameters, &environment)?;
        let hosts = parameters.hosts(&environment)?;
        if encryption.is_required() && hosts.is_empty() {
            return Err("it asks for TLS and names no host; write postgres://USER@HOST/DATABASE?sslmode=…".into());
        }
        for (name, value) in LIVENESS {
            parameters.default(name, value.to_string());
        }
        if environment("PGCONNECT_TIMEOUT").is_none() {
            parameters.default("connect_timeout", CONNECT.as_secs().to_string());
        }
        let sockets = SocketOptions::read(&parameters, environment("PGCONNECT_TIMEOUT"));
        Ok(Self { parameters, hosts, encryption, sockets })
    }

    /// Opens a connection to the first host that accepts one.
    pub(crate) fn connect(&self) -> Result<PgConnection, PostgresError> {
        if self.hosts.is_empty() || matches!(self.encryption, Encryption::Disable) {
            return Ok(PgConnection::establish(&self.parameters.text())?);
        }
        let mut errors = Vec::new();
        for host in &self.hosts {
            match self.connect_to(host) {
                Ok(connection) => return Ok(connection),
                Err(error) => errors.push(error),
            }
        }
        match errors.pop() {
            Some(error) if errors.is_empty() => Err(error),
            last => Err(PostgresError::Each(errors.into_iter().chain(last).collect())),
        }
    }

    fn connect_to(&self, host: &Host) -> Result<PgConnection, PostgresError> {
        // As with libpq, a socket of this machine has no TLS, whatever the mode.
        if host.is_local() {
            return self.in_plain(host);
        }
        match &self.encryption {
            Encryption::Disable => self.in_plain(host),
            Encryption::Allow(client) => {
                self.in_plain(host).or_else(|refused| self.over_tls(host, client).map_err(|_| refused))
            }
            Encryption::Prefer(client) => match self.over_tls(host, client) {
                Err(PostgresError::Tls(_) | PostgresError::Refused(_)) => self.in_plain(host),
                other => other,
            },
            Encryption::Require(client) => self.over_tls(host, client),
        }
    }

    fn in_plain(&self, host: &Host) -> Result<PgConnection, PostgresError> {
        Ok(PgConnection::establish(&self.parameters.with_host(host).text())?)
    }

    fn over_tls(&self, host: &Host, client: &TlsClient) -> Result<PgConnection, PostgresError> {
        let tcp = self.sockets.connect(host)?;
        let stream = client.handshake(host, tcp, self.sockets.connect)?;
        let folder = std::env::temp_dir();
        let relay = Relay::start(stream, &folder)
            .map_err(|source| PostgresError::Relay { folder: folder.display().to_string(), source })?;
        Ok(PgConnection::establish(&self.parameters.with_host(&relay.host()).text())?)
    }
}

/// Options of sockets, under libpq's names.
struct SocketOptions {
    connect: Duration,
    keepalive: Option<TcpKeepalive>,
    /// In milliseconds; 0 leaves it to the system.
    unacknowledged: u32,
}

impl SocketOptions {
    fn read(parameters: &Conninfo, connect_timeout: Option<String>) -> Self {
        let number = |name: &str| parameters.get(name).and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(0);
        let connect = match parameters.get("connect_timeout").map(ToOwned::to_owned).or(connect_timeout) {
            Some(text) => text.trim().parse().unwrap_or(0),
            None => CONNECT.as_secs(),
        };
        let seconds = |name| Duration::from_secs(u64::from(number(name).max(1)));
        let keepalive = TcpKeepalive::new()
            .with_time(seconds("keepalives_idle"))
            .with_interval(seconds("keepalives_interval"))
            .with_retries(number("keepalives_count").max(1));
        Self {
            // libpq waits without a limit for 0.
            connect: if connect == 0 { Duration::from_secs(u64::from(u32::MAX)) } else { Duration::from_secs(connect) },
            keepalive: (parameters.get("keepalives") != Some("0")).then_some(keepalive),
            unacknowledged: number("tcp_user_timeout"),
        }
    }

    /// Connects to the first address of a host that answers.
    fn connect(&self, host: &Host) -> Result<TcpStream, PostgresError> {
        let failed = |source| PostgresError::Unreachable { host: host.to_string(), source };
        let addresses: Vec<SocketAddr> =
            (host.address.as_deref().unwrap_or(&host.name), host.port).to_socket_addrs().map_err(failed)?.collect();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.connect).and_then(|tcp| self.set(&tcp).map(|()| tcp)) {
                Ok(tcp) => return Ok(tcp),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    fn set(&self, tcp: &TcpStream) -> io::Result<()> {
        tcp.set_nodelay(true)?;
        let socket = SockRef::from(tcp);
        if let Some(keepalive) = &self.keepalive {
            socket.set_tcp_keepalive(keepalive)?;
        }
        #[cfg(target_os = "linux")]
        if self.unacknowledged > 0 {
            socket.set_tcp_user_timeout(Some(Duration::from_millis(u64::from(self.unacknowledged))))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        PostgresConnector::read(url, |_| None).err().unwrap()
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_way_out() {
        for (url, part) in [
            ("postgres://h/x?sslmode=on", "sslmode=on is unknown"),
            ("postgres:///x?sslmode=require", "names no host"),
            ("postgres://h/x?sslmode=verify-ca", "needs sslrootcert"),
            ("postgres://h/x?sslmode=require&sslrootcert=system", "sslmode=verify-full"),
            ("postgres://h/x?sslmode=verify-full&sslrootcert=/nowhere/at-all", "/nowhere/at-all"),
            ("postgres://h/x?sslmode=require&sslcert=/c", "sslcert"),
            ("postgres://h/x?sslmode=require&channel_binding=require", "channel_binding"),
            ("postgres://h/x?sslmode=require&sslnegotiation=direct", "sslnegotiation"),
            ("postgres://a,b,c:1,2/x?port=1,2&sslmode=require", "ports"),
            ("postgres://h:http/x?sslmode=require", "port"),
            ("postgres://h/x?sslmode", "no value"),
            ("postgres://[::1/x", "]"),
            ("postgres://h/%x", "%"),
        ] {
            let refused = refusal(url);
            assert!(refused.contains(part), "{url}: {refused}");
        }
    }

    #[test]
    fn the_environment_counts_as_for_libpq() {
        let environment = |name: &str| (name == "PGSSLMODE").then(|| "require".to_owned());
        let connector = PostgresConnector::read("postgres://h/x", environment).unwrap();
        assert!(connector.encryption.is_required());
        let stated = PostgresConnector::read("postgres://h/x?sslmode=disable", environment).unwrap();
        assert!(matches!(stated.encryption, Encryption::Disable));
        let default = PostgresConnector::read("postgres://h/x", |_| None).unwrap();
        assert!(matches!(default.encryption, Encryption::Prefer(_)));
    }

    #[test]
    fn a_dead_server_is_noticed_unless_the_url_says_otherwise() {
        let connector =
            PostgresConnector::read("postgres://h/x?keepalives_idle=3&connect_timeout=0", |_| None).unwrap();
        let value = |name| connector.parameters.get(name);
        assert_eq!(value("keepalives_idle"), Some("3"));
        assert_eq!(value("tcp_user_timeout"), Some("25000"));
        assert_eq!(value("connect_timeout"), Some("0"));
        assert_eq!(value("sslmode"), Some("disable"), "libpq has no TLS");
        assert!(connector.sockets.connect > CONNECT);
    }
}
