//! Passes what cargo says only to build scripts to `src/build_info.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (variable, name) in [("TARGET", "BRANCHYARD_TARGET"), ("PROFILE", "BRANCHYARD_PROFILE")] {
        println!("cargo::rustc-env={name}={}", std::env::var(variable).unwrap_or_default());
    }
}
