//! The frame that the pages of one database share: name, tabs and the selected ref.

use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::entities::{Role, Visibility};
use branchyard_domain::errors::{DatabaseError, ReadError, RefError};
use branchyard_domain::ports::DatabaseCounts;
use branchyard_domain::usecases::{DatabaseView, Databases};
use branchyard_domain::values::{CommitHash, CommitPrefix};
use branchyard_http_common::segment;

use crate::error_page::PageError;
use crate::format;
use crate::moments::{self, Moment};
use crate::page_context::PageContext;
use crate::pages::deployments;
use crate::paths;

/// Branches, and tags, offered in the list of refs. Others can be typed.
const OFFERED: usize = 50;

/// The tabs of a database, in display order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseTab {
    Tables,
    Sql,
    Commits,
    Pulls,
    Branches,
    Releases,
    Forks,
    Imports,
    Operations,
    Settings,
}

impl DatabaseTab {
    const ALL: [Self; 10] = [
        Self::Tables,
        Self::Sql,
        Self::Commits,
        Self::Pulls,
        Self::Branches,
        Self::Releases,
        Self::Forks,
        Self::Imports,
        Self::Operations,
        Self::Settings,
    ];

    /// Returns the label and the path below the database's page.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Tables => ("Tables", ""),
            Self::Sql => ("SQL", "/sql"),
            Self::Commits => ("Commits", "/commits"),
            Self::Pulls => ("Pull requests", "/pulls"),
            Self::Branches => ("Branches", "/branches"),
            Self::Releases => ("Releases", "/releases"),
            Self::Forks => ("Forks", "/forks"),
            Self::Imports => ("Imports", "/imports"),
            Self::Operations => ("Operations", "/operations"),
            Self::Settings => ("Settings", "/settings"),
        }
    }

    /// Returns `true` if the tab shows the database at a ref, so that its link keeps the ref.
    const fn has_ref(self) -> bool {
        matches!(self, Self::Tables | Self::Sql | Self::Commits)
    }
}

/// A tab as a link.
#[derive(Debug)]
pub(crate) struct TabLink {
    pub(crate) label: &'static str,
    pub(crate) href: String,
    pub(crate) is_active: bool,
    /// The number of items behind the tab. Empty if there are none, or if they are not counted.
    pub(crate) count: String,
}

/// The frame of every page of a database.
#[derive(Debug)]
pub(crate) struct DatabaseFrame {
    pub(crate) owner: String,
    pub(crate) name: String,
    /// The path of the database's page.
    pub(crate) path: String,
    pub(crate) is_private: bool,
    /// Since when the database is quarantined. Only administrators of the server see it then.
    pub(crate) quarantined: Option<format::Markup>,
    pub(crate) description: Option<String>,
    /// The database this one was forked from: name and page.
    pub(crate) parent: Option<(String, String)>,
    /// Number of forks in the network that the viewer can see, formatted.
    pub(crate) forks: String,
    /// Numbers of branches, tags, releases and open pull requests.
    counts: DatabaseCounts,
    /// Number of stars.
    pub(crate) stars: u64,
    /// Whether the viewer starred the database.
    pub(crate) is_starred: bool,
    /// Size on disk, formatted.
    pub(crate) size: String,
    /// Estimate of what a purge would free, formatted.
    pub(crate) garbage: String,
    /// Whether the database is a mirror, which only its source changes.
    pub(crate) is_mirror: bool,
    /// Whether the viewer can change data and refs.
    pub(crate) may_write: bool,
    /// Whether the viewer can change settings.
    pub(crate) may_administer: bool,
    /// The branch that is used if a request names no ref.
    pub(crate) default_branch: String,
    /// The requested ref, for links to other pages. Empty for the default branch. At a time (`?at=`), the commit that the branch had
    /// then.
    pub(crate) asked_ref: String,
    /// The requested branch and time, if the page shows what the branch was at a time.
    pub(crate) moment: Option<Moment>,
    active: DatabaseTab,
}

