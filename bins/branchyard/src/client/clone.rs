//! The `clone` command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use branchyard_auth::{RemoteKeyPair, SEED_BYTES};
use branchyard_domain::ports::Ids as _;
use branchyard_egress::{AddressPolicy, Egress, SystemNames};
use branchyard_engine_doltlite::{LocalFile, local_keys};
use branchyard_remote_client::{Io, Presence, Remote, RemoteError, RemoteLimits, RemoteUrl};
use branchyard_remote_protocol::{Hash, Refs};
use branchyard_runtime::{SystemClock, SystemIds};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde_json::Value;

use super::part_file::PartFile;
use super::progress::{CloneProgress, Waiting, size};
use super::{ORIGIN, explained, shelf};
use crate::commands::print;

/// The engine trusts the certificates in the file that this variable names, if it is set.
const CA_FILE: &str = "DOLTLITE_CA_FILE";
/// The engine signs with the key that this variable names, if it is set.
const KEY_ID: &str = "DOLTLITE_CREDS_KID";
/// Branches of which the clone remembers what the remote has. Each costs a request; the others are asked for when they are fetched.
const REMEMBERED: usize = 50;
const LIMITS: RemoteLimits =
    RemoteLimits { chunk_bytes: 1 << 30, refs_bytes: 64 << 20, time: Duration::from_secs(30 * 86_400) };

/// Clones a remote into a new file. If it is cut, the same command goes on.
pub(crate) fn run(url: &str, into: Option<PathBuf>) -> anyhow::Result<()> {
    let url = RemoteUrl::parse(url).map_err(|error| anyhow::anyhow!("the address {error}"))?;
    let into = into.unwrap_or_else(|| default_name(&url));
    if into.exists() {
        bail!("{} exists; name another file, or update it with `branchyard pull --file {0}`", into.display());
    }
    let (part_path, new_path) = (beside(&into, ".part"), beside(&into, ".new"));
    let part = PartFile::open(&part_path, url.as_str());
    let mut part = part.with_context(|| format!("cannot write {}", part_path.display()))?;
    let received = receive(&url, &mut part);
    if received.is_err() && part.len() == 0 {
        remove(&part_path)?;
    }
    let refs = received?;
    let branches: Vec<String> = refs.branches.iter().map(|branch| branch.name.clone()).collect();

    let waiting = Waiting::start(format!("writing {}", into.display()));
    remove(&new_path)?;
    let mut secret = [0; 16];
    SystemIds.fill(&mut secret);
    let shelf =
        shelf::serve(refs.encode(), part, &HEXLOWER.encode(&secret)).context("cannot listen on this machine")?;
    let made = LocalFile::clone_from(&new_path, &shelf).map_err(explained)?;
    made.remove_remote(ORIGIN).map_err(explained)?;
    made.add_remote(ORIGIN, url.as_str()).map_err(explained)?;
    drop(made);
    std::fs::rename(&new_path, &into).with_context(|| format!("cannot create {}", into.display()))?;
    remove(&part_path)?;
    let local = LocalFile::open(&into).map_err(explained)?;
    let remembered = match branches.len() {
        ..=REMEMBERED => branches.as_slice(),
        _ => std::slice::from_ref(&refs.default_branch),
    };
    // What the remote has of them is in the file already. Without this the first pull finds it out.
    let remembering = remembered.iter().try_for_each(|branch| local.fetch(ORIGIN, branch));
    drop(waiting);
    if let Err(error) = remembering {
        crate::commands::print_note(&format!(
            "the clone is complete, but its remote branches could not be read: {error}"
        ))?;
    }
    print(format!("{} has {} of {}", into.display(), counted(&refs), url.as_str()))
}

fn counted(refs: &Refs) -> String {
    let some = |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    format!("{} and {}", some(refs.branches.len(), "branch", "branches"), some(refs.tags.len(), "tag", "tags"))
}

