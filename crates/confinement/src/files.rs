//! Files, network and signals, through Landlock.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::support::abi_number;
use crate::{AllowedPath, ConfinementError, FileRestriction, PathAccess};

/// The newest version of Landlock's interface whose rules are known. Of it the kernel applies what it has.
const NEWEST: ABI = ABI::V9;

/// Denies the calling thread, and the threads and processes that it starts, what is not allowed:
/// - every use of a file that opens or changes it, except below the `allowed` paths;
/// - to listen on TCP ports other than `listen_ports`, and every outgoing TCP connection;
/// - signals to other processes, and abstract Unix sockets of other processes.
///
/// Each of these holds as far as the kernel's version of Landlock goes. Descriptors that are open stay usable. The metadata of a
/// file whose path is known stays readable, and so do other kinds of sockets usable; [`restrict_system_calls`] refuses these.
///
/// The function must be called before the process starts a second thread.
///
/// [`restrict_system_calls`]: crate::restrict_system_calls
///
/// # Errors
/// [`ConfinementError`] if a path cannot be opened, or if the kernel has Landlock but does not apply the rules.
pub fn restrict_files(allowed: &[AllowedPath<'_>], listen_ports: &[u16]) -> Result<FileRestriction, ConfinementError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for AllowedPath { path, access } in allowed {
        let error = |source| ConfinementError::Path { path: (*path).to_owned(), source };
        let is_folder = path.metadata().map_err(error)?.is_dir();
        let opened = PathFd::new(path).map_err(|cause| error(io::Error::other(cause)))?;
        ruleset = ruleset.add_rule(PathBeneath::new(opened, rights(*access, is_folder)))?;
    }
    for port in listen_ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    let status = ruleset.restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Ok(FileRestriction::NotEnforced);
    }
    Ok(match abi_number(status.landlock) {
        Some(landlock_abi) => FileRestriction::Enforced { landlock_abi },
        None => FileRestriction::NotEnforced,
    })
}

fn rights(access: PathAccess, is_folder: bool) -> BitFlags<AccessFs> {
    let rights = match access {
        PathAccess::Read => AccessFs::ReadFile | AccessFs::ReadDir,
        PathAccess::ReadWrite => AccessFs::from_all(NEWEST) & !BitFlags::from(AccessFs::Execute),
    };
    if is_folder { rights } else { rights & AccessFs::from_file(NEWEST) }
}
