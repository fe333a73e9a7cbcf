//! Content codings of responses (v2 §1.3): gzip, br and zstd. They apply to responses without an `ETag` and to SQL reads, whose
//! `ETag` covers the coding.

mod accept;
mod body;
mod encoder;

use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody as _};
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::web::Bytes;

use body::EncodedBody;
use encoder::Encoder;

use crate::export::ExportFormat;

/// Minimum size in bytes of a body to be compressed. Shorter bodies would hardly shrink.
const WORTH_IT: u64 = 1_024;
/// Bodies up to this size are compressed before they are sent, and keep their `Content-Length`.
const AT_ONCE: u64 = 64 << 10;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// No compression.
    Identity,
    /// `gzip` (RFC 1952).
    Gzip,
    /// `br` (RFC 7932).
    Brotli,
    /// `zstd` (RFC 8878).
    Zstd,
}

impl Coding {
    /// Returns the supported coding that the client prefers. Where the client has no preference, zstd precedes br, and br precedes
    /// gzip.
    pub fn accepted(request: &HttpRequest) -> Self {
        accept::best(request.headers())
    }

    /// Returns the name of the coding in HTTP headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// The coding that a response must have because its `ETag` covers the coding. Kept in the response's extensions; short bodies stay
/// uncompressed.
#[derive(Debug, Clone, Copy)]
pub struct TaggedCoding(pub Coding);

/// Compresses the body of a response where this is allowed and worthwhile.
///
/// Short bodies, bodies that are compressed or have an `ETag`, and those that must not be stored stay as they are.
pub fn compress(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let tagged = response.response().extensions().get::<TaggedCoding>().copied();
    let may = tagged.is_some() || !response.headers().contains_key(header::ETAG);
    if !may || !worth_it(response.response().body().size()) || !fit(response.headers()) {
        return response;
    }
    let coding = tagged.map_or_else(|| Coding::accepted(response.request()), |tagged| tagged.0);
    let mut response = response.map_body(|head, body| {
        head.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        encode(body, coding)
    });
    if coding != Coding::Identity {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    response
}

fn worth_it(size: BodySize) -> bool {
    match size {
        BodySize::None => false,
        BodySize::Sized(bytes) => bytes >= WORTH_IT,
        BodySize::Stream => true,
    }
}

/// Returns `true` for text that is not compressed yet and holds no secret. The length of a compressed response can leak a secret (BREACH).
fn fit(headers: &HeaderMap) -> bool {
    let value = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let media_type = value(header::CONTENT_TYPE);
    let packed = [ExportFormat::Zip, ExportFormat::Xlsx, ExportFormat::Parquet, ExportFormat::Sqlite];
    let packed = packed.into_iter().any(|format| format.media_type() == media_type);
    let text = media_type.starts_with("text/") || (media_type.starts_with("application/") && !packed);
    text && !headers.contains_key(header::CONTENT_ENCODING) && value(header::CACHE_CONTROL) != "no-store"
}

fn encode(body: BoxBody, coding: Coding) -> BoxBody {
    let Some(mut encoder) = Encoder::new(coding) else { return body };
    let size = body.size();
    match body.try_into_bytes() {
        Ok(bytes) if matches!(size, BodySize::Sized(length) if length <= AT_ONCE) => {
            match encoder.write(&bytes).and_then(|()| encoder.finish()) {
                Ok(coded) => BoxBody::new(Bytes::from(coded)),
                Err(error) => BoxBody::new(EncodedBody::failed(error)),
            }
        }
        Ok(bytes) => BoxBody::new(EncodedBody::new(BoxBody::new(bytes), encoder)),
        Err(body) => BoxBody::new(EncodedBody::new(body, encoder)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use actix_web::HttpResponse;
    use actix_web::body::BoxBody;
    use actix_web::dev::ServiceResponse;
    use actix_web::http::header;
    use actix_web::test::TestRequest;
    use actix_web::web::Bytes;
    use futures_util::StreamExt as _;

    use super::{Coding, TaggedCoding, compress};

    fn decode(coding: &str, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match coding {
            "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap(),
            "br" => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain).unwrap(),
            "zstd" => zstd::Decoder::new(bytes).unwrap().read_to_end(&mut plain).unwrap(),
            _ => return bytes.to_vec(),
        };
        plain
    }

    fn answer(accept: &str, response: HttpResponse) -> ServiceResponse<BoxBody> {
        let request = TestRequest::default().insert_header(("Accept-Encoding", accept)).to_http_request();
        compress(ServiceResponse::new(request, response))
    }

    fn json(length: usize) -> HttpResponse {
        HttpResponse::Ok().content_type("application/json").body("0123456789".repeat(length / 10))
    }

    fn coding_of(response: &ServiceResponse<BoxBody>) -> String {
        let value = response.headers().get(header::CONTENT_ENCODING);
        value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    #[actix_web::test]
    async fn every_coding_reads_back() {
        for length in [2_000, 300_000] {
            for coding in ["gzip", "br", "zstd"] {
                let response = answer(coding, json(length));
                assert_eq!(coding_of(&response), coding);
                assert_eq!(response.headers().get_all(header::VARY).last().unwrap(), "Accept-Encoding");
                let bytes = actix_web::body::to_bytes(response.into_body()).await.unwrap();
                assert!(bytes.len() < length / 3, "{}", bytes.len());
                assert_eq!(decode(coding, &bytes).len(), length);
            }
        }
    }

    #[actix_web::test]
    async fn what_is_short_tagged_secret_or_coded_is_left_alone() {
        assert_eq!(coding_of(&answer("gzip", json(1_020))), "");
        let with = |name: header::HeaderName, value: &'static str| {
            let mut response = json(2_000);
            response.headers_mut().insert(name, header::HeaderValue::from_static(value));
            answer("gzip", response)
        };
        assert_eq!(coding_of(&with(header::ETAG, "\"a\"")), "");
        assert_eq!(coding_of(&with(header::CACHE_CONTROL, "no-store")), "");
        assert_eq!(coding_of(&with(header::CONTENT_TYPE, "image/png")), "");
        assert_eq!(coding_of(&with(header::CONTENT_ENCODING, "br")), "br");
        assert_eq!(coding_of(&answer("identity", json(2_000))), "");
    }

    #[actix_web::test]
    async fn a_tag_that_covers_the_coding_fixes_it() {
        let mut response = json(2_000);
        response.headers_mut().insert(header::ETAG, header::HeaderValue::from_static("\"a\""));
        response.extensions_mut().insert(TaggedCoding(Coding::Brotli));
        assert_eq!(coding_of(&answer("gzip", response)), "br");
    }

    #[actix_web::test]
    async fn each_piece_of_a_stream_can_be_read_when_it_has_come() {
        for coding in ["gzip", "br", "zstd"] {
            let pieces = futures_util::stream::iter(["first,", "second"]);
            let pieces = pieces.map(|text| Ok::<_, std::io::Error>(Bytes::from_static(text.as_bytes())));
            let response = answer(coding, HttpResponse::Ok().content_type("text/csv").streaming(pieces));
            let mut body = Box::pin(response.into_body());
            let next = std::future::poll_fn(|cx| actix_web::body::MessageBody::poll_next(body.as_mut(), cx));
            let begun = next.await.unwrap().unwrap();
            let mut start = [0; 6];
            match coding {
                "gzip" => flate2::read::GzDecoder::new(&begun[..]).read_exact(&mut start).unwrap(),
                "br" => brotli::Decompressor::new(&begun[..], 4096).read_exact(&mut start).unwrap(),
                _ => zstd::Decoder::new(&begun[..]).unwrap().read_exact(&mut start).unwrap(),
            }
            assert_eq!(&start, b"first,");
            let rest = actix_web::body::to_bytes(body).await.unwrap();
            assert_eq!(decode(coding, &[&begun[..], &rest[..]].concat()), b"first,second");
        }
    }
}
