//! The contract suite of [`Metadata`]. Each check needs an empty, migrated store of its own.
//!
//! A test calls [`run_all`], or the checks in [`ALL`] one by one.

mod accounts;
mod activities;
mod administration;
mod builders;
mod collections;
mod databases;
mod events;
mod facts;
mod former_names;
mod hooks;
mod mirrors;
mod oauth;
mod operations;
mod organizations;
mod people;
mod pulls;
mod ref_log;
mod refs;
mod sessions;
mod stars;
mod transactions;
mod watches;

use branchyard_domain::ports::Metadata;

pub use accounts::{accounts, tokens, user_keys};
pub use activities::activities;
pub use administration::{quarantine, user_lists};
pub(super) use builders::{
    account_id, at, branch, change, database, database_id, hash, id, operation, operation_id, organization, owner,
    pull, read, reference, scene, tag, taken, trace, user, write,
};
pub use collections::collections;
pub use databases::{collaborators, database_lists, databases};
pub use events::{answers, events};
pub use facts::{branch_facts, changes_sent_together, request_facts};
pub use former_names::{former_names, former_names_property};
pub use hooks::{deliveries, delivery_leases, delivery_log, hook_secrets, hooks};
pub use mirrors::{mirrors, trimmed_operations};
pub use oauth::{access_tokens, applications, authorization_codes, device_authorizations, grants};
pub use operations::{lease_turns, leases, operations, uploads};
pub use organizations::{members, organizations};
pub use people::deleted_users;
pub use pulls::{comments, pull_content, pulls};
pub use ref_log::ref_log;
pub use refs::{named_commits, refs, releases};
pub use sessions::{attempts_to_sign_in, invitations, profiles, request_counts, sessions};
pub use stars::{rankings, stars};
pub use transactions::{concurrency, rights_kept_by_writes, rights_versions, transactions, versions};
pub use watches::watch_marks;

/// A check of one part of the contract.
pub type MetadataCheck = fn(&dyn Metadata);

/// Every check with its name.
pub const ALL: &[(&str, MetadataCheck)] = &[
    ("branch_facts", branch_facts),
    ("request_facts", request_facts),
    ("changes_sent_together", changes_sent_together),
    ("accounts", accounts),
    ("organizations", organizations),
    ("members", members),
    ("deleted_users", deleted_users),
    ("tokens", tokens),
    ("user_keys", user_keys),
    ("sessions", sessions),
    ("attempts_to_sign_in", attempts_to_sign_in),
    ("request_counts", request_counts),
    ("invitations", invitations),
    ("applications", applications),
    ("grants", grants),
    ("access_tokens", access_tokens),
    ("authorization_codes", authorization_codes),
    ("device_authorizations", device_authorizations),
    ("profiles", profiles),
    ("user_lists", user_lists),
    ("databases", databases),
    ("database_lists", database_lists),
    ("former_names", former_names),
    ("former_names_property", former_names_property),
    ("quarantine", quarantine),
    ("mirrors", mirrors),
    ("trimmed_operations", trimmed_operations),
    ("collaborators", collaborators),
    ("activities", activities),
    ("stars", stars),
    ("rankings", rankings),
    ("refs", refs),
    ("named_commits", named_commits),
    ("ref_log", ref_log),
    ("collections", collections),
    ("pulls", pulls),
    ("pull_content", pull_content),
    ("comments", comments),
    ("releases", releases),
    ("operations", operations),
    ("leases", leases),
    ("lease_turns", lease_turns),
    ("uploads", uploads),
    ("answers", answers),
    ("events", events),
    ("hooks", hooks),
    ("hook_secrets", hook_secrets),
    ("deliveries", deliveries),
    ("delivery_log", delivery_log),
    ("delivery_leases", delivery_leases),
    ("transactions", transactions),
    ("concurrency", concurrency),
    ("versions", versions),
    ("rights_versions", rights_versions),
    ("watch_marks", watch_marks),
];

/// Runs every check, each on a new store from `make`.
pub fn run_all(make: &dyn Fn() -> Box<dyn Metadata>) {
    for (_, check) in ALL {
        check(make().as_ref());
    }
}
