//! Makes a release: checks that the tree is ready for it, builds the artefacts, and tags the commit. `docs/releasing.md` describes the
//! steps around it.

mod changelog;

use crate::cargo_tool::Missing;
use crate::deb::{self, Compression};
use crate::finding::{Finding, settle};
use crate::process;
use crate::sbom;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package whose version is the release's.
const PACKAGE: &str = "branchyard";
/// Where the data folders of releases are, for the test of upgrades.
const FIXTURES: &str = "bins/branchyard/tests/it/fixtures";
/// What lies beside the program in the archive.
const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-MIT", "LICENSE-APACHE", "contrib"];

/// Whether the release is only tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The commit is tagged.
    Tag,
    /// Everything but the tag.
    DryRun,
}

/// Releases `version` from the commit that is checked out. A dry run may use a `binary` that is built already.
pub(crate) fn run(
    workspace: &Workspace,
    missing: Missing,
    version: &str,
    mode: Mode,
    binary: Option<PathBuf>,
) -> Result<()> {
    if mode == Mode::Tag && binary.is_some() {
        bail!("a release builds its own program\n  fix: unset XTASK_BRANCHYARD, or give --dry-run");
    }
    let tag = format!("v{version}");
    let changes = read(&workspace.root.join(changelog::FILE))?;
    settle("release", &findings(workspace, version, &changes)?)?;
    let notes = changelog::section(&changes, version).context("the changelog has no section")?.notes;

    let out = workspace.target.join("release-files").join(&tag);
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let binary = match binary {
        Some(binary) => binary,
        None => deb::build(workspace)?,
    };
    let printed = process::read(Command::new(&binary).arg("--version"))?;
    if printed.trim() != format!("{PACKAGE} {version}") {
        bail!("{} is {}, not {version}", binary.display(), printed.trim());
    }
    fs::write(out.join("notes.md"), &notes)?;
    archive(workspace, &binary, &out, version)?;
    let compression = if mode == Mode::DryRun { Compression::Fast } else { Compression::Best };
    deb::pack(workspace, missing, &binary, &out, compression)?;
    sbom::run(workspace, missing, Some(&out.join(format!("{PACKAGE}-{version}.cdx.json"))))?;
    for api in ["v2", "v1alpha1", "hosted-v1"] {
        let document = process::read(Command::new(&binary).args(["openapi", api]))?;
        fs::write(out.join(format!("openapi-{api}.json")), document)?;
    }
    checksums(&out)?;

    if mode == Mode::DryRun {
        println!("release: {tag} could be tagged; its files are in {}", out.display());
        return Ok(());
    }
    process::run(
        git(workspace).args(["tag", "--annotate", "--cleanup=verbatim", "--file"]).arg(out.join("notes.md")).arg(&tag),
    )?;
    println!(
        "release: tagged {tag}; its files are in {}\n  next: `git push origin {tag}`, then publish the files with notes.md as the text",
        out.display()
    );
    Ok(())
}

/// Returns everything that keeps the tree from being released.
fn findings(workspace: &Workspace, version: &str, changes: &str) -> Result<Vec<Finding>> {
    let mut findings = changelog::check(changes, version);
    if !is_version(version) {
        findings.push(Finding::new(
            format!("`{version}` is no version"),
            "give three numbers, and for a preview a suffix: 1.2.3, 1.2.3-rc.1".to_owned(),
        ));
    }
    let package = workspace.packages.iter().find(|package| package.name == PACKAGE);
    let actual = &package.with_context(|| format!("there is no package `{PACKAGE}`"))?.version;
    if actual != version {
        findings.push(Finding::new(
            format!("the version of the workspace is {actual}, not {version}"),
            "set it under [workspace.package] in Cargo.toml, run `cargo check`, and commit both files".to_owned(),
        ));
    }
    for extension in ["json", "tar.gz"] {
        let fixture = format!("{FIXTURES}/v{version}.{extension}");
        if !workspace.root.join(&fixture).exists() {
            findings.push(Finding::new(
                format!("{fixture} is missing, with which later versions test that they upgrade this one"),
                format!("`cargo xtask fixture --version v{version}`, and commit the files"),
            ));
        }
    }
    if !process::read(git(workspace).args(["status", "--porcelain"]))?.trim().is_empty() {
        findings.push(Finding::new(
            "the tree has changes that are not committed".to_owned(),
            "commit or remove them: `git status` lists them".to_owned(),
        ));
    }
    if !process::read(git(workspace).args(["tag", "--list", &format!("v{version}")]))?.trim().is_empty() {
        findings.push(Finding::new(
            format!("v{version} is tagged already"),
            "choose the next version: what was released does not change".to_owned(),
        ));
    }
    Ok(findings)
}

/// Returns `true` for three numbers without leading zeros, optionally with `-` and a suffix.
fn is_version(text: &str) -> bool {
    let (numbers, suffix) = text.split_once('-').map_or((text, None), |(numbers, suffix)| (numbers, Some(suffix)));
    let parts: Vec<&str> = numbers.split('.').collect();
    let number = |part: &&str| part.parse::<u32>().is_ok_and(|number| number.to_string() == **part);
    let plain = |suffix: &str| !suffix.is_empty() && suffix.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    parts.len() == 3 && parts.iter().all(number) && suffix.is_none_or(plain)
}

/// Writes the archive with the program, its completions and manual pages, and the documents. Equal files make equal archives.
fn archive(workspace: &Workspace, binary: &Path, out: &Path, version: &str) -> Result<()> {
    let printed = process::read(Command::new(binary).args(["--version", "--verbose"]))?;
    let target =
        printed.lines().find_map(|line| line.strip_prefix("target: ")).context("the program names no target")?;
    let name = format!("{PACKAGE}-{version}-{target}");
    let staged = workspace.target.join("release-files").join(&name);
    if staged.exists() {
        fs::remove_dir_all(&staged)?;
    }
    deb::describe(binary, &staged.join("share"))?;
    fs::copy(binary, staged.join(PACKAGE))?;
    deb::drop_names_of_data(&staged.join(PACKAGE))?;
    let documents = DOCUMENTS.iter().map(|document| workspace.root.join(document));
    process::run(Command::new("cp").arg("-r").args(documents).arg(&staged))?;
    let time = process::read(git(workspace).args(["show", "--no-patch", "--format=%ct", "HEAD"]))?;
    process::run(
        Command::new("tar")
            .args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX"])
            .arg(format!("--mtime=@{}", time.trim()))
            .arg("--file")
            .arg(out.join(format!("{name}.tar.gz")))
            .arg("--directory")
            .arg(workspace.target.join("release-files"))
            .arg(&name)
            .env("GZIP", "-n"),
    )?;
    Ok(fs::remove_dir_all(&staged)?)
}

/// Writes `SHA256SUMS`, which `sha256sum --check` reads.
fn checksums(out: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(out)? {
        names.push(entry?.file_name());
    }
    names.sort();
    let sums = process::read(Command::new("sha256sum").current_dir(out).args(&names))?;
    Ok(fs::write(out.join("SHA256SUMS"), sums)?)
}

fn git(workspace: &Workspace) -> Command {
    let mut command = Command::new("git");
    command.current_dir(&workspace.root);
    command
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn versions_have_three_numbers() {
        for good in ["0.2.0", "10.20.30", "1.0.0-rc.1"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "1.2", "v1.2.3", "1.2.3.4", "1.02.3", "1.2.3-", "1.2.3-a b", "1.2.x"] {
            assert!(!is_version(bad), "{bad}");
        }
    }
}
