use branchyard_api_common::rfc3339;
use branchyard_domain::entities::{DatabaseLocator, Pull, PullComment, PullState};
use branchyard_domain::values::RefName;

use super::database_ref;
use crate::wire;

fn branch_ref(locator: &DatabaseLocator, branch: &RefName) -> wire::BranchRef {
    wire::BranchRef { database: database_ref(locator), branch_name: branch.to_string() }
}

/// A pull as lists show it.
pub(crate) fn pull_summary(pull: &Pull) -> wire::PullSummary {
    let Pull {
        database_id: _,
        number,
        title,
        description,
        state,
        creator_id: _,
        creator,
        from_database_id: _,
        from_locator: _,
        from_branch: _,
        to_branch: _,
        created_at,
        updated_at,
        version: _,
    } = pull;
    wire::PullSummary {
        pull_number: number.get(),
        title: title.clone(),
        description: description.clone(),
        state: match state {
            PullState::Open => wire::PullState::Open,
            PullState::Closed { .. } => wire::PullState::Closed,
            PullState::Merged { .. } => wire::PullState::Merged,
        },
        created_at: rfc3339(*created_at),
        updated_at: rfc3339(*updated_at),
        creator: creator.to_string(),
    }
}

/// A pull of the database `base`.
pub(crate) fn pull(pull: &Pull, base: &DatabaseLocator) -> wire::Pull {
    let mut shown = wire::Pull {
        summary: pull_summary(pull),
        from_branch: branch_ref(&pull.from_locator, &pull.from_branch),
        to_branch: branch_ref(base, &pull.to_branch),
        merged_at: None,
        merged_by: None,
        merge_commit_sha: None,
        closed_at: None,
    };
    match &pull.state {
        PullState::Open => {}
        PullState::Closed { at } => shown.closed_at = Some(rfc3339(*at)),
        PullState::Merged { at, by, commit, base: _, source: _ } => {
            shown.merged_at = Some(rfc3339(*at));
            shown.merged_by = Some(by.to_string());
            shown.merge_commit_sha = Some(commit.to_string());
        }
    }
    shown
}

impl From<&PullComment> for wire::PullComment {
    fn from(comment: &PullComment) -> Self {
        let PullComment { id, author, body, created_at, updated_at } = comment;
        Self {
            comment_id: id.to_string(),
            author: author.to_string(),
            body: body.clone(),
            created_at: rfc3339(*created_at),
            updated_at: rfc3339(*updated_at),
        }
    }
}
