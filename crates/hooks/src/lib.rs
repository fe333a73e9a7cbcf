//! The way out to hooks: what receivers are told ([`JsonPayloads`]), how it is signed ([`signature`]), which addresses may be
//! reached ([`AddressPolicy`]), how secrets are kept ([`ServerVault`]), and the requests themselves ([`HttpSender`]).
//!
//! When and how often something is sent is no matter of this crate: the domain decides, over its ports. Nothing here reads a store.

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
