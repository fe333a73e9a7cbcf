//! Tests of a listener over real connections.

mod client;
mod floods;
mod http1;
mod http2;
mod limits;
mod server;
mod tls;
