//! Writes the software bill of materials of the binary, in CycloneDX JSON: every crate with its version, license and checksum, and the C
//! libraries that crates contain, which no list of crates names.

use crate::cargo_tool::{CargoTool, Missing};
use crate::process;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const TOOL: CargoTool =
    CargoTool { name: "cargo-cyclonedx", version: "0.5.9", version_args: &["cyclonedx", "--version"] };

/// The package whose binary is described.
const PACKAGE: &str = "branchyard";
/// Name of the file that the tool writes beside the manifest of each package.
const FILE: &str = "branchyard.sbom.tmp";

/// A C library whose source is in a crate.
struct CLibrary {
    crate_name: &'static str,
    name: &'static str,
    /// Vendor and product in the names of the National Vulnerability Database, if it has the library.
    cpe: Option<(&'static str, &'static str)>,
    version: VersionSource,
}

/// Where the version of a C library is found.
enum VersionSource {
    /// A macro in a file of the crate, with a text: `#define NAME "1.2.3"`.
    Text(&'static str, &'static str),
    /// A macro with a number of two digits each for minor version and patch: `#define NAME 30302`.
    Number(&'static str, &'static str),
    /// The version of the crate: what follows this word in `0.1.0+word-1.2.3`.
    Metadata(&'static str),
}

const C_LIBRARIES: &[CLibrary] = &[
    CLibrary {
        crate_name: "doltlite",
        name: "sqlite",
        cpe: Some(("sqlite", "sqlite")),
        version: VersionSource::Text("vendor/doltlite.h", "SQLITE_VERSION"),
    },
    CLibrary {
        crate_name: "libz-sys",
        name: "zlib",
        cpe: Some(("zlib", "zlib")),
        version: VersionSource::Text("src/zlib/zlib.h", "ZLIB_VERSION"),
    },
    CLibrary {
        crate_name: "zstd-sys",
        name: "zstd",
        cpe: Some(("facebook", "zstandard")),
        version: VersionSource::Metadata("zstd"),
    },
    CLibrary {
        crate_name: "pq-src",
        name: "libpq",
        cpe: Some(("postgresql", "postgresql")),
        version: VersionSource::Metadata("libpq"),
    },
    CLibrary {
        crate_name: "aws-lc-sys",
        name: "aws-lc",
        cpe: None,
        version: VersionSource::Text("aws-lc/include/openssl/base.h", "AWSLC_VERSION_NUMBER_STRING"),
    },
    CLibrary {
        crate_name: "libmimalloc-sys",
        name: "mimalloc",
        cpe: None,
        version: VersionSource::Number("c_src/mimalloc/v3/include/mimalloc.h", "MI_MALLOC_VERSION"),
    },
];

/// Writes the file to `out`, or else to `target/sbom`.
pub(crate) fn run(workspace: &Workspace, missing: Missing, out: Option<&Path>) -> Result<()> {
    let program = TOOL.find(workspace, missing)?;
    let text = describe(&program, workspace)?;
    let mut bom = parse(&text, workspace)?;
    for library in C_LIBRARIES {
        let source = source_folder(workspace, library.crate_name)?;
        let version = library.version.read(&source)?;
        add(&mut bom, library, &version)?;
    }
    check(&bom)?;
    let out = match out {
        Some(out) => out.to_owned(),
        None => workspace.target.join("sbom").join(format!("{PACKAGE}.cdx.json")),
    };
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(&out, format!("{bom:#}\n")).with_context(|| format!("cannot write {}", out.display()))?;
    let components = bom.get("components").and_then(Value::as_array).map_or(0, Vec::len);
    println!("sbom: {components} components, written to {}", out.display());
    Ok(())
}

/// Returns what the tool writes for the binary's package.
fn describe(program: &Path, workspace: &Workspace) -> Result<String> {
    let package = workspace.packages.iter().find(|package| package.name == PACKAGE);
    let manifest = &package.with_context(|| format!("there is no package `{PACKAGE}`"))?.manifest;
    // The tool writes a file for every package of the workspace and has no option for another folder.
    let written = |manifest: &Path| manifest.with_file_name(format!("{FILE}.json"));
    let result = process::run(
        Command::new(program)
            .current_dir(&workspace.root)
            .args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--override-filename", FILE])
            .arg("--manifest-path")
            .arg(manifest)
            // Without a time, equal trees have equal files.
            .env("SOURCE_DATE_EPOCH", "0"),
    );
    let text = fs::read_to_string(written(manifest));
    for package in &workspace.packages {
        // A file that was not written cannot be removed.
        let _ = fs::remove_file(written(&package.manifest));
    }
    result?;
    text.context("cargo-cyclonedx wrote no file")
}

/// Parses the file, without the folder of this machine and without the time.
fn parse(text: &str, workspace: &Workspace) -> Result<Value> {
    let text = text.replace(&format!("{}/", workspace.root.display()), "");
    let mut bom: Value = serde_json::from_str(&text).context("cargo-cyclonedx wrote no JSON")?;
    if let Some(metadata) = bom.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("timestamp");
    }
    Ok(bom)
}

