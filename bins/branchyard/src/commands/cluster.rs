//! The command `cluster accept`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use branchyard_domain::ports::Metadata as _;
use branchyard_domain::values::DatabaseId;
use branchyard_runtime::SystemIds;
use serde_json::json;

use super::print;
use super::store::NO_STORE;
use crate::compose::{Environment, Pending, Role, Stores};
use crate::config::Config;
use crate::database_store;

/// How long the objects of what was given up are kept.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

pub(super) fn accept(config: &Config, as_json: bool) -> anyhow::Result<()> {
    ensure!(config.store_url.is_some(), NO_STORE);
    let stores = Stores::open(config, &Environment::default(), Pending::Refuse, Role::Command)?;
    let (home, store) = stores.home.as_ref().zip(stores.store.as_ref()).context(NO_STORE)?;
    let live = stores.metadata.live_nodes()?;
    if !live.is_empty() {
        bail!("stop all servers first; these run: {}", live.join(", "));
    }
    let lost = home.accept_older_metadata(KEPT)?;
    database_store::rename(store.as_ref(), &stores.metadata, &SystemIds)?;
    // Last: until then, servers only read.
    home.remove_marks()?;
    let names = names(&stores, &lost)?;
    if as_json {
        let databases = lost
            .iter()
            .map(|(id, objects)| json!({ "id": id.to_string(), "database": names.get(id), "objects": objects }));
        return print(json!({ "lost": databases.collect::<Vec<_>>(), "kept_days": KEPT.as_secs() / 86_400 }));
    }
    for (id, objects) in &lost {
        let name = names.get(id).cloned().unwrap_or_else(|| format!("a database that the metadata do not have ({id})"));
        print(format_args!(
            "{name}: {objects} objects that may hold changes which the metadata lost are kept for 30 days"
        ))?;
    }
    if !names.is_empty() {
        print(
            "`branchyard cluster recover OWNER/DATABASE` makes branches of these changes, also once the servers run",
        )?;
    }
    print("the servers can be started; they go on from what the metadata have")
}

/// Returns the names of the databases that the metadata have.
fn names(stores: &Stores, lost: &BTreeMap<DatabaseId, u64>) -> anyhow::Result<BTreeMap<DatabaseId, String>> {
    let ids: Vec<DatabaseId> = lost.keys().copied().collect();
    let found = stores.metadata.read()?.databases().get_all(&ids)?;
    Ok(found.into_iter().map(|database| (database.id, database.locator.to_string())).collect())
}
