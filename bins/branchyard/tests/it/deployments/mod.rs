//! Deployments as processes: the real binary, real sockets, loopback only.

mod clients;
mod data;
mod hostile;
mod kills;
mod life;
mod streams;
mod yard;