/// Returns the folder with the source of a dependency.
fn source_folder(workspace: &Workspace, crate_name: &str) -> Result<PathBuf> {
    let mut metadata = Command::new(cargo());
    metadata.current_dir(&workspace.root).args(["metadata", "--locked", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&process::read(&mut metadata)?)?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let found: Vec<PathBuf> = packages
        .filter(|package| package.get("name").and_then(Value::as_str) == Some(crate_name))
        .filter_map(|package| package.get("manifest_path").and_then(Value::as_str).map(PathBuf::from))
        .collect();
    match &found[..] {
        [manifest] => Ok(manifest.parent().unwrap_or(manifest).to_owned()),
        [] => bail!("`{crate_name}` is no dependency any more\n  fix: remove it from C_LIBRARIES in xtask/src/sbom.rs"),
        _ => bail!("there are several versions of `{crate_name}`\n  fix: depend on one version of it"),
    }
}

impl VersionSource {
    /// Returns the version of the library in the source folder of its crate.
    fn read(&self, folder: &Path) -> Result<String> {
        let version = match self {
            Self::Text(file, name) | Self::Number(file, name) => {
                let path = folder.join(file);
                let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let value = defined(&text, name).map(str::to_owned);
                if matches!(self, Self::Number(..)) { value.and_then(|value| dotted(&value)) } else { value }
            }
            Self::Metadata(word) => {
                let folder = folder.file_name().unwrap_or_default().to_string_lossy();
                let version = folder.split_once(&format!("+{word}")).map(|(_, version)| version);
                version.map(|version| version.trim_start_matches(['-', '.']).to_owned())
            }
        };
        version.filter(|version| version.starts_with(|first: char| first.is_ascii_digit())).with_context(|| {
            format!(
                "the version of the C library is not where it was in {}\n  fix: correct C_LIBRARIES in xtask/src/sbom.rs",
                folder.display()
            )
        })
    }
}

/// Returns the value of a macro, without quotes.
fn defined<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut words = line.strip_prefix("#define")?.split_whitespace();
        (words.next() == Some(name)).then(|| words.next())?.map(|value| value.trim_matches('"'))
    })
}

/// Returns `3.3.2` for `30302`.
fn dotted(number: &str) -> Option<String> {
    let number: u32 = number.parse().ok()?;
    Some(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
}

/// Adds a C library as a component that its crate depends on.
fn add(bom: &mut Value, library: &CLibrary, version: &str) -> Result<()> {
    let CLibrary { crate_name, name, .. } = library;
    let components = bom.get_mut("components").and_then(Value::as_array_mut).context("the file has no components")?;
    let of_crate = components.iter().find(|component| text(component, "name") == *crate_name);
    let of_crate = of_crate.map(|component| text(component, "bom-ref").to_owned());
    let of_crate = of_crate.with_context(|| format!("the file has no component `{crate_name}`"))?;
    let purl = format!("pkg:generic/{name}@{version}");
    let mut component = json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required", "purl": purl,
        "description": format!("C source in the crate {crate_name}"),
    });
    if let Some((vendor, product)) = library.cpe {
        component["cpe"] = json!(format!("cpe:2.3:a:{vendor}:{product}:{version}:*:*:*:*:*:*:*"));
    }
    components.push(component);
    let dependencies = bom.get_mut("dependencies").and_then(Value::as_array_mut).context("no dependencies")?;
    dependencies.push(json!({"ref": purl}));
    let of_crate = dependencies.iter_mut().find(|dependency| text(dependency, "ref") == of_crate);
    let of_crate = of_crate.with_context(|| format!("the file has no dependencies of `{crate_name}`"))?;
    match of_crate.get_mut("dependsOn").and_then(Value::as_array_mut) {
        Some(list) => list.push(json!(purl)),
        None => of_crate["dependsOn"] = json!([purl]),
    }
    Ok(())
}

