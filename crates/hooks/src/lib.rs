#![doc = include_str!("../README.md")]
//!
//! Delivery of webhooks: payloads ([`JsonPayloads`]), signatures ([`signature`]), the address policy
//! ([`AddressPolicy`]), the encryption of secrets ([`ServerVault`]) and the HTTP requests ([`HttpSender`]).
//!
//! This crate does not decide when and how often a request is sent: the domain does, through its ports. Nothing here
//! reads a store.

mod address;
mod capture;
mod egress;
mod failure;
mod lookups;
mod names;
mod payload;
mod sender;
pub mod signature;
mod vault;

pub use address::{AddressPolicy, NotACidr, Verdict};
pub use names::{Names, SystemNames};
pub use payload::JsonPayloads;
pub use sender::{HttpSender, SenderError, SenderOptions};
pub use vault::ServerVault;
