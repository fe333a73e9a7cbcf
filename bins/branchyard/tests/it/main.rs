//! The whole server, over real sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod backup;
mod bench;
mod build_info;
#[cfg(target_os = "linux")]
mod c_hardening;
mod client_commands;
mod clients;
mod cluster_keys;
mod collections;
mod commands;
mod crash;
mod crash_hooks;
mod demo_cluster;
mod deployments;
mod durable_home;
mod faults;
mod fixtures;
mod forced_shutdown;
mod forks_made_later;
mod free_space;
mod half_sent;
mod hidden;
mod hook_docs;
mod hosted;
mod keys;
mod load;
mod logs;
mod main_job;
mod migrating;
mod mirrors;
mod node_calls;
mod node_drain;
mod node_faults;
mod node_forks;
mod node_quotas;
mod oauth_families;
mod object_blobs;
#[cfg(feature = "otlp")]
mod otlp;
mod outage;
mod process;
mod public_url;
mod purges;
mod pushes;
mod readme;
mod real_data;
mod remote_clients;
mod remotes;
mod store_encryption;
mod tls;
mod user_deletion;
