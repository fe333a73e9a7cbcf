//! What was lost when the metadata were restored to an earlier time, as an administrator accepted it.
//!
//! It is an object `losses/<database>/<epoch>` in the store, beside the lost bytes. The metadata would lose it again if they were restored
//! once more.

use branchyard_domain::ports::{DatabaseStore, StoreError};
use branchyard_domain::values::{DatabaseId, ObjectKey};
use branchyard_segments::{AcceptedLoss, Epoch, Generation};

/// The folder of losses in the store.
const LOSSES: &str = "losses";

/// Most bytes of a loss: two numbers.
const LOSS_MAX: usize = 64;

/// How many losses of a database are read at most, the oldest first.
const LOSSES_MAX: usize = 1_000;

/// Stores what a database lost. Storing it again has no effect.
///
/// # Errors
/// [`StoreError`].
pub fn store_loss(store: &dyn DatabaseStore, database: DatabaseId, loss: &AcceptedLoss) -> Result<(), StoreError> {
    // In the order of their numbers, because keys are listed in the order of their bytes.
    let key = format!("{LOSSES}/{database}/{:020}", loss.epoch.0);
    let key = ObjectKey::parse(&key).map_err(|error| StoreError::rejected("report this fault", error))?;
    store.replace(&key, format!("{} {}", loss.generation.0, loss.durable_length).as_bytes())
}

/// Returns what a database lost, each time that an administrator accepted it, the oldest first.
///
/// # Errors
/// [`StoreError`]; [`StoreError::Damaged`] if an object is not one that [`store_loss`] stored.
pub fn losses_of(store: &dyn DatabaseStore, database: DatabaseId) -> Result<Vec<AcceptedLoss>, StoreError> {
    let folder = ObjectKey::parse(&format!("{LOSSES}/{database}")).ok();
    let mut losses = Vec::new();
    for info in store.list(folder.as_ref(), None, LOSSES_MAX)? {
        let bytes = store.read_small(&info.key, LOSS_MAX)?;
        let loss = parse(info.key.as_str(), &bytes);
        losses.push(loss.ok_or_else(|| StoreError::damaged(&info.key, "it is not what a database lost"))?);
    }
    Ok(losses)
}

fn parse(key: &str, bytes: &[u8]) -> Option<AcceptedLoss> {
    let (_, epoch) = key.rsplit_once('/')?;
    let (generation, durable_length) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    Some(AcceptedLoss {
        generation: Generation(generation.parse().ok()?),
        durable_length: durable_length.parse().ok()?,
        epoch: Epoch(epoch.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use branchyard_domain_testing::fakes::MemoryDatabaseStore;

    use super::*;

    #[test]
    fn losses_are_read_in_the_order_in_which_they_were_accepted() {
        let store = MemoryDatabaseStore::default();
        let database = |n: u128| DatabaseId::parse(&format!("{n:08}-0000-7000-8000-000000000000")).unwrap();
        let loss = |epoch| AcceptedLoss { generation: Generation(2), durable_length: 70, epoch: Epoch(epoch) };
        for epoch in [100, 9, 100] {
            store_loss(&store, database(1), &loss(epoch)).unwrap();
        }
        assert_eq!(losses_of(&store, database(1)).unwrap(), [loss(9), loss(100)]);
        assert_eq!(losses_of(&store, database(2)).unwrap(), []);
        let key = ObjectKey::parse(&format!("losses/{}/1", database(2))).unwrap();
        store.put(&key, b"2").unwrap();
        assert!(matches!(losses_of(&store, database(2)), Err(StoreError::Damaged { .. })));
    }
}
