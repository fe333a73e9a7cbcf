//! What the page of a database offers if the shown version has no tables.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::errors::ReadError;
use branchyard_domain::values::CommitHash;

use super::imports::upload::FileField;
use super::sample;
use crate::api_snippets;
use crate::database::{DatabaseFrame, ShownVersion};
use crate::page_context::PageContext;
use crate::paths;

/// Branches, and tags, that are looked at for tables, and the time limit.
const LOOKED_AT: usize = 50;
const PATIENCE: Duration = Duration::from_millis(300);
/// Versions with tables that are linked.
const LINKED: usize = 10;

/// What to do with a version without tables.
pub(super) struct EmptyVersion {
    /// Name and path of branches and tags with tables.
    pub(super) others: Vec<(String, String)>,
    pub(super) file: FileField,
    pub(super) has_sample: bool,
    /// The request that makes a table.
    pub(super) curl: String,
    /// The address for clients that clone. `None` if they could not.
    pub(super) clone: Option<String>,
}

impl EmptyVersion {
    /// Creates what is offered. `others` are the names of branches and tags with tables.
    pub(super) fn new(visit: &PageContext, frame: &DatabaseFrame, at: &ShownVersion, others: Vec<String>) -> Self {
        let config = &visit.state.config;
        let database = format!("{}/api/v2/databases{}", config.public_url, frame.path);
        let branch = if at.kind == "branch" { &at.name } else { &frame.default_branch };
        let can_clone = config.remotes.enabled && (config.is_secure() || !frame.is_private);
        let link = |name: String| (paths::with_query(&frame.path, &[("ref", &name)]), name);
        Self {
            has_sample: others.is_empty() && sample::is_offered(visit),
            others: others.into_iter().map(link).map(|(href, name)| (name, href)).collect(),
            file: FileField::new(visit, true),
            curl: api_snippets::create_table(&database, branch),
            clone: can_clone.then(|| format!("{}{}", config.public_url, frame.path)),
        }
    }
}

/// Returns the names of branches and tags with tables, as far as they are found in time. `shown` is known to have none.
pub(super) fn refs_with_tables(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    shown: &CommitHash,
) -> Result<Vec<String>, ReadError> {
    let branches = hub.branches().list(access, None, LOOKED_AT)?;
    let tags = hub.tags().list(access, None, LOOKED_AT)?;
    let branches = branches.into_iter().map(|branch| (branch.name, branch.head));
    let refs = branches.chain(tags.into_iter().map(|tag| (tag.name, tag.commit)));
    let (began, mut empty, mut found) = (Instant::now(), HashSet::from([shown.clone()]), Vec::new());
    for (name, commit) in refs {
        if found.len() == LINKED || began.elapsed() > PATIENCE {
            break;
        }
        if empty.contains(&commit) {
            continue;
        }
        if hub.history().tables(access, &commit)?.is_empty() {
            empty.insert(commit);
        } else {
            found.push(name.to_string());
        }
    }
    Ok(found)
}
