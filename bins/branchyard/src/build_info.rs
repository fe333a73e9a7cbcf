//! How this program was built: `branchyard --version --verbose`.
//!
//! The flags of the engine's C code are those that its compiler recorded in the program, in a section of its own
//! (`.cargo/cc-hardened.h`), so they are true also if parts of the build were cached.

use std::path::Path;

use branchyard_engine_doltlite::EngineVersions;

use crate::{commands, elf};

/// The section: lines of a name, a space and a value.
pub const SECTION: &str = ".branchyard.c";
/// The flags it has a line for.
const FLAGS: [&str; 3] = ["-fstack-protector-strong", "-D_FORTIFY_SOURCE=3", "-ftrivial-auto-var-init=zero"];

/// Prints the versions of program and engine, the target, the profile, and the hardening flags of the engine's C code.
///
/// # Errors
/// Standard output cannot be written.
pub fn print() -> anyhow::Result<()> {
    let engine = EngineVersions::linked();
    let recorded = recorded();
    let record = |name| find(recorded.as_deref().unwrap_or_default(), name).unwrap_or("unknown");
    commands::print(concat!("branchyard ", env!("CARGO_PKG_VERSION")))?;
    commands::print(format_args!("engine: DoltLite {}", engine.doltlite))?;
    commands::print(format_args!("sqlite: {}", engine.sqlite))?;
    commands::print(concat!("target: ", env!("BUILT_FOR_TARGET")))?;
    commands::print(concat!("profile: ", env!("BUILT_WITH_PROFILE")))?;
    commands::print(format_args!("c compiler: {}", record("compiler")))?;
    for flag in FLAGS {
        commands::print(format_args!("{flag}: {}", record(flag)))?;
    }
    Ok(())
}

/// Returns what the C compiler recorded, or `None` if the engine was compiled without `.cargo/cc-hardened`.
fn recorded() -> Option<String> {
    // The link leads to the program also after its file was replaced.
    let section = elf::section(Path::new("/proc/self/exe"), SECTION).ok()??;
    String::from_utf8(section.bytes).ok()
}

/// Returns the value of the line `name value`.
fn find<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_record_is_found_by_its_whole_name() {
        let lines = "compiler gcc 12.2.0\n-fstack-protector-strong on\n";
        assert_eq!(find(lines, "compiler"), Some("gcc 12.2.0"));
        assert_eq!(find(lines, "-fstack-protector-strong"), Some("on"));
        assert_eq!(find(lines, "-fstack-protector"), None);
    }
}
