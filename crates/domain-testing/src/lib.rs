//! Support for tests of crates that build on the domain: in-memory implementations of the ports, and contract suites
//! that every implementation of a port has to pass.

pub mod fakes;
pub mod suites;
