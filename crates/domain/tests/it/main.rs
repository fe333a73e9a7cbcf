//! Use cases over the fakes, and the suites of the ports on the fakes.

mod access;
mod exactly_once;
mod imports;
mod operations;
mod properties;
mod pulls;
mod refs;
mod suites;
mod world;
