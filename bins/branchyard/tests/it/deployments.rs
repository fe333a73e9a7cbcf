//! Deployments as processes: the real binary and real sockets on the loopback interface.

pub(crate) mod clients;
mod data;
mod harness;
mod hostile;
mod kills;
mod lifecycle;
mod streams;
mod suite;
