//! The `gc` command: collects garbage, or has the running server do it.

use anyhow::{Context as _, bail};
use branchyard_domain::errors::AccessError;

use super::{print, print_note};
use crate::compose::{Environment, Pending, Role, Stores, refuse_newer};
use crate::config::Config;
use crate::data_dir::DataDir;

pub(super) fn run(config: &Config, database: Option<&str>, json: bool) -> anyhow::Result<()> {
    let only = database.map(|name| name.split_once('/').context("name the database as OWNER/DATABASE")).transpose()?;
    let dir = DataDir::open(&config.data_dir)?;
    refuse_newer(config, &dir)?;
    // A running server holds the lock, and its engine must be the only one that replaces files.
    let lock = dir.try_lock()?;
    let world = Environment::default();
    let (pending, role) =
        if lock.is_some() { (Pending::Migrate, Role::Node) } else { (Pending::Refuse, Role::Command) };
    let stores = Stores::open(config, &world, pending, role)?;
    let found = |error: AccessError| match (error, database) {
        (AccessError::NoSuchDatabase, Some(name)) => anyhow::anyhow!("there is no database {name}"),
        (error, _) => error.into(),
    };
    let collections = stores.hub.collections();
    if lock.is_none() {
        let due = collections.request(only).map_err(found)?;
        let names: Vec<String> = due.iter().map(|(_, locator)| locator.to_string()).collect();
        if json {
            return print(serde_json::json!({ "due": names }));
        }
        for name in names {
            print(format_args!("{name}: the running server collects it next"))?;
        }
        return Ok(());
    }
    stores.bind(&world)?;
    stores.engine.clear_temporary().context("cannot remove the temporary files of the engine")?;
    let node = stores.deployments.hosting().node.clone();
    // What a server that crashed left behind.
    collections.recover(&node)?;
    let (mut collected, mut failures) = (Vec::new(), 0);
    for (id, locator) in collections.find(only).map_err(found)? {
        match collections.collect_now(id, &branchyard_runtime::collection_holder(&node)) {
            Ok(freed_bytes) => {
                if !json {
                    print(format_args!("{locator}: {freed_bytes} bytes freed"))?;
                }
                collected.push(serde_json::json!({ "database": locator.to_string(), "freed_bytes": freed_bytes }));
            }
            Err(error) => {
                failures += 1;
                print_note(&format!("{locator}: {:#}", anyhow::Error::new(error)))?;
            }
        }
    }
    if json {
        print(serde_json::json!({ "collected": collected }))?;
    }
    match failures {
        0 => Ok(()),
        count => bail!("{count} databases were not collected"),
    }
}
