use branchyard_domain::entities::{DatabaseLocator, Pull, PullState};
use branchyard_http_common::rfc3339;

use crate::wire;

impl From<&PullState> for wire::PullState {
    fn from(state: &PullState) -> Self {
        match state {
            PullState::Open => Self::Open,
            PullState::Closed { .. } => Self::Closed,
            PullState::Merged { .. } => Self::Merged,
        }
    }
}

/// Returns a pull request as a list item.
pub(crate) fn pull_item(pull: &Pull) -> wire::PullItem {
    wire::PullItem {
        pull_id: pull.number.to_string(),
        title: pull.title.clone(),
        description: pull.description.clone().unwrap_or_default(),
        state: (&pull.state).into(),
        created_at: rfc3339(pull.created_at),
        updated_at: rfc3339(pull.updated_at),
        creator: pull.creator.to_string(),
        creator_name: pull.creator.to_string(),
    }
}

/// Returns the fields of a pull request that an edit may change.
pub(crate) fn pull_part(pull: &Pull, base: &DatabaseLocator) -> wire::PullPart {
    let database = wire::DatabaseEcho { database_owner: base.owner.to_string(), database_name: base.name.to_string() };
    wire::PullPart {
        echo: wire::PullEcho { database, pull_id: pull.number.to_string() },
        title: pull.title.clone(),
        description: pull.description.clone().unwrap_or_default(),
        state: (&pull.state).into(),
    }
}

/// Returns a pull request of the database `base`.
pub(crate) fn pull(pull: &Pull, base: &DatabaseLocator) -> wire::Pull {
    let Pull {
        database_id: _,
        number: _,
        title: _,
        description: _,
        state: _,
        creator_id: _,
        creator,
        from_database_id: _,
        from_locator,
        from_branch,
        to_branch,
        content: _,
        created_at,
        updated_at: _,
        version: _,
    } = pull;
    wire::Pull {
        part: pull_part(pull, base),
        from_branch_owner: from_locator.owner.to_string(),
        from_branch_owner_name: from_locator.owner.to_string(),
        from_branch_database: from_locator.name.to_string(),
        from_branch_repo_name: from_locator.name.to_string(),
        from_branch: from_branch.to_string(),
        from_branch_name: from_branch.to_string(),
        to_branch_owner: base.owner.to_string(),
        to_branch_owner_name: base.owner.to_string(),
        to_branch_database: base.name.to_string(),
        to_branch_repo_name: base.name.to_string(),
        to_branch: to_branch.to_string(),
        to_branch_name: to_branch.to_string(),
        created_at: rfc3339(*created_at),
        author: creator.to_string(),
    }
}