/// Checks that each component has a name and a version, and each crate of a registry its checksum.
fn check(bom: &Value) -> Result<()> {
    let components = bom.get("components").and_then(Value::as_array).context("the file has no components")?;
    for component in components {
        let (name, version) = (text(component, "name"), text(component, "version"));
        if name.is_empty() || version.is_empty() {
            bail!("a component has no name or no version: {component}");
        }
        let is_of_registry = text(component, "bom-ref").starts_with("registry+");
        if is_of_registry && component.pointer("/hashes/0/content").and_then(Value::as_str).is_none() {
            bail!("{name} {version} has no checksum\n  fix: `cargo check`, then commit Cargo.lock");
        }
    }
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the sources of the crates, so that an update that moves a version fails here.
    #[test]
    fn the_versions_of_all_c_libraries_are_found() {
        let workspace = Workspace::load().unwrap();
        for library in C_LIBRARIES {
            let folder = source_folder(&workspace, library.crate_name).unwrap();
            let version = library.version.read(&folder).unwrap();
            assert!(version.split('.').count() >= 2 && version.len() < 12, "{} {version}", library.name);
        }
    }

    #[test]
    fn versions_are_texts_numbers_or_metadata() {
        assert_eq!(defined("#define A_B 1\n#define A   \"3.55.0\"\n", "A"), Some("3.55.0"));
        assert_eq!(defined("#define A_B 1\n", "A"), None);
        assert_eq!(dotted("30302").as_deref(), Some("3.3.2"));
        let of = |folder: &str| VersionSource::Metadata("zstd").read(Path::new(folder)).ok();
        assert_eq!(of("zstd-sys-2.1.2+zstd.1.5.7").as_deref(), Some("1.5.7"));
        assert_eq!(of("zstd-sys-2.1.2"), None);
        assert_eq!(VersionSource::Metadata("libpq").read(Path::new("a/pq-src-0.3.14+libpq-18.6")).unwrap(), "18.6");
    }

    fn bom() -> Value {
        json!({
            "components": [{"bom-ref": "registry+x#doltlite@1.0.0", "name": "doltlite", "version": "1.0.0", "hashes": [{"content": "aa"}]}],
            "dependencies": [{"ref": "registry+x#doltlite@1.0.0"}],
        })
    }

    #[test]
    fn a_c_library_is_a_component_of_its_crate() {
        let mut bom = bom();
        let sqlite = &C_LIBRARIES[0];
        add(&mut bom, sqlite, "3.55.0").unwrap();
        assert_eq!(bom["components"][1]["cpe"], "cpe:2.3:a:sqlite:sqlite:3.55.0:*:*:*:*:*:*:*");
        assert_eq!(bom["dependencies"][0]["dependsOn"], json!(["pkg:generic/sqlite@3.55.0"]));
        assert_eq!(bom["dependencies"][1]["ref"], "pkg:generic/sqlite@3.55.0");
        check(&bom).unwrap();
        bom["components"] = json!([]);
        assert!(add(&mut bom, sqlite, "3.55.0").unwrap_err().to_string().contains("no component `doltlite`"));
    }

    #[test]
    fn a_crate_without_checksum_is_an_error() {
        let mut bom = bom();
        bom["components"][0]["hashes"] = json!([]);
        assert!(check(&bom).unwrap_err().to_string().contains("doltlite 1.0.0 has no checksum"));
    }

    #[test]
    fn the_file_names_no_folder_of_the_machine() {
        let workspace = Workspace { root: "/some/where".into(), target: "/t".into(), packages: Vec::new() };
        let written = r#"{"metadata":{"timestamp":"1970","a":"path+file:///some/where/crates/x#1"}}"#;
        assert_eq!(parse(written, &workspace).unwrap(), json!({"metadata": {"a": "path+file://crates/x#1"}}));
    }
}
