//! Resource limits that a process sets on itself before it opens a socket or a database. Each limit is read back.

use std::io;
#[cfg(target_os = "linux")]
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

const GIB: u64 = 1 << 30;
/// Address space in addition to the memory of the instance: code, stacks and unused mappings.
const ADDRESS_ROOM: u64 = 4 * GIB;
const OPEN_FILES: u64 = 1024;

/// Returns the heap size of the engine in bytes: 60 % of the memory.
pub(crate) fn engine_heap(memory_gb: u32) -> u64 {
    u64::from(memory_gb) * GIB / 10 * 6
}

/// Returns the memory in bytes.
pub(crate) fn memory(memory_gb: u32) -> u64 {
    u64::from(memory_gb) * GIB
}

/// Returns the size of the volume in bytes.
pub(crate) fn volume(volume_gb: u32) -> u64 {
    u64::from(volume_gb) * GIB
}

/// Sets the limits.
///
/// # Errors
/// Returns an error if a limit is not in force afterwards.
pub(crate) fn confine(memory_gb: u32, volume_gb: u32) -> io::Result<()> {
    umask(rustix::fs::Mode::from_raw_mode(0o077));
    limit(Resource::As, memory(memory_gb) + ADDRESS_ROOM, "address space")?;
    limit(Resource::Fsize, volume(volume_gb), "file size")?;
    limit(Resource::Nofile, OPEN_FILES, "open files")?;
    limit(Resource::Core, 0, "core dumps")?;
    #[cfg(target_os = "linux")]
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// Denies this process and its children access to files outside `folder` and outgoing TCP connections, as far as the
/// kernel supports it. Returns `true` if the kernel enforces the rules. Must be called before a second thread starts.
///
/// # Errors
/// Returns an error if the kernel supports the rules but does not apply them.
#[cfg(target_os = "linux")]
pub(crate) fn confine_files(folder: &Path) -> Result<bool, landlock::RulesetError> {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus,
        path_beneath_rules,
    };
    const KNOWN: ABI = ABI::V4;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::ConnectTcp)?
        .create()?
        .add_rules(path_beneath_rules([folder], AccessFs::from_all(KNOWN)))?
        // For the resource usage that the process reads about itself.
        .add_rules(path_beneath_rules(["/proc"], AccessFs::from_read(KNOWN)))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn limit(resource: Resource, value: u64, what: &str) -> io::Result<()> {
    // An existing lower hard limit stays in force.
    let most = getrlimit(resource).maximum.map_or(value, |most| most.min(value));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    let set = getrlimit(resource);
    if set.current == Some(most) && set.maximum == Some(most) {
        Ok(())
    } else {
        Err(io::Error::other(format!("the limit of {what} does not hold: {set:?} instead of {most}")))
    }
}
