//! The client's IP address, taken from the connection or from a trusted proxy's header.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::header::HeaderMap;

use crate::config::{ForwardedHeader, Proxies};

/// Returns the address of the client: the peer address of the connection, or the address that a trusted proxy reports.
///
/// The proxy's list is read from its end, where the nearest proxy appended its entry. The first entry that is not a trusted proxy
/// is the client. Earlier entries were sent by the client and are ignored.
pub(crate) fn client_address(peer: Option<SocketAddr>, headers: &HeaderMap, proxies: &Proxies) -> Option<IpAddr> {
    let mut client = peer?.ip().to_canonical();
    let trusted = |address: IpAddr| proxies.trust(address);
    if !trusted(client) {
        return Some(client);
    }
    for entry in forwarded_for(headers, proxies.header).into_iter().rev() {
        let Some(address) = entry else { break };
        client = address;
        if !trusted(client) {
            break;
        }
    }
    Some(client)
}

/// Returns the addresses of the header, first to last. An entry that is not an address (`unknown`, `_hidden`) is `None`.
fn forwarded_for(headers: &HeaderMap, header: ForwardedHeader) -> Vec<Option<IpAddr>> {
    let name = match header {
        ForwardedHeader::XForwardedFor => "x-forwarded-for",
        ForwardedHeader::Forwarded => "forwarded",
    };
    let values = headers.get_all(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let list = values.collect::<Vec<_>>().join(",");
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| match header {
            ForwardedHeader::XForwardedFor => parse(entry),
            ForwardedHeader::Forwarded => entry
                .split(';')
                .filter_map(|pair| pair.split_once('='))
                .find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))
                .and_then(|(_, value)| parse(value.trim().trim_matches('"'))),
        })
        .collect()
}

/// Parses an address with or without brackets and port.
fn parse(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(text, |(address, _)| address);
    let address: IpAddr = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::client_address;
    use crate::config::{ForwardedHeader, Proxies};
    use actix_web::test::TestRequest;

    fn seen(peer: &str, proxies: &Proxies, headers: &[(&str, &str)]) -> String {
        let mut request = TestRequest::default();
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        let request = request.to_http_request();
        client_address(Some(peer.parse().unwrap()), request.headers(), proxies).unwrap().to_string()
    }

    fn trusting(networks: &[&str], header: ForwardedHeader) -> Proxies {
        Proxies { trusted: networks.iter().map(|network| network.parse().unwrap()).collect(), header }
    }

    #[test]
    fn nobody_is_believed_by_default() {
        let none = Proxies::default();
        assert_eq!(seen("192.0.2.1:5", &none, &[("X-Forwarded-For", "203.0.113.9")]), "192.0.2.1");
        let other = trusting(&["10.0.0.0/8"], ForwardedHeader::XForwardedFor);
        assert_eq!(seen("192.0.2.1:5", &other, &[("X-Forwarded-For", "203.0.113.9")]), "192.0.2.1");
    }

    #[test]
    fn a_trusted_proxy_names_the_client_and_the_client_names_nobody() {
        let proxies = trusting(&["10.0.0.0/8", "fd00::/8"], ForwardedHeader::XForwardedFor);
        let ask = |headers: &[(&str, &str)]| seen("10.0.0.1:5", &proxies, headers);
        assert_eq!(ask(&[("X-Forwarded-For", "203.0.113.9")]), "203.0.113.9");
        assert_eq!(ask(&[("X-Forwarded-For", "1.1.1.1, 203.0.113.9, 10.0.0.2")]), "203.0.113.9");
        assert_eq!(ask(&[("X-Forwarded-For", "1.1.1.1"), ("X-Forwarded-For", "203.0.113.9:4711")]), "203.0.113.9");
        assert_eq!(ask(&[("X-Forwarded-For", "203.0.113.9, unknown")]), "10.0.0.1");
        assert_eq!(ask(&[("X-Forwarded-For", "[2001:db8::1]:99")]), "2001:db8::1");
        assert_eq!(ask(&[("X-Forwarded-For", "::ffff:203.0.113.9")]), "203.0.113.9");
        assert_eq!(ask(&[("Forwarded", "for=203.0.113.9")]), "10.0.0.1");
        assert_eq!(ask(&[]), "10.0.0.1");
    }

    #[test]
    fn the_standard_header_is_read_when_it_is_chosen() {
        let proxies = trusting(&["10.0.0.0/8"], ForwardedHeader::Forwarded);
        let ask = |value: &str| seen("10.0.0.1:5", &proxies, &[("Forwarded", value), ("X-Forwarded-For", "1.1.1.1")]);
        assert_eq!(ask("for=1.2.3.4, proto=https;For=203.0.113.9;by=10.0.0.3"), "203.0.113.9");
        assert_eq!(ask("for=\"[2001:db8::1]:4711\""), "2001:db8::1");
        assert_eq!(ask("for=_hidden"), "10.0.0.1");
    }
}
