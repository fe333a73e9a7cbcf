//! Checks that the OpenAPI documents in the tree are the ones that the binary prints, and writes them.

use crate::finding::{Finding, settle};
use crate::process;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The API versions and their documents. The document of a frozen version never changes again.
const DOCUMENTS: &[(&str, &str)] = &[
    ("v2", "crates/api-v2/openapi/v2.json"),
    ("v1alpha1", "crates/api-v1alpha1/openapi/v1alpha1.json"),
    ("hosted-v1", "crates/api-hosted-v1/openapi/hosted-v1.json"),
];

pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    for (version, path) in DOCUMENTS {
        let file = workspace.root.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&file, document(workspace, version, None)?).with_context(|| format!("cannot write {path}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Compares the committed documents with those that `binary` prints. Without `binary`, `XTASK_BRANCHYARD` or a fresh build prints them.
pub(crate) fn check(workspace: &Workspace, binary: Option<&Path>) -> Result<()> {
    let mut findings = Vec::new();
    for (version, path) in DOCUMENTS {
        let printed = document(workspace, version, binary)?;
        let committed = match fs::read_to_string(workspace.root.join(path)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        };
        findings.extend(compare(path, &committed, &printed));
    }
    settle("openapi", &findings)
}

fn compare(path: &str, committed: &str, printed: &str) -> Option<Finding> {
    if committed == printed {
        return None;
    }
    let (mut old, mut new, mut line) = (committed.lines(), printed.lines(), 0);
    let difference = loop {
        line += 1;
        match (old.next(), new.next()) {
            (None, None) => break "only the line ends differ".to_owned(),
            (was, is) if was != is => {
                let show = |text: Option<&str>| text.unwrap_or("(end)").trim().to_owned();
                break format!("line {line}: committed `{}`, code `{}`", show(was), show(is));
            }
            _ => {}
        }
    };
    Some(Finding::new(
        format!("{path} is not what the code says; {difference}"),
        "`cargo xtask openapi` writes it; review the difference as a change of the public contract",
    ))
}

fn document(workspace: &Workspace, version: &str, binary: Option<&Path>) -> Result<String> {
    let mut command = match (binary, std::env::var_os("XTASK_BRANCHYARD")) {
        (Some(binary), _) => Command::new(binary),
        (None, Some(binary)) => Command::new(binary),
        (None, None) => {
            let mut command = Command::new(cargo());
            command.args(["run", "--quiet", "--package", "branchyard", "--"]);
            command
        }
    };
    let printed = process::read(command.current_dir(&workspace.root).args(["openapi", version]))?;
    let is_object = serde_json::from_str::<serde_json::Value>(&printed)
        .with_context(|| format!("`branchyard openapi {version}` printed no JSON"))?
        .is_object();
    if !is_object {
        bail!("`branchyard openapi {version}` printed JSON that is no object");
    }
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_shown() {
        assert_eq!(compare("x.json", "{\n}\n", "{\n}\n"), None);
        let shown = |old, new| compare("x.json", old, new).unwrap().to_string();
        assert!(
            shown("{\n  \"a\": 1\n}\n", "{\n  \"a\": 2\n}\n").contains("line 2: committed `\"a\": 1`, code `\"a\": 2`")
        );
        assert!(shown("", "{}\n").contains("line 1: committed `(end)`, code `{}`"));
        assert!(shown("{}", "{}\n").contains("line ends"));
    }
}
