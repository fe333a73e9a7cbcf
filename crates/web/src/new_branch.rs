//! New branches that forms name.

use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::errors::RefError;
use branchyard_domain::values::RefName;

use crate::error_page::PageError;
use crate::page_context::PageContext;

/// Returns what is wrong with the name of a new branch: `None` unless a branch has it already.
pub(crate) async fn fault<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    name: &RefName,
) -> Result<Option<String>, PageError> {
    let (access, wanted) = (access.clone(), name.to_string());
    let found = visit.read(move |hub| match hub.branches().get(&access, &wanted) {
        Ok(_) => Ok(true),
        Err(RefError::NoSuchBranch(_)) => Ok(false),
        Err(other) => Err(other),
    });
    Ok(found.await?.then(|| format!("Branch '{name}' already exists. Choose another name.")))
}
