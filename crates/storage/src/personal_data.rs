//! What refers to one user.

use branchyard_domain::entities::{Activity, AuthoredPull, DatabaseLocator, PullComment, Role};
use branchyard_domain::ports::{MetadataError, PersonalDataRepository};
use branchyard_domain::values::{AccountId, PullNumber, Timestamp};
use diesel::prelude::*;

use crate::activities::{ActivityRow, activity};
use crate::convert::{Read, all, read, time};
use crate::schema::{accounts, activities, collaborators, comments, databases, pulls, stars};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;
/// The names of a database and its owner.
type LocatorRow = (String, String);
type PullRow = (LocatorRow, i64, String, Option<String>, String, String, i64);
/// A comment's base, number of the pull request, id, author, text and times.
type CommentRow = (LocatorRow, i64, String, String, String, i64, i64);

fn locator((owner, name): LocatorRow) -> Read<DatabaseLocator> {
    Ok(DatabaseLocator { owner: read("databases.owner_name", owner)?, name: read("databases.name", name)? })
}

fn pull((database, number, title, description, from_branch, to_branch, created_at): PullRow) -> Read<AuthoredPull> {
    Ok(AuthoredPull {
        database: locator(database)?,
        number: read("pulls.number", number)?,
        title,
        description,
        from_branch: read("pulls.from_branch", from_branch)?,
        to_branch: read("pulls.to_branch", to_branch)?,
        created_at: time(created_at),
    })
}

fn comment(row: CommentRow) -> Read<(DatabaseLocator, PullNumber, PullComment)> {
    let (database, number, id, author, body, created_at, updated_at) = row;
    let comment = PullComment {
        id: read("comments.id", id)?,
        author: read("accounts.name", author)?,
        body,
        created_at: time(created_at),
        updated_at: time(updated_at),
    };
    Ok((locator(database)?, read("comments.number", number)?, comment))
}

impl PersonalDataRepository for SqlTransaction {
    fn list_collaborations(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Role, Timestamp)>> {
        self.run("list the roles of a user", |conn| {
            let rows: Vec<(LocatorRow, String, i64)> = collaborators::table
                .inner_join(databases::table.on(databases::id.eq(collaborators::database_id)))
                .filter(collaborators::user_id.eq(user.to_string()))
                .filter(databases::deleted_at.is_null())
                .order((collaborators::added_at, collaborators::database_id))
                .select(((databases::owner_name, databases::name), collaborators::role, collaborators::added_at))
                .load(conn)?;
            all(rows, |(of, role, at)| Ok((locator(of)?, read("collaborators.role", role)?, time(at))))
        })
    }

    fn list_stars(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Timestamp)>> {
        self.run("list the stars of a user", |conn| {
            let rows: Vec<(LocatorRow, i64)> = stars::table
                .inner_join(databases::table.on(databases::id.eq(stars::database_id)))
                .filter(stars::user_id.eq(user.to_string()))
                .filter(databases::deleted_at.is_null())
                .order((stars::starred_at, stars::database_id))
                .select(((databases::owner_name, databases::name), stars::starred_at))
                .load(conn)?;
            all(rows, |(of, at)| Ok((locator(of)?, time(at))))
        })
    }

    fn list_pulls(&mut self, user: AccountId) -> Result<Vec<AuthoredPull>> {
        self.run("list the pull requests of a user", |conn| {
            let rows: Vec<PullRow> = pulls::table
                .inner_join(databases::table.on(databases::id.eq(pulls::database_id)))
                .filter(pulls::creator_id.eq(user.to_string()))
                .order((pulls::created_at, pulls::database_id, pulls::number))
                .select((
                    (databases::owner_name, databases::name),
                    pulls::number,
                    pulls::title,
                    pulls::description,
                    pulls::from_branch,
                    pulls::to_branch,
                    pulls::created_at,
                ))
                .load(conn)?;
            all(rows, pull)
        })
    }

    fn list_comments(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, PullNumber, PullComment)>> {
        self.run("list the comments of a user", |conn| {
            let rows: Vec<CommentRow> = comments::table
                .inner_join(databases::table.on(databases::id.eq(comments::database_id)))
                .inner_join(accounts::table.on(accounts::id.eq(comments::author_id)))
                .filter(comments::author_id.eq(user.to_string()))
                .order((comments::created_at, comments::id))
                .select((
                    (databases::owner_name, databases::name),
                    comments::number,
                    comments::id,
                    accounts::name,
                    comments::body,
                    comments::created_at,
                    comments::updated_at,
                ))
                .load(conn)?;
            all(rows, comment)
        })
    }

    fn list_activities(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Activity)>> {
        self.run("list the activities of a user", |conn| {
            let rows: Vec<(LocatorRow, (ActivityRow, String))> = activities::table
                .inner_join(databases::table.on(databases::id.eq(activities::database_id)))
                .inner_join(accounts::table.on(accounts::id.eq(activities::by_id)))
                .filter(activities::by_id.eq(user.to_string()))
                .order(activities::id)
                .select(((databases::owner_name, databases::name), (ActivityRow::as_select(), accounts::name)))
                .load(conn)?;
            all(rows, |(of, row)| Ok((locator(of)?, activity(row)?)))
        })
    }
}
