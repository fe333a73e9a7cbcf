//! Processes that confine themselves, and then try what they may and what they may not.
#![cfg_attr(target_os = "linux", expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would"))]

#[cfg(target_os = "linux")]
mod attempts;
#[cfg(target_os = "linux")]
mod confined_files;
#[cfg(target_os = "linux")]
mod ordinary_work;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod raw;
#[cfg(target_os = "linux")]
mod refusals;
mod resources;
#[cfg(target_os = "linux")]
mod support;
