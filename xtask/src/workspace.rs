//! The workspace, as `cargo metadata` describes it.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest: PathBuf,
    /// The root files of its libraries, binaries and procedural macros.
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The names of its features, without `default`.
    pub(crate) features: Vec<String>,
    /// Whether it may be published to a registry.
    pub(crate) is_published: bool,
}

pub(crate) struct Dependency {
    /// The package's name, even if the manifest renames it.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        let output = Command::new(cargo())
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .output()
            .context("cannot run cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Self::parse(&String::from_utf8(output.stdout)?)
    }

    pub(crate) fn parse(metadata: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(metadata).context("cargo metadata is not JSON")?;
        let packages = list(&value, "packages")?.iter().map(package).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            root: text(&value, "workspace_root")?.into(),
            target: text(&value, "target_directory")?.into(),
            packages,
        })
    }
}

impl Package {
    /// Returns the name of the package's folder, which is its usual name.
    pub(crate) fn short(&self) -> &str {
        short(&self.name)
    }
}

/// Returns `domain` for `branchyard-domain`. The name of the binary's package stays `branchyard`.
pub(crate) fn short(name: &str) -> &str {
    name.strip_prefix("branchyard-").unwrap_or(name)
}

/// Returns the cargo that runs xtask, so that a chosen toolchain stays chosen.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

fn package(value: &Value) -> Result<Package> {
    let mut roots = Vec::new();
    for target in list(value, "targets")? {
        let ours = |kind: &Value| matches!(kind.as_str(), Some("lib" | "bin" | "proc-macro"));
        if list(target, "kind")?.iter().any(ours) {
            roots.push(text(target, "src_path")?.into());
        }
    }
    Ok(Package {
        name: text(value, "name")?.to_owned(),
        version: text(value, "version")?.to_owned(),
        manifest: text(value, "manifest_path")?.into(),
        roots,
        dependencies: list(value, "dependencies")?.iter().map(dependency).collect::<Result<_>>()?,
        features: value.get("features").and_then(Value::as_object).map(features).unwrap_or_default(),
        is_published: value.get("publish").and_then(Value::as_array).is_none_or(|registries| !registries.is_empty()),
    })
}

fn features(features: &serde_json::Map<String, Value>) -> Vec<String> {
    features.keys().filter(|name| *name != "default").cloned().collect()
}

fn dependency(value: &Value) -> Result<Dependency> {
    let kind = match value.get("kind").and_then(Value::as_str) {
        None | Some("normal") => Kind::Normal,
        Some("build") => Kind::Build,
        Some("dev") => Kind::Dev,
        Some(other) => bail!("unknown kind of dependency `{other}`"),
    };
    Ok(Dependency {
        name: text(value, "name")?.to_owned(),
        kind,
        optional: value.get("optional").and_then(Value::as_bool) == Some(true),
    })
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value.get(key).and_then(Value::as_str).with_context(|| format!("cargo metadata has no text `{key}`"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value.get(key).and_then(Value::as_array).with_context(|| format!("cargo metadata has no list `{key}`"))
}
