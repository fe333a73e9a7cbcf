//! Lists the snapshots that an adapter's tests compare.

use std::collections::BTreeSet;

use crate::blocks::Block;
use crate::declared::{Declared, DeclaredOperation};

/// The test of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotTest {
    /// Id of the operation in the OpenAPI document.
    pub operation: String,
    /// Name of the snapshot.
    pub name: String,
}

/// Returns the tests of a document: one for each declared response and one for each block. A block replaces the declared response of
/// its name; with a reason instead of steps ([`Block::unprovoked`]), it removes the test.
///
/// `also` is a parameter and a name. Each operation with this parameter has a further test of this name. The test covers the declared
/// response whose name it begins with.
pub fn snapshot_tests(
    operations: &[DeclaredOperation],
    blocks: &[Block],
    also: Option<(&str, &str)>,
) -> BTreeSet<SnapshotTest> {
    let test = |operation: &str, name: &str| SnapshotTest { operation: operation.to_owned(), name: name.to_owned() };
    let mut tests = BTreeSet::new();
    for operation in operations {
        let also = also.filter(|(parameter, _)| operation.parameters.iter().any(|known| known == parameter));
        let also = also.map(|(_, name)| name);
        let covered = |name: &str| also.is_some_and(|also| also.starts_with(&format!("{name}-")));
        let declared = operation.declared.iter().map(Declared::name).filter(|name| !covered(name));
        tests.extend(declared.map(|name| test(&operation.id, &name)));
        tests.extend(also.map(|name| test(&operation.id, name)));
    }
    for block in blocks {
        let test = test(&block.operation, &block.name);
        if block.unprovoked().is_some() {
            tests.remove(&test);
        } else {
            tests.insert(test);
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::snapshot_tests;
    use crate::blocks::blocks;
    use crate::declared::operations;

    const DOCUMENT: &str = r#"{"paths": {"/x": {"post": {"operationId": "postX", "parameters": [{"name": "Key"}], "responses": {
        "201": {"content": {"application/json": {"example": 1}}},
        "409": {"content": {"application/json": {"examples": {"TAKEN": {}}}}},
        "422": {"content": {"application/json": {"examples": {"BAD": {}}}}}}}}}}"#;

    fn names(steps: &'static str, also: Option<(&str, &str)>) -> Vec<String> {
        let tests = snapshot_tests(&operations(DOCUMENT, ""), &blocks(steps), also);
        tests.into_iter().map(|test| format!("{} {}", test.operation, test.name)).collect()
    }

    #[test]
    fn each_declared_response_and_each_block_is_a_test() {
        assert_eq!(names("", None), ["postX 201-success", "postX 409-TAKEN", "postX 422-BAD"]);
        let steps = "= postX 201-success\nx\n= postX 201-success-late\nx\n= postX 422-BAD\nunprovoked it never is\n";
        assert_eq!(names(steps, None), ["postX 201-success", "postX 201-success-late", "postX 409-TAKEN"]);
    }

    #[test]
    fn a_further_test_covers_the_declared_response_that_it_details() {
        let also = Some(("Key", "409-TAKEN-now"));
        assert_eq!(names("", also), ["postX 201-success", "postX 409-TAKEN-now", "postX 422-BAD"]);
        let both = names("= postX 409-TAKEN\nx\n", also);
        assert_eq!(both, ["postX 201-success", "postX 409-TAKEN", "postX 409-TAKEN-now", "postX 422-BAD"]);
        assert_eq!(names("", Some(("Other", "409-TAKEN-now"))).len(), 3);
    }
}
