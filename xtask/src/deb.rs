//! Builds the Debian package. Its metadata is in `bins/branchyard/Cargo.toml`, its scripts are in `contrib/debian`.

use crate::cargo_tool::{CargoTool, Missing};
use crate::process;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOL: CargoTool = CargoTool { name: "cargo-deb", version: "3.8.0", version_args: &["--version"] };

/// How small the package has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// As small as possible, in a minute.
    Best,
    /// In seconds, for a package that is only installed once.
    Fast,
}

/// Builds the program with the release profile, and the package from it. Writes the package to `out`, or else to `target/debian`.
pub(crate) fn run(workspace: &Workspace, missing: Missing, out: Option<&Path>) -> Result<()> {
    let program = build(workspace)?;
    let out = out.map_or_else(|| workspace.target.join("debian"), Path::to_owned);
    let package = pack(workspace, missing, &program, &out, Compression::Best)?;
    println!("deb: written to {}", package.display());
    Ok(())
}

/// Builds the program as it is released, and returns its path.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let args = ["build", "--release", "--locked", "--package", "branchyard"];
    process::run(Command::new(cargo()).current_dir(&workspace.root).args(args))?;
    Ok(workspace.target.join("release/branchyard"))
}

/// Packs a program that is built, with its completions and manual pages. Writes the package into the folder `out`, and returns its path.
pub(crate) fn pack(
    workspace: &Workspace,
    missing: Missing,
    program: &Path,
    out: &Path,
    compression: Compression,
) -> Result<PathBuf> {
    let tool = TOOL.find(workspace, missing)?;
    // cargo-deb takes files from `release` below the target folder. Another one keeps the program that is packed apart from builds.
    let target = workspace.target.join("deb");
    let release = target.join("release");
    describe(program, &release.join("package"))?;
    let packed = release.join("branchyard");
    fs::copy(program, &packed).with_context(|| format!("cannot copy {}", program.display()))?;
    if compression == Compression::Fast {
        // The debug information of a test build is most of its size.
        process::run(Command::new("strip").arg("--strip-debug").arg(&packed))?;
    }
    drop_names_of_data(&packed)?;
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let mut command = Command::new(tool);
    command
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", &target)
        // The names of functions stay, for backtraces and profiles.
        .args(["--package", "branchyard", "--no-build", "--no-strip", "--compress-system", "--output"])
        .arg(out);
    if compression == Compression::Fast {
        command.args(["--compress-type", "gz", "--fast"]);
    }
    let printed = process::read(&mut command)?;
    let path = printed.lines().last().context("cargo-deb printed no path")?;
    Ok(PathBuf::from(path))
}

/// Removes the names of exception tables and of constants without a name of their own, which are two fifths of all entries. Backtraces
/// and profiles show functions only, and the names of these stay. The system's `strip` has to know the program's format.
pub(crate) fn drop_names_of_data(program: &Path) -> Result<()> {
    let names = ["--strip-symbol=GCC_except_table*", "--strip-symbol=anon.*"];
    process::run(Command::new("strip").arg("--wildcard").args(names).arg(program))
}

/// Writes the completions and manual pages of a program to an empty folder.
pub(crate) fn describe(program: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (shell, file) in [("bash", "branchyard.bash"), ("zsh", "_branchyard"), ("fish", "branchyard.fish")] {
        let text = process::read(Command::new(program).args(["completions", shell]))?;
        fs::write(folder.join(file), text)?;
    }
    process::run(Command::new(program).arg("man").arg(folder.join("man")))
}
