//! The command `cluster recover`. `docs/administration.md` documents its JSON.

use std::collections::HashMap;

use anyhow::{Context as _, anyhow, ensure};
use branchyard_domain::entities::{Branch, Database};
use branchyard_domain::errors::{AccessError, RefError};
use branchyard_domain::ports::{Clock as _, Cluster as _, EngineError, Ids as _};
use branchyard_domain::values::{CommitHash, DatabaseId, RefName, Timestamp};
use branchyard_runtime::{SystemClock, SystemIds};
use chrono::DateTime;
use serde_json::{Value, json};

use super::administration::{audit, plain, time};
use super::print;
use super::store::NO_STORE;
use crate::compose::{Environment, Pending, Role, Stores};
use crate::config::Config;
use crate::durable_home::DurableHome;
use crate::lost_changes::{LostChanges, LostCommit};

/// The node that the command is while it writes. Two of them cannot run at once.
const NODE: &str = "cluster-recover";

/// Branches that are made at once, the newest first.
const BRANCHES_MAX: usize = 100;

/// Digits of a commit in the name of its branch.
const DIGITS: usize = 10;

/// How often another name is tried.
const NAMES_MAX: u32 = 9;

/// What the command did.
#[derive(Default)]
struct Recovered {
    branches: Vec<(RefName, LostCommit)>,
    /// Heads that cannot be read, with the reason.
    unreadable: Vec<(CommitHash, String)>,
    /// Heads that are left for the next call.
    left: usize,
}

pub(super) fn run(config: &Config, name: &str, as_json: bool) -> anyhow::Result<()> {
    ensure!(config.store_url.is_some(), NO_STORE);
    let (owner, short) = name.split_once('/').context("name the database as OWNER/DATABASE")?;
    let stores = Stores::open(config, &Environment::default(), Pending::Refuse, Role::ShortNode(NODE))?;
    let home = stores.home.as_ref().context(NO_STORE)?;
    let done = recover(&stores, home, (owner, short));
    home.release();
    home.cluster(config.store.grace.duration()).remove(NODE)?;
    let (lost, recovered) = done?;
    if !recovered.branches.is_empty() {
        audit("cluster recover", name)?;
    }
    if as_json { print(document(name, &lost, &recovered)) } else { report(name, &lost, &recovered) }
}

fn recover(
    stores: &Stores,
    home: &DurableHome,
    (owner, name): (&str, &str),
) -> anyhow::Result<(LostChanges, Recovered)> {
    let recovery = stores.hub.recovery();
    let database = recovery.find(owner, name).map_err(|error| match error {
        AccessError::NoSuchDatabase => anyhow!("there is no database {owner}/{name}"),
        error => error.into(),
    })?;
    ensure!(!database.is_mirror, "{owner}/{name} is a mirror; its next synchronization brings what it lost");
    let now = SystemClock::default().now();
    let fresh = || DatabaseId::from_uuid(SystemIds.uuid(now));
    let lost = home.find_lost_changes(stores.engine.files().as_ref(), database.id, fresh)?;
    let heads = lost.tips().into_iter().map(|tip| tip.commit.hash.clone()).collect();
    let unreached = recovery.unreached(&database, heads)?;
    let mut recovered = Recovered { left: unreached.len().saturating_sub(BRANCHES_MAX), ..Recovered::default() };
    if !unreached.is_empty() {
        home.take_over(database.id)?;
        // As it is while no other node writes the database.
        let database = recovery.find(owner, name)?;
        let tips: HashMap<CommitHash, &LostCommit> =
            lost.tips().into_iter().map(|tip| (tip.commit.hash.clone(), tip)).collect();
        for tip in unreached.iter().take(BRANCHES_MAX).filter_map(|head| tips.get(head)) {
            recover_one(stores, home, &database, tip, &mut recovered)?;
        }
    }
    Ok((lost, recovered))
}

