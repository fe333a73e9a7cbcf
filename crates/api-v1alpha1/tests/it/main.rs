//! The API over in-memory ports, without a socket.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod authorisation;
mod causes;
mod downloads;
mod good;
mod refusals;
mod shapes;
mod world;
