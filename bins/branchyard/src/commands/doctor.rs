//! The `doctor` command. Each finding states the problem and its remedy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::bail;
use branchyard_confinement::{KernelSupport, kernel_support};
use branchyard_domain::ports::{EngineError, Metadata as _};
use branchyard_domain::usecases::UnreadableHook;
use branchyard_domain::values::{CommitHash, DatabaseId};

use super::{print, print_note};
use crate::compose::{Environment, Pending, Role, Stores};
use crate::config::Config;
use crate::master_key::MasterKey;
use crate::private::readable_by_others;

pub(super) fn run(config: &Config) -> anyhow::Result<()> {
    // On standard error, because a kernel is a fact and not a finding: scripts compare what is on standard output.
    for line in confinement_lines(kernel_support()) {
        print_note(&line)?;
    }
    let world = Environment::default();
    let stores = Stores::open(config, &world, Pending::Refuse, Role::Command)?;
    stores.bind(&world)?;
    for line in readable_lines(&config.data_dir)? {
        print_note(&line)?;
    }
    if let Some(line) =
        stores.keys.ring().shared().map(|shared| master_key_line(shared.master())).transpose()?.flatten()
    {
        print_note(&line)?;
    }
    if let Some(line) = format_line(&stores)? {
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

/// Returns a warning if other users of the machine can read the master key.
fn master_key_line(master: &MasterKey) -> anyhow::Result<Option<String>> {
    let (_, count) = readable_by_others(master.path())?;
    let path = master.path().display();
    Ok((count > 0).then(|| format!("warning: others can read the master key; `chmod go= {path}` ends it")))
}

/// Returns the webhooks whose secret cannot be opened, each with its remedy.
pub(super) fn unreadable_secrets(stores: &Stores) -> anyhow::Result<Vec<String>> {
    let unreadable = stores.hub.secrets().unreadable()?;
    let lines = unreadable.into_iter().map(|UnreadableHook { database, hook }| {
        format!(
            "webhook {hook} of {database}: the key of its secret is not in the key ring; rotate its secret and give the new \
             one to its receiver. Until then its deliveries wait"
        )
    });
    Ok(lines.collect())
}

/// Compares the metadata store, the database files and the uploads with each other and returns the findings.
pub(super) fn examine(stores: &Stores) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    // The files of a store are brought here one after the other.
    let files: Option<BTreeSet<DatabaseId>> = match stores.home {
        Some(_) => None,
        None => Some(stores.databases.list()?.into_iter().collect()),
    };
    let mut known = BTreeSet::new();
    let mut after = None;
    loop {
        let page = stores.metadata.read()?.databases().ids(after, 500)?;
        let Some(last) = page.last() else { break };
        after = Some(*last);
        for id in page {
            known.insert(id);
            if files.as_ref().is_none_or(|files| files.contains(&id)) {
                findings.extend(examine_database(stores, id)?);
                stores.drop_copies()?;
            } else {
                findings.push(format!("database {id}: its file is missing; restore it from a backup"));
            }
        }
    }
    for id in files.iter().flat_map(|files| files.difference(&known)) {
        findings.push(format!(
            "file of database {id}: nothing refers to it; it is safe to delete while the server is stopped"
        ));
    }
    for upload in stores.blobs.list()? {
        if stores.metadata.read()?.uploads().get(upload)?.is_none() {
            findings.push(format!("upload {upload}: nothing refers to it; it is safe to delete"));
        }
    }
    Ok(findings)
}

/// Returns the formats of the database files, with the number of databases, or `None` if there are no files.
fn format_line(stores: &Stores) -> anyhow::Result<Option<String>> {
    if stores.home.is_some() {
        // It would bring each file here once more.
        return Ok(None);
    }
    let engine = &stores.databases;
    let mut counts = BTreeMap::<u32, u64>::new();
    for id in engine.list()? {
        // A file whose format cannot be read is a finding.
        if let Ok(format) = engine.format(id) {
            *counts.entry(format).or_default() += 1;
        }
    }
    let formats: Vec<_> = counts.iter().map(|(format, count)| format!("{format} ({count} databases)")).collect();
    Ok((!formats.is_empty()).then(|| format!("format of database files: {}", formats.join(", "))))
}

/// Compares the format of a file with the recorded one and with those that the engine knows. Returns a finding, and whether the
/// engine opens the file.
fn examine_format(stores: &Stores, id: DatabaseId) -> anyhow::Result<(Option<String>, bool)> {
    let engine = &stores.databases;
    let recorded = stores.metadata.read()?.databases().get(id)?.map(|database| database.engine_format);
    let (Some(recorded), Ok(format)) = (recorded, engine.format(id)) else { return Ok((None, true)) };
    let (newer, newest) = (recorded.max(format), engine.newest_format());
    if newer > newest {
        let finding = format!(
            "database {id}: its file has format {newer}, and this release of the server knows formats up to {newest}; run the \
             release that wrote it, or a newer one"
        );
        return Ok((Some(finding), false));
    }
    let finding = (recorded != format).then(|| {
        format!(
            "database {id}: format {recorded} is recorded, and its file has format {format}; the next write to the database records \
             it, or restore file and metadata from one backup"
        )
    });
    Ok((finding, true))
}

fn examine_database(stores: &Stores, id: DatabaseId) -> anyhow::Result<Vec<String>> {
    let (format, opens) = examine_format(stores, id)?;
    if !opens {
        return Ok(format.into_iter().collect());
    }
    let mut heads: Vec<CommitHash> = Vec::new();
    loop {
        let page = stores.metadata.read()?.refs().named_commits(id, heads.last(), 1_000)?;
        if page.is_empty() {
            break;
        }
        heads.extend(page);
    }
    let damage = match stores.databases.verify(id, &heads) {
        Err(EngineError::Damaged(what)) => vec![what],
        verified => verified?,
    };
    let damage = damage.into_iter().map(|what| format!("database {id}: {what}; restore its file from a backup"));
    Ok(format.into_iter().chain(damage).collect())
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
