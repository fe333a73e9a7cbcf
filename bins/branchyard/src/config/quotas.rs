//! Settings of quotas.

use serde::{Deserialize, Serialize};

use super::{Span, list};

/// Quotas and reserved names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Maximum number of databases of an owner, including forks; 0 means no limit.
    pub databases_per_owner: u64,
    /// Maximum number of bytes of an owner; 0 means no limit.
    pub bytes_per_owner: u64,
    /// Maximum number of operations of an owner in 24 hours; 0 means no limit.
    pub operations_per_day: u64,
    /// Maximum number of organizations that a user owns; 0 means no limit.
    pub organizations_per_user: u64,
    /// Free bytes of the data folder's file system below which only deletions and sign-in are served; 0 means no limit.
    pub min_free_bytes: u64,
    /// The former name of `store.history`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_deleted: Option<Span>,
    /// Owner names to reject in addition to the built-in ones.
    #[serde(deserialize_with = "list::list")]
    pub reserved_names: Vec<String>,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            databases_per_owner: 0,
            bytes_per_owner: 0,
            operations_per_day: 0,
            organizations_per_user: 0,
            min_free_bytes: 512 << 20,
            keep_deleted: None,
            reserved_names: Vec::new(),
        }
    }
}
