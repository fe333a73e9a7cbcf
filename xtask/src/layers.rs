//! Which crate may depend on which: the table of `docs/ARCHITECTURE.md`, as a check.

use crate::finding::{Finding, settle};
use crate::process;
use crate::tidy;
use crate::workspace::{Dependency, Kind, Package, Workspace, cargo, short};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The workspace crates that each crate may depend on. A crate without a row fails the check.
const ALLOWED: &[(&str, Uses)] = &[
    ("problem-details", Uses::Only(&[])),
    ("auth", Uses::Only(&[])),
    ("imports", Uses::Only(&[])),
    // Tests read the files with `imports`.
    ("exports", Uses::Only(&["domain", "imports"])),
    ("sqlite-lexer", Uses::Only(&[])),
    ("remote-protocol", Uses::Only(&["auth"])),
    ("confinement", Uses::Only(&[])),
    ("segments", Uses::Only(&[])),
    ("domain", Uses::Only(&["auth", "sqlite-lexer"])),
    ("deployments", Uses::Only(&["domain", "auth"])),
    ("domain-testing", Uses::Only(&["domain", "deployments", "auth", "sqlite-lexer"])),
    ("engine-doltlite", Uses::Only(&["domain", "remote-protocol", "sqlite-lexer"])),
    ("storage", Uses::Only(&["domain", "deployments", "auth", "segments"])),
    ("object-store", Uses::Only(&["domain"])),
    ("sealed-store", Uses::Only(&["domain"])),
    ("egress", Uses::Only(&[])),
    ("remote-client", Uses::Only(&["domain", "auth", "egress", "remote-protocol"])),
    ("hooks", Uses::Only(&["domain", "egress"])),
    ("provisioner-local", Uses::Only(&["deployments", "domain", "auth", "sqlite-lexer", "confinement"])),
    ("engine-process", Uses::Only(&["confinement", "domain", "engine-doltlite"])),
    // Tests wrap `engine-doltlite`.
    ("engine-durable", Uses::Only(&["domain", "segments", "engine-doltlite"])),
    ("import-formats", Uses::Only(&["domain", "imports"])),
    ("runtime", Uses::Only(&["domain"])),
    ("deployment-proxy", Uses::Only(&["http-common", "deployments", "domain", "auth"])),
    ("node-calls", Uses::Only(&["http-common", "domain", "problem-details"])),
    ("executor", Uses::Only(&["domain"])),
    ("https", Uses::Only(&[])),
    (
        "http-common",
        Uses::Only(&[
            "executor",
            "domain",
            "deployments",
            "auth",
            "exports",
            "problem-details",
            "openapi",
            "remote-protocol",
        ]),
    ),
    ("api-v2", ADAPTER),
    ("api-v1alpha1", ADAPTER),
    (
        "api-remotes",
        Uses::Only(&["http-common", "node-calls", "domain", "problem-details", "openapi", "remote-protocol"]),
    ),
    ("api-hosted-v1", Uses::Only(&["http-common", "deployments", "domain", "problem-details", "openapi"])),
    ("api-oauth", Uses::Only(&["http-common", "auth", "domain", "problem-details"])),
    ("web", Uses::Only(&["http-common", "deployments", "domain", "auth", "problem-details"])),
    ("openapi", Uses::Only(&["problem-details"])),
    ("openapi-check", Uses::Only(&[])),
    ("api-snapshots", Uses::Only(&[])),
    ("api-snapshots-macros", Uses::Only(&["api-snapshots"])),
    ("api-testing", Uses::Only(&["http-common", "domain", "domain-testing", "auth", "openapi-check"])),
    ("testkit", Uses::All),
    ("branchyard", Uses::AllButTestkit),
    ("embed-axum", Uses::Only(&["auth", "domain", "engine-doltlite", "engine-process", "runtime", "storage"])),
    ("xtask", Uses::Only(&[])),
];

/// An adapter translates. It never reaches the engine, the store or another adapter.
const ADAPTER: Uses = Uses::Only(&["http-common", "domain", "problem-details", "openapi"]);

#[derive(Clone, Copy)]
enum Uses {
    Only(&'static [&'static str]),
    AllButTestkit,
    All,
}

