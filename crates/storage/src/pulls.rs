//! Pull requests and their comments.

use branchyard_domain::entities::{DatabaseLocator, Pull, PullComment, PullContent, PullHeads, PullHidden, PullState};
use branchyard_domain::ports::{
    FetchBacklog, FetchEnd, MetadataError, PullCommentRepository, PullFetch, PullFetchRepository, PullFilter,
    PullRepository, PullStanding, WriteKey,
};
use branchyard_domain::values::{AccountId, CommentId, CommitHash, DatabaseId, PullNumber, RefName, Timestamp};
use diesel::dsl::min;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use crate::convert::{Read, all, anywhere, count, limit, one, present, read, read_if, time};
use crate::durable::files_with_leaders;
use crate::error::Unreadable;
use crate::prepared::{Parameter, PreparedSql};
use crate::schema::{accounts, comments, databases, pulls};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

const OPEN: &str = "open";

/// The open pull requests from a branch. A macro, because the type of the query has no name.
macro_rules! open_from {
    ($database:expr, $branch:expr) => {{
        use crate::schema::pulls;
        pulls::table
            .filter(pulls::from_database_id.eq($database))
            .filter(pulls::from_branch.eq($branch))
            .filter(pulls::state.eq("open"))
    }};
}
pub(crate) use open_from;
const CLOSED: &str = "closed";
const MERGED: &str = "merged";

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = pulls)]
struct PullRow {
    database_id: String,
    number: i64,
    title: String,
    description: Option<String>,
    search_key: String,
    #[diesel(embed)]
    state: StateRow,
    creator_id: String,
    from_database_id: String,
    from_owner: String,
    from_name: String,
    from_branch: String,
    to_branch: String,
    created_at: i64,
    updated_at: i64,
    version: i64,
    #[diesel(embed)]
    content: ContentRow,
}

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = pulls, treat_none_as_null = true)]
struct StateRow {
    state: String,
    closed_at: Option<i64>,
    merged_at: Option<i64>,
    merged_by: Option<String>,
    merged_commit: Option<String>,
    merged_base: Option<String>,
    merged_source: Option<String>,
}

impl StateRow {
    fn new(state: &PullState) -> Self {
        let mut row = Self {
            state: OPEN.to_owned(),
            closed_at: None,
            merged_at: None,
            merged_by: None,
            merged_commit: None,
            merged_base: None,
            merged_source: None,
        };
        match state {
            PullState::Open => {}
            PullState::Closed { at } => {
                row.state = CLOSED.to_owned();
                row.closed_at = Some(at.as_micros());
            }
            PullState::Merged { at, by, commit, base, source } => {
                row.state = MERGED.to_owned();
                row.merged_at = Some(at.as_micros());
                row.merged_by = Some(by.to_string());
                row.merged_commit = Some(commit.to_string());
                row.merged_base = Some(base.to_string());
                row.merged_source = Some(source.to_string());
            }
        }
        row
    }

    fn state(self) -> Read<PullState> {
        match self.state.as_str() {
            OPEN => Ok(PullState::Open),
            CLOSED => Ok(PullState::Closed { at: time(present("pulls.closed_at", self.closed_at)?) }),
            MERGED => Ok(PullState::Merged {
                at: time(present("pulls.merged_at", self.merged_at)?),
                by: read("pulls.merged_by", present("pulls.merged_by", self.merged_by)?)?,
                commit: read("pulls.merged_commit", present("pulls.merged_commit", self.merged_commit)?)?,
                base: read("pulls.merged_base", present("pulls.merged_base", self.merged_base)?)?,
                source: read("pulls.merged_source", present("pulls.merged_source", self.merged_source)?)?,
            }),
            other => Err(Unreadable { column: "pulls.state", why: format!("'{other}'") }),
        }
    }
}

const WITHDRAWN: &str = "withdrawn";
const WITH_SOURCE: &str = "source";

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = pulls, treat_none_as_null = true)]
struct ContentRow {
    from_head: Option<String>,
    to_head: Option<String>,
    hidden: Option<String>,
    is_published: bool,
    fetch_due_at: Option<i64>,
}

