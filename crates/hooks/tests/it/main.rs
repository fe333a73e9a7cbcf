//! Delivery to receivers that behave and to those that do not, and the policy about addresses.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod addresses;
mod delivery;
mod receiver;
mod tls;
