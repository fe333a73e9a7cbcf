//! The process that stages one file, and ends.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use branchyard_confinement::{ConfinementError, Resource, limit_resource};
use branchyard_deployments::ports::ProvisionError;
use branchyard_domain::ports::{EngineError, SessionEngine};

use super::messages::{Answer, MOST_REQUEST, ParsedContent, Request};
use super::process::PATIENCE;
use super::{Heads, StagedContent, StagingTask, create, engine_error};
use crate::child::{confinement, resources};
use crate::local::unavailable;

const GIB: u64 = 1 << 30;
/// Memory of the process in GB, apart from what every process may map.
const MEMORY_GB: u32 = 1;

/// Opens the engine on a folder, with a limit on its memory in bytes.
type OpenEngine<'a> = dyn Fn(PathBuf, u64) -> Result<Arc<dyn SessionEngine>, EngineError> + 'a;

/// Creates the database that a request on standard input describes, in the engine's folder `folder` and from the file
/// `source`, and answers on standard output. The process uses no other files.
///
/// # Errors
/// Returns an error if the request cannot be read or the answer cannot be written.
pub fn stage_files(folder: &Path, source: Option<&Path>, open_engine: &OpenEngine<'_>) -> io::Result<()> {
    stage_files_on(folder, source, open_engine, io::stdin().lock(), io::stdout().lock())
}

pub(super) fn stage_files_on(
    folder: &Path,
    source: Option<&Path>,
    open_engine: &OpenEngine<'_>,
    input: impl Read,
    mut output: impl Write,
) -> io::Result<()> {
    // If the server ends, nothing waits for the answer.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut bytes = Vec::new();
    input.take(MOST_REQUEST).read_to_end(&mut bytes)?;
    let request: Request = serde_json::from_slice(&bytes)?;
    let answer = Answer::new(carry_out(folder, source, open_engine, request));
    let mut bytes = Vec::new();
    crate::hrana::values::append(&mut bytes, &answer);
    output.write_all(&bytes)?;
    output.flush()
}

fn carry_out(
    folder: &Path,
    source: Option<&Path>,
    open_engine: &OpenEngine<'_>,
    request: Request,
) -> Result<Heads, ProvisionError> {
    limit(source).map_err(|error| unavailable("limit this process", error))?;
    match confinement::confine_to_files(folder, source) {
        Err(error) if !request.allow_unconfined => return Err(unavailable("confine this process", error)),
        _ => {}
    }
    let malformed = |why: &str| unavailable("read the request", why.to_owned());
    let parsed = request.parse().map_err(|error| malformed(&error.to_string()))?;
    let file = || source.ok_or_else(|| malformed("it names no file"));
    let content = match &parsed.content {
        ParsedContent::Empty(author) => StagedContent::Empty { author },
        ParsedContent::Hub(branch, commit) => StagedContent::Hub { file: file()?, branch, commit },
        ParsedContent::Copy => StagedContent::Copy { file: file()? },
    };
    let heap = resources::memory(MEMORY_GB);
    let engine = open_engine(folder.to_owned(), heap).map_err(engine_error("open the engine"))?;
    create(&*engine, &StagingTask { folder, database: parsed.database, content })
}

/// Limits the resources of this process. A file may have twice the size of its source, because collecting garbage writes the
/// file anew.
fn limit(source: Option<&Path>) -> Result<(), ConfinementError> {
    let error = |path: &Path, source| ConfinementError::Path { path: path.to_owned(), source };
    let size = match source {
        Some(path) => path.metadata().map_err(|cause| error(path, cause))?.len(),
        None => 0,
    };
    let volume_gb = u32::try_from(size.saturating_mul(2) / GIB).unwrap_or(u32::MAX).saturating_add(1);
    resources::limit(MEMORY_GB, volume_gb)?;
    // Ends the process even if its parent does not.
    limit_resource(Resource::Cpu, PATIENCE.as_secs())
}