/// Foreign crates that only certain crates may depend on. A name that ends in `*` is a prefix.
const PLACES: &[Place] = &[
    Place {
        crates: &["diesel", "diesel_migrations", "r2d2"],
        users: &["storage"],
        optional_users: &[],
        instead: "keep metadata behind the `Metadata` port of `domain`",
    },
    Place {
        crates: &["rusqlite"],
        users: &["engine-doltlite"],
        optional_users: &[],
        instead: "keep SQL on databases behind the `Engine` port of `domain`",
    },
    Place {
        crates: &["doltlite", "libsqlite3-sys"],
        users: &["engine-doltlite", "storage", "branchyard"],
        optional_users: &[],
        instead: "there is one SQLite in the process, and only the engine, the store and the binary link it",
    },
    Place {
        crates: &["pq-sys"],
        users: &["storage", "branchyard"],
        optional_users: &[],
        instead: "only the store speaks to Postgres",
    },
    Place {
        crates: &["object_store"],
        users: &["object-store"],
        optional_users: &[],
        instead: "keep objects behind the `DatabaseStore` port of `domain`",
    },
    Place {
        crates: &["actix-*"],
        users: &[
            "http-common",
            "https",
            "api-v2",
            "api-v1alpha1",
            "api-remotes",
            "api-hosted-v1",
            "api-oauth",
            "provisioner-local",
            "deployment-proxy",
            "node-calls",
            "web",
            "branchyard",
            "testkit",
            "api-snapshots",
            "api-testing",
        ],
        optional_users: &["problem-details"],
        instead: "keep the web framework in the adapters",
    },
    Place {
        crates: &["reqwest"],
        users: &["egress", "hooks", "remote-client", "deployment-proxy", "node-calls", "branchyard", "testkit"],
        optional_users: &[],
        instead: "outgoing requests are made by `hooks`, `remote-client`, the proxy of deployments, the calls between nodes and the binary only",
    },
];

struct Place {
    crates: &'static [&'static str],
    users: &'static [&'static str],
    /// The crates that may have it as an optional dependency, behind a feature.
    optional_users: &'static [&'static str],
    instead: &'static str,
}

/// Crates that `domain` never brings along, however deep in its tree: a service that embeds `domain` has its own.
const NEVER_WITH_DOMAIN: &[&str] = &[
    "actix*",
    "async-std",
    "axum*",
    "diesel*",
    "doltlite",
    "futures*",
    "hyper*",
    "libsqlite3-sys",
    "object_store",
    "pq-sys",
    "reqwest",
    "rusqlite",
    "smol",
    "sqlx*",
    "tokio*",
];

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut findings = edges(workspace);
    // All features are on. Otherwise an embedder could turn one on and get a crate that was never checked.
    let tree = process::read(
        Command::new(cargo()).current_dir(&workspace.root).args(["tree", "--package", "branchyard-domain"]).args([
            "--edges",
            "normal",
            "--all-features",
            "--prefix",
            "none",
        ]),
    )
    .context("cannot list what comes with domain")?;
    findings.extend(domain_tree(&tree));
    let is_rule = |path: &Path| {
        RULES.iter().any(|folder| path.starts_with(folder)) && path.extension().is_some_and(|kind| kind == "rs")
    };
    for path in tidy::files(&workspace.root)?.into_iter().filter(|path| is_rule(path)) {
        let text = std::fs::read_to_string(workspace.root.join(&path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        findings.extend(wire_words(&path.display().to_string(), &text));
    }
    settle("layers", &findings)
}

/// Crates of rules. Each API spells their fields and refusals in its own way.
const RULES: &[&str] = &["crates/domain/src", "crates/deployments/src"];

/// Words that belong to a wire format.
const WIRE_WORDS: &[&str] = &["pointer", "StatusCode", "status_code", "Content-Type", "application/", "serde_json"];

/// Finds JSON pointers and words of a wire format in code and texts. Comments may explain with them.
fn wire_words(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let word = WIRE_WORDS.iter().find(|word| line.contains(**word)).map(|word| (*word).to_owned());
        if let Some(word) = word.or_else(|| json_pointer(line)) {
            findings.push(Finding::new(
                format!("{path}:{}: `{word}` is of a wire format", number + 1),
                "return a typed reason, and let the adapters spell it",
            ));
        }
    }
    findings
}

