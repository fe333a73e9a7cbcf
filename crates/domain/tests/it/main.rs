//! Tests of the use cases on the fakes, and of the fakes against the contract suites of the ports.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod access;
mod administration;
mod at_time;
mod browse;
mod collections;
mod deleted_accounts;
mod direct_writes;
mod error_sources;
mod exactly_once;
mod expected_heads;
mod fair_workers;
mod files;
mod harness;
mod hooks;
mod hub_builder;
mod imports;
mod keys;
mod lookup_cache;
mod mirrors;
mod operations;
mod organizations;
mod properties;
mod pull_content;
mod pull_trials;
mod pulls;
mod purges;
mod quotas;
mod refs;
mod remotes;
mod restores;
mod sessions;
mod signals;
mod suites;
mod traces;