impl DatabaseFrame {
    fn new(
        visit: &PageContext,
        view: &DatabaseView,
        (counts, is_starred): (DatabaseCounts, bool),
        role: Role,
        active: DatabaseTab,
    ) -> Self {
        let database = &view.database;
        Self {
            owner: database.locator.owner.to_string(),
            name: database.locator.name.to_string(),
            path: paths::database(&database.locator),
            is_private: database.visibility == Visibility::Private,
            quarantined: database.quarantined_at.map(|at| format::when(at, visit.state.services.now())),
            description: database.description.clone(),
            parent: view.parent.as_ref().map(|parent| (parent.to_string(), paths::database(parent))),
            forks: format::count(view.fork_network_count),
            counts,
            stars: u64::try_from(database.star_count).unwrap_or_default(),
            is_starred,
            size: format::size(database.size_bytes),
            garbage: format::size(database.garbage_bytes()),
            is_mirror: database.is_mirror,
            may_write: role >= Role::Write && !database.is_mirror,
            may_administer: role >= Role::Admin,
            default_branch: database.default_branch.to_string(),
            asked_ref: visit.parameter("ref").unwrap_or_default(),
            moment: None,
            active,
        }
    }

    /// Returns the same frame with another tab selected.
    pub(crate) fn on(self, active: DatabaseTab) -> Self {
        Self { active, ..self }
    }

    /// Returns the tabs that the viewer can open.
    pub(crate) fn tabs(&self) -> Vec<TabLink> {
        let shown = DatabaseTab::ALL.into_iter().filter(|tab| *tab != DatabaseTab::Settings || self.may_administer);
        shown
            .map(|tab| {
                let (label, below) = tab.words();
                let path = format!("{}{below}", self.path);
                let href = if tab.has_ref() { self.at_ref(&path) } else { path };
                TabLink { label, href, is_active: tab == self.active, count: self.count(tab) }
            })
            .collect()
    }

    fn count(&self, tab: DatabaseTab) -> String {
        match tab {
            DatabaseTab::Pulls => up_to_most(self.counts.open_pulls),
            DatabaseTab::Branches => up_to_most(self.counts.branches),
            DatabaseTab::Releases => up_to_most(self.counts.releases),
            _ => String::new(),
        }
    }

    /// Returns the number of branches as text.
    pub(crate) fn branch_count(&self) -> String {
        up_to_most(self.counts.branches)
    }

    /// Returns the number of tags as text. Empty if there are none.
    pub(crate) fn tag_count(&self) -> String {
        up_to_most(self.counts.tags)
    }

    /// Returns the number of stars as text.
    pub(crate) fn starred_by(&self) -> String {
        format::counted(self.stars, "star", "stars")
    }

    /// Returns the path of a page below the database's page, at the selected ref.
    pub(crate) fn below(&self, path: &str) -> String {
        self.at_ref(&format!("{}{path}", self.path))
    }

    /// Appends the selected ref to a path.
    pub(crate) fn at_ref(&self, path: &str) -> String {
        paths::with_query(path, &[("ref", &self.asked_ref)])
    }

    /// Returns the path of a table's or view's page, without a ref.
    pub(crate) fn table_path(&self, name: &str) -> String {
        format!("{}/tables/{}", self.path, segment(name))
    }

    /// Returns the path of a table's or view's page, at the selected ref.
    pub(crate) fn table(&self, name: &str) -> String {
        self.at_ref(&self.table_path(name))
    }

    /// Returns the path of the form that adds a row to a table, at the selected ref.
    pub(crate) fn row_form(&self, table: &str) -> String {
        self.at_ref(&format!("{}/edit", self.table_path(table)))
    }

    /// Returns the path of the history of a table at the selected ref, or of one of its rows. `key` is empty for the table.
    pub(crate) fn history(&self, table: &str, key: &str) -> String {
        let path = format!("{}/history", self.table_path(table));
        paths::with_query(&path, &[("ref", &self.asked_ref), ("key", key)])
    }

    /// Returns the path of the form that creates a deployment from a clone of the database at the selected ref.
    pub(crate) fn deploy(&self) -> String {
        deployments::create::address(&format!("{}/{}", self.owner, self.name), &self.asked_ref)
    }

