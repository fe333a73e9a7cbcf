//! The commands of a client: for users who have a database file and no DoltLite shell.
//!
//! `clone` reads everything with our own client into a file beside the new one, from which a clone that was cut goes on, and has the
//! engine make the database of it. The other commands are the engine's own. All use the keys of the engine's clients.

mod clone;
mod part_file;
mod progress;
mod shelf;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use branchyard_engine_doltlite::{LocalFile, LocalFileError, local_keys, new_local_key};
use branchyard_remote_client::RemoteUrl;

pub(crate) use self::clone::run as clone;
use self::progress::Waiting;
use crate::cli::{KeyAction, RemoteAction};
use crate::commands::print;

/// The name of the remote that a clone has.
const ORIGIN: &str = "origin";

/// Returns the database file to work on: the one that is named, or the only one in this folder.
fn file(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(".").context("cannot read this folder")? {
        let path = PathBuf::from(entry?.file_name());
        if path.extension().is_some_and(|extension| extension == "db") && path.is_file() {
            found.push(path);
        }
    }
    match found.len() {
        1 => Ok(found.swap_remove(0)),
        0 => bail!("there is no file that ends in .db in this folder; name the database file with --file"),
        count => bail!("there are {count} files that end in .db in this folder; name one with --file"),
    }
}

fn open(path: &Path) -> anyhow::Result<LocalFile> {
    LocalFile::open(path).with_context(|| format!("cannot open {}", path.display()))
}

/// Says what to do about an error that the engine words for its own shell.
fn explained(error: LocalFileError) -> anyhow::Error {
    let text = error.to_string();
    let hint = match text.as_str() {
        _ if text.contains("no credential selected") => {
            "; make a key with `branchyard key new` and add it on the server's page of keys"
        }
        _ if text.contains("could not connect to remote") => {
            "; check the address (`branchyard remote list`), and that its certificate is trusted here or in the file of DOLTLITE_CA_FILE"
        }
        _ if text.contains("not a fast-forward") => "; `branchyard pull` merges what is there, `--force` overwrites it",
        _ if text.contains("merge conflict") || text.contains("conflicts") => "; the branch is as it was",
        _ => "",
    };
    anyhow::anyhow!("{text}{hint}")
}

/// The `pull` command.
pub(crate) fn pull(named: Option<PathBuf>, remote: &str) -> anyhow::Result<()> {
    let path = file(named)?;
    let local = open(&path)?;
    let branch = local.branch().map_err(explained)?;
    let _waiting = Waiting::start(format!("pulling {branch} from {remote}"));
    local.pull(remote, &branch).map_err(explained)?;
    print(format!("{} has {branch} of {remote}", path.display()))
}

/// The `push` command.
pub(crate) fn push(
    named: Option<PathBuf>,
    remote: &str,
    refspec: Option<String>,
    is_forced: bool,
) -> anyhow::Result<()> {
    let path = file(named)?;
    let local = open(&path)?;
    let refspec = refspec.map_or_else(|| local.branch().map_err(explained), Ok)?;
    let _waiting = Waiting::start(format!("pushing {refspec} to {remote}"));
    local.push(remote, &refspec, is_forced).map_err(explained)?;
    print(format!("{remote} has {refspec}"))
}

/// The `remote` commands.
pub(crate) fn remote(named: Option<PathBuf>, action: RemoteAction) -> anyhow::Result<()> {
    let local = open(&file(named)?)?;
    match action {
        RemoteAction::List => {
            for (name, url) in local.remotes().map_err(explained)? {
                print(format!("{name}\t{url}"))?;
            }
            Ok(())
        }
        RemoteAction::Add { name, url } => {
            let url = RemoteUrl::parse(&url).map_err(|error| anyhow::anyhow!("the address {error}"))?;
            local.add_remote(&name, url.as_str()).map_err(explained)
        }
        RemoteAction::Remove { name } => local.remove_remote(&name).map_err(explained),
    }
}

/// The `key` commands.
pub(crate) fn key(action: KeyAction) -> anyhow::Result<()> {
    match action {
        KeyAction::New => {
            let key = new_local_key().map_err(explained)?;
            print(format!("key        {}", key.kid))?;
            print(format!("public key {}", key.public_key))?;
            print("Add the public key on the server's page /settings/keys. The private one is in ~/.doltlite/creds.")
        }
        KeyAction::List => {
            for key in local_keys().map_err(explained)? {
                print(format!("{} {} {}", if key.is_active { '*' } else { ' ' }, key.kid, key.public_key))?;
            }
            Ok(())
        }
    }
}
