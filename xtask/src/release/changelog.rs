//! The changelog: what a release says about itself.

use crate::finding::Finding;

pub(crate) const FILE: &str = "CHANGELOG.md";

/// The part of the changelog about one version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// The day of the release, `2026-11-25`.
    pub(crate) date: String,
    /// The text below the heading.
    pub(crate) notes: String,
}

/// Returns the section of a version, or `None` if there is none.
pub(crate) fn section(changelog: &str, version: &str) -> Option<Section> {
    let start = format!("[{version}]");
    let (heading, rest) = parts(changelog).find(|(heading, _)| heading.starts_with(&start))?;
    let date = heading.strip_prefix(&start)?.trim().trim_start_matches('-').trim().to_owned();
    Some(Section { date, notes: format!("{}\n", rest.trim()) })
}

/// Returns what keeps a version from being released.
pub(crate) fn check(changelog: &str, version: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    match section(changelog, version) {
        None => findings.push(Finding::new(
            format!("{FILE} has no section `## [{version}] - YYYY-MM-DD`"),
            "move what is under `## [Unreleased]` into it".to_owned(),
        )),
        Some(section) => {
            if !is_date(&section.date) {
                findings.push(Finding::new(
                    format!("{FILE}: the section of {version} has the date `{}`", section.date),
                    format!("write `## [{version}] - YYYY-MM-DD`"),
                ));
            }
            if !section.notes.lines().any(|line| line.starts_with("- ")) {
                findings.push(Finding::new(
                    format!("{FILE}: the section of {version} names no change"),
                    "write one line for each change that users or operators notice".to_owned(),
                ));
            }
        }
    }
    if section(changelog, "Unreleased").is_some_and(|section| section.notes.lines().any(|line| line.starts_with("- ")))
    {
        findings.push(Finding::new(
            format!("{FILE} has changes under `## [Unreleased]`"),
            format!("move them into the section of {version}: the release contains them"),
        ));
    }
    findings
}

/// Returns each heading of the second level, without its marker, with the text below it.
fn parts(changelog: &str) -> impl Iterator<Item = (&str, &str)> {
    changelog.split("\n## ").skip(1).map(|part| part.split_once('\n').unwrap_or((part, "")))
}

fn is_date(text: &str) -> bool {
    let digits = |part: &str, length: usize| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(text.split('-').collect::<Vec<_>>()[..], [year, month, day]
        if digits(year, 4) && digits(month, 2) && digits(day, 2) && ("01"..="12").contains(&month) && ("01"..="31").contains(&day))
}

#[cfg(test)]
mod tests {
    use super::{check, section};

    const GOOD: &str = "# Changelog\n\nText.\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- One.\n\n## [0.1.0] - 2026-11-23\n\n- First.\n";

    #[test]
    fn the_notes_of_a_version_are_its_section() {
        let found = section(GOOD, "0.2.0").unwrap();
        assert_eq!((found.date.as_str(), found.notes.as_str()), ("2026-12-01", "### Added\n\n- One.\n"));
        assert_eq!(section(GOOD, "0.1.0").unwrap().notes, "- First.\n");
        assert_eq!(section(GOOD, "0.1"), None);
        assert_eq!(check(GOOD, "0.2.0"), []);
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let cases = [
            (GOOD.replace("[0.2.0] - 2026-12-01", "[0.3.0] - 2026-12-01"), "has no section `## [0.2.0] - YYYY-MM-DD`"),
            (GOOD.replace("2026-12-01", "soon"), "has the date `soon`"),
            (GOOD.replace("2026-12-01", "2026-13-01"), "has the date `2026-13-01`"),
            (GOOD.replace("- One.", "One."), "names no change"),
            (GOOD.replace("[Unreleased]\n", "[Unreleased]\n\n- Later.\n"), "has changes under `## [Unreleased]`"),
        ];
        for (text, expected) in cases {
            let found = check(&text, "0.2.0");
            assert_eq!(found.len(), 1, "{expected}");
            assert!(found[0].to_string().contains(expected), "{}", found[0]);
        }
    }
}
