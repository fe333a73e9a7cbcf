//! What a process takes from itself before it opens a socket or a database: limits, set and read back.

use std::io;
#[cfg(target_os = "linux")]
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

const GIB: u64 = 1 << 30;
/// Address space beyond the memory of the instance: code, stacks, what is mapped and not used.
const ADDRESS_ROOM: u64 = 4 * GIB;
const OPEN_FILES: u64 = 1024;

/// Bytes of the engine's heap: 60 % of the memory.
pub(crate) fn engine_heap(memory_gb: u32) -> u64 {
    u64::from(memory_gb) * GIB / 10 * 6
}

/// Bytes of memory.
pub(crate) fn memory(memory_gb: u32) -> u64 {
    u64::from(memory_gb) * GIB
}

/// Bytes of the volume.
pub(crate) fn volume(volume_gb: u32) -> u64 {
    u64::from(volume_gb) * GIB
}

/// Sets the limits.
///
/// # Errors
/// When one does not hold afterwards.
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

/// Keeps files outside `folder` and outgoing connections away from this process and all it starts, as far as the kernel can; whether it can. To
/// be called before there is a second thread.
///
/// # Errors
/// When the kernel can and does not.
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
        // What the process reads of itself.
        .add_rules(path_beneath_rules(["/proc"], AccessFs::from_read(KNOWN)))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn limit(resource: Resource, value: u64, what: &str) -> io::Result<()> {
    // A harder limit that is there already stays.
    let most = getrlimit(resource).maximum.map_or(value, |most| most.min(value));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    let set = getrlimit(resource);
    if set.current == Some(most) && set.maximum == Some(most) {
        Ok(())
    } else {
        Err(io::Error::other(format!("the limit of {what} does not hold: {set:?} instead of {most}")))
    }
}
