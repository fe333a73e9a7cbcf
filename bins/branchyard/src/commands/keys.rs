//! The commands `keys rotate`, `keys list` and `keys remove`.

use anyhow::bail;
use branchyard_domain::ports::Clock as _;
use branchyard_runtime::{SystemClock, SystemIds};
use serde_json::json;

use super::print;
use crate::cli::KeysAction;
use crate::compose::Stores;
use crate::data_dir::new_key;

pub(super) fn run(stores: &Stores, action: KeysAction) -> anyhow::Result<()> {
    match action {
        KeysAction::Rotate => rotate(stores),
        KeysAction::List { json } => list(stores, json),
        KeysAction::Remove { id } => remove(stores, &id),
    }
}

fn rotate(stores: &Stores) -> anyhow::Result<()> {
    let key = new_key(&SystemIds, SystemClock::default().now())?;
    let id = key.id().to_owned();
    stores.dir.change_key_ring(|ring| ring.add(key))?;
    print(format!("added the key {id}; the server seals all secrets under it, now or when it starts"))
}

fn list(stores: &Stores, as_json: bool) -> anyhow::Result<()> {
    let ring = stores.dir.key_ring()?;
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
    // The transaction lasts until the file is replaced. A server compares the file before it seals, within a transaction of its
    // own, so that it seals nothing more under the key.
    stores.hub.secrets().with_counts(|counts| {
        stores.dir.change_key_ring(|ring| {
            let sealed_as = ring.remove(id)?.sealed_as();
            match counts.iter().find(|(key, _)| *key == sealed_as) {
                None => Ok(()),
                Some((_, hooks)) => bail!(
                    "the secrets of {hooks} webhooks and mirrors are sealed under {id}; a running server seals them anew within seconds, so \
                     start it and try again"
                ),
            }
        })
    })??;
    print(format!("removed the key {id}; page tokens, forms and part URLs that were made under it have ended"))
}