fn recover_one(
    stores: &Stores,
    home: &DurableHome,
    database: &Database,
    tip: &LostCommit,
    recovered: &mut Recovered,
) -> anyhow::Result<()> {
    let head = &tip.commit.hash;
    match home.bring_from_file(database.id, tip.file, head) {
        Err(error @ (EngineError::NoSuchCommit(_) | EngineError::Damaged(_) | EngineError::DamagedCommit { .. })) => {
            recovered.unreadable.push((head.clone(), error.to_string()));
            return Ok(());
        }
        brought => brought?,
    }
    for attempt in 1..=NAMES_MAX {
        let name = branch_name(tip, attempt)?;
        let branch = Branch { name: name.clone(), head: head.clone(), updated_at: tip.commit.at };
        match stores.hub.recovery().add_branch(database, &branch) {
            Err(RefError::BranchExists(_)) => {}
            added => {
                added?;
                recovered.branches.push((name, tip.clone()));
                return Ok(());
            }
        }
    }
    recovered.unreadable.push((head.clone(), "all names for its branch are taken".to_owned()));
    Ok(())
}

/// Returns `recovered/<date of the commit>-<its first digits>`, with a number if that was taken.
fn branch_name(tip: &LostCommit, attempt: u32) -> anyhow::Result<RefName> {
    let digits = tip.commit.hash.as_str().get(..DIGITS).unwrap_or_default();
    let number = if attempt > 1 { format!("-{attempt}") } else { String::new() };
    Ok(RefName::parse(&format!("recovered/{}-{digits}{number}", date(tip.commit.at)))?)
}

fn date(at: Timestamp) -> String {
    DateTime::from_timestamp_micros(at.as_micros()).unwrap_or_default().format("%Y-%m-%d").to_string()
}

fn document(name: &str, lost: &LostChanges, recovered: &Recovered) -> Value {
    let branch = |(branch, tip): &(RefName, LostCommit)| {
        let commit = &tip.commit;
        json!({
            "name": branch.as_str(),
            "head": commit.hash.as_str(),
            "at": time(commit.at),
            "author": commit.author,
            "message": commit.message,
        })
    };
    let unreadable = |(head, reason): &(CommitHash, String)| json!({ "head": head.as_str(), "reason": reason });
    json!({
        "database": name,
        "losses": lost.losses,
        "commits": lost.commits(),
        "branches": recovered.branches.iter().map(branch).collect::<Vec<_>>(),
        "unreadable": recovered.unreadable.iter().map(unreadable).collect::<Vec<_>>(),
        "left": recovered.left,
        "gaps": lost.gaps.iter().map(|gap| json!({ "generation": gap.generation, "at": gap.at })).collect::<Vec<_>>(),
    })
}

fn report(name: &str, lost: &LostChanges, recovered: &Recovered) -> anyhow::Result<()> {
    for (branch, tip) in &recovered.branches {
        let commit = &tip.commit;
        let (at, author, message) = (time(commit.at), plain(&commit.author), plain(&commit.message));
        print(format_args!("{name}: branch {branch}: {at} {author}: {message}"))?;
    }
    for (head, reason) in &recovered.unreadable {
        print(format_args!("{name}: commit {head} cannot be recovered: {reason}"))?;
    }
    for gap in &lost.gaps {
        let (generation, at) = (gap.generation, gap.at);
        print(format_args!(
            "{name}: the store lacks bytes of generation {generation} from {at} on; what came later cannot be recovered"
        ))?;
    }
    if recovered.left > 0 {
        print(format_args!("{name}: {} more heads are left; run the command again", recovered.left))?;
    }
    if recovered.branches.is_empty() && recovered.unreadable.is_empty() {
        let reason = match lost {
            LostChanges { losses: 0, .. } => {
                "`branchyard cluster accept` has not recorded that it lost changes".to_owned()
            }
            LostChanges { files: 0, .. } => {
                "the store has none of the lost changes; their objects are kept for 30 days".to_owned()
            }
            _ => format!("its branches, tags and pull requests reach all {} lost commits", lost.commits()),
        };
        print(format_args!("{name}: nothing to recover: {reason}"))?;
    }
    Ok(())
}
