#![doc = include_str!("../README.md")]
//!
//! The domain of deployments: databases that a process of their own serves to ordinary clients, at a metered cost.
//!
//! The entry point is [`Deployments`]. It is built over the [`Hub`](branchyard_domain::Hub) and the [`ports`]: a store
//! that shares its transactions with the hub, a provisioner that runs the processes, and the files of the backups. The
//! [`Supervisor`] starts, watches and stops the processes. Calls are synchronous and may block; the caller chooses the
//! thread.

pub mod access;
pub mod entities;
pub mod errors;
pub mod ports;
pub mod values;

mod usecases;

pub use usecases::*;
