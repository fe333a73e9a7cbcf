//! The `doctor` command. Each finding states the problem and its remedy.

use std::collections::BTreeSet;

use anyhow::bail;
use branchyard_domain::ports::{Blobs as _, Metadata as _};
use branchyard_domain::values::{CommitHash, DatabaseId};

use super::print;
use crate::compose::{Environment, Pending, Stores};
use crate::config::Config;

pub(super) fn run(config: &Config) -> anyhow::Result<()> {
    let world = Environment::default();
    let stores = Stores::open(config, &world, Pending::Refuse)?;
    stores.bind(&world)?;
    let findings = examine(&stores)?;
    for finding in &findings {
        print(finding)?;
    }
    if findings.is_empty() {
        return print("everything is in order");
    }
    bail!("{} findings", findings.len());
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
