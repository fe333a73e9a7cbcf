//! Sealed secrets and their keys: after a new key was added, all secrets are sealed anew under it.

use std::collections::BTreeMap;

use super::Inner;
use crate::entities::{DatabaseLocator, Hook, Sealed};
use crate::errors::PortError;
use crate::ports::{Durability, Transaction, WriteKey, WriteKeys};
use crate::values::HookId;

/// Maximum number of hooks or mirrors in one transaction, so that other writers wait only briefly.
const AT_ONCE: usize = 50;

/// The outcome of [`Secrets::reseal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResealOutcome {
    /// Number of hooks and mirrors whose secrets were sealed anew.
    pub resealed: u64,
    /// Number of hooks and mirrors with a secret whose key is absent. They stay as they are.
    pub unreadable: u64,
}

/// A hook whose present secret cannot be opened. Its deliveries wait until the secret is rotated, or its key is back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableHook {
    /// The database of the hook.
    pub database: DatabaseLocator,
    /// The hook.
    pub hook: HookId,
}

/// Use cases of the keys that secrets are sealed under.
pub struct Secrets<'a>(&'a Inner);

impl<'a> Secrets<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Seals all secrets that are sealed under another key anew under the present one, in transactions of at most 50 hooks
    /// or mirrors. Between two transactions it goes on only if `go_on` returns `true`. The call may be repeated at any time, also after
    /// it was interrupted.
    ///
    /// # Errors
    /// [`PortError`]; what the earlier transactions sealed stays sealed.
    pub fn reseal(&self, go_on: impl Fn() -> bool) -> Result<ResealOutcome, PortError> {
        let mut outcome = self.reseal_hooks(&go_on)?;
        let of_mirrors = self.reseal_mirrors(&go_on)?;
        outcome.resealed += of_mirrors.resealed;
        outcome.unreadable += of_mirrors.unreadable;
        Ok(outcome)
    }

    fn reseal_hooks(&self, go_on: impl Fn() -> bool) -> Result<ResealOutcome, PortError> {
        let ports = &self.0.ports;
        let mut outcome = ResealOutcome::default();
        let mut after = None;
        while go_on() {
            let key = ports.vault.key_id();
            let found = ports.metadata.read()?.hooks().list_sealed_otherwise(&key, after, AT_ONCE)?;
            let Some(last) = found.last() else { break };
            after = Some(last.id);
            let mut tx = ports.metadata.write(&WriteKeys::server())?;
            let mut resealed = 0;
            for found in found {
                // Read again, so that a change made meanwhile is not overwritten. Sealing within the transaction keeps
                // [`Secrets::with_counts`] true for as long as it lasts.
                let Some(mut hook) = tx.hooks().get(found.database_id, found.id)? else { continue };
                let before = hook.clone();
                if !self.seal_anew(&mut hook)? {
                    outcome.unreadable += 1;
                }
                if hook != before {
                    tx.hooks().update(&hook)?;
                    resealed += 1;
                }
            }
            if resealed > 0 {
                tx.commit(Durability::Synced)?;
                outcome.resealed += resealed;
            }
        }
        Ok(outcome)
    }

    fn reseal_mirrors(&self, go_on: impl Fn() -> bool) -> Result<ResealOutcome, PortError> {
        let ports = &self.0.ports;
        let mut outcome = ResealOutcome::default();
        let mut after = None;
        while go_on() {
            let key = ports.vault.key_id();
            let found = ports.metadata.read()?.mirrors().list_sealed_otherwise(&key, after, AT_ONCE)?;
            let Some(last) = found.last() else { break };
            after = Some(last.database_id);
            let mirrors = found.iter().map(|mirror| WriteKey::Database(mirror.database_id));
            let mut tx = ports.metadata.write(&WriteKeys::server().and_all(mirrors))?;
            let mut resealed = 0;
            for found in found {
                let Some(mut mirror) = tx.mirrors().get(found.database_id)? else { continue };
                let key = ports.vault.key_id();
                if mirror.seed.key_id == key {
                    continue;
                }
                let Some(seed) = ports.vault.open_seed(mirror.database_id, &mirror.seed) else {
                    outcome.unreadable += 1;
                    continue;
                };
                let mut nonce = [0; 24];
                ports.ids.fill(&mut nonce);
                mirror.seed = ports.vault.seal_seed(mirror.database_id, &seed, nonce)?;
                tx.mirrors().update(&mirror)?;
                resealed += 1;
            }
            if resealed > 0 {
                tx.commit(Durability::Synced)?;
                outcome.resealed += resealed;
            }
        }
        Ok(outcome)
    }

    /// Seals the secrets of a hook under the present key. Returns `false` if one of them cannot be opened, and leaves it.
    fn seal_anew(&self, hook: &mut Hook) -> Result<bool, PortError> {
        let ports = &self.0.ports;
        let key = ports.vault.key_id();
        let id = hook.id;
        let previous = hook.previous_secret.as_mut().map(|previous| &mut previous.secret);
        let seal = |sealed: &mut Sealed| -> Result<bool, PortError> {
            if sealed.key_id == key {
                return Ok(true);
            }
            let Some(secret) = ports.vault.open(id, sealed) else { return Ok(false) };
            let mut nonce = [0; 24];
            ports.ids.fill(&mut nonce);
            *sealed = ports.vault.seal(id, &secret, nonce)?;
            Ok(true)
        };
        // Not `all`, which would leave the previous secret if the present one cannot be opened.
        std::iter::once(&mut hook.secret).chain(previous).map(seal).try_fold(true, |all, opened| Ok(all & opened?))
    }

    /// Returns the number of hooks and mirrors with secrets under each key, by key id. A hook with secrets under two keys counts for both.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn counts(&self) -> Result<Vec<(String, u64)>, PortError> {
        Self::counts_within(self.0.ports.metadata.read()?.as_mut())
    }

    /// Passes the counts of [`Secrets::counts`] to `work`. While `work` runs, no secret is sealed.
    ///
    /// # Errors
    /// [`PortError`]; `work` was not called then.
    pub fn with_counts<T>(&self, work: impl FnOnce(&[(String, u64)]) -> T) -> Result<T, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        Ok(work(&Self::counts_within(tx.as_mut())?))
    }

    /// Returns the counts of [`Secrets::counts`] as a transaction sees them. If it holds
    /// [`WriteKey::Server`](crate::ports::WriteKey::Server), no secret is sealed until it ends.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn counts_within(tx: &mut dyn Transaction) -> Result<Vec<(String, u64)>, PortError> {
        let mut counts = BTreeMap::new();
        for (key, count) in tx.hooks().count_by_key()?.into_iter().chain(tx.mirrors().count_by_key()?) {
            *counts.entry(key).or_default() += count;
        }
        Ok(counts.into_iter().collect())
    }

    /// Returns the hooks, active or not, whose present secret cannot be opened, in the order of their creation.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn unreadable(&self) -> Result<Vec<UnreadableHook>, PortError> {
        let ports = &self.0.ports;
        let key = ports.vault.key_id();
        let mut tx = ports.metadata.read()?;
        let (mut unreadable, mut after) = (Vec::new(), None);
        loop {
            // A secret whose key has the id of the present key opens, unless it was damaged.
            let page = tx.hooks().list_sealed_otherwise(&key, after, AT_ONCE)?;
            let Some(last) = page.last() else { return Ok(unreadable) };
            after = Some(last.id);
            for hook in page.iter().filter(|hook| ports.vault.open(hook.id, &hook.secret).is_none()) {
                if let Some(database) = tx.databases().get(hook.database_id)? {
                    unreadable.push(UnreadableHook { database: database.locator, hook: hook.id });
                }
            }
        }
    }
}
