//! Composition of the `branchyard` server: configuration, wiring, life cycle, and commands.
//!
//! This is a library beside the binary, so that tests can start the same server that is deployed. It holds no product rules:
//! those are in `branchyard-domain`. The wire formats are in the API crates.

mod background_observer;
pub mod build_info;
pub mod cli;
mod client;
pub mod commands;
pub mod compose;
pub mod config;
mod connections;
pub mod data_dir;
mod database_store;
pub mod demo;
mod deployment_supervisor;
pub mod deployments;
mod durable_home;
pub mod elf;
mod free_space;
mod health;
pub mod key_ring;
pub mod live_keys;
mod live_streams;
mod logging;
mod lost_changes;
mod manifest;
pub mod master_key;
mod metadata_exchange;
mod metrics;
mod node_calls;
mod node_drain;
mod node_figures;
mod origin_check;
mod per_address;
pub mod private;
mod repeating_thread;
pub mod ring_store;
mod scheduler_bridge;
mod sealed_files;
pub mod serve;
pub mod sql_engine;
mod store_encryption;
