//! Deployments as processes: the real binary, real sockets, loopback only.

pub(crate) mod clients;
mod data;
mod harness;
mod hostile;
mod kills;
mod lifecycle;
mod streams;
mod suite;
