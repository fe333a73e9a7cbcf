//! Hrana over HTTP, versions 2 and 3, in JSON: the protocol of libSQL clients.
//!
//! [`wire`] defines the messages, [`run`] turns requests into statements of a session, [`streams`] keeps the state
//! between requests, and [`batons`] identify it. This module knows no sockets; `child` does.

pub(crate) mod answer;
pub(crate) mod batons;
pub(crate) mod check;
pub(crate) mod errors;
#[cfg(test)]
mod fake;
pub(crate) mod run;
pub(crate) mod streams;
pub(crate) mod values;
pub(crate) mod wire;