/// Returns the first string of a line that is a JSON pointer to a field, such as `"/volume_size_gb"`.
fn json_pointer(line: &str) -> Option<String> {
    let is_field = |text: &str| {
        text.len() > 2 && text.starts_with('/') && text[1..].bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    line.split('"').skip(1).step_by(2).find(|text| is_field(text)).map(str::to_owned)
}

fn edges(workspace: &Workspace) -> Vec<Finding> {
    let ours: Vec<&str> = workspace.packages.iter().map(Package::short).collect();
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let allowed = ALLOWED.iter().find(|(name, _)| *name == package.short());
        let Some((_, uses)) = allowed else {
            findings.push(Finding::new(
                format!("crate `{}` has no row in the table of layers", package.short()),
                "add it to ALLOWED in xtask/src/layers.rs and to the table in docs/ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in &package.dependencies {
            if ours.contains(&short(&dependency.name)) {
                findings.extend(own_edge(package, dependency, *uses));
            } else {
                findings.extend(foreign_edge(package, dependency));
            }
        }
    }
    findings
}

fn own_edge(package: &Package, dependency: &Dependency, uses: Uses) -> Option<Finding> {
    let (from, to) = (package.short(), short(&dependency.name));
    // Tests may also use testkit, the OpenAPI checker, the snapshots of responses, the in-process server, and the fakes and contract
    // suites with the tokens that these need. A crate's tests may depend on the crate itself with other features.
    let for_tests = [
        "testkit",
        "openapi-check",
        "api-snapshots",
        "api-snapshots-macros",
        "api-testing",
        "domain",
        "domain-testing",
        "auth",
    ];
    let in_tests = dependency.kind == Kind::Dev && (for_tests.contains(&to) || from == to);
    let allowed = match uses {
        Uses::All => true,
        Uses::AllButTestkit => to != "testkit",
        Uses::Only(names) => names.contains(&to),
    };
    if in_tests || allowed {
        return None;
    }
    if to == "testkit" {
        return Some(Finding::new(
            format!("`{from}` uses `testkit` outside its tests"),
            format!("in {from}'s Cargo.toml, move `branchyard-testkit` to [dev-dependencies]"),
        ));
    }
    let may = match uses {
        Uses::Only([]) => "nothing of ours".to_owned(),
        Uses::Only(names) => names.join(", "),
        Uses::AllButTestkit | Uses::All => "everything".to_owned(),
    };
    Some(Finding::new(
        format!("`{from}` must not use `{to}` ({} dependency); it may use {may}", kind_name(dependency.kind)),
        format!(
            "take `{}` out of {from}'s Cargo.toml and reach it through a port of `domain`, wired in bins/branchyard; if the edge is \
             right, say why in docs/ARCHITECTURE.md and change ALLOWED in xtask/src/layers.rs",
            dependency.name
        ),
    ))
}

fn foreign_edge(package: &Package, dependency: &Dependency) -> Option<Finding> {
    let from = package.short();
    let place = PLACES.iter().find(|place| matches_any(place.crates, &dependency.name))?;
    let behind_feature = dependency.optional && place.optional_users.contains(&from);
    if dependency.kind == Kind::Dev || place.users.contains(&from) || behind_feature {
        return None;
    }
    Some(Finding::new(
        format!(
            "`{from}` must not use `{}` ({} dependency); it belongs to {}",
            dependency.name,
            kind_name(dependency.kind),
            place.users.join(", ")
        ),
        format!(
            "take it out of {from}'s Cargo.toml: {}{}",
            place.instead,
            if place.optional_users.contains(&from) { "; here it may only be optional, behind a feature" } else { "" }
        ),
    ))
}

/// Returns a finding for each crate in `tree` that must not come with `domain`. `tree` has one package per line, its name first.
fn domain_tree(tree: &str) -> Vec<Finding> {
    let mut names: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| matches_any(NEVER_WITH_DOMAIN, name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| {
            Finding::new(
                format!("`{name}` comes with `domain`, which must bring no web, async or SQL crate"),
                format!(
                    "`cargo tree -p branchyard-domain -e normal -i {name}` shows the way it came; drop that dependency or its feature"
                ),
            )
        })
        .collect()
}

fn matches_any(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *pattern == name,
    })
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Normal => "normal",
        Kind::Build => "build",
        Kind::Dev => "dev",
    }
}

#[cfg(test)]
mod tests;
