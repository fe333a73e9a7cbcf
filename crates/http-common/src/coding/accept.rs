//! Negotiation of `Accept-Encoding` (RFC 9110 §12.5.3).

use actix_web::http::header::{self, HeaderMap};

use super::Coding;
use crate::weighted_list::weighted_list;

/// The supported codings in the server's order of preference.
const OURS: [(&[&str], Coding); 3] =
    [(&["zstd"], Coding::Zstd), (&["br"], Coding::Brotli), (&["gzip", "x-gzip"], Coding::Gzip)];

/// Returns the supported coding that the client prefers, or identity if the client accepts none of them. No request is refused because of
/// its codings.
pub(super) fn best(headers: &HeaderMap) -> Coding {
    let wanted = weighted_list(headers, header::ACCEPT_ENCODING);
    let weight = |names: &[&str]| {
        let named = wanted.iter().find(|(name, _)| names.contains(&name.as_str()));
        named.or_else(|| wanted.iter().find(|(name, _)| name == "*")).map_or(0, |(_, weight)| *weight)
    };
    let identity = wanted.iter().find(|(name, _)| name == "identity").map_or(0, |(_, weight)| *weight);
    let mut best = (Coding::Identity, identity);
    for (names, coding) in OURS {
        let weight = weight(names);
        // At equal weight, any coding precedes identity, and an earlier coding precedes a later one.
        if weight > best.1 || (weight > 0 && weight == best.1 && best.0 == Coding::Identity) {
            best = (coding, weight);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::{Coding, best};
    use actix_web::test::TestRequest;

    #[test]
    fn the_client_decides_and_we_where_it_does_not_care() {
        let cases = [
            ("", Coding::Identity),
            ("deflate, compress", Coding::Identity),
            ("gzip", Coding::Gzip),
            ("X-GZIP", Coding::Gzip),
            ("gzip, deflate, br, zstd", Coding::Zstd),
            ("gzip, br", Coding::Brotli),
            ("gzip;q=1.0, br;q=0.9", Coding::Gzip),
            ("gzip;q=0", Coding::Identity),
            ("zstd;q=0, *", Coding::Brotli),
            ("*;q=0.1", Coding::Zstd),
            ("identity, gzip;q=0.5", Coding::Identity),
            ("identity;q=0.5, gzip;q=0.5", Coding::Gzip),
            ("gzip;q=7, br;q=0.0001", Coding::Identity),
        ];
        for (text, expected) in cases {
            let request = TestRequest::default().insert_header(("Accept-Encoding", text)).to_http_request();
            assert_eq!(best(request.headers()), expected, "{text}");
        }
    }
}
