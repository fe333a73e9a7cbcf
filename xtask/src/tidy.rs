//! The tree's conventions, which no reviewer should have to repeat.

mod dependencies;
mod files;
mod links;
mod manifest;
mod public_server;
mod source;
mod words;

use crate::finding::{Finding, settle};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

pub(crate) use files::files;

/// The number of the longest files that are listed for review.
const LONGEST: usize = 10;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let text = read(&package.manifest)?;
        findings.extend(manifest::check(&shown(root, &package.manifest), &text));
        for file in &package.roots {
            findings.extend(source::head(&shown(root, file), &read(file)?));
        }
    }

    let mut lengths = Vec::new();
    for path in files(root)? {
        // A file that is not UTF-8 is data, to which no convention applies.
        let Ok(text) = fs::read_to_string(root.join(&path)) else {
            continue;
        };
        let name = path.to_string_lossy();
        findings.extend(files::machine_paths(&name, &text));
        match path.extension().and_then(|ext| ext.to_str()) {
            Some("rs") => {
                findings.extend(source::check(&name, &text));
                findings.extend(words::source(&name, &text));
                lengths.push((text.lines().count(), name.into_owned()));
            }
            Some("html") => findings.extend(words::template(&name, &text)),
            Some("json") if name.contains("/openapi/") => findings.extend(words::document(&name, &text)),
            Some("md") => {
                findings.extend(links::check(root, &path, &text));
                if path.starts_with("docs") {
                    findings.extend(words::page(&name, &text));
                }
            }
            _ => {}
        }
    }

    findings.extend(manifest::workspace(&read(&root.join("Cargo.toml"))?));
    let page = read(&root.join(public_server::PAGE))?;
    findings.extend(public_server::check(&read(&root.join(public_server::FILE))?, &page));
    findings.extend(dependencies::check(&read(&root.join(dependencies::PAGE))?, &read(&root.join("Cargo.lock"))?));

    lengths.sort_unstable_by(|a, b| b.cmp(a));
    println!("the longest files, in lines:");
    for (lines, name) in lengths.iter().take(LONGEST) {
        println!("{lines:>6} {name}");
    }
    settle("tidy", &findings)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Creates a finding at a line of a file.
fn at(file: &str, line: usize, what: &str, fix: &str) -> Finding {
    Finding::new(format!("{file}:{line}: {what}"), fix)
}
