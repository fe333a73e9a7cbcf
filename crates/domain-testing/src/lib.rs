//! Support for tests of crates that build on the domain: in-memory implementations of the ports, contract suites
//! that every implementation of a port has to pass, and helpers that wait with a deadline.

pub mod fakes;
pub mod suites;
mod wait;

pub use wait::{AMPLE, Watchdog, wait_for, wait_until};
