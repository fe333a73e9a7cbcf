//! The way out of a server: HTTP clients that reach only the addresses that a policy admits.
#![doc = include_str!("../README.md")]

mod address;
mod cause;
mod checked;
mod client;
mod names;

pub use address::{AddressPolicy, NotACidr, Verdict, literal, never_opened};
pub use cause::Cause;
pub use client::{Egress, RootsError};
pub use names::{Names, SystemNames};
