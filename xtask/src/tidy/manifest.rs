//! Checks that every package inherits from the workspace, and lines of the workspace that no test of a debug build can miss.

use crate::finding::Finding;

/// Keys that are set once, in the workspace's `Cargo.toml`.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

pub(super) fn check(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A package that is published has a first page, which the registry shows, instead of the workspace's `publish = false`.
    let is_published = has(text, "package", &["readme=\"README.md\""]);
    for key in INHERITED.iter().filter(|key| !(is_published && **key == "publish")) {
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

/// Lines of the workspace's manifest on which safety depends, with their section and the reason.
const REQUIRED: &[(&str, &str, &str)] = &[
    ("profile.release", "overflow-checks=true", "an overflow in a crate of the workspace is a panic, not a wrong size"),
    (
        "profile.release.package.\"*\"",
        "overflow-checks=false",
        "dependencies stay as their authors test and measure them",
    ),
];

/// Checks the manifest of the workspace.
pub(super) fn workspace(text: &str) -> Vec<Finding> {
    let missing = REQUIRED.iter().filter(|(section, line, _)| !has(text, section, &[line]));
    let mut findings: Vec<Finding> = missing
        .map(|(section, line, reason)| {
            Finding::new(format!("Cargo.toml: `[{section}]` does not have `{line}`"), format!("add the line: {reason}"))
        })
        .collect();
    let lz4 = text.lines().find(|line| line.starts_with("lz4_flex"));
    if !lz4.is_some_and(|line| ["\"safe-decode\"", "\"safe-encode\""].iter().all(|feature| line.contains(feature))) {
        findings.push(Finding::new(
            "Cargo.toml: `lz4_flex` is compiled with unsafe code",
            "add the features `safe-decode` and `safe-encode`: it reads files of users in the server process",
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
        let line = line.split('#').next().unwrap_or_default();
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
    fn a_published_package_has_a_first_page() {
        let published = GOOD.replace("publish.workspace = true", "readme = \"README.md\"");
        assert_eq!(check("Cargo.toml", &published), []);
        assert_eq!(check("Cargo.toml", &GOOD.replace("publish.workspace = true\n", "")).len(), 1);
    }

    #[test]
    fn the_release_profile_checks_overflows_of_our_crates_only() {
        let good = "lz4_flex = { features = [\"safe-decode\", \"safe-encode\"] }\n[profile.release]\noverflow-checks = true # why\n\
            [profile.release.package.\"*\"]\noverflow-checks = false\n";
        assert_eq!(workspace(good), []);
        for line in ["overflow-checks = true", "overflow-checks = false", "[profile.release]\n", ", \"safe-encode\""] {
            assert_eq!(workspace(&good.replace(line, "")).len(), 1, "{line}");
        }
    }

    /// The profile that cargo uses is that of this file.
    #[test]
    fn the_manifest_of_the_workspace_has_the_required_lines() {
        assert_eq!(workspace(include_str!("../../../Cargo.toml")), []);
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