impl ContentRow {
    fn new(content: &PullContent) -> Self {
        let heads = content.heads.as_ref();
        Self {
            from_head: heads.map(|heads| heads.from.to_string()),
            to_head: heads.map(|heads| heads.to.to_string()),
            hidden: content.hidden.map(|why| match why {
                PullHidden::Withdrawn => WITHDRAWN.to_owned(),
                PullHidden::WithSource => WITH_SOURCE.to_owned(),
            }),
            is_published: content.is_published,
            fetch_due_at: content.fetch_due_at.map(Timestamp::as_micros),
        }
    }

    fn content(self) -> Read<PullContent> {
        let heads = (read_if("pulls.from_head", self.from_head)?, read_if("pulls.to_head", self.to_head)?);
        let hidden = match self.hidden.as_deref() {
            None => None,
            Some(WITHDRAWN) => Some(PullHidden::Withdrawn),
            Some(WITH_SOURCE) => Some(PullHidden::WithSource),
            Some(other) => return Err(Unreadable { column: "pulls.hidden", why: format!("'{other}'") }),
        };
        Ok(PullContent {
            heads: heads.0.zip(heads.1).map(|(from, to)| PullHeads { from, to }),
            fetch_due_at: self.fetch_due_at.map(time),
            hidden,
            is_published: self.is_published,
        })
    }
}

const SOURCE_MOVED: &str = "\
UPDATE pulls SET from_head = ?, fetch_tries = 0, version = version + 1,
    fetch_due_at = CASE WHEN database_id = from_database_id THEN NULL ELSE ? END,
    to_head = COALESCE((SELECT head FROM branches AS b WHERE b.database_id = pulls.database_id AND b.name = pulls.to_branch), to_head)
WHERE from_database_id = ? AND from_branch = ? AND state = 'open' AND (
    to_head IS NOT NULL OR EXISTS (SELECT 1 FROM branches AS b WHERE b.database_id = pulls.database_id AND b.name = pulls.to_branch)
)";

/// As [`SOURCE_MOVED`], for all open pull requests that do not show the current head of their source.
const CATCH_UP: &str = "\
UPDATE pulls SET fetch_tries = 0, version = version + 1,
    from_head = (SELECT head FROM branches AS b WHERE b.database_id = pulls.from_database_id AND b.name = pulls.from_branch),
    fetch_due_at = CASE WHEN database_id = from_database_id THEN NULL ELSE $1 END,
    to_head = COALESCE((SELECT head FROM branches AS b WHERE b.database_id = pulls.database_id AND b.name = pulls.to_branch), to_head)
WHERE state = 'open' AND EXISTS (
    SELECT 1 FROM branches AS b WHERE b.database_id = pulls.from_database_id AND b.name = pulls.from_branch
        AND (pulls.from_head IS NULL OR pulls.from_head <> b.head)
) AND (
    to_head IS NOT NULL OR EXISTS (SELECT 1 FROM branches AS b WHERE b.database_id = pulls.database_id AND b.name = pulls.to_branch)
)";

/// Closes and hides open pull requests without heads whose source is another database that is not public, as the
/// upgrade does. Such a pull request was opened by a release that asked for no consent. It may arrive at any time, with
/// a dump of such a release or from a server of that release on the same store.
const CLOSE_WITHOUT_CONSENT: &str = "\
UPDATE pulls SET state = 'closed', closed_at = $1, updated_at = $2, hidden = 'source', fetch_due_at = NULL, version = version + 1
WHERE state = 'open' AND from_head IS NULL AND from_database_id <> database_id AND EXISTS (
    SELECT 1 FROM databases AS d WHERE d.id = pulls.from_database_id AND (d.visibility <> 'public' OR d.deleted_at IS NOT NULL)
)";

const FETCH_DUE: &str = concat!(
    "\
SELECT database_id, number, creator_id, fetch_tries FROM (
    SELECT database_id, number, creator_id, fetch_tries, fetch_due_at,
        ROW_NUMBER() OVER (PARTITION BY creator_id ORDER BY fetch_due_at, database_id, number) AS place
    FROM pulls WHERE fetch_due_at <= $1 AND (fetch_lease_until IS NULL OR fetch_lease_until <= $2)
        AND NOT EXISTS (SELECT 1 FROM databases AS d WHERE d.id = pulls.database_id AND d.quarantined_at IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM databases AS d WHERE d.id = pulls.from_database_id AND d.quarantined_at IS NOT NULL)
        AND NOT EXISTS (
            SELECT 1 FROM ",
    files_with_leaders!(),
    "
            WHERE f.database_id = pulls.database_id AND n.id <> $3 AND n.alive_until > $4)
) AS due WHERE place <= $5 ORDER BY fetch_due_at, database_id, number LIMIT $6"
);

