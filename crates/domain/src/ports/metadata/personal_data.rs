//! What is stored about one user, for exports.

use super::Result;
use crate::entities::{Activity, AuthoredPull, DatabaseLocator, PullComment, Role};
use crate::values::{AccountId, PullNumber, Timestamp};

/// The repository of what refers to a user. Its lists are complete and ordered by time, except that databases which are
/// deleted are left out of roles and stars.
pub trait PersonalDataRepository {
    /// Lists the databases on which a user is a collaborator, with the role and the time when the user was added.
    fn list_collaborations(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Role, Timestamp)>>;
    /// Lists the stars of a user.
    fn list_stars(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Timestamp)>>;
    /// Lists the pull requests that a user created.
    fn list_pulls(&mut self, user: AccountId) -> Result<Vec<AuthoredPull>>;
    /// Lists the comments that a user wrote, with the base database and the number of the pull request.
    fn list_comments(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, PullNumber, PullComment)>>;
    /// Lists the activities of a user.
    fn list_activities(&mut self, user: AccountId) -> Result<Vec<(DatabaseLocator, Activity)>>;
}
