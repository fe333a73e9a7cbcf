//! The command `store collect`.

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

/// What commands on the store print if there is none.
pub(super) const NO_STORE: &str =
    "the databases are in the data folder; set store_url if they are in a store of objects";
