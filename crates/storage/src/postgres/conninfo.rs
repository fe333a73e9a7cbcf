//! Parameters of a connection, from a URL and for libpq.
//!
//! The grammar is that of <https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS>.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use percent_encoding::percent_decode_str;

const PORT: u16 = 5432;

/// The parameters of a connection by libpq's names. They may contain a password, so there is no `Debug`.
#[derive(Clone)]
pub(super) struct Conninfo(BTreeMap<String, String>);

/// One of the hosts of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// Name, address, or folder of a Unix socket.
    pub(super) name: String,
    /// Address to connect to instead of asking for that of the name.
    pub(super) address: Option<String>,
    pub(super) port: u16,
}

impl Host {
    /// Returns `true` if the host is a Unix socket.
    pub(super) fn is_local(&self) -> bool {
        self.address.is_none() && self.name.starts_with(['/', '@'])
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port, .. } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

impl Conninfo {
    /// Parses a URL. Errors contain nothing of the user information.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (_, rest) = url.split_once("://").ok_or("it has no scheme")?;
        let mut parameters = Self(BTreeMap::new());
        // As in libpq, user information ends at the first `@` before a slash.
        let authority = rest.find('/').unwrap_or(rest.len());
        let rest = match rest.get(..authority).and_then(|authority| authority.split_once('@')) {
            Some((user, _)) => {
                let (user_name, password) = user.split_once(':').unwrap_or((user, ""));
                parameters.store("user", user_name)?;
                parameters.store("password", password)?;
                rest.get(user.len() + 1..).unwrap_or_default()
            }
            None => rest,
        };
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, database) = before.split_once('/').unwrap_or((before, ""));
        let mut names = Vec::new();
        let mut ports = Vec::new();
        for host in hosts.split(',') {
            let (name, port) = split_port(host)?;
            names.push(name);
            ports.push(port);
        }
        parameters.store("host", &names.join(","))?;
        if ports.iter().any(|port| !port.is_empty()) {
            parameters.store("port", &ports.join(","))?;
        }
        parameters.store("dbname", database)?;
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or("one of its parameters has no value")?;
            match (name, value) {
                ("ssl", "true") => parameters.store("sslmode", "require")?,
                _ => parameters.store(&decode(name)?, value)?,
            }
        }
        Ok(parameters)
    }

    fn store(&mut self, name: &str, encoded: &str) -> Result<(), String> {
        if !encoded.is_empty() {
            self.set(name, decode(encoded)?);
        }
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    /// Sets a parameter that the URL does not have.
    pub(super) fn default(&mut self, name: &str, value: String) {
        self.0.entry(name.to_owned()).or_insert(value);
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Returns the hosts, in the order in which they are tried.
    pub(super) fn hosts(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Vec<Host>, String> {
        let find = |name: &str, variable: &str| self.get(name).map(ToOwned::to_owned).or_else(|| environment(variable));
        let names = list(find("host", "PGHOST"));
        let addresses = list(find("hostaddr", "PGHOSTADDR"));
        let ports = list(find("port", "PGPORT"));
        let count = names.len().max(addresses.len());
        if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
            return Err("it has as many addresses (hostaddr) as hosts, or none".into());
        }
        if ports.len() > 1 && ports.len() != count {
            return Err("it has as many ports as hosts, or one for all".into());
        }
        let port = |at: usize| match ports.get(at).or(ports.first()).map_or("", String::as_str) {
            "" => Ok(PORT),
            text => text.parse().map_err(|_| format!("'{text}' is no port")),
        };
        (0..count)
            .map(|at| {
                let address = addresses.get(at).filter(|address| !address.is_empty()).cloned();
                let name = names.get(at).filter(|name| !name.is_empty()).cloned().or_else(|| address.clone());
                Ok(Host { name: name.ok_or("one of its hosts has no name")?, address, port: port(at)? })
            })
            .collect()
    }

    /// Returns the parameters for one host only.
    pub(super) fn with_host(&self, host: &Host) -> Self {
        let mut one = self.clone();
        one.set("host", host.name.clone());
        one.set("port", host.port.to_string());
        match &host.address {
            Some(address) => one.set("hostaddr", address.clone()),
            // Empty, so that libpq does not take that of the environment.
            None => one.set("hostaddr", String::new()),
        }
        one
    }

    /// Returns the parameters in the form `name='value' …`.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.0 {
            let value = value.replace('\\', "\\\\").replace('\'', "\\'");
            let _ = write!(text, "{name}='{value}' ");
        }
        text
    }
}

