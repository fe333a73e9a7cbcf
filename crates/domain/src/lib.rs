//! Branchyard's domain: people own versioned databases, branch and fork them, open and merge pull requests,
//! import data and run SQL at any ref.
//!
//! Everything goes through the [`Hub`], which is built over the [`ports`]: metadata, engine, blobs, file formats, clock and ids.
//! Calls are synchronous and may block; the caller chooses the thread.
//!
//! What is *not* here: no web framework, no async runtime, no SQL library and no SQL text, no `Serialize` on an entity,
//! no clock and no randomness of its own.

pub mod access;
pub mod entities;
pub mod errors;
pub mod ports;
pub mod usecases;
pub mod values;

pub use usecases::{Hub, Ports};
