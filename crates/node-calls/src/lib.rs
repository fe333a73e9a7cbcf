//! Calls between the nodes of a cluster.
//!
//! Each node serves every request, but only the node that leads a database changes its file. A request that changes it without an
//! operation, as the pushes of the engine's clients do, is passed on to that node by [`NodeCalls::pass`], below [`PREFIX`]. The
//! client is authenticated there anew, so the receiving node trusts the sending one only for the address of the client.
//!
//! A call is signed ([`CallKey`]) over everything that it says, can be made once, and goes no further than one node ([`admit`]).

mod admission;
mod client;
mod key;
mod nonces;
mod passing;
mod places;
mod spooled;
mod statement;
mod verified_body;

/// The first segment of the paths of all calls.
pub const PREFIX: &str = "/_cluster";

pub use admission::{IsCall, admit};
pub use client::{CallError, CallOptions, NodeClient, Sent};
pub use key::CallKey;
pub use passing::{NodeCalls, Passed};
pub use places::{LeaderNode, WritePlace, WritePlaces};
