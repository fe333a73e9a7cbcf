//! Checks that the review of dependencies is about what `Cargo.lock` has.

use super::at;
use crate::finding::Finding;

/// The page of the review.
pub(super) const PAGE: &str = "docs/dependencies.md";

/// The number of reviewed entries.
const ENTRIES: usize = 20;

/// Checks the headings of the page, ``### 1. `name` 2.3, `other` 1``, where a version stands for all that begin with it.
pub(super) fn check(page: &str, lock: &str) -> Vec<Finding> {
    let locked = locked(lock);
    let mut findings = Vec::new();
    let mut entries = 0;
    for (index, line) in page.lines().enumerate() {
        let Some((number, crates)) = line.strip_prefix("### ").and_then(|heading| heading.split_once(". ")) else {
            continue;
        };
        entries += 1;
        if number != entries.to_string() {
            findings.push(at(
                PAGE,
                index + 1,
                &format!("entry {number} is not numbered {entries}"),
                "number the entries",
            ));
        }
        for reviewed in crates.split(", ") {
            let (name, version) = reviewed.rsplit_once(' ').unwrap_or((reviewed, ""));
            let name = name.trim_matches('`');
            if !locked.iter().any(|(other, locked)| *other == name && covers(version, locked)) {
                let there: Vec<&str> = locked.iter().filter(|(other, _)| *other == name).map(|(_, it)| *it).collect();
                let there = if there.is_empty() {
                    "does not have the crate".to_owned()
                } else {
                    format!("has {}", there.join(", "))
                };
                findings.push(at(
                    PAGE,
                    index + 1,
                    &format!("`{name}` {version} was reviewed, and Cargo.lock {there}"),
                    "look at what has changed, and update the entry and its version",
                ));
            }
        }
    }
    if entries != ENTRIES {
        findings.push(Finding::new(
            format!("{PAGE}: {entries} entries"),
            format!("review the {ENTRIES} most dangerous crates"),
        ));
    }
    findings
}

/// Returns `true` if the version begins with the reviewed one: `2.3` covers `2.3.14`, but not `2.30.1`.
fn covers(reviewed: &str, version: &str) -> bool {
    !reviewed.is_empty() && version.strip_prefix(reviewed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the names and versions in `Cargo.lock`.
fn locked(lock: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut name = None;
    for line in lock.lines() {
        if let Some(text) = quoted(line, "name") {
            name = Some(text);
        } else if let (Some(version), Some(name)) = (quoted(line, "version"), name.take()) {
            found.push((name, version));
        }
    }
    found
}

/// Returns the text of `key = "text"`.
fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.51.6\"\nsource = \"r\"\n\n[[package]]\nname = \"b\"\n\
        version = \"2.30.1\"\n\n[[package]]\nname = \"b\"\nversion = \"3.0.0+c-1\"\n";

    fn page(first: &str) -> String {
        let rest: String = (2..=20).map(|number| format!("### {number}. `a` 0\n")).collect();
        format!("### 1. {first}\n{rest}")
    }

    #[test]
    fn reviewed_versions_are_those_of_the_lock_file() {
        assert_eq!(check(&page("`a` 0.51, `b` 3"), LOCK), []);
        for (heading, expected) in [
            ("`a` 0.5", "`a` 0.5 was reviewed, and Cargo.lock has 0.51.6"),
            ("`b` 2.3", "`b` 2.3 was reviewed, and Cargo.lock has 2.30.1, 3.0.0+c-1"),
            ("`c` 1", "`c` 1 was reviewed, and Cargo.lock does not have the crate"),
            ("`a`", "`a`  was reviewed, and Cargo.lock has 0.51.6"),
        ] {
            let found = check(&page(heading), LOCK);
            assert_eq!(found.len(), 1, "{heading}");
            assert!(found[0].to_string().starts_with(&format!("docs/dependencies.md:1: {expected}\n")), "{}", found[0]);
        }
    }

    #[test]
    fn there_are_twenty_entries() {
        let short = page("`a` 0").replace("### 20. `a` 0\n", "");
        assert!(check(&short, LOCK)[0].to_string().starts_with("docs/dependencies.md: 19 entries"));
        assert!(check(&page("`a` 0").replace("### 7.", "### 8."), LOCK)[0].to_string().contains("is not numbered 7"));
    }
}