#[derive(QueryableByName)]
struct FetchRow {
    #[diesel(sql_type = Text)]
    database_id: String,
    #[diesel(sql_type = BigInt)]
    number: i64,
    #[diesel(sql_type = Text)]
    creator_id: String,
    #[diesel(sql_type = BigInt)]
    fetch_tries: i64,
}

/// Returns the lower-case title and description, separated by a character that occurs in neither.
fn search_key(pull: &Pull) -> String {
    format!("{}\u{1f}{}", pull.title.to_lowercase(), pull.description.as_deref().unwrap_or_default().to_lowercase())
}

impl PullRow {
    fn new(pull: &Pull) -> Self {
        Self {
            database_id: pull.database_id.to_string(),
            number: pull.number.get(),
            title: pull.title.clone(),
            description: pull.description.clone(),
            search_key: search_key(pull),
            state: StateRow::new(&pull.state),
            creator_id: pull.creator_id.to_string(),
            from_database_id: pull.from_database_id.to_string(),
            from_owner: pull.from_locator.owner.to_string(),
            from_name: pull.from_locator.name.to_string(),
            from_branch: pull.from_branch.to_string(),
            to_branch: pull.to_branch.to_string(),
            created_at: pull.created_at.as_micros(),
            updated_at: pull.updated_at.as_micros(),
            version: pull.version,
            content: ContentRow::new(&pull.content),
        }
    }
}

fn pull((row, creator): (PullRow, String)) -> Read<Pull> {
    Ok(Pull {
        database_id: read("pulls.database_id", row.database_id)?,
        number: read("pulls.number", row.number)?,
        title: row.title,
        description: row.description,
        state: row.state.state()?,
        creator_id: read("pulls.creator_id", row.creator_id)?,
        creator: read("accounts.name", creator)?,
        from_database_id: read("pulls.from_database_id", row.from_database_id)?,
        from_locator: DatabaseLocator {
            owner: read("pulls.from_owner", row.from_owner)?,
            name: read("pulls.from_name", row.from_name)?,
        },
        from_branch: read("pulls.from_branch", row.from_branch)?,
        to_branch: read("pulls.to_branch", row.to_branch)?,
        content: row.content.content()?,
        created_at: time(row.created_at),
        updated_at: time(row.updated_at),
        version: row.version,
    })
}

