//! Checks that links from pages to files of the tree lead to a file. If the text of such a link names a test or another function, the
//! file must contain that function.

use super::at;
use crate::finding::Finding;
use std::fs;
use std::path::Path;

pub(super) fn check(root: &Path, page: &Path, text: &str) -> Vec<Finding> {
    let folder = root.join(page.parent().unwrap_or(Path::new("")));
    let mut findings = Vec::new();
    for (line, link) in links(text) {
        let path = link.split(['#', '?']).next().unwrap_or_default();
        let elsewhere = link.contains("://") || link.starts_with("mailto:");
        if elsewhere || path.is_empty() {
            continue;
        }
        // GitHub resolves a leading `/` from the root of the tree.
        let target = match path.strip_prefix('/') {
            Some(rest) => root.join(rest),
            None => folder.join(path),
        };
        if !target.exists() {
            findings.push(at(
                &page.to_string_lossy(),
                line,
                &format!("the link to `{link}` leads nowhere"),
                "correct the path (relative to the page), or remove the link",
            ));
        }
    }
    for (line, function, link) in functions(text) {
        let Ok(source) = fs::read_to_string(folder.join(&link)) else {
            continue;
        };
        if !source.contains(&format!("fn {function}(")) {
            findings.push(at(
                &page.to_string_lossy(),
                line,
                &format!("there is no function `{function}` in `{link}`"),
                "name the function that is meant, and the file it is in",
            ));
        }
    }
    findings
}

/// Returns each ``[`function`](file.rs)``: its line, the function's name and the file.
fn functions(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for piece in line.split("[`").skip(1) {
            let Some((name, rest)) = piece.split_once("`](") else {
                continue;
            };
            let file = rest.split(')').next().unwrap_or_default();
            let is_name =
                name.contains('_') && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if is_name && file.ends_with(".rs") {
                found.push((index + 1, name.to_owned(), file.to_owned()));
            }
        }
    }
    found
}

/// Returns the targets of `[text](target)` and `[name]: target` outside code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between backticks is code.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
        for target in inline.chain(defined) {
            // A title may follow the target.
            if let Some(target) = target.split_whitespace().next() {
                let target = target.trim_start_matches('<').trim_end_matches('>');
                found.push((index + 1, target.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text = "a [b](c.md#d) and [e](f.md \"title\")\n```\n[x](y.md)\n```\n`[x](y.md)` ![i](p.png)\n[ref]: g.md\n";
        let expected = [(1, "c.md#d"), (1, "f.md"), (5, "p.png"), (6, "g.md")];
        let found = links(text);
        let found: Vec<(usize, &str)> = found.iter().map(|(line, link)| (*line, link.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn dead_links_are_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text =
            "[a](../Cargo.toml#x) [b](/Cargo.toml) [c](main.rs) [d](https://host.example/x) [e](#here) [f](gone.md)";
        let found = check(root, Path::new("src/page.md"), text);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("src/page.md:1: the link to `gone.md`"));
    }

    #[test]
    fn functions_that_are_gone_are_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[`functions_that_are_gone_are_named`](tidy/links.rs) [`Finding`](finding.rs)\n[`no_such_test`](tidy/links.rs)";
        let found = check(root, Path::new("src/page.md"), text);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("src/page.md:2: there is no function `no_such_test`"));
    }
}
