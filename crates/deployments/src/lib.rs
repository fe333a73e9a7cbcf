//! The domain of deployments: a database that is served to ordinary clients by a process of its own, at a metered cost.
//!
//! Everything goes through [`Deployments`], which is built over the [`Hub`](branchyard_domain::Hub) and the [`ports`]: a store whose transactions
//! are those of the hub, a provisioner that runs processes, and the files of backups. What runs the processes is the [`Supervisor`].
//! Calls are synchronous and may block; the caller chooses the thread.

pub mod access;
pub mod entities;
pub mod errors;
pub mod ports;
pub mod values;

mod usecases;

pub use usecases::*;
