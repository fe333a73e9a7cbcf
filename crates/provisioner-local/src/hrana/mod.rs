//! Hrana over HTTP, versions 2 and 3, in JSON: what libSQL clients speak.
//!
//! [`wire`] is what is sent, [`run`] turns requests into statements of a session, [`streams`] keeps what lives from one request to the
//! next, [`batons`] name it. Nothing here knows a socket; `child` does.

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
