//! Checks that some test asserts every snapshot file in the tree.
//!
//! Before insta compares, it appends the path of each snapshot file that an assertion uses to the file named by
//! `INSTA_SNAPSHOT_REFERENCES_FILE`, in every test process. cargo-insta's `--unreferenced=reject` works on the same list.

use crate::finding::{Finding, settle};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const VARIABLE: &str = "INSTA_SNAPSHOT_REFERENCES_FILE";

/// Creates an empty file for insta to append to, and returns its path.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("xtask");
    fs::create_dir_all(&folder)?;
    let file = folder.join("snapshot-references.txt");
    fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// Reports the snapshots that no test used. Runs after the tests.
pub(crate) fn check(workspace: &Workspace, references: &Path) -> Result<()> {
    let references = fs::read_to_string(references).context("cannot read the list of snapshots")?;
    let snapshots: Vec<PathBuf> = crate::tidy::files(&workspace.root)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ext| ext == "snap"))
        .collect();
    settle("snapshots", &unreferenced(&workspace.root, &snapshots, &references)?)
}

fn unreferenced(root: &Path, snapshots: &[PathBuf], references: &str) -> Result<Vec<Finding>> {
    // insta's paths may contain `..`. A path that does not exist belongs to a test that failed or wrote a new snapshot.
    let used: BTreeSet<PathBuf> = references.lines().filter_map(|line| root.join(line).canonicalize().ok()).collect();
    let mut findings = Vec::new();
    for path in snapshots {
        if !used.contains(&root.join(path).canonicalize()?) {
            findings.push(Finding::new(
                format!("no test uses {}", path.display()),
                "delete it, or bring back the test that lost it (renamed module or function?)",
            ));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_no_test_used_is_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = [PathBuf::from("Cargo.toml"), PathBuf::from("src/main.rs")];
        let all = format!("{0}/src/../Cargo.toml\n{0}/src/main.rs\n{0}/gone.snap\n", root.display());
        assert_eq!(unreferenced(root, &files, &all).unwrap(), []);
        let found = unreferenced(root, &files, "src/../Cargo.toml\n").unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("no test uses src/main.rs"));
    }
}
