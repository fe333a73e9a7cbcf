//! What refers to one user.

use super::{MemoryTransaction, Result};
use branchyard_domain::entities::{Activity, AuthoredPull, DatabaseLocator, PullComment, Role};
use branchyard_domain::ports::PersonalDataRepository;
use branchyard_domain::values::{AccountId, DatabaseId, PullNumber, Timestamp};

impl MemoryTransaction<'_> {
    fn live_locator(&self, id: DatabaseId) -> Option<DatabaseLocator> {
        let found = self.state.databases.get(&id).filter(|database| database.deleted_at.is_none());
        found.map(|database| database.locator.clone())
    }

    fn any_locator(&self, id: DatabaseId) -> Option<DatabaseLocator> {
        self.state.databases.get(&id).map(|database| database.locator.clone())
    }
}

impl PersonalDataRepository for MemoryTransaction<'_> {
    fn list_collaborations(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Role, Timestamp)>> {
        let of_user = self.state.collaborators.iter().filter(|((_, of), _)| *of == user);
        let mut found: Vec<_> = of_user
            .filter_map(|((database, _), (role, at))| Some((self.live_locator(*database)?, *role, *at)))
            .collect();
        found.sort_by_key(|(_, _, at)| *at);
        Ok(found)
    }

    fn list_stars(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Timestamp)>> {
        let of_user = self.state.stars.iter().filter(|((_, of), _)| *of == user);
        let mut found: Vec<_> =
            of_user.filter_map(|((database, _), at)| Some((self.live_locator(*database)?, *at))).collect();
        found.sort_by_key(|(_, at)| *at);
        Ok(found)
    }

    fn list_pulls(&mut self, user: AccountId) -> Result<Vec<AuthoredPull>> {
        let of_user = self.state.pulls.values().filter(|pull| pull.creator_id == user);
        let authored = of_user.filter_map(|pull| {
            Some(AuthoredPull {
                database: self.any_locator(pull.database_id)?,
                number: pull.number,
                title: pull.title.clone(),
                description: pull.description.clone(),
                from_branch: pull.from_branch.clone(),
                to_branch: pull.to_branch.clone(),
                created_at: pull.created_at,
            })
        });
        let mut found: Vec<_> = authored.collect();
        found.sort_by_key(|pull| pull.created_at);
        Ok(found)
    }

    fn list_comments(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, PullNumber, PullComment)>> {
        let mut found = Vec::new();
        for ((database, number), comments) in &self.state.comments {
            let Some(locator) = self.any_locator(*database) else { continue };
            let of_user = comments.iter().filter(|(author, _)| *author == user);
            found.extend(of_user.map(|(_, comment)| (locator.clone(), *number, comment.clone())));
        }
        found.sort_by_key(|(_, _, comment)| (comment.created_at, comment.id));
        Ok(found)
    }

    fn list_activities(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Activity)>> {
        let of_user = self.state.activities.values().filter(|activity| activity.by == user);
        Ok(of_user.filter_map(|found| Some((self.any_locator(found.database_id)?, found.clone()))).collect())
    }
}
