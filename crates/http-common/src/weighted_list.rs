//! Header fields that list choices with weights (RFC 9110 §12.4.2).

use actix_web::http::header::{HeaderMap, HeaderName};

/// Returns the choices of a header field, each as its lowercase name and its weight in thousandths. Parameters other than the weight
/// are dropped, and so are choices whose weight is malformed.
pub(crate) fn weighted_list(headers: &HeaderMap, name: HeaderName) -> Vec<(String, u16)> {
    let values = headers.get_all(name).filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(weighted).collect()
}

/// Parses an entry such as `gzip;q=0.5` into the lowercase name and the weight in thousandths.
fn weighted(part: &str) -> Option<(String, u16)> {
    let mut pieces = part.split(';').map(str::trim);
    let name = pieces.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
    let weight = pieces.find_map(|piece| piece.strip_prefix("q=").or_else(|| piece.strip_prefix("Q=")));
    let weight = match weight {
        None => 1_000,
        Some(text) => thousandths(text)?,
    };
    Some((name, weight))
}

fn thousandths(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction: u16 = format!("{fraction:0<3}").parse().ok()?;
    match whole {
        "0" => Some(fraction),
        "1" if fraction == 0 => Some(1_000),
        _ => None,
    }
}
