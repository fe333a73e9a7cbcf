//! The address policy: which addresses may be reached. These are the public internet, and the networks that the operator
//! opens.
//!
//! The same lists apply to literal and to resolved addresses, and are checked at registration and before every
//! connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

const fn v4(a: u8, b: u8, c: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), length)
}

const fn v6(segments: [u16; 6], length: u8) -> Ipv6Net {
    let [a, b, c, d, e, f] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, 0, 0), length)
}

/// IPv4 networks that are not part of the public internet.
const REFUSED_V4: &[Ipv4Net] = &[
    v4(0, 0, 0, 8),       // this network
    v4(10, 0, 0, 8),      // private
    v4(100, 64, 0, 10),   // carrier-grade NAT
    v4(127, 0, 0, 8),     // loopback
    v4(169, 254, 0, 16),  // link-local, cloud metadata services
    v4(172, 16, 0, 12),   // private
    v4(192, 0, 0, 24),    // IETF assignments
    v4(192, 0, 2, 24),    // documentation
    v4(192, 88, 99, 24),  // 6to4 relay
    v4(192, 168, 0, 16),  // private
    v4(198, 18, 0, 15),   // benchmarking
    v4(198, 51, 100, 24), // documentation
    v4(203, 0, 113, 24),  // documentation
    v4(224, 0, 0, 4),     // multicast
    v4(240, 0, 0, 4),     // reserved, broadcast
];

/// IPv6 networks within [`GLOBAL_V6`] that are not publicly reachable. All networks outside [`GLOBAL_V6`] are refused
/// too.
const REFUSED_V6: &[Ipv6Net] = &[
    v6([0x2001, 0, 0, 0, 0, 0], 23),     // IETF assignments, Teredo, benchmarking, ORCHID
    v6([0x2001, 0xdb8, 0, 0, 0, 0], 32), // documentation
    v6([0x2002, 0, 0, 0, 0, 0], 16),     // 6to4
    v6([0x3fff, 0, 0, 0, 0, 0], 20),     // documentation
];

/// The global unicast network of IPv6.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0], 3);

/// IPv6 networks whose addresses carry an IPv4 address in their last four bytes.
const CARRIERS: &[Ipv6Net] = &[
    v6([0, 0, 0, 0, 0, 0xffff], 96),    // IPv4-mapped
    v6([0, 0, 0, 0, 0xffff, 0], 96),    // IPv4-translated
    v6([0x64, 0xff9b, 0, 0, 0, 0], 96), // NAT64
];

/// Networks that the operator cannot open, and what their addresses are.
const NEVER_V4: &[(Ipv4Net, &str)] = &[
    (v4(0, 0, 0, 8), "addresses of the network itself (0.0.0.0/8)"),
    (v4(224, 0, 0, 4), "multicast addresses (224.0.0.0/4)"),
    (v4(240, 0, 0, 4), "reserved and broadcast addresses (240.0.0.0/4)"),
];
const NEVER_V6: &[(Ipv6Net, &str)] = &[
    (v6([0; 6], 128), "unspecified addresses (::)"),
    (v6([0xff00, 0, 0, 0, 0, 0], 8), "multicast addresses (ff00::/8)"),
];

/// The policy's verdict on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// On the public internet: may be reached over TLS.
    Public,
    /// In a network that the operator opened: may be reached with or without TLS.
    Opened,
    /// Must not be reached.
    Refused,
}

/// The error for an opened network that is not in CIDR notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a network such as 10.20.0.0/16 or fd00:1234::/48")]
pub struct NotACidr(pub String);

/// The addresses that may be reached.
#[derive(Debug, Clone, Default)]
pub struct AddressPolicy {
    opened: Vec<IpNet>,
}

impl AddressPolicy {
    /// Returns the policy with these networks opened, each in the form `address/length`.
    ///
    /// # Errors
    /// [`NotACidr`] with the first text that is no network.
    pub fn opening<S: AsRef<str>>(cidrs: &[S]) -> Result<Self, NotACidr> {
        let parse = |text: &S| text.as_ref().trim().parse().map_err(|_| NotACidr(text.as_ref().to_owned()));
        Ok(Self { opened: cidrs.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Returns `true` if any network is opened.
    pub(crate) fn opens_any(&self) -> bool {
        !self.opened.is_empty()
    }

    /// Returns the verdict on an address.
    pub fn verdict(&self, address: IpAddr) -> Verdict {
        let refused = match address {
            IpAddr::V4(v4) => within_v4(REFUSED_V4, v4),
            IpAddr::V6(v6) => !GLOBAL_V6.contains(&v6) || within_v6(REFUSED_V6, v6),
        };
        let opened = never_opened(address).is_none() && self.opened.iter().any(|network| network.contains(&address));
        match (opened, refused) {
            // Opening a carrier network does not open refused IPv4 addresses behind it.
            (true, _) if carried(address).is_some_and(|inner| self.verdict(inner) == Verdict::Refused) => {
                Verdict::Refused
            }
            (true, _) => Verdict::Opened,
            (false, true) => Verdict::Refused,
            (false, false) => Verdict::Public,
        }
    }

    /// Returns `true` if a connection to `address` may be made.
    pub(crate) fn admits(&self, address: IpAddr, encrypted: bool) -> bool {
        match self.verdict(address) {
            Verdict::Opened => true,
            Verdict::Public => encrypted,
            Verdict::Refused => false,
        }
    }
}

/// Returns what an address is, as a plural, if the operator cannot open its network, nor that of the IPv4 address that it
/// carries.
#[must_use]
pub fn never_opened(address: IpAddr) -> Option<&'static str> {
    let found = match address {
        IpAddr::V4(v4) => NEVER_V4.iter().find(|(network, _)| network.contains(&v4)).map(|(_, what)| *what),
        IpAddr::V6(v6) => NEVER_V6.iter().find(|(network, _)| network.contains(&v6)).map(|(_, what)| *what),
    };
    found.or_else(|| carried(address).and_then(never_opened))
}

/// Returns the address of a host that is not a name.
#[must_use]
pub fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
        Host::Domain(_) => None,
    }
}

fn within_v4(networks: &[Ipv4Net], address: Ipv4Addr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

fn within_v6(networks: &[Ipv6Net], address: Ipv6Addr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Returns the IPv4 address that an IPv6 address carries, if any.
fn carried(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(v6) = address else { return None };
    if !within_v6(CARRIERS, v6) {
        return None;
    }
    let [.., a, b, c, d] = v6.octets();
    Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
}
