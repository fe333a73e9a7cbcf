//! Checks that the documentation explains each setting of the file for public servers.

use crate::finding::Finding;

/// The file with the settings.
pub(super) const FILE: &str = "contrib/public.toml";
/// The page that explains them, in the section [`SECTION`].
pub(super) const PAGE: &str = "docs/configuration.md";
const SECTION: &str = "## A public server";

pub(super) fn check(file: &str, page: &str) -> Vec<Finding> {
    let section = page.split_once(SECTION).map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or_default());
    let unexplained = settings(file).into_iter().filter(|name| !section.contains(&format!("\n| `{name}` |")));
    unexplained
        .map(|name| {
            Finding::new(
                format!("{PAGE}: \"{}\" does not explain `{name}` of {FILE}", SECTION.trim_start_matches("## ")),
                "add a row to its table: the setting, its value, and why",
            )
        })
        .collect()
}

/// Returns the settings of a TOML file as `section.key`.
fn settings(file: &str) -> Vec<String> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in file.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            found.push(format!("{section}{key}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn each_setting_of_a_public_server_is_explained() {
        let file = "# a = 1\ntop = 1\n[sql]\nanonymous = false\n";
        let page = "| `sql.anonymous` | true |\n## A public server\n\n| `top` | 1 | why |\n| `sql.anonymous` | false | why |\n";
        assert!(check(file, page).is_empty());
        // A row of another section does not count.
        let elsewhere = page.replace("| `sql.anonymous` | false", "\n## Other\n| `sql.anonymous` | false");
        let found = check(file, &elsewhere);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("does not explain `sql.anonymous`"));
        assert_eq!(check(file, "").len(), 2);
    }
}
