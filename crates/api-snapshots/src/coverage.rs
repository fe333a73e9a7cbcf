//! Finds declared responses without a snapshot.

use std::collections::BTreeSet;
use std::path::Path;

use crate::blocks::Block;
use crate::declared::{Declared, DeclaredOperation};

/// Returns the faults of the snapshots in `folder`: declared responses without a snapshot, folders of unknown operations, and blocks
/// that excuse a response ([`Block::unprovoked`]) that is not declared.
pub fn uncovered(operations: &[DeclaredOperation], folder: &Path, blocks: &[Block]) -> Vec<String> {
    let mut faults = Vec::new();
    let unprovoked: Vec<&Block> = blocks.iter().filter(|block| block.unprovoked().is_some()).collect();
    let excused = |id: &str, name: &str| unprovoked.iter().any(|block| block.operation == id && block.name == name);
    for DeclaredOperation { id, declared, .. } in operations {
        let there = names(&folder.join(id));
        let covered = |name: &str| {
            there
                .iter()
                .filter_map(|file| file.strip_suffix(".snap"))
                .any(|file| file.strip_prefix(name).is_some_and(|detail| detail.is_empty() || detail.starts_with('-')))
        };
        let lacking = declared.iter().map(Declared::name).filter(|name| !covered(name) && !excused(id, name));
        faults.extend(lacking.map(|name| format!("no snapshot of {id}/{name}")));
    }
    let known: BTreeSet<String> = operations.iter().map(|operation| operation.id.clone()).collect();
    let stray = names(folder).difference(&known).map(|id| format!("{id} is no operation of the document")).collect();
    faults.extend::<Vec<String>>(stray);
    for Block { operation: id, name, .. } in unprovoked {
        let declared =
            operations.iter().filter(|operation| operation.id == *id).flat_map(|operation| &operation.declared);
        if !declared.map(Declared::name).any(|known| known == *name) {
            faults.push(format!("{id}/{name} is excused and not declared"));
        }
    }
    faults
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[cfg(test)]
mod tests {
    use super::uncovered;
    use crate::blocks::blocks;
    use crate::declared::operations;

    const DOCUMENT: &str = r#"{"paths": {"/x": {"get": {"operationId": "getX", "responses": {
        "200": {"content": {"application/json": {"example": 1}}},
        "400": {"content": {"application/json": {"examples": {"bad": {}, "worse": {}}}}}}}}}}"#;

    #[test]
    fn what_is_missing_or_surplus_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["getX/200-success-long.snap", "getX/400-badly.snap", "getY/200-success.snap"] {
            let file = folder.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let excused = blocks("= getX 400-worse\nunprovoked never\n= getX 500-x\nunprovoked never\n");
        let found = uncovered(&operations(DOCUMENT, ""), folder.path(), &excused);
        let expected = [
            "no snapshot of getX/400-bad",
            "getY is no operation of the document",
            "getX/500-x is excused and not declared",
        ];
        assert_eq!(found, expected);
    }
}
