//! Delivery of webhooks: payloads ([`JsonPayloads`]), signatures ([`signature`]), the encryption of secrets ([`ServerVault`]) and the HTTP requests ([`HttpSender`]).
//!
//! This crate does not decide when and how often a request is sent: the domain does, through its ports. Nothing here
//! reads a store.
#![doc = include_str!("../README.md")]

mod capture;
mod lookups;
mod payload;
mod sender;
pub mod signature;
mod vault;

pub use branchyard_egress::{AddressPolicy, Names, NotACidr, RootsError, SystemNames, Verdict};
pub use payload::JsonPayloads;
pub use sender::{HttpSender, SenderOptions};
pub use vault::ServerVault;