fn list(text: Option<String>) -> Vec<String> {
    text.filter(|text| !text.is_empty())
        .map(|text| text.split(',').map(ToOwned::to_owned).collect())
        .unwrap_or_default()
}

/// Splits `name:port`, in which an IPv6 address stands in brackets.
fn split_port(host: &str) -> Result<(&str, &str), String> {
    let Some(bracketed) = host.strip_prefix('[') else {
        return Ok(host.split_once(':').unwrap_or((host, "")));
    };
    let (address, port) = bracketed.split_once(']').ok_or("an IPv6 address in it does not end with ']'")?;
    match port.strip_prefix(':') {
        Some(port) => Ok((address, port)),
        None if port.is_empty() => Ok((address, "")),
        None => Err("after the ']' of an IPv6 address in it comes ':' and a port, or nothing".into()),
    }
}

fn decode(text: &str) -> Result<String, String> {
    let is_hex = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    let is_whole = text.match_indices('%').all(|(at, _)| is_hex(at + 1) && is_hex(at + 2));
    let decoded = percent_decode_str(text).decode_utf8().ok().filter(|decoded| is_whole && !decoded.contains('\0'));
    let decoded =
        decoded.ok_or("a '%' in it does not stand before two hexadecimal digits of UTF-8; write %25 for '%'")?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Vec<(String, String)> {
        Conninfo::parse(url).unwrap().0.into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn urls_are_read_as_libpq_does() {
        for (url, wanted) in [
            ("postgres://", &[][..]),
            ("postgresql://localhost", &[("host", "localhost")]),
            ("postgres://db:6/x", &[("dbname", "x"), ("host", "db"), ("port", "6")]),
            ("postgres://u@/x", &[("dbname", "x"), ("user", "u")]),
            ("postgres://u:p%40%2F'@db/x", &[("dbname", "x"), ("host", "db"), ("password", "p@/'"), ("user", "u")]),
            ("postgres://a:1,[::1]:2/x?", &[("dbname", "x"), ("host", "a,::1"), ("port", "1,2")]),
            ("postgres://a,b:2", &[("host", "a,b"), ("port", ",2")]),
            ("postgres://%2Ftmp%2Fs/x", &[("dbname", "x"), ("host", "/tmp/s")]),
            ("postgres:///x?host=/run&user=u", &[("dbname", "x"), ("host", "/run"), ("user", "u")]),
            ("postgres://db?ssl=true", &[("host", "db"), ("sslmode", "require")]),
            ("postgres://db/x?user=a@b", &[("dbname", "x"), ("host", "db"), ("user", "a@b")]),
        ] {
            assert_eq!(parse(url), pairs(wanted), "{url}");
        }
    }

    #[test]
    fn hosts_have_ports_and_addresses() {
        let hosts = |url: &str| Conninfo::parse(url).unwrap().hosts(|_| None);
        let host = |name: &str, port| Host { name: name.into(), address: None, port };
        assert_eq!(hosts("postgres://a:1,b,c:3/x").unwrap(), [host("a", 1), host("b", 5432), host("c", 3)]);
        assert_eq!(hosts("postgres://a,b/x?port=7").unwrap(), [host("a", 7), host("b", 7)]);
        assert_eq!(hosts("postgres:///x").unwrap(), []);
        let [by_address] = &hosts("postgres://db/x?hostaddr=10.0.0.1").unwrap()[..] else { panic!("one host") };
        assert_eq!((by_address.name.as_str(), by_address.address.as_deref()), ("db", Some("10.0.0.1")));
        assert!(hosts("postgres://%2Frun/x").unwrap()[0].is_local());
        assert_eq!(hosts("postgres://[::1]:4/x").unwrap()[0].to_string(), "[::1]:4");
        let of_environment = Conninfo::parse("postgres:///x").unwrap();
        let of_environment = of_environment.hosts(|name| (name == "PGHOST").then(|| "db".into())).unwrap();
        assert_eq!(of_environment, [host("db", 5432)]);
    }

    #[test]
    fn values_are_escaped_for_libpq() {
        let mut parameters = Conninfo(BTreeMap::new());
        parameters.set("password", r"a'b\c d".into());
        assert_eq!(parameters.text(), r"password='a\'b\\c d' ");
    }
}
