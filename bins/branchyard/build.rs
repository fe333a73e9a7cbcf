//! Passes what cargo says only to build scripts to `src/build_info.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (variable, name) in [("TARGET", "BUILT_FOR_TARGET"), ("PROFILE", "BUILT_WITH_PROFILE")] {
        println!("cargo::rustc-env={name}={}", std::env::var(variable).unwrap_or_default());
    }
}
