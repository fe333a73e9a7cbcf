//! Hosted API v1 on the real binary.

mod access_revocation;
mod clients;
mod endpoints;
mod gateway;
mod harness;
mod lifecycle;
mod restore;
mod shared;
mod signals;
mod sources;
