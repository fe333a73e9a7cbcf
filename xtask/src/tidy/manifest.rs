//! Checks that every package inherits from the workspace.

use crate::finding::Finding;

/// Keys that are set once, in the workspace's `Cargo.toml`.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

pub(super) fn check(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for key in INHERITED {
        if !inherits(text, "package", key) {
            findings.push(Finding::new(
                format!("{file}: the package has its own `{key}`, or none"),
                format!("write `{key}.workspace = true` under [package]"),
            ));
        }
    }
    if !has(text, "lints", &["workspace=true"]) {
        findings.push(Finding::new(
            format!("{file}: the package does not take the workspace's lints"),
            "add `[lints]` with `workspace = true`",
        ));
    }
    findings
}

fn inherits(text: &str, section: &str, key: &str) -> bool {
    has(text, section, &[&format!("{key}.workspace=true"), &format!("{key}={{workspace=true}}")])
}

/// Returns `true` if the section contains one of these lines, spaces aside.
fn has(text: &str, section: &str, wanted: &[&str]) -> bool {
    let header = format!("[{section}]");
    let mut inside = false;
    for line in text.lines() {
        let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        if line.starts_with('[') {
            inside = line == header;
        } else if inside && wanted.contains(&line.as_str()) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"x\"\nversion.workspace = true\nedition = { workspace = true }\nrust-version.workspace = true\n\
        license.workspace = true\npublish.workspace = true\n\n[lints]\nworkspace = true\n";

    #[test]
    fn a_package_inherits() {
        assert_eq!(check("Cargo.toml", GOOD), []);
    }

    #[test]
    fn what_a_package_has_of_its_own_is_named() {
        let own = GOOD.replace("edition = { workspace = true }", "edition = \"2021\"");
        let found = check("Cargo.toml", &own);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("`edition`"));
        // The same line in another section does not count.
        let lost = GOOD.replace("[lints]", "[badges]");
        assert!(check("Cargo.toml", &lost)[0].to_string().contains("lints"));
    }
}