/// Returns the file that a clone makes if none is named: that of the database's name.
fn default_name(url: &RemoteUrl) -> PathBuf {
    let name = url.url().path_segments().and_then(Iterator::last).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.trim_start_matches('.').chars().filter(|c| is_plain(*c)).collect();
    PathBuf::from(if name.is_empty() { "clone.db".to_owned() } else { format!("{name}.db") })
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Receives everything below the branches and tags that is not in the file yet.
fn receive(url: &RemoteUrl, part: &mut PartFile) -> anyhow::Result<Refs> {
    // The caller names the address and reads the answer: there is no one to protect from the other.
    let policy = AddressPolicy::opening(&["0.0.0.0/0", "::/0"])?;
    let ca_file = std::env::var_os(CA_FILE).map(PathBuf::from);
    let egress = Egress::new(policy, Arc::new(SystemNames), ca_file.as_deref())?;
    let io = Io::start(egress.client(true).build()?, egress.client(false).build()?)?;
    let mut remote = Remote::new(&io, url.clone(), key()?.map(Arc::new), Arc::new(SystemClock::default()), LIMITS);
    let refs = remote.refs().with_context(|| format!("cannot clone {}", url.as_str()))?;
    let tips: Vec<Hash> =
        refs.branches.iter().map(|branch| branch.head).chain(refs.tags.iter().map(|tag| tag.commit)).collect();
    let before = part.len() as u64;
    let part = std::cell::RefCell::new(part);
    let failed = |error: std::io::Error| RemoteError::Caller(Box::new(error));
    let mut held = |hashes: &[Hash]| {
        let mut part = part.borrow_mut();
        let of = |hash| Ok(part.get(hash).map_err(failed)?.map_or(Presence::Absent, Presence::Alone));
        hashes.iter().map(of).collect()
    };
    let mut shown = CloneProgress::start();
    let received = remote.fetch(&tips, &mut held, &mut |next, progress| {
        shown.at(progress, before);
        while let Some((hash, content)) = next()? {
            part.borrow_mut().add(hash, &content).map_err(failed)?;
        }
        Ok(())
    });
    shown.end();
    let received = received.with_context(|| {
        let part = part.borrow();
        format!("the clone was cut after {} objects; the same command goes on from there", part.len())
    })?;
    let resumed = if before > 0 { format!(", {before} objects were there") } else { String::new() };
    crate::commands::print_note(&format!("received {} objects, {}{resumed}", received.chunks, size(received.bytes)))?;
    Ok(refs)
}

/// Returns the key that the engine would use, if this machine has one.
fn key() -> anyhow::Result<Option<RemoteKeyPair>> {
    let keys = local_keys().map_err(explained)?;
    let named = std::env::var(KEY_ID).ok().filter(|kid| !kid.is_empty());
    let only = (keys.len() == 1).then(|| keys[0].kid.clone());
    let active = keys.iter().find(|key| key.is_active).map(|key| key.kid.clone());
    let Some(kid) = named.or(active).or(only).filter(|kid| kid != "anonymous") else { return Ok(None) };
    let path = key_folder()?.join(format!("{kid}.jwk"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read the key {}", path.display()))?;
    let stored: Value = serde_json::from_str(&text).with_context(|| format!("{} is not a key", path.display()))?;
    let seed = stored["d"].as_str().and_then(|text| BASE64URL_NOPAD.decode(text.trim_end_matches('=').as_bytes()).ok());
    let seed: Option<[u8; SEED_BYTES]> = seed.and_then(|seed| seed.try_into().ok());
    let pair = seed.and_then(|seed| RemoteKeyPair::from_seed(&seed));
    pair.map(Some).with_context(|| format!("{} is not a key", path.display()))
}

/// Returns the folder of the keys of the engine's clients.
fn key_folder() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os("DOLTLITE_CREDS_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".doltlite").join("creds"));
    named.or_else(home).context("neither HOME nor DOLTLITE_CREDS_DIR is set")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_name_of_the_database() {
        for (url, name) in [
            ("https://yard.example/ana/trees", "trees.db"),
            ("https://yard.example/ana/trees/", "trees.db"),
            ("https://yard.example/ana/..%2F..%2Fetc", "2F..2Fetc.db"),
            ("https://yard.example/%20", "20.db"),
        ] {
            assert_eq!(default_name(&RemoteUrl::parse(url).unwrap()), PathBuf::from(name), "{url}");
        }
    }
}
