//! Deployments as processes: the real binary, real sockets, loopback only.

pub(crate) mod clients;
mod data;
mod hostile;
mod kills;
mod life;
mod streams;
mod suite;
mod yard;