    /// Returns the path of a commit's page.
    pub(crate) fn commit(&self, hash: &CommitHash) -> String {
        format!("{}/commits/{hash}", self.path)
    }
}

/// Writes a number that was counted up to [`Databases::MOST_COUNTED`]. Nothing stands for none.
fn up_to_most(count: usize) -> String {
    match count {
        0 => String::new(),
        count if count >= Databases::MOST_COUNTED => format!("{}+", Databases::MOST_COUNTED - 1),
        count => count.to_string(),
    }
}

/// A ref in the list of refs.
#[derive(Debug)]
pub(crate) struct RefLink {
    pub(crate) name: String,
    pub(crate) href: String,
    pub(crate) is_shown: bool,
}

/// The commit that a page shows, and the refs it can switch to.
#[derive(Debug)]
pub(crate) struct ShownVersion {
    pub(crate) commit: CommitHash,
    /// `branch`, `tag` or `commit`.
    pub(crate) kind: &'static str,
    /// The name of the ref, or the abbreviated hash of a commit.
    pub(crate) name: String,
    /// The path of the page, without its query.
    pub(crate) action: String,
    /// The address of what the page shows, at the commit.
    pub(crate) permalink: String,
    /// Branches in the list.
    pub(crate) branches: Vec<RefLink>,
    /// Tags in the list.
    pub(crate) tags: Vec<RefLink>,
    /// Whether the database has more branches or tags than are listed.
    pub(crate) has_more: bool,
}

/// Opens the database named in the path with access level `L`, and builds its frame with the given tab. A page that is read at a
/// former address of the database is redirected to the present one.
pub(crate) async fn open<L: Level>(
    visit: &PageContext,
    active: DatabaseTab,
) -> Result<(DatabaseAccess<L>, DatabaseFrame), PageError> {
    let (caller, owner, name) = (visit.caller.clone(), visit.segment("owner"), visit.segment("database"));
    let (sent_owner, sent_name) = (owner.clone(), name.clone());
    let opened = visit
        .read(move |hub| -> Result<_, DatabaseError> {
            let access = hub.databases().access::<L>(&caller, &owner, &name)?;
            let view = hub.databases().get(&access)?;
            let facts = (hub.databases().counts(&access)?, hub.stars().is_starred(&access)?);
            Ok((access, view, facts))
        })
        .await?;
    let (access, view, facts) = opened;
    let locator = &view.database.locator;
    let is_here = locator.owner.as_str().eq_ignore_ascii_case(&sent_owner)
        && locator.name.as_str().eq_ignore_ascii_case(&sent_name);
    // A form that was shown at a former address is taken as it is, because not all clients send it again to another one.
    if !is_here
        && visit.is_read()
        && let Some(path) = paths::moved(visit.request().path(), locator)
    {
        let query = visit.request().query_string();
        return Err(PageError::Moved(if query.is_empty() { path } else { format!("{path}?{query}") }));
    }
    let mut frame = DatabaseFrame::new(visit, &view, facts, access.role(), active);
    if let Some(text) = visit.parameter("at").filter(|_| active.has_ref()) {
        let (moment, commit) = moments::find(visit, &access, &frame, text).await?;
        (frame.moment, frame.asked_ref) = (Some(moment), commit.to_string());
    }
    Ok((access, frame))
}

/// Returns the branch of the query (`?ref=`) and its head. Without a ref, it is the default branch.
///
/// # Errors
/// [`PageError::NoSuchRef`] for a tag, a commit, and a branch that does not exist.
pub(crate) async fn branch_head<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: &DatabaseFrame,
) -> Result<(String, CommitHash), PageError> {
    let branch = visit.parameter("ref").unwrap_or_else(|| frame.default_branch.clone());
    let (access, name) = (access.clone(), branch.clone());
    let found = visit
        .read(move |hub| match hub.branches().get(&access, &name) {
            Ok(branch) => Ok(Some(branch.head)),
            Err(RefError::NoSuchBranch(_)) => Ok(None),
            Err(other) => Err(other),
        })
        .await?;
    match found {
        Some(head) => Ok((branch, head)),
        None => Err(PageError::NoSuchRef { name: branch, database: frame.path.clone() }),
    }
}

