//! Resource limits that a process sets on itself before it opens a socket or a database. Each limit is read back.

use branchyard_confinement::{ConfinementError, Resource, limit_resource};
use rustix::process::umask;

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
pub(crate) fn limit(memory_gb: u32, volume_gb: u32) -> Result<(), ConfinementError> {
    umask(rustix::fs::Mode::from_raw_mode(0o077));
    limit_resource(Resource::As, memory(memory_gb) + ADDRESS_ROOM)?;
    limit_resource(Resource::Fsize, volume(volume_gb))?;
    limit_resource(Resource::Nofile, OPEN_FILES)?;
    limit_resource(Resource::Core, 0)
}
