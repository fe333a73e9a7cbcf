//! The commands `keys rotate`, `keys list` and `keys remove`.

use std::path::Path;

use anyhow::Context as _;
use branchyard_domain::ports::Clock as _;
use branchyard_runtime::{SystemClock, SystemIds};
use serde_json::json;

use super::print;
use crate::cli::KeysAction;
use crate::compose::Stores;
use crate::data_dir::new_key;
use crate::master_key::MasterKey;

pub(super) fn run(stores: &Stores, action: KeysAction) -> anyhow::Result<()> {
    match action {
        KeysAction::Rotate { master: None } => rotate(stores),
        KeysAction::Rotate { master: Some(file) } => exchange_master(stores, &file),
        KeysAction::List { json } => list(stores, json),
        KeysAction::Remove { id } => remove(stores, &id),
    }
}

fn rotate(stores: &Stores) -> anyhow::Result<()> {
    let now = SystemClock::default().now();
    let key = new_key(&SystemIds, now)?;
    let id = key.id().to_owned();
    stores.keys.ring().add(key, &SystemIds, now)?;
    print(format!("added the key {id}; the server seals all secrets under it, now or when it starts"))
}

fn exchange_master(stores: &Stores, file: &Path) -> anyhow::Result<()> {
    let master = MasterKey::read(file).context("--master")?;
    stores.keys.ring().seal_under(&master, &SystemIds, SystemClock::default().now())?;
    print(format!(
        "sealed the key ring under the master key {}; set server_key_file to {} on all nodes, and restart them",
        master.id(),
        file.display()
    ))
}

fn list(stores: &Stores, as_json: bool) -> anyhow::Result<()> {
    let ring = stores.keys.ring().read()?;
    let mut counts = stores.hub.secrets().counts()?;
    let mut take = |sealed_as: &str| {
        let at = counts.iter().position(|(key, _)| key == sealed_as);
        at.map_or(0, |at| counts.remove(at).1)
    };
    let keys: Vec<_> = ring.keys().iter().map(|key| (key.id(), take(&key.sealed_as()))).collect();
    if as_json {
        let keys =
            keys.iter().enumerate().map(|(at, (id, hooks))| json!({"id": id, "newest": at == 0, "hooks": hooks}));
        let absent = counts.iter().map(|(key, hooks)| json!({"sealed_as": key, "hooks": hooks}));
        return print(json!({"keys": keys.collect::<Vec<_>>(), "absent": absent.collect::<Vec<_>>()}));
    }
    for (at, (id, hooks)) in keys.iter().enumerate() {
        let newest = if at == 0 { ", newest" } else { "" };
        print(format!("{id}: {hooks} webhooks and mirrors{newest}"))?;
    }
    for (key, hooks) in &counts {
        print(format!(
            "absent (sealed as {key}): {hooks} webhooks and mirrors; `branchyard doctor` names the webhooks"
        ))?;
    }
    Ok(())
}

fn remove(stores: &Stores, id: &str) -> anyhow::Result<()> {
    stores.keys.ring().remove(&stores.hub, id, &SystemIds, SystemClock::default().now())?;
    print(format!("removed the key {id}; page tokens, forms and part URLs that were made under it have ended"))
}
