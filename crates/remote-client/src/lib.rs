//! A client of DoltLite's remote protocol.
#![doc = include_str!("../README.md")]

mod body;
mod client;
mod error;
mod io;
mod sources;
mod url;
mod walk;

pub use client::{Held, NextChunk, Presence, Progress, Remote, RemoteLimits};
pub use error::RemoteError;
pub use io::Io;
pub use sources::{HttpRemoteSources, SourceOptions};
pub use url::{NotARemote, RemoteUrl};
