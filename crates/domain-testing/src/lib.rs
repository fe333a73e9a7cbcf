//! For tests of whatever is built on the domain: in-memory implementations of every port, and the suites that any implementation of a port has to
//! pass.

pub mod fakes;
pub mod suites;
