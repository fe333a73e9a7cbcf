//! The `doctor` command. Each finding states the problem and its remedy.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::bail;
use branchyard_confinement::{KernelSupport, kernel_support};
use branchyard_domain::ports::{Blobs as _, Metadata as _};
use branchyard_domain::usecases::UnreadableHook;
use branchyard_domain::values::{CommitHash, DatabaseId};

use super::{print, print_note};
use crate::compose::{Environment, Pending, Stores};
use crate::config::Config;
use crate::private::readable_by_others;

pub(super) fn run(config: &Config) -> anyhow::Result<()> {
    // On standard error, because a kernel is a fact and not a finding: scripts compare what is on standard output.
    for line in confinement_lines(kernel_support()) {
        print_note(&line)?;
    }
    let world = Environment::default();
    let stores = Stores::open(config, &world, Pending::Refuse)?;
    stores.bind(&world)?;
    for line in readable_lines(&config.data_dir)? {
        print_note(&line)?;
    }
    let mut findings = examine(&stores)?;
    findings.extend(unreadable_secrets(&stores)?);
    for finding in &findings {
        print(finding)?;
    }
    if findings.is_empty() {
        return print("everything is in order");
    }
    bail!("{} findings", findings.len());
}

/// Returns what the kernel offers to confine processes that run users' SQL, and whether that is enough.
fn confinement_lines(support: KernelSupport) -> [String; 2] {
    let seccomp = if support.seccomp { "yes" } else { "no" };
    let landlock = support.landlock_abi.map_or_else(|| "no".to_owned(), |abi| format!("version {abi}"));
    let outcome = if support.is_complete() {
        "enough for sql.isolation = \"process\" and for deployments"
    } else {
        "not enough for sql.isolation = \"process\", unless sql.require_confinement is false, nor for deployments, unless \
         hosted.allow_unconfined is true"
    };
    [format!("the kernel offers: seccomp {seccomp}, Landlock {landlock}"), format!("this is {outcome}")]
}

/// Returns a warning if other users of the machine can read files of the data folder.
fn readable_lines(folder: &Path) -> anyhow::Result<Vec<String>> {
    let (found, count) = readable_by_others(folder)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut lines: Vec<_> = found.iter().map(|path| format!("others can read {}", path.display())).collect();
    let more = if count > found.len() { format!("and {} more; ", count - found.len()) } else { String::new() };
    lines.push(format!(
        "warning: {more}others can read files of the data folder; `chmod -R go= {}` ends it",
        folder.display()
    ));
    Ok(lines)
}

/// Returns the webhooks whose secret cannot be opened, each with its remedy.
pub(super) fn unreadable_secrets(stores: &Stores) -> anyhow::Result<Vec<String>> {
    let unreadable = stores.hub.secrets().unreadable()?;
    let lines = unreadable.into_iter().map(|UnreadableHook { database, hook }| {
        format!(
            "webhook {hook} of {database}: the key of its secret is not in the key ring; rotate its secret and give the new \
             one to its receiver, or add the key to the ring. Until then its deliveries wait"
        )
    });
    Ok(lines.collect())
}

/// Compares the metadata store, the database files and the uploads with each other and returns the findings.
pub(super) fn examine(stores: &Stores) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    let files: BTreeSet<DatabaseId> = stores.engine.port().list()?.into_iter().collect();
    let mut known = BTreeSet::new();
    let mut after = None;
    loop {
        let page = stores.metadata.read()?.databases().ids(after, 500)?;
        let Some(last) = page.last() else { break };
        after = Some(*last);
        for id in page {
            known.insert(id);
            if files.contains(&id) {
                findings.extend(examine_database(stores, id)?);
            } else {
                findings.push(format!("database {id}: its file is missing; restore it from a backup"));
            }
        }
    }
    for id in files.difference(&known) {
        findings.push(format!(
            "file of database {id}: nothing refers to it; it is safe to delete while the server is stopped"
        ));
    }
    for upload in stores.blobs()?.list()? {
        if stores.metadata.read()?.uploads().get(upload)?.is_none() {
            findings.push(format!("upload {upload}: nothing refers to it; it is safe to delete"));
        }
    }
    Ok(findings)
}

fn examine_database(stores: &Stores, id: DatabaseId) -> anyhow::Result<Vec<String>> {
    let mut heads: Vec<CommitHash> = Vec::new();
    loop {
        let page = stores.metadata.read()?.refs().named_commits(id, heads.last(), 1_000)?;
        if page.is_empty() {
            break;
        }
        heads.extend(page);
    }
    let damage = stores.engine.port().verify(id, &heads)?;
    Ok(damage.into_iter().map(|what| format!("database {id}: {what}; restore its file from a backup")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_offers_is_compared_with_what_is_needed() {
        let [offer, outcome] = confinement_lines(KernelSupport { seccomp: true, landlock_abi: Some(7) });
        assert_eq!(offer, "the kernel offers: seccomp yes, Landlock version 7");
        assert!(outcome.starts_with("this is enough for sql.isolation"), "{outcome}");
        for (seccomp, landlock_abi) in [(false, Some(7)), (true, None)] {
            let [offer, outcome] = confinement_lines(KernelSupport { seccomp, landlock_abi });
            assert!(offer.contains(" no"), "{offer}");
            for key in ["sql.require_confinement", "hosted.allow_unconfined"] {
                assert!(outcome.starts_with("this is not enough") && outcome.contains(key), "{outcome}");
            }
        }
    }
}
