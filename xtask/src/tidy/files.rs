//! The files of the tree, and the conventions that apply to all of them.

use super::at;
use crate::finding::Finding;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not part of the tree. In a worktree of git, `.git` is a file.
const SKIPPED: &[&str] = &[".git", "target", "node_modules"];

/// Folders of one machine, each without its first `/`.
const MACHINE: &[&str] = &["work/", "root/", "tmp/bash_jobs"];

/// Returns every file of the tree, sorted, relative to its root.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            if SKIPPED.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            // Links are not followed: the target is either in the tree or not part of it.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path().strip_prefix(root)?.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(super) fn machine_paths(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for folder in MACHINE {
            let pattern = format!("/{folder}");
            // After one of these characters, the pattern is a part of a longer path or of a URL.
            let absolute = line.match_indices(&pattern).any(|(start, _)| {
                line.get(..start)
                    .and_then(|before| before.chars().next_back())
                    .is_none_or(|c| !(c.is_alphanumeric() || "._-/}>)".contains(c)))
            });
            if absolute {
                findings.push(at(
                    name,
                    index + 1,
                    &format!("`{pattern}…` is a path of one machine"),
                    "use a path relative to the file or the workspace, or a temporary folder made at run time",
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_machine_are_found() {
        let bad = ["\"/@/main\"", "see /@/x", "file:/@/x", "/@/"].map(|text| text.replace('@', "work"));
        for text in bad {
            assert_eq!(machine_paths("a.md", &text).len(), 1, "{text}");
        }
        let good = ["our/@/x", "https://host.example/@/x", "refs/@/x", "{base}/@/x"];
        for text in good.map(|text| text.replace('@', "work")) {
            assert_eq!(machine_paths("a.md", &text).len(), 0, "{text}");
        }
    }

    #[test]
    fn the_tree_is_listed_without_what_was_built() {
        let found = files(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(found.contains(&PathBuf::from("src/tidy/files.rs")));
        assert!(found.is_sorted());
    }

    #[test]
    fn the_git_file_of_a_worktree_is_skipped() {
        let root = std::env::temp_dir().join(format!("xtask-worktree-{}", std::process::id()));
        fs::create_dir_all(root.join("target")).unwrap();
        for name in [".git", ".gitignore", "target/built"] {
            fs::write(root.join(name), "x\n").unwrap();
        }
        let found = files(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.unwrap(), [PathBuf::from(".gitignore")]);
    }
}
