//! Deployments: databases that a process of their own serves to ordinary libSQL clients.
//!
//! Two halves of one crate, which never run in the same process:
//!
//! | half | runs in | is |
//! |---|---|---|
//! | [`serve`] | the process of an instance | the Hrana endpoint on the sessions of an engine, and the far end of the control channel |
//! | [`LocalProcess`] | the server | the provisioner port: folders, processes, the near end of the control channel |
//!
//! What both know: the folder of an instance, the file it is told by, and the words of the channel.

mod child;
mod confined_dir;
mod control;
mod folder;
mod hrana;
mod local;
mod spec;

pub use child::{EngineSize, ServeError, Tools, serve};
pub use local::{HubFiles, LocalProcess, LocalSettings};
