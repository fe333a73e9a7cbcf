//! What a hub needs of the machine it runs on: a clock, ids, and threads for the work in the background.
//!
//! A hub queues what takes time: SQL writes, merges, forks, imports, garbage collections, deliveries of webhooks. The
//! threads of this crate run it. [`RunningHub::start`] is the short way for a service that embeds the domain: it builds
//! the hub, resumes what an earlier process left, and starts the threads. A server that starts in its own order uses the
//! parts: [`recover`], then [`Background::start`].
#![doc = include_str!("../README.md")]

mod background;
mod clock;
mod collector;
mod dispatcher;
mod ids;
mod mirror_scheduler;
mod observer;
mod pull_fetches;
mod running_hub;
mod workers;

pub use background::{Background, BackgroundOptions, Recovered, recover};
pub use clock::SystemClock;
pub use collector::collection_holder;
pub use dispatcher::AttemptCutoff;
pub use ids::SystemIds;
pub use observer::{DeliverySpan, IgnoreAll, Observer, OperationSpan};
pub use running_hub::{RunningHub, StartError};
