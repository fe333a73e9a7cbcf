//! The form fields of the database that a deployment starts from.

use branchyard_deployments::DeploymentSource;

use crate::forms::{Filled, Form};

/// Reads the fields `from` (`owner/name`) and `ref`. Returns `None` and records an error if they are invalid, and `Some(None)` if they are empty.
pub(super) fn read(form: &Form, filled: &mut Filled) -> Option<Option<DeploymentSource>> {
    let (from, reference) = (form.line("from"), form.line("ref"));
    let reference = (!reference.is_empty()).then_some(reference);
    if from.is_empty() {
        if reference.is_some() {
            filled.fault("from", "Enter the database that contains this branch, tag or commit.");
            return None;
        }
        return Some(None);
    }
    match from.split_once('/') {
        Some((owner, name)) if !owner.is_empty() && !name.is_empty() && !name.contains('/') => {
            Some(Some(DeploymentSource { owner: owner.to_owned(), name: name.to_owned(), reference }))
        }
        _ => {
            filled.fault("from", "Enter owner/database, such as ada/rivers.");
            None
        }
    }
}
