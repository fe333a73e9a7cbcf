//! Flows over a whole server that need files of many kinds.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail where the test would")]

mod files;
mod imports;
mod scripts;
