use super::*;
use serde_json::{Value, json};

fn package(name: &str, dependencies: &[Value]) -> Value {
    json!({
        "name": name,
        "version": "0.1.0",
        "manifest_path": "Cargo.toml",
        "targets": [{ "kind": ["lib"], "src_path": "src/lib.rs" }],
        "dependencies": dependencies,
    })
}

fn dep(name: &str, kind: Option<&str>) -> Value {
    json!({ "name": name, "kind": kind, "optional": false })
}

fn findings(packages: &[Value]) -> Vec<String> {
    let metadata = json!({
        "workspace_root": ".",
        "target_directory": "target",
        "packages": packages,
    });
    let workspace = Workspace::parse(&metadata.to_string()).unwrap();
    edges(&workspace).iter().map(ToString::to_string).collect()
}

#[test]
fn the_allowed_edges_pass() {
    let found = findings(&[
        package("branchyard-auth", &[dep("sha2", None)]),
        package("branchyard-domain", &[dep("branchyard-auth", None), dep("branchyard-testkit", Some("dev"))]),
        package(
            "branchyard-storage",
            &[dep("branchyard-domain", None), dep("branchyard-auth", None), dep("diesel", None), dep("doltlite", None)],
        ),
        package("branchyard-testkit", &[dep("branchyard-storage", None), dep("reqwest", None)]),
        package("branchyard", &[dep("branchyard-storage", None), dep("branchyard-testkit", Some("dev"))]),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_bad_edge_is_found_and_says_how_to_fix_it() {
    for kind in [None, Some("build"), Some("dev")] {
        let found = findings(&[
            package("branchyard-storage", &[]),
            package("branchyard-api-v2", &[dep("branchyard-storage", kind)]),
        ]);
        assert_eq!(found.len(), 1, "{kind:?}: {found:?}");
        assert!(found[0].starts_with("`api-v2` must not use `storage`"), "{}", found[0]);
        assert!(found[0].contains("\n  fix: "), "{}", found[0]);
    }
}

#[test]
fn adapters_never_use_each_other() {
    let found = findings(&[
        package("branchyard-api-v1alpha1", &[]),
        package("branchyard-api-v2", &[dep("branchyard-api-v1alpha1", None)]),
    ]);
    assert_eq!(found.len(), 1);
}

#[test]
fn testkit_is_for_tests_only_even_in_the_binary() {
    for user in ["branchyard", "branchyard-api-v2"] {
        let found = findings(&[package("branchyard-testkit", &[]), package(user, &[dep("branchyard-testkit", None)])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("[dev-dependencies]"), "{}", found[0]);
    }
}

#[test]
fn tests_may_use_the_domains_fakes_and_their_own_crate() {
    let found = findings(&[
        package("branchyard-domain", &[dep("branchyard-domain", Some("dev"))]),
        package("branchyard-imports", &[dep("branchyard-domain", Some("dev"))]),
    ]);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(
        findings(&[
            package("branchyard-domain", &[]),
            package("branchyard-imports", &[dep("branchyard-domain", None)])
        ])
        .len(),
        1
    );
}

#[test]
fn an_unknown_crate_needs_a_row() {
    let found = findings(&[package("branchyard-surprise", &[])]);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("ALLOWED"), "{}", found[0]);
}

#[test]
fn foreign_crates_keep_their_places() {
    let lost = [
        ("branchyard-domain", "diesel"),
        ("branchyard-storage", "rusqlite"),
        ("branchyard-engine-doltlite", "diesel_migrations"),
        ("branchyard-imports", "libsqlite3-sys"),
        ("branchyard-domain", "actix-web"),
        ("branchyard-hooks", "actix-http"),
        ("branchyard-api-v2", "reqwest"),
        ("branchyard-problem-details", "actix-web"),
    ];
    for (user, name) in lost {
        assert_eq!(findings(&[package(user, &[dep(name, None)])]).len(), 1, "{user} {name}");
        assert_eq!(findings(&[package(user, &[dep(name, Some("dev"))])]).len(), 0, "{user} {name}");
    }
    let optional = json!({ "name": "actix-web", "kind": null, "optional": true });
    assert_eq!(findings(&[package("branchyard-problem-details", std::slice::from_ref(&optional))]).len(), 0);
    assert_eq!(findings(&[package("branchyard-domain", &[optional])]).len(), 1);
}

#[test]
fn what_comes_with_domain_is_read_from_the_tree() {
    let tree = "branchyard-domain v0.1.0 (/x)\nsha2 v0.10.9\ntokio-util v0.7.0\ntokio v1.0.0\ntokio v1.0.0 (*)\nfutures-core v0.3.0\n";
    let found: Vec<String> = domain_tree(tree).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("`futures-core`"));
    assert!(domain_tree("branchyard-domain v0.1.0\nthiserror v2.0.0\n").is_empty());
}

#[test]
fn wire_words_are_found_outside_comments() {
    let lines = [
        r#"field("/volume_size_gb", why)"#,
        "pointer: String,",
        r#"let kind = "application/json";"#,
        r#"// "/volume_size_gb" is a pointer"#,
        r#"let path = "/tmp/x"; let root = "/";"#,
    ];
    let found = super::wire_words("a.rs", &lines.join("\n"));
    assert_eq!(found.len(), 3, "{found:?}");
}
