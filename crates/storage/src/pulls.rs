//! Pulls and their comments.

use branchyard_domain::entities::{DatabaseLocator, Pull, PullComment, PullState};
use branchyard_domain::ports::{MetadataError, PullFilter, PullRepository, PullStanding};
use branchyard_domain::values::{AccountId, CommentId, DatabaseId, PullNumber, RefName, Timestamp};
use diesel::prelude::*;

use crate::convert::{Read, all, anywhere, limit, one, present, read, time};
use crate::error::Unreadable;
use crate::schema::{accounts, comments, databases, pulls};
use crate::unit::SqlUnit;

type Result<T> = std::result::Result<T, MetadataError>;

const OPEN: &str = "open";
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

/// Title and description in lower case, apart by a character that neither has.
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
        created_at: time(row.created_at),
        updated_at: time(row.updated_at),
        version: row.version,
    })
}

impl PullRepository for SqlUnit {
    fn pull_next_number(&mut self, database: DatabaseId) -> Result<PullNumber> {
        self.run("number a pull", |conn| {
            let next: i64 = databases::table.find(database.to_string()).select(databases::next_pull).first(conn)?;
            diesel::update(databases::table.find(database.to_string()))
                .set(databases::next_pull.eq(next.saturating_add(1)))
                .execute(conn)?;
            Ok(read("databases.next_pull", next)?)
        })
    }

    fn pull_add(&mut self, pull: &Pull) -> Result<()> {
        self.run_unless_taken("add a pull", |conn| {
            diesel::insert_into(pulls::table).values(PullRow::new(pull)).execute(conn)?;
            Ok(())
        })
    }

    fn pull_get(&mut self, database: DatabaseId, number: PullNumber) -> Result<Option<Pull>> {
        self.run("read a pull", |conn| {
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

    fn pull_open_between(
        &mut self,
        database: DatabaseId,
        from_database: DatabaseId,
        from_branch: &RefName,
        to_branch: &RefName,
    ) -> Result<Option<Pull>> {
        self.run("find an open pull", |conn| {
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

    fn pull_update(&mut self, pull: &Pull) -> Result<bool> {
        self.run_unless_taken("change a pull", |conn| {
            let changed = diesel::update(
                pulls::table
                    .filter(pulls::database_id.eq(pull.database_id.to_string()))
                    .filter(pulls::number.eq(pull.number.get()))
                    .filter(pulls::version.eq(pull.version)),
            )
            .set((
                StateRow::new(&pull.state),
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

    fn pull_list(
        &mut self,
        database: DatabaseId,
        filter: &PullFilter,
        before: Option<PullNumber>,
        most: usize,
    ) -> Result<Vec<Pull>> {
        self.run("list pulls", |conn| {
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

    fn comment_add(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        author: AccountId,
        comment: &PullComment,
    ) -> Result<()> {
        self.run("add a comment", |conn| {
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

    fn comment_list(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        most: usize,
    ) -> Result<Vec<PullComment>> {
        self.run("list comments", |conn| {
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
