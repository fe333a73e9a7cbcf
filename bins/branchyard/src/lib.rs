//! Composition: configuration, wiring, life cycle and commands of the `branchyard` server.
//!
//! A library beside the binary, so that tests can start the very server that people deploy. No rule of the product lives
//! here: those are in `branchyard-domain`; how things look on the wire is in the API crates.

pub mod cli;
pub mod commands;
pub mod compose;
pub mod config;
mod connections;
pub mod data_dir;
pub mod demo;
mod deployment_supervisor;
pub mod deployments;
mod dispatcher;
mod health;
mod manifest;
mod metrics;
mod per_address;
mod pull_fetches;
mod scheduler_bridge;
pub mod serve;
mod workers;
