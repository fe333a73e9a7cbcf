//! Texts about previews of writes.

use branchyard_domain::ports::{PreviewRefusal, SqlFailure};

/// Returns why statements cannot be previewed, and what to do instead.
pub fn preview_refusal(refusal: PreviewRefusal) -> &'static str {
    match refusal {
        PreviewRefusal::TooLong => {
            "the preview took longer than 5 s and was stopped; narrow the statements, or run them on a new branch and compare it"
        }
        PreviewRefusal::TooLarge => {
            "the preview needs more memory than a statement may use; narrow the statements, or run them on a new branch and compare it"
        }
        PreviewRefusal::AltersAfterChanges => {
            "a preview cannot run ALTER TABLE after statements that change rows; put ALTER TABLE first, or preview it by itself"
        }
        PreviewRefusal::ReadsHistory => {
            "statements that read the history of the database cannot be previewed; run them on a new branch and compare it"
        }
    }
}

/// Returns the text of a statement's failure, with the number of the statement unless it is the first.
pub fn statement_failure(failure: &SqlFailure, statement: u32) -> String {
    if statement > 1 { format!("{failure} (statement {statement})") } else { failure.to_string() }
}
