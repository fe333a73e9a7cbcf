//! The database of this server that one of a deployment begins as a clone of, in forms.

use branchyard_deployments::DeploymentSource;

use crate::forms::{Filled, Form};

/// The fields `from` (`owner/name`) and `ref`; the outer `None` when they cannot be read, which is noted.
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
