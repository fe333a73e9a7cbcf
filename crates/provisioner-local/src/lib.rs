//! The provisioner on the local machine: databases that a process of their own serves to ordinary libSQL clients.
//!
//! The crate has parts that never run in the same process:
//!
//! | half | runs in | is |
//! |---|---|---|
//! | [`serve`] | the process of an instance | the Hrana endpoint on the sessions of an engine, and the process side of the control channel |
//! | [`LocalProcess`] | the server | the provisioner port: folders, processes, and the server side of the control channel |
//! | [`stage_files`] | a process for one database file | creates or checks the file, for [`ProcessStaging`] in the server |
//!
//! [`serve`] and [`LocalProcess`] share the folder of an instance, the file with its specification, and the messages of the channel.

mod child;
mod confined_dir;
mod control;
mod folder;
mod hrana;
mod local;
mod spec;
mod staging_engine;

pub use child::{EngineSize, LongStatement, ServeError, StatementTurns, Tools, serve};
pub use local::{HubFiles, LocalProcess, LocalSettings};
pub use staging_engine::{
    Heads, InProcessStaging, OpenEngine, ProcessStaging, StagedContent, StagingEngine, StagingTask, stage_files,
};