impl PullRepository for SqlTransaction {
    fn next_number(&mut self, database: DatabaseId) -> Result<PullNumber> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("number a pull", |conn| {
            let next: i64 = databases::table.find(database.to_string()).select(databases::next_pull).first(conn)?;
            diesel::update(databases::table.find(database.to_string()))
                .set(databases::next_pull.eq(next.saturating_add(1)))
                .execute(conn)?;
            Ok(read("databases.next_pull", next)?)
        })
    }

    fn add(&mut self, pull: &Pull) -> Result<()> {
        self.needs(WriteKey::Database(pull.database_id));
        self.run_apart_from_rights_unless_taken("add a pull", |conn| {
            diesel::insert_into(pulls::table).values(PullRow::new(pull)).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, database: DatabaseId, number: PullNumber) -> Result<Option<Pull>> {
        self.run_apart_from_rights("read a pull", |conn| {
            let row = pulls::table
                .inner_join(accounts::table.on(accounts::id.eq(pulls::creator_id)))
                .filter(pulls::database_id.eq(database.to_string()))
                .filter(pulls::number.eq(number.get()))
                .select((PullRow::as_select(), accounts::name))
                .first(conn)
                .optional()?;
            one(row, pull)
        })
    }

    fn find_open(
        &mut self,
        database: DatabaseId,
        from_database: DatabaseId,
        from_branch: &RefName,
        to_branch: &RefName,
    ) -> Result<Option<Pull>> {
        self.run_apart_from_rights("find an open pull", |conn| {
            let row = pulls::table
                .inner_join(accounts::table.on(accounts::id.eq(pulls::creator_id)))
                .filter(pulls::database_id.eq(database.to_string()))
                .filter(pulls::from_database_id.eq(from_database.to_string()))
                .filter(pulls::from_branch.eq(from_branch.as_str()))
                .filter(pulls::to_branch.eq(to_branch.as_str()))
                .filter(pulls::state.eq(OPEN))
                .select((PullRow::as_select(), accounts::name))
                .first(conn)
                .optional()?;
            one(row, pull)
        })
    }

    fn update(&mut self, pull: &Pull) -> Result<bool> {
        self.needs(WriteKey::Database(pull.database_id));
        self.run_apart_from_rights_unless_taken("change a pull", |conn| {
            let changed = diesel::update(
                pulls::table
                    .filter(pulls::database_id.eq(pull.database_id.to_string()))
                    .filter(pulls::number.eq(pull.number.get()))
                    .filter(pulls::version.eq(pull.version)),
            )
            .set((
                StateRow::new(&pull.state),
                ContentRow::new(&pull.content),
                pulls::title.eq(&pull.title),
                pulls::description.eq(pull.description.as_deref()),
                pulls::search_key.eq(search_key(pull)),
                pulls::updated_at.eq(pull.updated_at.as_micros()),
                pulls::version.eq(pull.version.saturating_add(1)),
            ))
            .execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn list(
        &mut self,
        database: DatabaseId,
        filter: &PullFilter,
        before: Option<PullNumber>,
        most: usize,
    ) -> Result<Vec<Pull>> {
        self.run_apart_from_rights("list pulls", |conn| {
            let mut query = pulls::table
                .inner_join(accounts::table.on(accounts::id.eq(pulls::creator_id)))
                .filter(pulls::database_id.eq(database.to_string()))
                .into_boxed();
            if let Some(standing) = filter.standing {
                query = query.filter(pulls::state.eq(match standing {
                    PullStanding::Open => OPEN,
                    PullStanding::Closed => CLOSED,
                    PullStanding::Merged => MERGED,
                }));
            }
            if let Some(text) = &filter.contains {
                if text.len() > PullFilter::MAX_CONTAINS {
                    return Ok(Vec::new());
                }
                query = query.filter(pulls::search_key.like(anywhere(text)).escape('\\'));
            }
            if let Some(before) = before {
                query = query.filter(pulls::number.lt(before.get()));
            }
            let rows = query
                .order(pulls::number.desc())
                .limit(limit(most))
                .select((PullRow::as_select(), accounts::name))
                .load(conn)?;
            all(rows, pull)
        })
    }

    fn record_source_move(
        &mut self,
        database: DatabaseId,
        branch: &RefName,
        head: &CommitHash,
        now: Timestamp,
    ) -> Result<u64> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("move the heads of pulls", |conn| {
            let parameters = vec![
                Parameter::Text(head.to_string()),
                Parameter::Number(now.as_micros()),
                Parameter::Text(database.to_string()),
                Parameter::Text(branch.to_string()),
            ];
            let moved = PreparedSql::<()>::new(SOURCE_MOVED, parameters).execute(conn)?;
            if moved == 0 {
                return Ok(0);
            }
            let due = open_from!(database.to_string(), branch.as_str()).filter(pulls::fetch_due_at.is_not_null());
            Ok(count(due.count().get_result(conn)?))
        })
    }

    fn list_unmerged_from(
        &mut self,
        source: DatabaseId,
        after: Option<(DatabaseId, PullNumber)>,
        most: usize,
    ) -> Result<Vec<Pull>> {
        self.run_apart_from_rights("list pulls of a source", |conn| {
            let mut query = pulls::table
                .inner_join(accounts::table.on(accounts::id.eq(pulls::creator_id)))
                .filter(pulls::from_database_id.eq(source.to_string()))
                .filter(pulls::database_id.ne(source.to_string()))
                .filter(pulls::state.ne(MERGED))
                .filter(pulls::hidden.is_null())
                .into_boxed();
            if let Some((database, number)) = after {
                let database = database.to_string();
                query = query
                    .filter(pulls::database_id.ge(database.clone()))
                    .filter(pulls::database_id.gt(database).or(pulls::number.gt(number.get())));
            }
            let rows = query
                .order((pulls::database_id, pulls::number))
                .limit(limit(most))
                .select((PullRow::as_select(), accounts::name))
                .load(conn)?;
            all(rows, pull)
        })
    }

    fn list_unmerged_to(&mut self, base: DatabaseId, after: Option<PullNumber>, most: usize) -> Result<Vec<Pull>> {
        self.run_apart_from_rights("list pulls from elsewhere", |conn| {
            let rows = pulls::table
                .inner_join(accounts::table.on(accounts::id.eq(pulls::creator_id)))
                .filter(pulls::database_id.eq(base.to_string()))
                .filter(pulls::from_database_id.ne(base.to_string()))
                .filter(pulls::state.ne(MERGED))
                .filter(pulls::hidden.is_null())
                .filter(pulls::number.gt(after.map_or(0, PullNumber::get)))
                .order(pulls::number)
                .limit(limit(most))
                .select((PullRow::as_select(), accounts::name))
                .load(conn)?;
            all(rows, pull)
        })
    }

    fn merged_as(&mut self, database: DatabaseId, commits: &[CommitHash]) -> Result<Vec<(CommitHash, PullNumber)>> {
        self.run_apart_from_rights("find the pulls that were merged as commits", |conn| {
            let rows: Vec<(Option<String>, i64)> = pulls::table
                .filter(pulls::database_id.eq(database.to_string()))
                .filter(pulls::state.eq(MERGED))
                .filter(pulls::merged_commit.eq_any(commits.iter().map(ToString::to_string)))
                .filter(pulls::merged_base.ne(pulls::merged_source))
                .order(pulls::number)
                .select((pulls::merged_commit, pulls::number))
                .load(conn)?;
            all(rows, |(commit, number)| {
                let commit = read("pulls.merged_commit", present("pulls.merged_commit", commit)?)?;
                Ok((commit, read("pulls.number", number)?))
            })
        })
    }
}

impl PullFetchRepository for SqlTransaction {
    fn due(&mut self, now: Timestamp, per_author: u32, most: usize) -> Result<Vec<PullFetch>> {
        if self.node.is_drained() {
            return Ok(Vec::new());
        }
        let node = self.node.id().to_owned();
        self.run_apart_from_rights("list fetches that are due", |conn| {
            let rows: Vec<FetchRow> = diesel::sql_query(FETCH_DUE)
                .bind::<BigInt, _>(now.as_micros())
                .bind::<BigInt, _>(now.as_micros())
                .bind::<Text, _>(node)
                .bind::<BigInt, _>(now.as_micros())
                .bind::<BigInt, _>(i64::from(per_author))
                .bind::<BigInt, _>(limit(most))
                .load(conn)?;
            all(rows, |row| {
                Ok(PullFetch {
                    database_id: read("pulls.database_id", row.database_id)?,
                    number: read("pulls.number", row.number)?,
                    author: read("pulls.creator_id", row.creator_id)?,
                    tries: read("pulls.fetch_tries", row.fetch_tries)?,
                })
            })
        })
    }

    fn lease(&mut self, database: DatabaseId, number: PullNumber, now: Timestamp, until: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("lease a fetch", |conn| {
            let free = pulls::fetch_lease_until.is_null().or(pulls::fetch_lease_until.le(now.as_micros()));
            let leased = diesel::update(
                pulls::table
                    .filter(pulls::database_id.eq(database.to_string()))
                    .filter(pulls::number.eq(number.get()))
                    .filter(pulls::fetch_due_at.le(now.as_micros()))
                    .filter(free),
            )
            .set(pulls::fetch_lease_until.eq(Some(until.as_micros())))
            .execute(conn)?;
            Ok(leased > 0)
        })
    }

    fn extend_lease(&mut self, database: DatabaseId, number: PullNumber, until: Timestamp) -> Result<bool> {
        self.run_apart_from_rights("prolong the lease of a fetch", |conn| {
            let leased = pulls::table
                .filter(pulls::database_id.eq(database.to_string()))
                .filter(pulls::number.eq(number.get()))
                .filter(pulls::fetch_lease_until.is_not_null());
            let until = Some(until.as_micros());
            Ok(diesel::update(leased).set(pulls::fetch_lease_until.eq(until)).execute(conn)? > 0)
        })
    }

    fn backlog(&mut self, now: Timestamp) -> Result<FetchBacklog> {
        self.run_apart_from_rights("count fetches that are due", |conn| {
            let due = || pulls::table.filter(pulls::fetch_due_at.le(now.as_micros()));
            let number = due().count().get_result(conn)?;
            let oldest: Option<i64> = due().select(min(pulls::fetch_due_at)).first(conn)?;
            Ok(FetchBacklog { due: count(number), oldest_due_at: oldest.map(time) })
        })
    }

    fn settle(&mut self, database: DatabaseId, number: PullNumber, end: FetchEnd<'_>) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("end a fetch", |conn| {
            let of_pull = || {
                pulls::table.filter(pulls::database_id.eq(database.to_string())).filter(pulls::number.eq(number.get()))
            };
            diesel::update(of_pull()).set(pulls::fetch_lease_until.eq(None::<i64>)).execute(conn)?;
            let none = None::<i64>;
            let is_shown = match end {
                FetchEnd::Fetched(head) => {
                    let target = of_pull().filter(pulls::from_head.eq(head.as_str()));
                    let ended = (pulls::fetch_due_at.eq(none), pulls::fetch_tries.eq(0));
                    diesel::update(target).set(ended).execute(conn)? > 0
                }
                FetchEnd::Failed(due) => {
                    diesel::update(of_pull()).set(pulls::fetch_tries.eq(pulls::fetch_tries + 1)).execute(conn)?;
                    diesel::update(of_pull().filter(pulls::fetch_due_at.is_not_null()))
                        .set(pulls::fetch_due_at.eq(Some(due.as_micros())))
                        .execute(conn)?;
                    false
                }
                FetchEnd::Dropped => {
                    diesel::update(of_pull()).set(pulls::fetch_due_at.eq(none)).execute(conn)?;
                    false
                }
            };
            Ok(is_shown)
        })
    }

    fn recover(&mut self, now: Timestamp) -> Result<u64> {
        self.run_apart_from_rights("recover fetches", |conn| {
            diesel::update(pulls::table.filter(pulls::fetch_lease_until.is_not_null()))
                .set(pulls::fetch_lease_until.eq(None::<i64>))
                .execute(conn)?;
            diesel::sql_query(CLOSE_WITHOUT_CONSENT)
                .bind::<BigInt, _>(now.as_micros())
                .bind::<BigInt, _>(now.as_micros())
                .execute(conn)?;
            diesel::sql_query(CATCH_UP).bind::<BigInt, _>(now.as_micros()).execute(conn)?;
            let due = pulls::table.filter(pulls::fetch_due_at.is_not_null());
            Ok(count(due.count().get_result(conn)?))
        })
    }
}

impl PullCommentRepository for SqlTransaction {
    fn add(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        author: AccountId,
        comment: &PullComment,
    ) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("add a comment", |conn| {
            diesel::insert_into(comments::table)
                .values((
                    comments::id.eq(comment.id.to_string()),
                    comments::database_id.eq(database.to_string()),
                    comments::number.eq(number.get()),
                    comments::author_id.eq(author.to_string()),
                    comments::body.eq(&comment.body),
                    comments::created_at.eq(comment.created_at.as_micros()),
                    comments::updated_at.eq(comment.updated_at.as_micros()),
                ))
                .execute(conn)?;
            Ok(())
        })
    }

    fn list(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        most: usize,
    ) -> Result<Vec<PullComment>> {
        self.run_apart_from_rights("list comments", |conn| {
            let mut query = comments::table
                .inner_join(accounts::table.on(accounts::id.eq(comments::author_id)))
                .filter(comments::database_id.eq(database.to_string()))
                .filter(comments::number.eq(number.get()))
                .into_boxed();
            if let Some((at, id)) = after {
                let at = at.as_micros();
                query = query
                    .filter(comments::created_at.ge(at))
                    .filter(comments::created_at.gt(at).or(comments::id.gt(id.to_string())));
            }
            let rows: Vec<(String, String, String, i64, i64)> = query
                .order((comments::created_at, comments::id))
                .limit(limit(most))
                .select((comments::id, accounts::name, comments::body, comments::created_at, comments::updated_at))
                .load(conn)?;
            all(rows, |(id, author, body, created_at, updated_at)| {
                Ok(PullComment {
                    id: read("comments.id", id)?,
                    author: read("accounts.name", author)?,
                    body,
                    created_at: time(created_at),
                    updated_at: time(updated_at),
                })
            })
        })
    }
}
