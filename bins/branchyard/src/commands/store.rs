//! The commands `store collect` and `store rewrap`.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use branchyard_domain::ports::{Clock as _, Ids as _};
use branchyard_runtime::{SystemClock, SystemIds};
use branchyard_storage::Task;
use serde_json::json;

use super::print;
use crate::compose::{Environment, Pending, Role, Stores};
use crate::config::Config;

pub(super) fn collect(config: &Config, dry_run: bool, force: bool, as_json: bool) -> anyhow::Result<()> {
    ensure!(config.store_url.is_some(), NO_STORE);
    let stores = Stores::open(config, &Environment::default(), Pending::Refuse, Role::Command)?;
    let home = stores.home.as_ref().context(NO_STORE)?;
    let now = SystemClock::default().now();
    let name = format!("command-{}", SystemIds.uuid(now));
    let task = Task { every: Duration::ZERO, list_every: Duration::ZERO, dry_run, force };
    let done = home.collect(&name, config.store.grace.duration(), task, now, &|| true)?;
    let Some(done) = done else { bail!("another node collects objects at the moment; try again later") };
    if as_json {
        return print(json!({
            "dry_run": dry_run,
            "listed": done.listed,
            "foreign": done.foreign,
            "doomed": done.doomed,
            "cleared_databases": done.cleared,
            "deleted": done.deleted,
            "more_to_delete": done.left > 0,
        }));
    }
    let [found, gone] = if dry_run { ["would be marked", "would be deleted"] } else { ["were marked", "were deleted"] };
    print(format_args!("{} objects listed", done.listed))?;
    print(format_args!("{} objects are not in use and {found} for deletion after store.grace", done.doomed))?;
    print(format_args!("{} objects {gone}", done.deleted))?;
    if done.cleared > 0 {
        print(format_args!("{} databases that do not exist any more have objects, which {found} too", done.cleared))?;
    }
    if done.foreign > 0 {
        print(format_args!("{} objects are not Branchyard's, and stay", done.foreign))?;
    }
    if done.left > 0 {
        print("more objects are to be deleted than one collection may; run it again, or with --force")?;
    }
    Ok(())
}

pub(super) fn rewrap(config: &Config, as_json: bool) -> anyhow::Result<()> {
    ensure!(config.store_url.is_some(), NO_STORE);
    let stores = Stores::open(config, &Environment::default(), Pending::Refuse, Role::Command)?;
    let data_keys = stores.data_keys.as_ref().context(
        "objects are stored as they are; set store.encryption_key_file or store.encryption_key_command to seal new ones",
    )?;
    let done = data_keys.rewrap()?;
    if as_json {
        return print(json!({"wrapped": done.wrapped, "already_wrapped": done.already}));
    }
    print(format_args!("{} data keys were wrapped anew, and {} already were", done.wrapped, done.already))?;
    if config.store.encryption_previous_key_file.is_some() || !config.store.encryption_previous_key_command.is_empty() {
        print(
            "the previous master key opens nothing any more; remove its setting, and keep the key as long as backups of Postgres",
        )?;
    }
    Ok(())
}

/// What commands on the store print if there is none.
pub(super) const NO_STORE: &str =
    "the databases are in the data folder; set store_url if they are in a store of objects";
