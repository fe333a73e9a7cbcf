//! The errors of the fields of one request.

use std::cell::RefCell;

use branchyard_problem_details::{ERRORS_MAX, ErrorCode, FieldError, Problem};

/// The validation errors of a request.
#[derive(Debug, Default)]
pub struct ValidationErrors(RefCell<Vec<FieldError>>);

impl ValidationErrors {
    /// Records a validation error. Errors beyond `ERRORS_MAX` are discarded.
    pub fn add(&self, fault: FieldError) {
        let mut faults = self.0.borrow_mut();
        if faults.len() < ERRORS_MAX {
            faults.push(fault);
        }
    }

    /// Returns the value if there are no errors, and otherwise a 400 with all of them.
    pub(crate) fn settle<T>(self, value: Option<T>) -> Result<T, Problem> {
        let faults = self.0.into_inner();
        match value {
            Some(value) if faults.is_empty() => Ok(value),
            _ => Err(Problem::new(ErrorCode::ValidationFailed, summary(&faults)).with_errors(faults)),
        }
    }
}

fn summary(faults: &[FieldError]) -> String {
    let Some(first) = faults.first() else { return "the request is malformed".to_owned() };
    let place =
        first.pointer().map(|pointer| pointer.trim_start_matches('/')).or(first.parameter()).unwrap_or_default();
    let text = if place.is_empty() { first.detail().to_owned() } else { format!("{place}: {}", first.detail()) };
    match faults.len() {
        1 => text,
        more => format!("{text} (and {} more)", more - 1),
    }
}
