use branchyard_domain::entities::{DatabaseLocator, ObjectKind, Pull, PullComment, PullState};
use branchyard_domain::values::RefName;
use branchyard_http_common::rfc3339;

use super::database_ref;
use crate::wire;

fn branch_ref(locator: &DatabaseLocator, branch: &RefName) -> wire::BranchRef {
    wire::BranchRef { database: database_ref(locator), branch_name: branch.to_string() }
}

/// Converts a pull request to its form in lists.
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
        content: _,
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

/// Converts a pull request of the database `base`. `brings` holds the kinds of objects with code that the pull request adds or
/// changes, if known.
pub(crate) fn pull(pull: &Pull, base: &DatabaseLocator, brings: Option<&[ObjectKind]>) -> wire::Pull {
    let mut shown = wire::Pull {
        summary: pull_summary(pull),
        from_branch: branch_ref(&pull.from_locator, &pull.from_branch),
        to_branch: branch_ref(base, &pull.to_branch),
        merged_at: None,
        merged_by: None,
        merge_commit_sha: None,
        closed_at: None,
        brings: brings.map(|kinds| kinds.iter().filter_map(brought).collect()),
        from_commit_sha: None,
        to_commit_sha: None,
    };
    if let Some(heads) = &pull.content.heads {
        shown.from_commit_sha = Some(heads.from.to_string());
        shown.to_commit_sha = Some(heads.to.to_string());
    }
    match &pull.state {
        PullState::Open => {}
        PullState::Closed { at } => shown.closed_at = Some(rfc3339(*at)),
        PullState::Merged { at, by, commit, base: _, source } => {
            shown.from_commit_sha = Some(source.to_string());
            shown.merged_at = Some(rfc3339(*at));
            shown.merged_by = Some(by.to_string());
            shown.merge_commit_sha = Some(commit.to_string());
        }
    }
    shown
}

fn brought(kind: &ObjectKind) -> Option<wire::PullBrings> {
    match kind {
        ObjectKind::Index => None,
        ObjectKind::Trigger => Some(wire::PullBrings::Trigger),
        ObjectKind::View => Some(wire::PullBrings::View),
    }
}

/// Converts a withdrawn pull request. If the caller cannot see the base, only number and state are included.
pub(crate) fn withdrawn(of: &Pull, base: &DatabaseLocator, sees_base: bool) -> wire::WithdrawnPull {
    let wire::Pull { summary, from_branch, to_branch, closed_at, .. } = pull(of, base, None);
    let wire::PullSummary { pull_number, title, description, state, created_at, updated_at, creator } = summary;
    wire::WithdrawnPull {
        pull_number,
        state,
        title: sees_base.then_some(title),
        description: description.filter(|_| sees_base),
        created_at: sees_base.then_some(created_at),
        updated_at: sees_base.then_some(updated_at),
        creator: sees_base.then_some(creator),
        from_branch: sees_base.then_some(from_branch),
        to_branch: sees_base.then_some(to_branch),
        closed_at: closed_at.filter(|_| sees_base),
    }
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