/// Resolves the ref of the query (`?ref=`) to a commit. Without a ref, it is the head of the default branch.
pub(crate) async fn at<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: &DatabaseFrame,
) -> Result<ShownVersion, PageError> {
    let asked = Some(frame.asked_ref.clone()).filter(|asked| !asked.is_empty());
    version(visit, access, frame, asked).await
}

/// Returns the head of the default branch, as [`at`] does without a ref.
pub(crate) async fn at_default<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: &DatabaseFrame,
) -> Result<ShownVersion, PageError> {
    version(visit, access, frame, None).await
}

async fn version<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: &DatabaseFrame,
    asked: Option<String>,
) -> Result<ShownVersion, PageError> {
    let access = access.clone();
    let named = asked.clone();
    let found = visit
        .read(move |hub| -> Result<_, ReadError> {
            let commit = match hub.sql().resolve(&access, named.as_deref()) {
                Ok(commit) => commit,
                Err(ReadError::Ref(RefError::NoSuchRef { name, .. })) => return Ok(Err(name)),
                Err(other) => return Err(other),
            };
            let branches = hub.branches().list(&access, None, OFFERED + 1)?;
            let tags = hub.tags().list(&access, None, OFFERED + 1)?;
            Ok(Ok((commit, branches, tags)))
        })
        .await?;
    let (commit, branches, tags) = found.map_err(|name| PageError::NoSuchRef { name, database: frame.path.clone() })?;
    let name = asked.unwrap_or_else(|| frame.default_branch.clone());
    let action = visit.request().path().to_owned();
    let link = |text: &str| {
        let asked = if text == frame.default_branch { "" } else { text };
        RefLink { name: text.to_owned(), href: paths::with_query(&action, &[("ref", asked)]), is_shown: text == name }
    };
    let has_more = branches.len() > OFFERED || tags.len() > OFFERED;
    let branches: Vec<RefLink> = branches.iter().take(OFFERED).map(|branch| link(branch.name.as_str())).collect();
    let tags: Vec<RefLink> = tags.iter().take(OFFERED).map(|tag| link(tag.name.as_str())).collect();
    let is_listed = branches.iter().chain(&tags).any(|named| named.is_shown);
    let names_commit = CommitPrefix::parse(&name).is_ok_and(|prefix| !is_listed && prefix.begins(&commit));
    let kind = if names_commit {
        "commit"
    } else if !branches.iter().any(|branch| branch.is_shown) && tags.iter().any(|tag| tag.is_shown) {
        "tag"
    } else {
        "branch"
    };
    let name = if kind == "commit" { format::short(&commit) } else { name };
    let permalink = permalink(&action, visit.request().query_string(), &commit);
    Ok(ShownVersion { commit, kind, name, action, permalink, branches, tags, has_more })
}

/// Returns the address of a page with its query, at a commit.
fn permalink(path: &str, query: &str, commit: &CommitHash) -> String {
    let others = query.split('&').filter(|pair| !pair.is_empty() && *pair != "ref" && !pair.starts_with("ref="));
    others.fold(format!("{path}?ref={commit}"), |address, pair| format!("{address}&{pair}"))
}

#[cfg(test)]
mod tests {
    use branchyard_domain::values::CommitHash;

    use super::{permalink, up_to_most};

    #[test]
    fn numbers_beside_tabs_are_short() {
        let shown = [0, 1, 99, 100].map(up_to_most);
        assert_eq!(shown, ["", "1", "99", "99+"]);
    }

    #[test]
    fn a_permalink_keeps_the_query_and_replaces_the_ref() {
        let commit = CommitHash::parse("0123456789abcdef0123456789abcdef01234567").unwrap();
        let of = |query: &str| permalink("/a/b", query, &commit);
        assert_eq!(of(""), format!("/a/b?ref={commit}"));
        assert_eq!(of("sort=a&ref=main&value=%26ref%3Dx"), format!("/a/b?ref={commit}&sort=a&value=%26ref%3Dx"));
    }
}
