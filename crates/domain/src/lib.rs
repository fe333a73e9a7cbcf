//! The domain of Branchyard: versioned databases with their branches, forks, pull requests, imports and SQL.
//!
//! Callers use the [`Hub`], which is built over the [`ports`]. Calls are synchronous and may block; the caller
//! chooses the thread.
//!
//! The crate holds no web framework, no async runtime, no SQL library and no SQL text. Its entities do not implement
//! `Serialize`. Time and randomness come in through ports.
#![doc = include_str!("../README.md")]

pub mod access;
mod call_context;
pub mod entities;
pub mod errors;
pub mod ports;
pub mod usecases;
pub mod values;

pub use call_context::{CallContext, CallSubject, EnteredContext};
pub use usecases::{Hub, HubBuilder, WebhookPorts};
