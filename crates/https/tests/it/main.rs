//! Tests of a listener over real connections.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail where the test would")]

mod client;
mod floods;
mod http1;
mod http2;
mod limits;
mod server;
mod tls;
