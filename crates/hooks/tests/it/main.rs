//! Delivery to well-behaved and misbehaving receivers, and the address policy.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod addresses;
mod delivery;
mod receiver;
mod tls;
