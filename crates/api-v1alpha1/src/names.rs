//! Names of operations: five spellings of one id (v1alpha1 §4.5).

use branchyard_domain::entities::Operation;
use branchyard_domain::values::OperationId;

/// Parses the operation id of a name in any spelling. The text before the id is ignored.
pub(crate) fn parse(text: &str) -> Option<OperationId> {
    // The query was decoded once. Some clients encode the slashes of a name twice.
    let decoded = match text.to_ascii_uppercase().contains("%2F") {
        true => percent_encoding::percent_decode_str(text).decode_utf8().ok()?.into_owned(),
        false => text.to_owned(),
    };
    let id = decoded.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    OperationId::parse(&id).ok()
}

/// Returns the name of an operation in its creator's list. Writes are polled by this name.
pub(crate) fn of_user(operation: &Operation) -> String {
    format!("users/{}/userOperations/{}", operation.created_by_name, operation.id)
}

/// Returns the name of a merge or an import. Other operations must not use this form, because clients choose the endpoint to poll
/// by the beginning of the name.
pub(crate) fn of_job(operation: &Operation) -> String {
    let locator = &operation.locator;
    format!("repositoryOwners/{}/repositories/{}/jobs/{}", locator.owner, locator.name, operation.id)
}

/// Returns the name of a fork.
pub(crate) fn of_fork(operation: &Operation) -> String {
    format!("operations/{}", operation.id)
}

#[cfg(test)]
mod tests {
    use super::parse;

    const ID: &str = "019b7ca9-8c88-7a10-8d11-3e5f7a9b1c2d";

    #[test]
    fn five_spellings_name_one_operation() {
        for text in [
            ID.to_owned(),
            ID.to_uppercase(),
            format!("users/ana/userOperations/{ID}"),
            format!("repositoryOwners/ana/repositories/trees/jobs/{ID}"),
            format!("operations/{ID}"),
            format!("databases/ana/trees/operations/{ID}"),
            format!("users%2Fana%2FuserOperations%2F{ID}"),
            format!("users%2fana%2fuserOperations%2f{ID}"),
        ] {
            assert_eq!(parse(&text).unwrap().to_string(), ID, "{text}");
        }
    }

    #[test]
    fn nothing_else_does() {
        for text in ["", "x", "users/ana/userOperations/", &format!("{ID}/"), &format!("{ID}x"), "%2F", "%2F%ff"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
