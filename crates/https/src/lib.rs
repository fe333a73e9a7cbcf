//! Serves an actix application over TLS: HTTP/1.1 by actix's own dispatcher, HTTP/2 by a dispatcher of this crate.
//!
//! actix's dispatcher for HTTP/2 leaves most limits at the defaults of the `h2` crate, and some at none: the number of streams,
//! the size of a head, and the time of a response that its client does not read. The dispatcher of this crate sets each of them.
//! It hands a request to the application as HTTP/1.1 would: with a `host` header, one `cookie` header, and a target without an
//! origin.

mod certificate;
mod certificates;
mod connection_data;
mod frame_meter;
mod handshake;
mod http1;
mod http2;
mod listen;
mod machine_time;
mod validity;

pub use certificate::{CertificateError, CertificateFiles};
pub use certificates::Certificates;
pub use connection_data::connection_data;
pub use handshake::HANDSHAKE;
pub use http2::STREAMS;
pub use listen::{Limits, listen};
